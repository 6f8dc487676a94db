"""Valid messages made from the description."""

import pytest

from fuzz.campaigns.messages import (
    BY_ALIAS,
    KINDS,
    SENSE,
    Wish,
    carried,
    extensions_of,
    forms,
    kind_of,
    main_forms,
    message_of,
)
from scapy_layers import extensions as ext
from scapy_layers import shape
from scapy_layers.catalogue import EXTENSIONS, MESSAGES, decode
from scapy_layers.codes import Kind
from scapy_layers.data import Put
from scapy_layers.message import Layer
from scapy_layers.network import Interest, Push
from scapy_layers.transport import Init, Open


def layers(layer: Layer) -> list[Layer]:
    """Returns a layer and all inside it."""
    found = [layer]
    for value in layer.fields.values():
        for inside in value if isinstance(value, list) else [value]:
            if isinstance(inside, Layer):
                found += layers(inside)
            elif isinstance(inside, dict):
                found += [one for part in inside.values() if isinstance(part, Layer) for one in layers(part)]
    return found


def test_every_message_of_the_catalogue_is_a_kind_and_no_two_share_a_name() -> None:
    assert set(KINDS.values()) == set(MESSAGES)
    assert {"OAM (transport)", "OAM (network)"} <= KINDS.keys()


def test_every_form_is_valid() -> None:
    for kind, cls in KINDS.items():
        for by_alias in (False, True):
            for words, message in forms(kind, by_alias=by_alias).items():
                raw = bytes(message)
                assert bytes(decode(raw, cls.kind)) == raw, (kind, words)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_main_forms_have_every_field(kind: str) -> None:
    wanted = {
        name
        for described in shape.walk(KINDS[kind].wire_shapes())
        if not isinstance(described, shape.Packed | shape.When)
        for name in [described.name]
    }
    if not extensions_of(KINDS[kind]):
        wanted.discard("extensions")
    read = [decode(bytes(message), KINDS[kind].kind) for message in main_forms(kind).values()]
    slices = {"slices"} if any(known is ext.Shm for known in extensions_of(KINDS[kind])) else set()
    assert wanted - slices <= {
        name for message in read for name, value in message.fields.items() if value is not None
    }


def test_every_extension_of_the_description_stands_in_some_form() -> None:
    seen = {type(layer) for kind in KINDS for message in forms(kind).values() for layer in layers(message)}
    assert set(EXTENSIONS) <= seen


def test_each_extension_stands_alone_in_a_form_as_well() -> None:
    for kind, cls in KINDS.items():
        alone = [
            [type(one) for one in message.fields["extensions"]]
            for words, message in forms(kind).items()
            if words.startswith("with ")
        ]
        assert {chain[-1] for chain in alone} == set(extensions_of(cls))
        assert all(len(chain) <= 2 for chain in alone)


def test_what_a_body_depends_on_stands_in_front_of_it() -> None:
    sliced = forms("QUERY")["with QueryBodySliced"]
    assert [type(one) for one in sliced.extensions] == [ext.QueryBodyShm, ext.QueryBodySliced]
    assert forms("PUT")["with Shm"].slices


def test_both_sides_of_a_handshake_have_forms_of_their_own() -> None:
    assert {message.A for message in forms("INIT").values()} == {0, 1}
    assert isinstance(forms("OPEN")["with AuthOpenAck, A=1"].extensions[0], ext.AuthOpenAck)


def test_values_make_sense_to_a_node() -> None:
    push = message_of(Push, Wish())
    assert push.key_suffix == "fuzz/k" == SENSE["key_suffix"]
    short = message_of(Push, Wish(sense=BY_ALIAS))
    assert (short.key_scope, short.M, short.key_suffix) == (7, 1, "/k")
    assert message_of(Init, Wish(options=True)).whatami == 2
    assert message_of(Open, Wish()).lease == 10_000
    assert message_of(Interest, Wish(roles={"mode": 3}, options=True)).restricted == 1


def test_whatever_is_no_message_of_a_link_is_carried_by_one() -> None:
    for cls in MESSAGES:
        if cls.kind in {Kind.DECLARATION, Kind.DATA}:
            around = carried(message_of(cls, Wish()))
            decode(bytes(around), around.kind)
    assert kind_of(type(carried(Put(data=b"")))) == "PUSH"
    with pytest.raises(ValueError, match="nothing carries"):
        carried(message_of(Push, Wish()))

"""Whether two findings are one fault, where the node does not say where it failed: what their smallest scripts share.

Pure functions. Three things make two findings one:

- What is sent is the same, but for the state of the same part of a conversation.
- What is sent is almost all one field, and it is the same field of other messages: a key is a key, whatever carries it.
- Memory that cannot be had is asked for at the same place of the same message: how much it is decides whether the
  process ends or only what goes on in it, and what goes round the message does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fuzz.findings import Finding, without_line
from fuzz.lying import COOKIE, MARKS
from fuzz.oracles import DEADLY, SERVING, Harm
from fuzz.oracles.places import in_file
from fuzz.script import PREFIXES, Do, Script, Template
from fuzz.shrink import walk
from fuzz.states import FACTS, State
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.errors import UnknownMessage
from scapy_layers.transport import Fragment

STAGE = "stage"
"""Place of an objection of the oracle that looks whether a group, or scouting, still works."""

BULK, BULKY = 16, 2 / 3
"""A field that has so many bytes, and so much of its batch, is what the batch is about. Of keys that are matched with
each other, which takes wild cards, it is what they have together."""

WILD = {"$*": "sub-chunk wild", "**": "double wild", "*": "single wild"}
"""Wild cards of keys in words, those first that are compared by other means; what needs none of them is no matter of
matching."""

MANY = 16
"""A message that is sent so often by one step is one of many: what each costs is not what all cost together."""

LEFT_BEHIND = frozenset({Harm.GROWTH, Harm.LEAK, Harm.SLOW})
"""Harm that is still there when what brought it about has ended: each message leaves something of its own, whatever key
it carries."""

KEY = "key_suffix"
"""Name of the fields that hold keys; what is a wild card there is a byte like any other elsewhere."""

CARRIERS = frozenset({"FRAME", "DECLARE", "PUSH", "REQUEST", "RESPONSE", "REPLY"})
"""Messages around others, by which these are told."""

FILLED_IN = frozenset({MARKS["zid"], COOKIE})
"""Stand-ins for what the player fills in."""

DIGITS = b"000000"
"""Stands for the digits in the key of each of many messages."""

_FRAMED = re.compile(r"^FRAME\.(?:messages\.)?")

_AROUND = re.compile(r"(\w+)\.body$")

_MEMORY = re.compile(r"memory allocation|capacity overflow")


def phase_of(state: State | None) -> str:
    """Returns the part of a conversation: one decoder of the node, however a link came there."""
    if state is None:
        return ""
    if state in {State.SCOUTING, State.SEEKING}:
        return "scouting"
    if state in {State.GROUP, State.JOINED}:
        return "group"
    if state in {State.LOW_LATENCY, State.COMPRESSED}:
        return str(state)
    return "session" if FACTS[state].session or state is State.CLOSED else "handshake"


def part_seen(oracle: str, state: State | None) -> str:
    """Returns the part of a conversation in which an oracle saw something; ``valid`` sees ends of sessions only."""
    phase = phase_of(state)
    return "session" if oracle == "valid" and phase == "handshake" else phase


def same_bytes(script: Script) -> tuple[object, ...]:
    """Returns what is the same of two scripts that send the same.

    Which state of the same part of a conversation a link was in, and which lane of it a message took, tells no faults
    apart; neither do notes.
    """
    return script.where, tuple(
        (str(step.do), step.link, phase_of(step.state), str(step.data).replace("{sn_be}", "{sn}"), step.times)
        for step in script.steps
    )


def same_field(script: Script) -> str:
    """Returns the field that all that is sent is about, with the wild cards that it needs; nothing when there is none.

    Of many messages it is the wild cards in the keys of most: all keys are matched with them, whatever carries those.
    """
    if many := _many_wild(script):
        return many
    kinds = list(_kinds(script))
    batches = [batch for batch, _ in kinds]
    fields = [_largest(batch, kind) for batch, kind in kinds]
    names = {name for _, name in fields}
    sent = b" ".join(batches) if KEY in names else b""
    wild = next((f"with {words}" for card, words in WILD.items() if card.encode() in sent), "")
    if wild:
        # What has no bytes at all, as what ends a declaration, may be when they are matched.
        names.discard("")
    if len(names) != 1 or "" in names:
        return ""
    sizes = [(most, len(batch)) for (most, _), batch in zip(fields, batches, strict=True)]
    if wild:
        # They are matched with each other, and one of them may be short.
        sizes = [(sum(most for most, _ in sizes), sum(size for _, size in sizes))]
    if not all(most >= BULK and most >= BULKY * size for most, size in sizes):
        return ""
    return " ".join(filter(None, [*names, wild]))


def _many_wild(script: Script) -> str:
    """Returns what most of many messages have in their keys, as in ``same_field``; nothing when they have nothing wild."""
    sends = [(step.times, b"".join(_keys(raw_of(step.data)))) for step in script.steps if step.do is Do.SEND]
    half = sum(times for times, _ in sends) / 2
    for card, words in WILD.items():
        many = sum(times for times, keys in sends if times >= MANY and card.encode() in keys)
        if many and many >= half:
            return f"many {KEY} with {words}"
    return ""


def _keys(raw: bytes) -> Iterator[bytes]:
    return (layer.fields[KEY] for _, layer in walk(contents(raw).messages) if KEY in layer.fields)


def same_memory(harm: Harm, place: str, detail: str, script: Script) -> tuple[str, ...]:
    """Returns the messages and the place in them for which there is not enough memory; nothing when that is not it."""
    if harm not in DEADLY or not _MEMORY.search(f"{place} {detail}"):
        return ()
    read = [contents(batch, kind) for batch, kind in _kinds(script)]
    refused = [
        _FRAMED.sub("", re.sub(r"\[\d+\]", "", one.error.field)) for one in read if one.error is not None
    ]
    names = [name for one in read for name in one.names.split() if name != "FRAME"]
    return (*names, *refused) if len(refused) == 1 else ()


def about(finding: Finding) -> str:
    """Returns the field that a finding is about where nothing else tells where the node failed, as in ``same_field``."""
    if in_file(finding.place) or finding.without or not finding.state or finding.script.valid:
        # What is valid stays as long as it is.
        return ""
    if finding.harm in LEFT_BEHIND:
        return ""
    return same_field(finding.script)


def other_message(finding: Finding) -> str:
    """Returns the message that a finding is about where that is another one than its case was to lie about.

    A lie about the id of a message makes another message of it, and of a sequence may be left what it is not named by.
    What is valid is about the last message: up to there the node had nothing against it. So is what was seen after many
    cases of which nobody knew the one that did it.
    Empty where it is not, where several messages are sent, or one of an id that nobody knows: unless that is in another
    one, which it is about then. One that is cut, or refused for what is in it, is a message all the same.
    """
    if finding.without or finding.place == STAGE or not finding.state:
        return ""
    read = [contents(raw, kind) for raw, kind in _kinds(finding.script)]
    if finding.script.valid or not finding.message:
        said = [name for one in read for name in one.names.split() if name not in CARRIERS]
        return said[-1] if said and said[-1] != finding.message else ""
    names = {name for one in read for name in one.names.split()}
    if finding.message in names or not all(one.messages for one in read):
        return ""
    if strange := _around_unknown(finding.script):
        return strange
    if any(isinstance(one.error, UnknownMessage) for one in read):
        return ""
    inner = names - CARRIERS
    # Of a lie about a length only the FRAME may be left; with the bytes of others behind it.
    return inner.pop() if len(inner) == 1 else "FRAME" if names == {"FRAME"} else ""


def _around_unknown(script: Script) -> str:
    """Returns the message in which the only thing that is sent has an id that nobody knows; nothing for another script."""
    read = [contents(raw, kind) for raw, kind in _kinds(script)]
    if len(read) != 1 or not isinstance(read[0].error, UnknownMessage):
        return ""
    around = _AROUND.search(read[0].error.field)
    return around[1] if around else ""


def same_unknown(one: Finding, other: Finding) -> bool:
    """Tells whether both are about an id that nobody knows in a message, or neither is."""
    return _around_unknown(one.script) == _around_unknown(other.script)


def state_of(script: Script) -> State | None:
    """Returns the state in which the link is that sends last; None where nothing is sent."""
    states: dict[str, State] = {}
    last = None
    for step in script.steps:
        if step.state is not None:
            states[step.link] = step.state
        if step.do is Do.SEND:
            last = states.get(step.link)
    return last


def why_one(one: Finding, other: Finding) -> str:
    """Returns why two findings that were made smaller are one fault, in words; nothing when they are not known to be."""
    if one.without != other.without:
        return ""
    first, second = one.script, other.script
    place, same = without_line(one.place), without_line(one.place) == without_line(other.place)
    if one.harm is other.harm and same and same_bytes(first) == same_bytes(second):
        return "the minimised scripts are the same"
    if in_file(place) or in_file(other.place) or first.where != second.where:
        return ""
    serving = one.harm in SERVING and other.harm in SERVING and STAGE not in {one.place, other.place}
    if (serving or (one.harm is other.harm and same)) and _part(one) == _part(other):
        field = about(one)
        if field and field == about(other):
            return f"its minimised script sends the same field, {field}, in another message"
    memory = _memory(one)
    if memory and memory == _memory(other):
        return f"its minimised script requests too much memory at the same place, {memory[-1]}"
    return ""


def _part(finding: Finding) -> str:
    return part_seen(finding.oracle, State(finding.state)) if finding.state else ""


def _memory(finding: Finding) -> tuple[str, ...]:
    return same_memory(finding.harm, finding.place, finding.detail, finding.script)


def _kinds(script: Script) -> Iterator[tuple[bytes, Kind | None]]:
    kinds: dict[str, Kind | None] = {}
    for step in script.steps:
        if step.state is not None:
            kinds[step.link] = kind_in(step.state)
        if step.do is Do.SEND and step.data.pieces:
            yield raw_of(step.data), kinds.get(step.link)


def kind_in(state: State) -> Kind | None:
    """Returns the layer of what is sent in a state; None where that is told by each message."""
    if state is State.LOW_LATENCY:
        return Kind.NETWORK
    return Kind.SCOUTING if state in {State.SCOUTING, State.SEEKING} else None


def raw_of(template: Template) -> bytes:
    """Returns a batch as it leaves, with stand-ins for live values and without what is in front of it."""
    return b"".join(raws_of(template))


def raws_of(template: Template) -> list[bytes]:
    """Returns the same piece by piece; nothing for what is in front of the batch."""
    first = template.pieces[0] if template.pieces else b""
    prefix = isinstance(first, str) and first.partition("|")[0] in PREFIXES
    raws = [piece if isinstance(piece, bytes) else _stand_in(piece) for piece in template.pieces[prefix:]]
    return [b"", *raws] if prefix else raws


def _stand_in(piece: str) -> bytes:
    return DIGITS if piece == "digits" else MARKS.get(piece.partition("|")[0], b"\x01")


def _largest(raw: bytes, kind: Kind | None) -> tuple[int, str]:
    """Returns the bytes and the name of the largest field of a batch; no name when it has none with bytes.

    What the player fills in is as it should be, and no field is about that.
    """
    seen = contents(raw, kind)
    sized = [
        (len(value), name)
        for _, layer in walk(seen.messages)
        for name, value in layer.fields.items()
        if isinstance(value, (bytes, str)) and not isinstance(layer, Fragment) and value not in FILLED_IN
    ]
    return max(sized, default=(0, ""))

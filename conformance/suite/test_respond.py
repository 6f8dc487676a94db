"""The node connects to us: what it proposes, what it returns, and what it holds to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.config import START_SECONDS
from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.nodes import Node
from conformance.plugin import req, transports
from conformance.suite.common import bits, carriers, listed
from conformance.tester import SessionEnd, Tester
from conformance.tester.listener import ListenerEnd
from scapy_layers.codes import Resolution, WhatAmI
from scapy_layers.extensions import QoSOffer
from scapy_layers.network import Interest, Push
from scapy_layers.transport import Init, Open

pytestmark = transports("tcp")

Launch = Callable[..., Node]
"""Launches a node with a configuration of its own."""

COOKIES = (1, 16, 16, 127, 128, 1000)
"""Bytes: one and two bytes of length, more than a node would choose; two of one size that differ."""

SMALL = 2000
"""Bytes of a batch size that no node has by itself."""

WIDTHS = {Resolution.BITS_8: 8, Resolution.BITS_16: 16, Resolution.BITS_32: 32}


def doors(tester: Tester, launched: Launch, count: int = 1, **config: object) -> list[ListenerEnd]:
    """Launches a node that connects to so many listeners of ours, and returns those."""
    listeners = [tester.listen("tcp/127.0.0.1:0") for _ in range(count)]
    launched(connect__endpoints=[str(each.locator) for each in listeners], **config)
    return listeners


def answered(door: ListenerEnd, **ours: object) -> SessionEnd:
    """Takes the link that the node makes; the handshake has not begun. Arguments as in ``accept``."""
    return door.accept(START_SECONDS, **ours)  # type: ignore[arg-type]


def finish(end: SessionEnd) -> None:
    """Goes through with a handshake of which InitSyn was taken: a node in the middle of one is slow to end."""
    end.init_ack()
    end.take_open_syn()
    end.open_ack()


def judge_whole(tester: Tester, end: SessionEnd, message: Init | Open, name: str) -> None:
    """Judges that a message is all that its batch holds, and ends where its flags say."""
    at = next(seen.at for seen in end.inbox if seen.message is message)
    inside = tester.history.observations[at].contents
    error = inside.error or next(iter(message.errors), None)
    alone = len(inside.messages) == 1 and error is None and not inside.rest
    check(alone, f"{name} that ends where its flags say", "other bytes", str(error or ""))


def judge_optional(message: Init | Open) -> None:
    """Judges that no extension of a message is mandatory."""
    mandatory = [str(extension.name) for extension in message.extensions or [] if extension.M]
    check(not mandatory, "no mandatory extension", listed(mandatory))


# INIT ---------------------------------------------------------------------------------------------------


@req("ZN-INIT-010", "ZN-INIT-014", "ZN-INIT-016", "ZN-INIT-021", "ZN-INIT-028", "ZN-INIT-042")
def test_init_syn_of_the_node_is_a_proposal_without_a_cookie(tester: Tester, launched: Launch) -> None:
    (door,) = doors(tester, launched, transport__link__tx__batch_size=SMALL)
    end = answered(door)
    syn: Init = end.expect(Init)
    check(bits(syn, 0, 0x3F) == 0x01, "header with id 1, A clear", f"{bits(syn, 0, 0x3F):#04x}")
    check(bits(syn, 1, 0xFF) == 0x09, "version 0x09", f"version {bits(syn, 1, 0xFF):#04x}")
    check(not bits(syn, 2, 0x0C), "bits 3:2 of the packed byte zero", f"{bits(syn, 2, 0x0C):#04x}")
    reserved = bits(syn, 3 + len(syn.zid), 0xF0) if syn.S else 0
    check(not reserved, "bits 7:4 of the resolution byte zero", f"{reserved:#04x}")
    judge_optional(syn)
    judge_whole(tester, end, syn, "an InitSyn")
    finish(end)


@req("ZN-INIT-029")
def test_cookie_of_ours_comes_back_bit_for_bit(tester: Tester, launched: Launch) -> None:
    for size, door in zip(COOKIES, doors(tester, launched, len(COOKIES)), strict=True):
        cookie = tester.rng.randbytes(size)
        end = answered(door, cookie=cookie)
        end.take_init_syn()
        end.init_ack()
        returned = bytes(end.take_open_syn().cookie)
        check(returned == cookie, f"the cookie of {size} bytes", f"{len(returned)} other bytes")
        end.open_ack()


@req("ZN-INIT-012")
@pytest.mark.parametrize("proposed", ["batch-size", "resolution"])
def test_init_ack_without_s_accepts_the_proposal(tester: Tester, launched: Launch, proposed: str) -> None:
    config: dict[str, dict[str, object]] = {
        "batch-size": {"transport__link__tx__batch_size": SMALL},
        "resolution": {"transport__link__tx__sequence_number_resolution": "16bit"},
    }
    echoed, accepted, publisher = doors(tester, launched, 3, **config[proposed])
    sizes = []
    ends = []
    for door, said in ((echoed, 1), (accepted, 0)):
        end = answered(door, whatami=WhatAmI.CLIENT)
        syn = end.take_init_syn()
        end.init_ack(S=said)
        width = WIDTHS[syn.fsn] if syn.S else 32
        initial_sn = end.take_open_syn().initial_sn
        check(not initial_sn >> width, f"an initial SN of at most {width} bits", "a larger one")
        end.open_ack()
        end.declare_subscriber("harness/respond")
        ends.append(end)
    pub = answered(publisher, whatami=WhatAmI.CLIENT)
    pub.serve()
    pub.put("harness/respond", bytes(3 * SMALL))
    for end in ends:
        end.expect(Push, key="harness/respond")
        sizes.append(max(seen.batch_size for seen in end.inbox))
    # Numbers of another length make a few bytes of difference.
    check(abs(sizes[0] - sizes[1]) < 10, "batches as with S and the same values", "others", f"{sizes}")


@req("ZN-INIT-027", "ZN-INIT-048")
def test_node_holds_to_the_smaller_batch_size_of_our_init_ack(tester: Tester, launched: Launch) -> None:
    small, large, publisher = doors(tester, launched, 3)
    ends = {}
    for door, size in ((small, SMALL), (large, 65_535)):
        ends[size] = answered(door, whatami=WhatAmI.CLIENT, batch_size=size)
        ends[size].serve()
        ends[size].declare_subscriber("harness/respond")
    pub = answered(publisher, whatami=WhatAmI.CLIENT)
    pub.serve()
    pub.put("harness/respond", bytes(3 * SMALL))
    for size, end in ends.items():
        end.expect(Push, key="harness/respond")
        largest = max(seen.batch_size for seen in end.inbox)
        if size == SMALL:
            check(largest <= SMALL, f"no batch above {SMALL} bytes", "a larger one", f"{largest} bytes")
        elif largest <= SMALL:
            raise NotApplicable(f"none of its batches is larger than {SMALL} bytes, whatever was agreed")


# OPEN ---------------------------------------------------------------------------------------------------


@req("ZN-OPEN-001", "ZN-OPEN-002", "ZN-OPEN-007", "ZN-OPEN-018", "ZN-OPEN-021", "ZN-OPEN-025")
def test_open_syn_of_the_node_keeps_to_what_init_agreed_on(tester: Tester, launched: Launch) -> None:
    lanes = (True, False, True)
    for fsn, qos, door in zip(WIDTHS, lanes, doors(tester, launched, len(WIDTHS)), strict=True):
        end = answered(door, fsn=fsn, qos=qos)
        offers = end.take_init_syn().extensions or []
        agreed = qos and any(isinstance(ext, QoSOffer) for ext in offers)
        end.init_ack()
        syn: Open = end.expect(Open)
        check(bits(syn, 0, 0x3F) == 0x02, "header with id 2, A clear", f"{bits(syn, 0, 0x3F):#04x}")
        judge_optional(syn)
        judge_whole(tester, end, syn, "an OpenSyn")
        check(syn.lease > 0, "a lease", "a lease of 0")
        width = WIDTHS[fsn]
        check(not syn.initial_sn >> width, f"an initial SN of at most {width} bits", "a larger one")
        said = encodings(syn, 0x1)
        allowed: list[list[str]] = [[], ["Unit"]] if agreed else [[]]
        check(said in allowed, f"QoS: {' or '.join(map(listed, allowed))}", f"QoS: {listed(said)}")
        unasked = encodings(syn, 0x4)
        check(not unasked, "no multilink that InitAck did not answer", f"multilink: {listed(unasked)}")
        end.open_ack()
        end.fence()
        check(carriers(end)[0].sn == syn.initial_sn, "the first FRAME with the SN of OpenSyn", "another SN")


def encodings(message: Open, number: int) -> list[str]:
    """Returns the encodings of the extensions of a number."""
    names = ("Unit", "Z64", "ZBuf", "reserved")
    return [names[ext.ENC] for ext in message.extensions or [] if ext.ext_id == number]


# Behind the handshake -------------------------------------------------------------------------------------


@req("ZN-RTE-022")
@pytest.mark.parametrize("mode", ["peer", "client"])
def test_node_asks_for_declarations_when_it_joins(tester: Tester, launched: Launch, mode: str) -> None:
    (door,) = doors(tester, launched, mode=mode, app__publish=["harness/respond/a"])
    end = answered(door, whatami=WhatAmI.ROUTER)
    end.serve()
    asked: Interest = end.expect(Interest)
    # Whoever publishes has to know the subscribers that are there, and those that come.
    check(asked.subscribers, "INTEREST in subscribers", "INTEREST in something else", asked.describe())
    key = end.key(asked) if asked.restricted else "anything"
    check(key in {"anything", "harness/respond/a"}, "INTEREST in harness/respond/a", f"INTEREST in {key}")

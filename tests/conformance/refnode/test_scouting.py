"""Who answers a SCOUT, who asks and how often."""

from __future__ import annotations

import pytest

from conformance.refnode.scouting import Found, Responder, ScoutPolicy, Seeker
from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind, What, WhatAmI
from scapy_layers.scouting import Hello, Scout

ZID = b"\x01\x02"
SOURCE = ("127.0.0.1", 4000)
GROUP = ("239.255.0.1", 17446)
LOCATORS = ["tcp/127.0.0.1:7447", "tcp/[::1]:7447"]


def responder(whatami: WhatAmI = WhatAmI.ROUTER, locators: list[str] = LOCATORS) -> Responder:
    return Responder(ZID, whatami, locators, GROUP, ScoutPolicy())


def seeker() -> Seeker:
    return Seeker(ZID, What.ROUTER | What.PEER, ScoutPolicy())


def test_scout_for_our_role_gets_hello_at_its_source() -> None:
    answer = responder().answer(bytes(Scout(what=What.ROUTER)), SOURCE)
    assert answer is not None
    hello = decode(answer[0], Kind.SCOUTING)
    assert isinstance(hello, Hello)
    assert (hello.zid, hello.whatami, hello.value("L"), list(hello.locators)) == (ZID, 0, 1, LOCATORS)
    assert answer[1] == SOURCE


@pytest.mark.parametrize("whatami", [WhatAmI.ROUTER, WhatAmI.PEER])
@pytest.mark.parametrize("what", range(8))
def test_bitmap_decides(whatami: WhatAmI, what: int) -> None:
    answer = responder(whatami).answer(bytes(Scout(what=what)), SOURCE)
    assert (answer is not None) == bool(what & 1 << whatami)


ANSWERED = {
    "without zid": "010907",
    "reserved header bits": "610907",
    "zid nibble without zid": "0109f7",
    "foreign zid": "01091f0103",
    "longer zid that begins like ours": "01092f010203",
    "unknown optional extension": "8109070e",
    "unknown mandatory extension": "8109071e",
    "bytes behind it": "010907ffff",
}

SILENT = {
    "nothing": "",
    "version 8": "010807",
    "version 255": "01ff07",
    "version 0": "010007",
    "own zid": "01091f0102",
    "cut": "0109",
    "cut zid": "01091f01",
    "cut extension": "8109076e",
    "order of fields": "010709",
    "HELLO": "020910010200",
    "unknown id": "030907",
}


@pytest.mark.parametrize("name", ANSWERED)
def test_odd_but_readable_scout_is_answered(name: str) -> None:
    assert responder().answer(bytes.fromhex(ANSWERED[name]), SOURCE) is not None


@pytest.mark.parametrize("name", SILENT)
def test_bad_scout_gets_silence(name: str) -> None:
    assert responder().answer(bytes.fromhex(SILENT[name]), SOURCE) is None


@pytest.mark.parametrize("sessions", [0, 1])
def test_whoever_asks_is_answered_however_many_sessions_there_are(sessions: int) -> None:
    asked = Responder(ZID, WhatAmI.ROUTER, LOCATORS, GROUP, ScoutPolicy(), lambda: sessions)
    assert asked.answer(bytes(Scout(what=What.ROUTER)), SOURCE) is not None


def test_policy_sees_what_a_mutant_may_get_wrong() -> None:
    policy = OddPolicy()
    asked = Responder(ZID, WhatAmI.ROUTER, LOCATORS, GROUP, policy, lambda: 3)
    assert asked.answer(b"\x03\x00" + bytes(Scout(I=0, what=1)), SOURCE) is None
    assert policy.seen == ["0300010901", 3, None]
    assert asked.answer(bytes(Scout(version=8)), SOURCE) == (b"no", SOURCE)


class OddPolicy(ScoutPolicy):
    """Takes a length in front, says no to strangers and to other versions, and remembers what it was asked."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def unwrapped(self, datagram: bytes) -> bytes:
        self.seen.append(datagram.hex())
        return datagram.removeprefix(b"\x03\x00")

    def refusal(self) -> bytes:
        return b"no"

    def is_open(self, sessions: int) -> bool:
        self.seen.append(sessions)
        return True

    def zid_in(self, scout: Scout) -> bytes | None:
        self.seen.append(super().zid_in(scout))
        return None

    def is_own(self, zid: bytes | None, ours: bytes) -> bool:
        return zid != ours


def test_node_without_locators_says_hello_without_list() -> None:
    answer = responder(locators=[]).answer(bytes(Scout(what=7)), SOURCE)
    assert answer is not None
    assert decode(answer[0], Kind.SCOUTING).value("L") == 0


def test_gaps_double_up_to_the_longest() -> None:
    asking = seeker()
    asking.start(100.0)
    times, scout = [], b""
    for _ in range(7):
        due = asking.next_deadline()
        assert due is not None
        times.append(due)
        scout = asking.tick(due) or b""
        assert asking.tick(due) is None
    assert times == [100, 101, 103, 107, 115, 123, 131]
    asked = decode(scout, Kind.SCOUTING)
    assert (asked.version, asked.zid, asked.what) == (9, ZID, What.ROUTER | What.PEER)


def test_scouting_ends_with_the_first_answer_and_can_begin_again() -> None:
    asking = seeker()
    asking.start(0.0)
    asking.tick(0.0)
    hello = Hello(zid=b"\x09", whatami=1, L=1, locators=LOCATORS)
    assert asking.receive(bytes(hello), SOURCE) == Found(b"\x09", 1, tuple(LOCATORS))
    assert asking.next_deadline() is None
    asking.start(50.0)
    assert asking.next_deadline() == 50.0


def test_hello_without_list_means_its_source() -> None:
    found = seeker().receive(bytes(Hello(zid=b"\x09", whatami=0)), ("::1", 7))
    assert found is not None
    assert found.locators == ("tcp/[::1]:7", "udp/[::1]:7")


def test_hello_with_an_empty_list_means_nowhere() -> None:
    found = seeker().receive(bytes(Hello(zid=b"\x09", whatami=0, L=1, locators=[])), SOURCE)
    assert found is not None
    assert found.locators == ()


IGNORED = {
    "nothing": b"",
    "own": bytes(Hello(zid=ZID, whatami=0)),
    "role not asked for": bytes(Hello(zid=b"\x09", whatami=2)),
    "version 8": bytes(Hello(version=8, zid=b"\x09", whatami=0)),
    "SCOUT": bytes(Scout(what=7)),
    "cut": bytes(Hello(zid=b"\x09", whatami=0, L=1, locators=LOCATORS))[:-1],
    "role 3": b"\x02\x09\x03\x09",
    "zid of zeros": b"\x02\x09\x00\x00",
}


@pytest.mark.parametrize("name", IGNORED)
def test_what_is_no_hello_for_us_changes_nothing(name: str) -> None:
    asking = seeker()
    asking.start(0.0)
    assert asking.receive(IGNORED[name], SOURCE) is None
    assert asking.next_deadline() == 0.0

"""Captures of real nodes: nothing to remark, from the beginning or the middle, and all that applications saw."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scapy_layers import capture
from scapy_layers.conversation import Heard, RemarkKind, listen
from scapy_layers.data import Del, Put, Reply
from scapy_layers.declarations import DeclareToken
from scapy_layers.ip import Segment
from scapy_layers.network import Declare, Push, Request, Response
from scapy_layers.scouting import Hello
from scapy_layers.stream import Gap
from scapy_layers.transport import Fragment, Frame

PCAPS = Path(__file__).parents[3] / "pcaps"
NAMES = sorted(path.stem for path in PCAPS.glob("*.pcapng"))
TRUTHS = [name for name in NAMES if (PCAPS / f"{name}.truth.json").exists()]
REFUSED = RemarkKind.REFUSED
CIPHERED = ("tls", "mutual_tls", "quic")
"""Beginnings of the names of captures in which only the ends of a link can read what travels."""

SENDERS_FAULT = {
    # A message in fragments that the sender gives up without a Drop.
    "dropped": {RemarkKind.FRAGMENT},
    # The same, but it goes on with the fragment behind the one it could not send.
    "unresponsive": {RemarkKind.GAP, RemarkKind.FRAGMENT},
}
"""All that there is to remark in a capture without loss."""


@cache
def segments(name: str) -> list[Segment]:
    return list(capture.read(PCAPS / f"{name}.pcapng"))


@cache
def heard(name: str) -> list[Heard]:
    return [one for one in listen(segments(name)) if isinstance(one, Heard)]


def kinds(name: str, found: list[Heard]) -> set[RemarkKind]:
    """What there is to remark besides what is the sender's fault."""
    return {remark.kind for one in found for remark in one.remarks if not shared(one)} - SENDERS_FAULT.get(
        name, set()
    )


def shared(one: Heard) -> bool:
    """A payload may stand in shared memory; what it looks like then is not the business of conversations."""
    return one.session is None or one.session.shm is not False


@pytest.mark.parametrize("name", NAMES)
def test_capture_without_loss_leaves_nothing_to_remark(name: str) -> None:
    assert not [one for one in listen(segments(name)) if isinstance(one, Gap)]
    assert not kinds(name, heard(name))


@pytest.mark.parametrize("name", NAMES)
def test_keys_and_ends_of_all_messages_are_known(name: str) -> None:
    assert bool(heard(name)) != name.startswith(CIPHERED)
    for one in heard(name):
        if isinstance(one.message, Frame) or one.within:
            assert one.source_zid, one
            assert one.target_zid or (one.session and one.session.multicast), one
        if isinstance(one.message, Push | Request | Response) and not one.refused:
            # Empty in what a router answers when time is up.
            assert one.keyexpr is not None, one


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(CIPHERED)])
def test_capture_from_the_middle_raises_no_alarm(name: str) -> None:
    whole = segments(name)
    for start in range(1, len(whole), max(1, len(whole) // 4)):
        part = [one for one in listen(whole[start:]) if isinstance(one, Heard)]
        assert not kinds(name, part)


@pytest.mark.parametrize("name", ["batches", "declarations", "query", "routers", "fragments", "datagrams"])
def test_lost_packets_raise_no_alarm_about_what_was_in_them(name: str) -> None:
    whole = segments(name)
    for lost in range(8, len(whole), 7):
        part = [one for one in listen(whole[:lost] + whole[lost + 1 :]) if isinstance(one, Heard)]
        found = {remark.kind for one in part for remark in one.remarks}
        # An answer may come before the hole that its question was in can be known.
        permitted = {RemarkKind.FRAGMENT, RemarkKind.REQUEST, RemarkKind.ALIAS}
        if name == "datagrams":
            # On UDP nothing but the numbers tells of a loss.
            permitted |= {RemarkKind.GAP, RemarkKind.LOSS}
        assert found <= permitted, (lost, found)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(CIPHERED)])
def test_requests_are_answered_and_ended(name: str) -> None:
    told = [one for one in heard(name) if not shared(one)]
    asked = [one for one in told if isinstance(one.message, Request)]
    for one in asked:
        assert one.exchange is not None
        assert one.exchange.keyexpr == one.keyexpr
    answered = [one for one in told if isinstance(one.message, Response)]
    assert all(one.exchange for one in answered)
    assert sum(one.exchange.answered for one in asked if one.exchange) == len(answered)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith((*CIPHERED, "multicast"))])
def test_fragments_and_frames_have_a_lane_and_what_they_carry_has_it_too(name: str) -> None:
    for one in heard(name):
        assert (one.lane is not None) == (isinstance(one.message, Frame | Fragment) or one.within is not None)
        assert bool(one.pieces) == isinstance(one.within, Fragment)


# What the applications saw ------------------------------------------------------------------------


def payload_of(told: dict[str, Any]) -> tuple[int, str]:
    """Size and hash of a payload as the API of a node told it."""
    if "size" in told:
        return told["size"], told["sha256"]
    raw = told["text"].encode() if "text" in told else base64.b64decode(told["base64"])
    return len(raw), hashlib.sha256(raw).hexdigest()


def samples(name: str) -> set[tuple[str | None, str | None, str, tuple[int, str] | None]]:
    """Receiver, key, kind and payload of all that travelled as data, in replies as well."""
    found = set()
    for one in heard(name):
        body = one.message.body if isinstance(one.message, Push | Response) else None
        if isinstance(body, Reply):
            body = body.body
        if isinstance(body, Put | Del):
            kind = "PUT" if isinstance(body, Put) else "DELETE"
            data = body.data if isinstance(body, Put) else b""
            # In slices, when shared memory is involved; then it need not be in the capture at all.
            held = None if data is None else (len(data), hashlib.sha256(data).hexdigest())
            found.add((one.target_zid, one.keyexpr, kind, held))
    return found


def truth(name: str) -> dict[str, dict[str, Any]]:
    saw: dict[str, dict[str, Any]] = json.loads((PCAPS / f"{name}.truth.json").read_text(encoding="utf-8"))
    return saw


@pytest.mark.parametrize("name", [name for name in TRUTHS if not name.startswith(CIPHERED)])
def test_all_that_applications_saw_has_travelled(name: str) -> None:
    travelled = samples(name)
    for saw in truth(name).values():
        own = saw.get("session", {}).get("zid")
        for told in saw.get("samples", []):
            source = told.get("source", {}).get("zid")
            if "subscriber" not in told or source == own:
                continue
            data = payload_of(told["payload"])
            assert any(
                to in {own, None}
                and is_key(name, key, told["key"])
                and kind == told["kind"]
                and held in {data, None}
                for to, key, kind, held in travelled
            ), told


def is_key(name: str, travelled: str | None, told: str) -> bool:
    """A node with a namespace puts it in front of all its keys, which its applications do not see."""
    return travelled == told or (name == "namespaces" and (travelled or "").endswith(f"/{told}"))


@pytest.mark.parametrize("name", [name for name in TRUTHS if not name.startswith(CIPHERED)])
def test_tokens_that_applications_saw_were_declared(name: str) -> None:
    for saw in truth(name).values():
        own = saw.get("session", {}).get("zid")
        declared = [
            one.keyexpr
            for one in heard(name)
            if isinstance(one.message, Declare)
            and isinstance(one.message.body, DeclareToken)
            and (one.target_zid in {own, None} or one.source_zid == own)
        ]
        for told in saw.get("samples", []):
            if "liveliness" in told:
                assert any(is_key(name, key, told["key"]) for key in declared), told


def test_queries_that_applications_saw_were_asked() -> None:
    for name in ("query", "routers", "peers", "lowlatency"):
        for saw in truth(name).values():
            own = saw["session"]["zid"]
            asked = Counter(
                one.keyexpr
                for one in heard(name)
                if isinstance(one.message, Request) and one.target_zid == own
            )
            told = Counter(query["key"] for query in saw.get("queries", []))
            assert set(told) <= set(asked)


def test_hello_of_a_capture_belongs_to_a_scout() -> None:
    hellos = [one for one in heard("scouting") if isinstance(one.message, Hello)]
    assert len(hellos) == 5
    for hello in hellos:
        assert hello.exchange is not None
        assert hello.exchange.kind == "scout"
        assert hello.number in [answer.number for answer in hello.exchange.answers]


def test_links_of_a_multilink_session_are_one_session() -> None:
    sessions = {one.session.number: one.session for one in heard("multilink") if one.session and one.within}
    assert sorted(session.multilink or False for session in sessions.values()) == [False, True]


def test_packet_numbers_do_not_go_back_on_a_way() -> None:
    for name in NAMES:
        last: dict[tuple[int, bool], int] = {}
        for one in heard(name):
            way = one.way.link.number, one.way.forward
            assert one.number >= last.get(way, 0)
            last[way] = one.number

"""OPEN: activation, lease, initial sequence number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from conformance.config import RunConfig
from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.nodes.base import Node
from conformance.plugin import destructive, req, slow
from conformance.session.sequence import mask
from conformance.suite.common import (
    accept,
    bits,
    carriers,
    check_lifetime,
    frame,
    greet,
    lifetime,
    listed,
    pair,
    silent,
    unknown,
)
from conformance.tester import End, SessionEnd, Tester
from scapy_layers.codes import Bound, CloseReason, Resolution
from scapy_layers.extensions import (
    Compression,
    InitSynShm,
    LowLatency,
    OpenSynShm,
    QoSOffer,
    RemoteBound,
)
from scapy_layers.network import Push
from scapy_layers.transport import Close, Init, KeepAlive, Open, TransportOam

NONSENSE = 200
"""Cookies of each kind that makes no sense."""

ENOUGH = 5
"""So many ends without CLOSE say that it is no accident."""

LEASE = 0.4
"""Seconds: short enough for a test, long against the slack of timers."""


# Layout -------------------------------------------------------------------------------------------


@req("ZN-OPEN-001", "ZN-OPEN-002")
def test_open_ack_has_lease_and_initial_sn_and_ends_there(tester: Tester) -> None:
    link, ack = accept(tester)
    check(bits(ack, 0, 0x3F) == 0x22, "header with id 2 and A", f"{bits(ack, 0, 0x3F):#04x}")
    seen = tester.history.observations[link.inbox[1].at].contents
    check(seen.error is None and not seen.rest, "an OpenAck without more", "other bytes", str(seen.error))


@req("ZN-OPEN-003")
@pytest.mark.parametrize("lease", [1500, 4000])
def test_open_ack_offers_the_lease_of_the_node(tester_of: Callable[..., Tester], lease: int) -> None:
    _, ack = accept(tester_of(transport__link__tx__lease=lease), lease=10_000)
    seen = ack.lease * (1000 if ack.T else 1)
    check(seen == lease, f"a lease of {lease} ms", f"{seen} ms")


@req("ZN-OPEN-004")
def test_t_says_seconds_or_milliseconds(tester: Tester, run_config: RunConfig) -> None:
    links = [accept(tester, **lease)[0] for lease in ({"lease": 700}, {"T": 1, "lease": 1}, {"lease": 1000})]
    for link, lease in zip(links, (0.7, 1.0, 1.0), strict=True):
        check_lifetime(lifetime(tester, link, within=lease + run_config.slack), lease, run_config.slack)


# Cookie and initial sequence number -----------------------------------------------------------------


@req("ZN-OPEN-005")
@pytest.mark.parametrize("wrong", ["flipped", "cut", "empty", "extended"])
def test_open_syn_without_the_cookie_of_init_ack_is_refused(tester: Tester, wrong: str) -> None:
    accept(tester)
    bends: dict[str, Callable[[bytes], list[bytes]]] = {
        "flipped": lambda cookie: [flipped(cookie, len(cookie) // 2)],
        "cut": lambda cookie: [cookie[:-1], cookie[: len(cookie) // 2]],
        "empty": lambda _: [b""],
        "extended": lambda cookie: [cookie + b"\0"],
    }
    _, sample = greet(tester)
    if wrong != "extended":
        need_cookie(sample)
    for number in range(len(bends[wrong](sample.cookie))):
        link, ack = greet(tester)
        link.send(Open(cookie=bends[wrong](ack.cookie)[number]))
        link.expect_refusal(unless=Open)


@req("ZN-OPEN-005")
@destructive
def test_cookies_that_make_no_sense_are_refused_again_and_again(tester: Tester, node: Node) -> None:
    _, sample = greet(tester)
    need_cookie(sample)
    # What a node that encrypts its cookies reads from one of these differs each time.
    bends: list[Callable[[bytes], bytes]] = NONSENSE * [
        lambda cookie: bytes(byte ^ 0xFF for byte in cookie),
        lambda cookie: cookie[1:],
    ]
    size = len(sample.cookie)
    bends += [partial(flipped, at=at) for at in range(size // 2, size)]
    taken = silent_ends = 0
    for bend in bends:
        link, ack = greet(tester)
        need_cookie(ack)
        link.send(Open(cookie=bend(ack.cookie)))
        wait_for_answer(link, tester.reply)
        answers = {type(seen.message) for seen in link.inbox}
        taken += Open in answers
        if not answers & {Open, Close}:
            silent_ends += 1
            if silent_ends == ENOUGH or node.awaited_death():
                break
        link.close()
    check(not silent_ends, "CLOSE each time", "a link without CLOSE")
    check(not taken, "CLOSE each time", "OPEN")


def flipped(cookie: bytes, at: int) -> bytes:
    """Returns a cookie with one bit of one byte flipped; counted round, as cookies of a node may differ in length."""
    at %= len(cookie)
    return bytes([*cookie[:at], cookie[at] ^ 1 << at % 8, *cookie[at + 1 :]])


def need_cookie(ack: Init) -> None:
    """Raises NotApplicable for a node that sends none."""
    if not ack.cookie:
        raise NotApplicable("its cookie is empty, so there is nothing that could be left out or changed")


def wait_for_answer(link: End, seconds: float) -> None:
    """Waits until something follows InitAck, or the node has ended the link, for some seconds at most."""
    link.wait(lambda: len(link.inbox) > 1 or link.link.ended is not None, seconds)


@req("ZN-OPEN-007")
@pytest.mark.parametrize(
    ("fsn", "width"), [(Resolution.BITS_8, 8), (Resolution.BITS_16, 16), (Resolution.BITS_32, 32)]
)
def test_initial_sn_of_the_node_is_inside_the_agreed_range(tester: Tester, fsn: int, width: int) -> None:
    for _ in range(20):
        link, ack = greet(tester, fsn=fsn, batch_size=1024)
        link.send(Open(cookie=ack.cookie))
        opened = link.expect(Open, A=1)
        check(not opened.initial_sn >> width, f"an initial SN of at most {width} bits", "a larger one")
        # Small nodes have room for few sessions at a time.
        link.close()


@req("ZN-OPEN-008")
def test_initial_sn_is_drawn_at_random(tester: Tester) -> None:
    numbers = set()
    for _ in range(50):
        link, ack = greet(tester)
        link.send(Open(cookie=ack.cookie))
        numbers.add(link.expect(Open, A=1).initial_sn)
        link.close()
    # Of 128 numbers, the smallest range there is, 50 draws hit 42 on the average, and fewer than 30 never.
    fsn = ack.fsn if ack.S else Resolution.BITS_32
    wanted = 30 if fsn == Resolution.BITS_8 else 45
    check(len(numbers) >= wanted, f"at least {wanted} values in 50 handshakes", "fewer", f"{len(numbers)}")
    spread = max(numbers) - min(numbers)
    check(spread > mask(fsn) >> 2, "values spread over the range", "values close together", f"{spread}")


WIDTHS = pytest.mark.parametrize(
    "code",
    [
        pytest.param(Resolution.BITS_8, id="8"),
        pytest.param(Resolution.BITS_16, id="16", marks=slow),
        pytest.param(Resolution.BITS_32, id="32", marks=slow),
    ],
)
"""Each needs a node of its own, because it may harm it; so the core has the narrowest only."""

INSIDE: dict[int, tuple[int, ...]] = {
    Resolution.BITS_8: (0, 5, 127, 128),
    Resolution.BITS_16: (0, 5, (1 << 14) - 1, 1 << 14),
    Resolution.BITS_32: (0, 5, (1 << 28) - 1, 1 << 28),
}
"""First numbers in the part of the range that nodes use, its edge included (reading R-01)."""

UPPER: dict[int, tuple[int, ...]] = {
    Resolution.BITS_8: (129, 255),
    Resolution.BITS_16: ((1 << 14) + 1, (1 << 16) - 1),
    Resolution.BITS_32: ((1 << 28) + 1, (1 << 32) - 1),
}
"""First numbers in the rest of the range that the page gives."""

BEYOND: dict[int, tuple[int, ...]] = {
    Resolution.BITS_8: (300, 256),
    Resolution.BITS_16: (1 << 16,),
    Resolution.BITS_32: (1 << 32,),
}
"""First numbers outside of it."""


def begin(tester: Tester, code: Resolution, initial_sn: int) -> End:
    """Sends a handshake with a resolution and a first number up to OpenSyn, and returns the link."""
    link, ack = greet(tester, fsn=code, batch_size=1024)
    if ack.S and ack.fsn < code:
        raise NotApplicable("the node lowers the resolution")
    link.send(Open(cookie=ack.cookie, initial_sn=initial_sn))
    return link


@req("ZN-OPEN-009")
def test_initial_sn_inside_the_range_in_use_is_taken(tester: Tester) -> None:
    for code, numbers in INSIDE.items():
        for number in numbers:
            link = begin(tester, Resolution(code), number)
            link.expect(Open, A=1)
            link.close()


@req("ZN-OPEN-009")
@destructive
@WIDTHS
def test_initial_sn_in_the_rest_of_the_agreed_range_is_taken(tester: Tester, code: Resolution) -> None:
    for number in UPPER[code]:
        link = begin(tester, code, number)
        link.expect(Open, A=1)
        link.close()


@req("ZN-OPEN-009")
@destructive
@WIDTHS
def test_initial_sn_outside_the_agreed_range_is_refused(tester: Tester, code: Resolution) -> None:
    begin(tester, code, 5).expect(Open, A=1)
    for number in BEYOND[code]:
        begin(tester, code, number).expect_refusal(unless=Open)


@req("ZN-OPEN-010")
@pytest.mark.parametrize("wrong", ["cookie", pytest.param("initial SN", marks=destructive)])
def test_others_can_open_sessions_after_a_refused_open(tester: Tester, wrong: str) -> None:
    accept(tester)
    if wrong == "cookie":
        link, _ = greet(tester)
        link.send(Open(cookie=b"no such cookie"))
    else:
        begin(tester, Resolution.BITS_8, BEYOND[Resolution.BITS_8][0])
    accept(tester)


@req("ZN-OPEN-011")
@pytest.mark.parametrize("initial_sn", [0, 5, 100_000])
def test_each_side_counts_from_its_own_initial_sn(tester: Tester, initial_sn: int) -> None:
    end = tester.starting()
    end.session.policy.initial_sn = lambda resolution, rng: min(initial_sn, mask(resolution))  # type: ignore[method-assign]  # noqa: ARG005
    opened = end.open()
    end.fence()
    check(carriers(end)[0].sn == opened.initial_sn, "the first FRAME with the SN of OpenAck", "another SN")


@req("ZN-OPEN-017")
@pytest.mark.parametrize("reliable", [True, False], ids=["reliable", "best-effort"])
def test_session_is_live_right_after_open_ack(tester: Tester, reliable: bool) -> None:
    both = pair(tester)
    both.pub = tester.starting()
    both.pub.open()
    both.pub.post(both.push("first"), reliable=reliable)
    # Nothing else is said on that link before the value is there.
    both.sub.until(Push, key=both.at("first"))


# Lease ------------------------------------------------------------------------------------------------


@req("ZN-OPEN-012", "ZN-OPEN-014", "ZN-KA-104")
def test_silence_for_our_shorter_lease_ends_the_session(tester: Tester, run_config: RunConfig) -> None:
    link, _ = accept(tester, lease=round(LEASE * 1000))
    alive, _ = accept(tester, lease=round(LEASE * 1000))
    seconds = lifetime_beside(tester, link, {alive: b"\x04"}, within=LEASE + run_config.slack)
    check_lifetime(seconds, LEASE, run_config.slack)
    check(alive.link.ended is None, "with KEEP_ALIVE the link lives", "it ends")


def lifetime_beside(tester: Tester, link: End, alive: dict[End, bytes], *, within: float) -> float | None:
    """As ``lifetime``; meanwhile other links send something every quarter of the lease."""
    for _ in range(int(within / LEASE * 4) + 1):
        for other, stimulus in alive.items():
            if other.link.ended is None:
                other.send(stimulus)
        seconds = lifetime(tester, link, within=min(LEASE / 4, within))
    return seconds


@req("ZN-OPEN-013")
def test_silence_for_the_shorter_lease_of_the_node_ends_the_session(
    tester_of: Callable[..., Tester], run_config: RunConfig
) -> None:
    tester = tester_of(transport__link__tx__lease=round(LEASE * 1000))
    link, _ = accept(tester, T=1, lease=60)
    alive, _ = accept(tester, T=1, lease=60)
    seconds = lifetime_beside(tester, link, {alive: b"\x04"}, within=LEASE + run_config.slack)
    check(alive.link.ended is None, "with KEEP_ALIVE the link lives", "it ends")
    check_lifetime(seconds, LEASE, run_config.slack)


@req("ZN-OPEN-015")
def test_any_message_renews_the_lease(tester: Tester, run_config: RunConfig) -> None:
    lease = LEASE * max(1, run_config.time_scale)
    # Kept alive until all are open, however long a slow node takes for that.
    ends = [tester.session(lease=lease) for _ in range(4)]
    tester.on_send.append(silent)
    makers: list[Callable[[SessionEnd], bytes]] = [
        lambda _: bytes(KeepAlive()),
        lambda end: bytes(frame(end)),
        lambda _: bytes(TransportOam(oam_id=5)),
    ]
    for _ in range(12):
        for end, make in zip(ends, makers, strict=False):
            if end.link.ended is None:
                end.send(make(end))
        tester.links.wait(lambda: False, lease / 4)
    for end, name in zip(ends, ("KEEP_ALIVE", "FRAME", "OAM"), strict=False):
        check(end.link.ended is None, f"{name} renews the lease", "the link ends")
    ended = ends[3].wait(lambda: ends[3].link.ended is not None, lease + run_config.slack)
    check(ended, "the silent link ends", "it lives on")


@req("ZN-OPEN-016")
def test_low_latency_sessions_keep_the_lease(tester_of: Callable[..., Tester], run_config: RunConfig) -> None:
    tester = tester_of(transport__unicast__lowlatency=True, transport__unicast__qos__enabled=False)
    link, ack = greet(tester, extensions=[LowLatency()])
    wanted = ["LowLatency"] if tester.user is None else ["Auth", "LowLatency"]
    agreed = sorted(str(ext.name) for ext in ack.extensions or [])
    check(agreed == wanted, "LowLatency", "not agreed")
    link.send(Open(cookie=ack.cookie, lease=round(LEASE * 1000)))
    check(link.expect(Open, A=1).lease, "OpenAck with a lease", "no lease")
    seconds = lifetime(tester, link, within=LEASE + run_config.slack)
    check_lifetime(seconds, LEASE, run_config.slack)


# Extensions -------------------------------------------------------------------------------------------


def said(ack: Open, number: int) -> list[str]:
    """Returns the extensions of one number in an OpenAck, in words."""
    encodings = ("Unit", "Z64", "ZBuf", "reserved")
    return [f"{ext.ext_id:#x} {encodings[ext.ENC]}" for ext in ack.extensions or [] if ext.ext_id == number]


@req("ZN-OPEN-018")
@pytest.mark.parametrize("offered", [True, False], ids=["offered", "not-offered"])
def test_qos_in_open_ack_is_unit_and_agreed_before(tester: Tester, offered: bool) -> None:
    link, ack = greet(tester, extensions=[QoSOffer()] * offered)
    link.send(Open(cookie=ack.cookie, extensions=[QoSOffer()] * offered))
    seen = said(link.expect(Open, A=1), 0x1)
    agreed = any(isinstance(ext, QoSOffer) for ext in ack.extensions or [])
    allowed: list[list[str]] = [[], ["0x1 Unit"]] if agreed else [[]]
    check(seen in allowed, " or ".join(map(listed, allowed)), listed(seen))


@req("ZN-OPEN-022")
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_low_latency_is_accepted_in_open_ack_when_agreed(tester_of: Callable[..., Tester], on: bool) -> None:
    tester = tester_of(transport__unicast__lowlatency=on, transport__unicast__qos__enabled=not on)
    link, ack = greet(tester, extensions=[LowLatency()])
    link.send(Open(cookie=ack.cookie, extensions=[LowLatency()] * on))
    seen = said(link.expect(Open, A=1), 0x5)
    check(seen == ["0x5 Unit"] * on, "0x5 Unit" if on else "nothing", listed(seen))


@req("ZN-OPEN-023")
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_compression_is_accepted_in_open_ack_when_agreed(tester_of: Callable[..., Tester], on: bool) -> None:
    tester = tester_of(transport__unicast__compression__enabled=on)
    link, ack = greet(tester, extensions=[Compression()])
    link.send(Open(cookie=ack.cookie, extensions=[Compression()] * on))
    seen = said(link.expect(Open, A=1), 0x6)
    check(seen == ["0x6 Unit"] * on, "0x6 Unit" if on else "nothing", listed(seen))


@req("ZN-OPEN-024")
@pytest.mark.parametrize("bound", [Bound.NORTH, 2], ids=["north", "unknown"])
def test_routing_hint_in_open_syn_does_not_break_the_session(tester: Tester, bound: int) -> None:
    accept(tester)
    accept(tester, extensions=[RemoteBound(bound=bound)])


@req("ZN-OPEN-019")
def test_shared_memory_is_not_in_open_ack_when_it_is_off(tester: Tester, node: Node) -> None:
    if not node.configured:
        raise NotApplicable("nobody knows whether the node has its shared memory off")
    for chain in ([], [OpenSynShm(challenge=1)]):
        link, ack = greet(tester, extensions=[InitSynShm(segment_id=1)] * len(chain))
        link.send(Open(cookie=ack.cookie, extensions=chain))
        seen = said(link.expect(Open, A=1), 0x2)
        check(not seen, "no shared memory in OpenAck", listed(seen))


@req("ZN-OPEN-025")
def test_extensions_of_open_ack_are_optional(tester: Tester) -> None:
    link, ack = greet(tester, extensions=[QoSOffer()])
    link.send(Open(cookie=ack.cookie, extensions=[QoSOffer()]))
    opened = link.expect(Open, A=1)
    if not opened.extensions:
        raise NotApplicable("the node answers with no extension")
    mandatory = [str(extension.name) for extension in opened.extensions if extension.M]
    check(not mandatory, "no mandatory extension", listed(mandatory))


@req("ZN-EXT-103")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_mandatory_extension_of_open_syn_is_unsupported(tester: Tester, enc: str) -> None:
    accept(tester, extensions=[unknown(enc)])
    link, ack = greet(tester)
    link.send(Open(cookie=ack.cookie, extensions=[unknown(enc, mandatory=True)]))
    link.expect_refusal(CloseReason.UNSUPPORTED, unless=Open)


@req("ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_open_syn_is_skipped(tester: Tester, enc: str) -> None:
    accept(tester, extensions=[unknown(enc)])

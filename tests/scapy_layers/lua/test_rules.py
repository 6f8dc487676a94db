"""The expert infos for broken requirements: those that ``scapy_layers.lint`` finds, and none in ordinary traffic."""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Container, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from scapy_layers import wireshark
from scapy_layers.catalogue import decode_batch
from scapy_layers.codes import SCOUTING_PORT
from scapy_layers.declarations import DeclareQueryable, DeclareToken
from scapy_layers.derive.lua import PRELUDE
from scapy_layers.errors import WireError
from scapy_layers.extensions import Compression, Drop, LowLatency, Patch
from scapy_layers.lint import RULES, findings
from scapy_layers.message import UnknownExtension
from scapy_layers.network import Declare, ResponseFinal
from scapy_layers.scouting import Hello, Scout
from scapy_layers.stream import Batch, Datagram, Endpoint, Gap, Link, Unit, units_of
from scapy_layers.transport import Fragment, Init, Join, Open
from tests.agreement import damage
from tests.scapy_layers.lua.experts import Said, experts
from tests.scapy_layers.test_lint import (
    CASES,
    CLIENT,
    MORE,
    ROUTER,
    SECOND,
    Story,
    agreed,
    client,
    disordered,
    group,
    interest,
    link,
    opened,
    ordinary,
    overtaken,
    request,
    router,
    scouting,
    thinned,
)

PCAPS = Path(__file__).parents[3] / "pcaps"
CAPTURES = sorted(path.stem for path in PCAPS.glob("*.pcapng"))

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

# Who says what ------------------------------------------------------------------------------------

OWN = {
    f"ZN-{number}": level
    for number, level in re.findall(
        r'\n  \{ "([A-Z]+-\d+)", "([A-Z ]+)"', (PRELUDE / "rules.lua").read_text()
    )
}
"""Requirements that have an expert info of their own, and their levels."""

OF_CONVERSATION = {
    "ZN-FRM-002": {"range"},
    "ZN-FRM-010": {"gap", "loss", "duplicate", "old"},
    "ZN-OPEN-011": {"gap", "loss", "duplicate", "old"},
    "ZN-INIT-050": {"place"},
    "ZN-NET-001": {"place"},
    "ZN-MSG-007": {"place"},
    "ZN-DCL-101": {"declaration"},
    "ZN-DCL-102": {"alias"},
    "ZN-DCL-103": {"alias"},
    "ZN-REQ-006": {"request"},
    "ZN-RSP-002": {"request"},
    "ZN-FIN-003": {"request"},
    "ZN-FRG-102": {"fragment"},
    "ZN-FRG-105": {"fragment"},
    "ZN-INIT-044": {"fragment"},
}
"""Requirements that the conversation notices when they are broken: what its expert infos are called."""

REFUSED = {"truncated", "overlong", "bad_value", "unknown_message", "unknown_mandatory_extension"}
"""Expert infos for what strict decoding refuses."""

OF_DECODING = {
    f"ZN-{number}"
    for number in (
        *(
            "SCT-013",
            "HLO-006",
            "OAM-001",
            "INIT-013",
            "INIT-019",
            "OPEN-002",
            "CLS-005",
            "KA-002",
            "FRM-004",
        ),
        *(
            "FRG-001",
            "JOIN-004",
            "INT-003",
            "RSP-007",
            "REQ-005",
            "PUSH-006",
            "DCL-004",
            "OAM-005",
            "MSG-010",
        ),
        "EXT-104",
    )
}
"""Requirements that strict decoding holds to."""

NOT_HERE = {
    "ZN-INIT-003": "a dissector is not told of the end of a connection",
    "ZN-RTE-024": "nothing arrives that could be blamed for an answer that is not there",
    "ZN-VLE-102": "no value tells in how many bytes it came",
    "ZN-INIT-002": "zenoh-pico is known for it: normal traffic",
    "ZN-DEL-002": "zenoh-pico is known for it: normal traffic",
    "ZN-CLS-107": "real nodes are known for it: normal traffic",
    "ZN-FRG-003": "real nodes are known for it: normal traffic",
    "ZN-INT-102": "real nodes are known for it: normal traffic",
    "ZN-OPEN-008": "real nodes are known for it: normal traffic",
    "ZN-OPEN-013": "real nodes are known for it: normal traffic",
    "ZN-RTE-012": "real nodes are known for it: normal traffic",
}
"""Requirements without an expert info, and why."""


# Captures of stories --------------------------------------------------------------------------------

Address: TypeAlias = "tuple[bytes, int]"


@dataclass
class Connection:
    """TCP between two endpoints: where both count, how batches travel."""

    next: list[int] = field(default_factory=lambda: [1_000, 900_000])
    batches: list[int] = field(default_factory=lambda: [0, 0])
    inits: list[Init] = field(default_factory=list)

    def framed(self, data: bytes, side: int) -> bytes:
        """Returns a batch as it travels."""
        low = self._both_offer(LowLatency)
        if self._both_offer(Compression) and not low and self.batches[side] >= 2:
            data = b"\0" + data
        self.batches[side] += 1
        if self.batches[side] == 1:
            with suppress(WireError):
                self.inits += [one for one in decode_batch(data) if isinstance(one, Init)]
        return len(data).to_bytes(4 if low else 2, "little") + data

    def _both_offer(self, kind: type[LowLatency | Compression]) -> bool:
        """Tells whether both ends have offered something and the first one has said OPEN."""
        offers = [any(type(one) is kind for one in init.extensions) for init in self.inits]
        return len(offers) == 2 and all(offers) and self.batches[0] >= 2


class Told(NamedTuple):
    """Which unit of which story a packet carries."""

    story: int
    unit: int


@dataclass
class Capture:
    """Stories as packets, one behind the other, each between addresses of its own.

    Attributes:
        packets: Time in ns and bytes of each.
        units: For each packet what it carries.
    """

    packets: list[tuple[int, bytes]] = field(default_factory=list)
    units: list[Told] = field(default_factory=list)
    _begin: int = 0
    _now: Told = field(default=Told(-1, 0))

    def add(self, story: Story) -> None:
        """Adds a story."""
        connections: dict[int, Connection] = {}
        number = self._now.story + 1
        for unit in story.units:
            self._now = Told(number, unit.number)
            on = unit.way.link
            ends = self._end(unit.way.source, on), self._end(unit.way.target, on)
            time, side = self._begin + unit.time, int(not unit.way.forward)
            if isinstance(unit, Datagram):
                data = self._own(unit.data)
                self._packet(time, 17, ends, struct.pack(">HH", 8 + len(data), 0) + data)
                continue
            if on.number not in connections:
                connections[on.number] = Connection()
                first = ends[:: -1 if side else 1]
                self._segment(time, connections[on.number], 0, first, 2)
                self._segment(time, connections[on.number], 1, first[::-1], 18)
            connection = connections[on.number]
            if isinstance(unit, Gap):
                connection.next[side] += unit.missing or 0
            elif isinstance(unit, Batch):
                self._segment(time, connection, side, ends, 24, connection.framed(self._own(unit.data), side))
            else:
                self._segment(time, connection, side, ends, 17)
        self._begin += story.time + SECOND

    def save(self, path: Path, without: Container[int] = ()) -> Path:
        """Writes a pcap; packets of some numbers are empty."""
        parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1)]
        for number, (time, packet) in enumerate(self.packets, 1):
            kept = bytes(14) if number in without else packet
            parts += [struct.pack("<IIII", *divmod(time, SECOND), len(kept), len(kept)), kept]
        path.write_bytes(b"".join(parts))
        return path

    def _own(self, data: bytes) -> bytes:
        """Gives each story cookies of its own."""
        return data.replace(b"cook", b"%04d" % self._now.story)

    def _end(self, end: Endpoint, on: Link) -> Address:
        address = int(IPv4Address(end.address))
        if not IPv4Address(address).is_multicast:
            address = int(IPv4Address("10.1.0.0")) + self._now.story * 256 + address % 256
        # Each connection has a port of its own; what comes from the port of scouting is scouting, however wrong.
        port = {40_000: SCOUTING_PORT, 50_000: 50_000 + on.number * on.tcp}.get(end.port, end.port)
        return address.to_bytes(4, "big"), port

    def _segment(
        self,
        time: int,
        connection: Connection,
        side: int,
        ends: tuple[Address, ...],
        flags: int,
        data: bytes = b"",
    ) -> None:
        acknowledged = 0 if flags == 2 else connection.next[1 - side]
        words = struct.pack(">IIBBHHH", connection.next[side], acknowledged, 5 << 4, flags, 512, 0, 0)
        self._packet(time, 6, ends, words + data)
        connection.next[side] += len(data) + (flags in {2, 18})

    def _packet(self, time: int, protocol: int, ends: tuple[Address, ...], rest: bytes) -> None:
        (source, sport), (target, dport) = ends
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 24 + len(rest), 1, 0, 64, protocol, 0) + source + target
        self.packets.append((time, bytes(12) + b"\x08\0" + ip + struct.pack(">HH", sport, dport) + rest))
        self.units.append(self._now)


# Both sides -----------------------------------------------------------------------------------------


ALSO = {"lane": "ZN-INIT-049", "unknown_mandatory_extension": "ZN-EXT-103"}
"""Expert infos of others about half of what a requirement says."""


def requirement(name: str) -> str:
    """Returns the id of the requirement that an expert info is about."""
    return ALSO.get(name) or "ZN-" + name.upper().replace("_", "-")


def own(said: Iterable[Said]) -> set[tuple[int, str]]:
    """Returns packets and requirements."""
    return {(one.packet, requirement(one.name)) for one in said if requirement(one.name) in OWN}


def linted(units: Iterable[Unit]) -> set[tuple[int, str]]:
    """Returns packets and requirements that the linter finds broken, of those that have an expert info.

    What is known of an implementation and breaks no MUST is normal traffic.
    """
    return {
        (one.packet, one.rule.ids[0])
        for one in findings(units)
        if one.rule.ids[0] in OWN and (one.known is None or one.rule.level.startswith("MUST"))
    }


# Broken on purpose ----------------------------------------------------------------------------------


def old(*said: Init) -> Story:
    """A handshake over UDP: in a stream, nodes of another version are not taken for Zenoh."""
    story = Story(link(tcp=False))
    for at, message in enumerate(said):
        story.say(at % 2, message)
    return story


def wrong() -> list[UnknownExtension]:
    """An extension chain in which a known extension has another encoding."""
    return [UnknownExtension(ext_id=1, data=b"?")]


RARE: list[tuple[str, Story]] = [
    ("ZN-SCT-018", scouting((0, Scout(version=8)))),
    ("ZN-HLO-010", scouting((0, Scout()), (1, Hello(zid=CLIENT, whatami=0, version=8)))),
    ("ZN-INIT-045", old(Init(zid=CLIENT, version=8), Init(A=1, zid=ROUTER, whatami=0, cookie=b"cook"))),
    ("ZN-INIT-043", opened().say(0, Fragment(R=1, sn=10, M=1, extensions=[Drop()], data=b""))),
    ("ZN-JOIN-002", group(Join(zid=CLIENT, version=8))),
    ("ZN-OPEN-022", opened(open_syn=Open(cookie=b"cook", initial_sn=10, extensions=[LowLatency()]))),
    ("ZN-OPEN-023", opened(open_syn=Open(cookie=b"cook", initial_sn=10, extensions=[Compression()]))),
    ("ZN-FRG-005", agreed(Patch(patch=1)).say(0, Fragment(R=1, sn=10, M=1, extensions=[UnknownExtension(ext_id=2, z64=1)]))),
    ("ZN-FIN-006", router(client(opened(), request()), ResponseFinal(request_id=1, extensions=wrong()))),
    ("ZN-INT-006", client(opened(), interest(extensions=wrong()))),
    ("ZN-DCL-003", client(opened(), Declare(body=DeclareToken(entity_id=1, key_suffix="a"), extensions=wrong()))),
    ("ZN-DCL-105", client(opened(), Declare(body=DeclareQueryable(entity_id=1, key_suffix="a", extensions=wrong())))),
]  # fmt: skip

STORIES = [*CASES, *MORE, *RARE, *(("", story) for story in ordinary())]
"""What must be found, and in what; the last ones are in order."""

SILENT = {
    # The linter takes an OPEN that it cannot read for one that was not sent.
    ("ZN-OPEN-002", "ZN-INIT-001"),
}
"""What the linter says of a story, and the dissector does not."""

BEYOND = {
    # The linter takes datagrams of another version for something else; the dissector goes by the port.
    "ZN-SCT-018": {(1, "ZN-SCT-018")},
    "ZN-HLO-010": {(2, "ZN-HLO-010")},
    "ZN-JOIN-002": {(1, "ZN-JOIN-002")},
    "ZN-INIT-045": {(1, "ZN-INIT-014"), (2, "ZN-INIT-045")},
}
"""What the dissector says of a story, by unit, and the linter does not."""

IDS = [f"{at}-{number or 'ordinary'}" for at, (number, _) in enumerate(STORIES)]
_POOL = ThreadPoolExecutor(2)


@pytest.fixture(scope="module")
def made() -> Capture:
    """All stories in one capture."""
    capture = Capture()
    for _, story in STORIES:
        capture.add(story)
    return capture


@pytest.fixture(scope="module")
def path(made: Capture, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is."""
    return made.save(tmp_path_factory.mktemp("rules") / "stories.pcap")


@pytest.fixture(scope="module")
def said(path: Path) -> list[Said]:
    """What tshark says of it, in one run."""
    return experts(path)


@pytest.mark.parametrize("at", range(len(STORIES)), ids=IDS)
def test_broken_requirement_has_an_expert_info_of_its_name(at: int, made: Capture, said: list[Said]) -> None:
    number, story = STORIES[at]
    here = [one for one in said if made.units[one.packet - 1].story == at]
    expected = {one for one in linted(story.units) if (number, one[1]) not in SILENT} | BEYOND.get(
        number, set()
    )
    assert {(made.units[packet - 1].unit, found) for packet, found in own(here)} == expected
    names = {one.name for one in here}
    if number in OF_CONVERSATION:
        assert OF_CONVERSATION[number] & names
    elif number in OF_DECODING:
        assert REFUSED & names
    elif number == "":
        assert not here


def test_rules_are_those_of_the_linter_or_left_out_with_a_reason() -> None:
    levels = {rule.ids[0]: rule.level for rule in reversed(RULES)}
    assert {number: levels.get(number) for number in OWN} == OWN
    assert levels.keys() - OWN.keys() - OF_CONVERSATION.keys() - OF_DECODING == NOT_HERE.keys()


def test_every_rule_was_seen_broken(said: list[Said]) -> None:
    assert {found for _, found in own(said)} == OWN.keys()


def test_severity_is_that_of_the_level(said: list[Said]) -> None:
    for one in said:
        level = OWN.get(requirement(one.name))
        if level and one.name not in ALSO:
            assert one.severity == ("note" if level == "SHOULD" else "warn"), one


def test_expert_info_says_the_requirement_and_what_was_seen(path: Path) -> None:
    (found,) = experts(path, where="zenoh.expert.hlo_008")
    assert found.text == "ZN-HLO-008 bits 3:2 of HELLO's packed byte are zero: HELLO: bits 0x1 at 2"
    (found,) = experts(path, where="zenoh.expert.init_047")
    assert (
        found.text == "ZN-INIT-047 InitAck raises neither FSN nor RID: fsn 32 bit after a proposal of 16 bit"
    )


def test_packets_that_are_read_again_say_the_same(path: Path, said: list[Said]) -> None:
    assert experts(path, "-2") == said


def test_first_pass_without_fields_says_less_and_nothing_else(path: Path, said: list[Said]) -> None:
    # Without a filter, tshark has no fields in the first of two passes: whether bytes are missing is not known then.
    assert own(experts(path, "-2", where="")) <= own(said)


HOLES = [*(range(at, at + 1) for at in range(1, 8)), range(4), range(6)]
"""Packets that are not captured: one of them; the beginning, with half of the handshake or all of it."""


@pytest.mark.parametrize("hole", HOLES, ids=str)
def test_what_is_not_in_the_capture_accuses_nobody(
    hole: range, made: Capture, said: list[Said], tmp_path: Path
) -> None:
    first = {unit.story: at for at, unit in reversed(list(enumerate(made.units, 1)))}
    holed = made.save(
        tmp_path / "holed.pcap", without={begin + at for begin in first.values() for at in hole}
    )
    whole = {(made.units[packet - 1].story, found) for packet, found in own(said)}
    rest = {(made.units[packet - 1].story, found) for packet, found in own(experts(holed))}
    assert rest - whole == set()


# Real nodes -----------------------------------------------------------------------------------------


@cache
def _real() -> dict[str, Future[list[Said]]]:
    return {stem: _POOL.submit(experts, PCAPS / f"{stem}.pcapng") for stem in CAPTURES}


@pytest.mark.parametrize("stem", CAPTURES)
def test_real_traffic_breaks_what_the_linter_says(stem: str) -> None:
    _real()
    expected = linted(units_of(PCAPS / f"{stem}.pcapng"))
    assert own(_real()[stem].result()) == expected
    # Nodes were halted, had leases of seconds, or were told to scout one address; all others talk as usual.
    assert not expected or stem in {"dropped", "leases", "unicast_scouting"}


def test_datagrams_that_were_captured_twice_accuse_nobody(tmp_path: Path) -> None:
    path = tmp_path / "twice.pcap"
    raws = [one.raw for one in damage.packets(PCAPS / "direct_datagrams.pcapng")]
    path.write_bytes(damage.pcap([raw for raw in raws for _ in range(2)]))
    assert experts(path) == experts(path, "-2") == []


IN_ORDER = "-o", "tcp.reassemble_out_of_order:TRUE"
"""Else Wireshark shows a dissector nothing of what was acknowledged before it was captured."""


@pytest.mark.parametrize(
    "stem", ["aggregation", "compression", "lowlatency", "mixed", "query", "routers", "datagrams"]
)
def test_capture_that_is_out_of_order_accuses_nobody(stem: str, tmp_path: Path) -> None:
    path = disordered(stem, tmp_path)
    assert experts(path) == experts(path, *IN_ORDER) == experts(path, *IN_ORDER, "-2") == []
    # The first of two passes has no fields, so nothing is acknowledged there.
    assert experts(path, *IN_ORDER, "-2", where="") == experts(path, "-2", where="") == []


def answered_before_asked(request: pytest.FixtureRequest) -> None:
    """Expects a failure from Wireshark 4.4 on, which misreads an upgrade that was captured behind its answer."""
    if wireshark.tshark().version >= (4, 4):
        why = "Wireshark takes the HTTP of the upgrade for frames, and hands on what they seem to carry"
        request.applymarker(pytest.mark.xfail(reason=why, raises=AssertionError, strict=True))


@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize("stem", ["packed_websocket", "websocket"])
def test_websocket_that_was_captured_out_of_order_accuses_nobody(
    stem: str, higher: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not higher:
        answered_before_asked(request)
    path = disordered(stem, tmp_path, higher=higher)
    assert experts(path, *IN_ORDER) == experts(path, *IN_ORDER, "-2", where="") == []


def test_websocket_that_wireshark_reads_in_the_second_pass_only_accuses_nobody_of_what_is_cut_anywhere(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    answered_before_asked(request)
    path = disordered("websocket", tmp_path)
    data = path.read_bytes()
    cut = re.sub(rb"(\x82[\x02-\x7d])\x25", lambda found: found[1] + b"\x36", data)
    assert cut != data
    path.write_bytes(cut)
    assert experts(path, *IN_ORDER, "-2", where="") == []


@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize("stem", ["udp6", "direct_datagrams", "packed_datagrams"])
def test_datagrams_that_were_captured_out_of_order_accuse_nobody(
    stem: str, higher: bool, tmp_path: Path
) -> None:
    path = disordered(stem, tmp_path, higher=higher)
    assert experts(path) == experts(path, "-2", where="") == []


@pytest.mark.parametrize(
    ("stem", "kinds"), [("direct_datagrams", set()), ("packed_datagrams", {"unordered"})]
)
def test_datagrams_that_overtake_each_other_are_no_fault(stem: str, kinds: set[str], tmp_path: Path) -> None:
    path = overtaken(stem, tmp_path)
    said = experts(path)
    assert {one.name for one in said} == kinds
    assert {one.severity for one in said} <= {"note"}
    assert experts(path, "-2") == said


@pytest.mark.parametrize(("stem", "lost"), [("udp6", 30), ("packed_datagrams", 28)])
def test_datagram_with_a_question_that_is_lost_is_no_fault(stem: str, lost: int, tmp_path: Path) -> None:
    path = thinned(stem, tmp_path, lost)
    assert {one.severity for one in experts(path)} <= {"note"}


@pytest.mark.parametrize("stem", ["dropped", "leases"])
def test_real_traffic_that_is_read_again_says_the_same(stem: str) -> None:
    assert experts(PCAPS / f"{stem}.pcapng", "-2") == _real()[stem].result()

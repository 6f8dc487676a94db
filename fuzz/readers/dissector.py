"""Captures with broken messages in them, and what tshark says about those with our dissector.

Nothing may end in a Lua error, a "Dissector bug", a crash or a hang. What Wireshark's own dissectors say about a
payload is not ours.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import scapy_layers
from fuzz.readers.carry import GROUP, HERE, THERE, Connection, Packets
from scapy_layers import tshark
from scapy_layers.codes import DEFAULT_PORT, SCOUTING_PORT
from scapy_layers.extensions import Compression, Patch, QoSOffer
from scapy_layers.transport import Init, Join, Open

SCRIPT = Path(scapy_layers.__file__).parent / "zenoh.lua"

SECONDS = 20.0
"""A process may take as long as this, and ``SECONDS_EACH`` for each input."""

SECONDS_EACH = 0.02

BAD = re.compile(
    rb"Lua Error|Dissector bug|\[Malformed Packet: zenoh|STATUS_ACCESS|assertion|stack traceback"
    rb"|out of bounds|attempt to |exceeded the maximum|lua:|\.lua:\d+",
    re.IGNORECASE,
)
"""What tshark says when a script, or the program itself, has gone wrong."""

FRAME = re.compile(rb"^Frame (\d+):")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that may not happen.

    Attributes:
        what: What tshark said, or how it ended.
        packet: Number of the packet; 0 when that is not known.
    """

    what: str
    packet: int = 0


def is_there() -> bool:
    """Tells whether tshark can be called and the dissector was written."""
    return tshark.is_there() and SCRIPT.exists()


LARGEST_INPUT = 0xFE00
"""Bytes of an input that are sent, as they fit into a batch or datagram whatever is put around them."""

# Captures -----------------------------------------------------------------------------------------


def capture_of(raws: Iterable[bytes], seed: int) -> Packets:
    """Returns a capture with all inputs, none of them empty: half in streams, half in datagrams."""
    dice = random.Random(seed)
    source = iter(raws)
    packets = Packets()
    port = 10_000
    while batch := list(islice(source, dice.choice((5, 20, 60)))):
        port += 1
        kind = dice.randrange(4)
        if kind < 2:
            _stream(packets, port, batch, dice)
        elif kind == 2:
            _pair(packets, port, batch, dice)
        else:
            _group(packets, port, batch, dice)
    return packets


def _stream(packets: Packets, port: int, batches: Sequence[bytes], dice: random.Random) -> None:
    """A connection that breaks its promises: in batches, lengths, segments, and from its middle on."""
    own = Packets()
    connection = Connection(own, port)
    connection.open(low_latency=dice.random() < 0.2, compression=dice.random() < 0.2)
    begun = own.number
    for raw in batches:
        _say(connection, raw, dice)
    if dice.random() < 0.3:
        del own.frames[: dice.randrange(begun + 1)]
    for frame in own.frames:
        chance = dice.random()
        if chance > 0.02:
            packets.frames.append(frame)
        if chance > 0.98:
            packets.frames.append(frame)
        elif chance > 0.96 and packets.number > 1:
            packets.frames[-2:] = reversed(packets.frames[-2:])


def _say(connection: Connection, raw: bytes, dice: random.Random) -> None:
    raw, forward = raw[:LARGEST_INPUT], dice.random() < 0.6
    match dice.randrange(12):
        case 0:
            connection.send(raw, forward=forward)
        case 1:
            connection.send(
                len(raw).to_bytes(2, "little") + raw[: dice.randrange(len(raw) + 1)], forward=forward
            )
        case 2:
            connection.say_in_fragments(raw)
        case 3:
            agreed, connection.compressed = connection.compressed, not connection.compressed
            connection.say(raw, forward=forward)
            connection.compressed = agreed
        case _:
            connection.say(raw, forward=forward)


def _pair(packets: Packets, port: int, datagrams: Sequence[bytes], dice: random.Random) -> None:
    """Two nodes that speak UDP."""
    compression = dice.random() < 0.3
    offers = [QoSOffer(), *([Compression()] if compression else []), Patch(patch=1)]
    zids = b"\x01" * 16, b"\x02" * 16
    opening = [
        (True, bytes(Init(zid=zids[0], extensions=offers))),
        (False, bytes(Init(A=1, zid=zids[1], cookie=b"c", extensions=offers))),
        (True, bytes(Open(lease=10_000, initial_sn=0, cookie=b"c"))),
        (False, bytes(Open(A=1, lease=10_000, initial_sn=0))),
    ]
    said = [] if dice.random() < 0.2 else opening
    said += [(dice.random() < 0.6, raw) for raw in datagrams]
    for forward, raw in said:
        ends, ports = (
            ((HERE, THERE), (port, DEFAULT_PORT)) if forward else ((THERE, HERE), (DEFAULT_PORT, port))
        )
        packets.udp(raw[:LARGEST_INPUT], ports, ends)


def _group(packets: Packets, port: int, datagrams: Sequence[bytes], dice: random.Random) -> None:
    """Scouting, or a multicast group."""
    scouting = dice.random() < 0.5
    if not scouting:
        packets.udp(bytes(Join(zid=b"\x05" * 16)), (port, DEFAULT_PORT), (HERE, GROUP))
    for raw in datagrams:
        if scouting and dice.random() < 0.4:
            packets.udp(raw[:LARGEST_INPUT], (SCOUTING_PORT, port), (THERE, HERE))
        else:
            to = SCOUTING_PORT if scouting else DEFAULT_PORT
            packets.udp(raw[:LARGEST_INPUT], (port, to), (HERE, GROUP))


# tshark -------------------------------------------------------------------------------------------


def faults(path: Path, packets: int, *arguments: str) -> Iterator[Fault]:
    """Reads a capture with all details and yields what may not happen."""
    command = [str(tshark.find().path), "-n", "-X", f"lua_script:{SCRIPT}", "-r", str(path), "-V", *arguments]
    limit = SECONDS + SECONDS_EACH * packets
    with (
        tempfile.TemporaryDirectory() as empty,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        # Nothing of what a person has configured or installed.
        environment = {**os.environ, "WIRESHARK_CONFIG_DIR": empty, "HOME": empty}
        try:
            status = subprocess.run(
                command,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                timeout=limit,
                check=False,
                env=environment,
            ).returncode
        except subprocess.TimeoutExpired:
            yield Fault(f"no end within {limit:.0f} s")
            return
        out.seek(0)
        number, told = 0, 0
        for line in out:
            if found := FRAME.match(line):
                number = int(found[1])
            elif number != told and BAD.search(line):
                told = number
                yield Fault(_text(line), number)
        err.seek(0)
        for line in err:
            if BAD.search(line):
                yield Fault(_text(line))
        if status:
            yield Fault(f"exit status {status}")


def _text(line: bytes) -> str:
    return line.strip().decode(errors="replace")[:300]

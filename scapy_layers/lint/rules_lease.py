"""What only the clock and whole batches show: keep-alive, lease, batch size, refusals without a word.

These rules look at no single message; the linter calls them for each unit.
"""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.conversation import Heard, Session
from scapy_layers.conversation.session import Party
from scapy_layers.links import MS
from scapy_layers.lint.notes import LinkNotes, Memory
from scapy_layers.lint.rule import ECLIPSE, Break, Rule, declare
from scapy_layers.stream import Batch, Datagram, End

SLACK = 150 * MS
"""Nanoseconds that a busy machine may be late, besides an eighth of the lease."""

UNANSWERED = 11_000 * MS
"""Nanoseconds after which an interest counts as not answered; nodes wait 10 s for others themselves."""

KEEP_ALIVE = declare(
    "ZN-KA-102", level="MUST", text="a link carries a message every quarter of the lease of its sender"
)
SMALLER_LEASE = declare(
    "ZN-KA-101", level="MUST", text="a link carries a message every quarter of the smaller of both leases"
)
EXPIRES = declare(
    "ZN-OPEN-014", "ZN-KA-104", level="FACT", text="silence for the whole lease ends the session"
)
SMALLER_EXPIRES = declare(
    "ZN-OPEN-013", "ZN-OPEN-012", level="FACT", text="the smaller of both leases is what counts"
)
JOINS = declare(
    "ZN-JOIN-005",
    "ZN-KA-107",
    level="FACT",
    text="JOIN is repeated within its lease while the sender is there",
)
BATCH = declare(
    "ZN-INIT-027", "ZN-BAT-103", level="FACT", text="no batch is larger than the smaller of both offers"
)
SPEAKS = declare(
    "ZN-INIT-003",
    "ZN-INIT-005",
    "ZN-INIT-006",
    level="MUST",
    text="a responder that cannot go on answers CLOSE instead of the next handshake message",
)
SNAPSHOT = declare(
    "ZN-RTE-024",
    "ZN-INT-101",
    "ZN-INT-103",
    level="FACT",
    text="D_FINAL ends the answer to a current interest",
)


def pace(link: LinkNotes, parties: tuple[Party, Party], side: int, time: int) -> Iterator[tuple[Rule, Break]]:
    """Judges how long one side of a link was silent.

    Args:
        link: The link; its handshake was heard.
        parties: Sender and receiver.
        side: Of the sender.
        time: When it spoke again, ns.
    """
    before = link.heard[side]
    own, other = parties[0].lease, parties[1].lease
    if before is None or not own or not other or not all(link.whole):
        return
    gap = time - before
    for lease, broken, known in ((own, KEEP_ALIVE, None), (min(own, other), SMALLER_LEASE, ECLIPSE)):
        if gap > lease * MS * 3 // 8 + SLACK:
            # The one that holds as well would say the same twice.
            if link.once(f"pace {side} {broken.ids}"):
                yield broken, Break(f"{gap / 1e9:.2f} s of silence at a lease of {lease} ms", known)
            break
    for lease, ends, known in ((max(own, other), EXPIRES, None), (min(own, other), SMALLER_EXPIRES, ECLIPSE)):
        if gap > lease * MS * 9 // 8 + SLACK:
            if link.once(f"expires {ends.ids}"):
                yield (
                    ends,
                    Break(f"the session goes on after {gap / 1e9:.2f} s of silence at {lease} ms", known),
                )
            break


def join_pace(memory: Memory, heard: Heard) -> Iterator[tuple[Rule, Break]]:
    """Judges whether a sender to a group still says JOIN."""
    session = heard.session
    assert session is not None
    last, lease = memory.joined.get(session.number), session.parties[0].lease
    if (
        last is not None
        and lease
        and heard.time - last > lease * MS + SLACK
        and memory.once(session.number, "joins")
    ):
        yield JOINS, Break(f"{(heard.time - last) / 1e9:.2f} s since the last JOIN, at a lease of {lease} ms")


def size(session: Session, unit: Batch | Datagram) -> Iterator[tuple[Rule, Break]]:
    """Judges a batch by the agreed size, which holds from OPEN on; the length in front does not count."""
    most = session.batch_size
    if most is not None and not session.lowlatency and len(unit.data) > most:
        said = "announced by JOIN" if session.multicast else "agreed"
        # To a group, real nodes fill what the link takes, whatever their JOIN says.
        known = ECLIPSE if session.multicast else None
        yield BATCH, Break(f"a batch of {len(unit.data)} bytes, {most} are {said}", known)


def wordless(link: LinkNotes, unit: End) -> Iterator[tuple[Rule, Break]]:
    """Judges the end of a link in the middle of the handshake."""
    side = int(not unit.way.forward)
    if link.syn is None or link.open_ack is not None or link.closed != [None, None] or not all(link.whole):
        return
    waits = link.open_syn is not None or link.ack is None
    if waits and side != link.initiator and link.once("wordless"):
        asked = link.open_syn or link.syn
        yield SPEAKS, Break(f"{asked.name} was answered by the end of the connection", ECLIPSE)


def unanswered(memory: Memory, session: Session, time: int) -> Iterator[tuple[Rule, Break]]:
    """Judges the interests of a session that have waited too long for their D_FINAL."""
    roles = {party.zid: party.whatami for party in session.parties}
    for (number, asker, interest), asked in list(memory.interests.items()):
        if number != session.number or asked.answered or not asked.mode & InterestMode.CURRENT:
            continue
        if time - asked.time <= UNANSWERED:
            continue
        asked.answered = True
        answerer = next((role for zid, role in roles.items() if zid != asker), None)
        if answerer != WhatAmI.ROUTER or roles.get(asker) in {WhatAmI.ROUTER, None}:
            # Routers tell each other without being asked; others have nothing to tell of third ones.
            continue
        known = ECLIPSE if asked.mode == InterestMode.CURRENT and "tokens" not in asked.kinds else None
        yield SNAPSHOT, Break(f"no D_FINAL for interest {int(interest)} of packet {asked.number}", known)

"""How much a passive reader remembers at most, whatever the bytes say."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of every table. When one is reached, what was not used for longest goes.

    Together they hold a reader below some 300 MiB on captures made to fill memory, while no ordinary
    capture comes near any of them.

    Attributes:
        links: Links remembered at once. A router has at most some thousand sessions.
        aliases: Bytes of key-expression aliases of all sessions.
        exchanges: Bytes of open requests, declarations, interests and scouts of all sessions.
        ended: Bytes of ended requests of all sessions, kept for answers that come after the end.
        answers: Answers that one exchange lists; further ones are counted only.
        fragments: Bytes of unfinished messages of all lanes.
        message: Bytes of one message put together from fragments. Nodes permit 1 GiB; a message of that
            size would be the whole memory of a reader.
        key: Characters of one key expression. A longer one cannot be said without an alias.
        misses: Batches in a row that cannot be read before a link whose start was not captured is given
            up as foreign. One may be a fault of a node, three are another protocol.
        reorder: Sequence numbers by which the links of one session may overtake each other.
    """

    links: int = 4096
    aliases: int = 32 * MIB
    exchanges: int = 64 * MIB
    ended: int = 4 * MIB
    answers: int = 64
    fragments: int = 128 * MIB
    message: int = 64 * MIB
    key: int = 64 * KIB
    misses: int = 3
    reorder: int = 64

"""What all ends of a tester share: history, links, time, seeded choices, bends, and the journal."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TypeVar

from conformance.config import REPLY_SECONDS, Credentials, Locator, Tls
from conformance.link import Links
from conformance.observe import History
from conformance.session.sequence import mask
from conformance.tester.bending import Bend, NamedBend, words_of
from conformance.tester.journal import Journal
from conformance.tester.steps import Bend as BendStep
from conformance.tester.steps import Note, Step
from scapy_layers.codes import Resolution

T = TypeVar("T")


class Fencing(StrEnum):
    """How a node can be asked whether it has handled all that was sent.

    ``query``: it ends a query that nothing matches. ``interest``: it closes the list of the tokens that there are.
    ``none``: neither.
    """

    QUERY = "query"
    INTEREST = "interest"
    NONE = "none"


def fresh_zid(rng: random.Random) -> bytes:
    """Returns a random 16-byte ZenohID.

    Every session gets its own: a node that still closes the last session of a ZenohID refuses the next.
    """
    return rng.randbytes(15) + bytes([rng.randint(1, 255)])


class Shared:
    """What ends share.

    Args:
        locator: The node's.
        rng: Makes all choices; one that differs from run to run when None.
        reply: T1 in seconds.
        tls: Certificates for links over TLS.

    Attributes:
        locator: The node's.
        reply: T1 in seconds.
        rng: Seeded; all choices of a test come from it.
        history: What was seen.
        links: Moves the bytes.
        on_send: Bends, applied in order to what all sessions send.
        journal: Writes down what is done, while somebody wants to know.
        fencing: How this node can be asked whether it is done.
        user: What sessions show that are not told otherwise; None for nothing.
        takes_part: We were there as peer or router, whom nodes ask what they are asked.
    """

    def __init__(
        self,
        locator: Locator | str,
        rng: random.Random | None = None,
        reply: float = REPLY_SECONDS,
        tls: Tls | None = None,
    ) -> None:
        self.locator = Locator.parse(locator) if isinstance(locator, str) else locator
        self.rng = rng or random.Random()
        self.reply = reply
        self.on_send: list[Bend] = []
        self.journal: Journal | None = None
        self.fencing = Fencing.QUERY
        self.user: Credentials | None = None
        self._tls = tls
        self._fresh()

    def _fresh(self) -> None:
        self.history = History()
        self.links = Links(self.history, self._tls)
        self.takes_part = False
        self._names = iter(string.ascii_lowercase)
        self._count = 0
        self._taken: set[str] = set()

    def begin_anew(self) -> None:
        """Ends all links and forgets what was seen; what is drawn from here on differs, ZenohIDs above all."""
        self.links.close()
        self.on_send.clear()
        self.journal = None
        self._fresh()

    def word(self) -> str:
        """Returns a chunk for a key that nobody else uses."""
        self._count += 1
        return f"{self.rng.getrandbits(48):012x}{self._count}"

    def choose(self, options: Sequence[T], what: str = "a choice") -> T:
        """Chooses by the seed, and says so in the history.

        Args:
            options: To choose from.
            what: What is chosen, in words.
        """
        at = self.rng.randrange(len(options))
        self.note(f"chosen: {what}: number {at + 1} of {len(options)}")
        return options[at]

    def note(self, text: str) -> None:
        """Leaves a remark in the history."""
        with self.doing(lambda: Note(text=text)):
            self.history.annotate(text)

    def bend(self, *bends: Bend) -> None:
        """Bends from now on what all sessions send, those that live and those to come."""
        for bend in bends:
            with self.doing(lambda bend=bend: bend_step(bend, "")):  # type: ignore[misc]
                self.on_send.append(bend)

    def doing(self, make: Callable[[], Step | None]) -> AbstractContextManager[None]:
        """Writes a step into the journal, if there is one."""
        return self.journal.doing(make) if self.journal is not None else nullcontext()

    def around(self, make: Callable[[tuple[Step, ...]], Step | None]) -> AbstractContextManager[None]:
        """Writes a step with others inside into the journal, if there is one."""
        return self.journal.around(make) if self.journal is not None else nullcontext()

    def first_number(self, wanted: int | None) -> int | None:
        """Returns the first sequence number of a session: the wanted one, None for one that the machine draws.

        While a journal is kept it is drawn here and stands in the script, because numbers in FRAMEs that a test
        makes by hand go by it. It fits every resolution, and lies far from the end of the range of each (reading R-42).
        """
        return (
            wanted
            if wanted is not None or self.journal is None
            else self.rng.randint(0, mask(Resolution.BITS_8) >> 2)
        )

    def next_name(self, wanted: str = "") -> str:
        """Returns a name for a link that no other has, the wanted one if it is free."""
        name = wanted or next((one for one in self._names if one not in self._taken), "")
        while not name or name in self._taken:
            self._count += 1
            name = f"{wanted or 'link'}{self._count}"
        self._taken.add(name)
        return name

    def fresh_zid(self) -> bytes:
        """Returns a random ZenohID by the seed."""
        return fresh_zid(self.rng)


def bend_step(bend: Bend, link: str) -> Step:
    """Returns the step of a script for a bend; one that is a function of a test can only be named."""
    if isinstance(bend, NamedBend):
        return BendStep(bend=bend, link=link)
    return Note(text=f"a bend that no script can hold: {words_of(bend)}")

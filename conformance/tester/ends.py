"""Our end of one link, without a session: whatever is sent leaves as it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from conformance.expect import check
from conformance.link import Link
from conformance.observe import Observation
from conformance.session.authentication import challenged, shown
from conformance.tester.hearing import Hearing
from conformance.tester.shared import Shared
from conformance.tester.steps import (
    Abort,
    Chunk,
    EndLink,
    ExpectEnd,
    ExpectRefusal,
    HalfClose,
    Hold,
    Raw,
    Release,
    Send,
)
from scapy_layers.message import Message
from scapy_layers.transport import Close, Init


class End(Hearing):
    """Our end of one link, without a session: whatever is sent leaves as it is, but for who we are.

    Attributes:
        link: The connection.
        inbox: Everything that came in, network messages after the FRAME they came in.
    """

    def __init__(self, tester: Shared, link: Link) -> None:
        super().__init__(tester, link.name)
        self.link = link
        link.on_batch = self.take

    @property
    def over(self) -> bool:
        """The link has ended."""
        return self.link.ended is not None

    # Stimulus --------------------------------------------------------------------------------------

    def send(self, *messages: Message | bytes, length: int | None = None) -> None:
        """Sends messages in one batch; INIT and OPEN show the user of the tester, if it has one and they show nothing.

        Args:
            messages: Messages, or bytes that stand for some.
            length: What the length prefix says; the truth when None.
        """
        with self._tester.doing(lambda: Send(link=self.name, messages=self.said(*messages), length=length)):
            batch = b"".join(bytes(message) for message in messages)
            self.link.send(self.showing(batch) if length is None else batch, length=length)

    def showing(self, batch: bytes) -> bytes:
        """Returns a batch in which INIT or OPEN shows the user of the tester; one that shows something as it is."""
        user = self._tester.user
        if user is None:
            return batch
        acks = (seen.message for seen in reversed(self.inbox) if isinstance(seen.message, Init))
        return shown(batch, user, next((challenged(bytes(ack))[1] for ack in acks if ack.A), None))

    def send_raw(self, data: bytes) -> None:
        """Sends bytes without a length prefix."""
        with self._tester.doing(lambda: Raw(link=self.name, hex=data.hex())):
            self.link.send_raw(data)

    def hold(self) -> None:
        """Keeps back what is sent from now on."""
        with self._tester.doing(lambda: Hold(link=self.name)):
            self.link.hold()
            self._tester.history.annotate(f"{self.name}: what is sent is kept back")

    def release(self, count: int | None = None) -> None:
        """Lets go what was kept back.

        Args:
            count: So many bytes of it; None for all, and nothing is kept back any more.
        """
        with self._tester.doing(lambda: Release(link=self.name, count=count)):
            self.link.release(count)
            how = "all" if count is None else f"{count} bytes"
            self._tester.history.annotate(f"{self.name}: {how} of what was kept back let go")

    def chunk(self, sizes: Iterable[int]) -> None:
        """Cuts what is sent from now on into pieces, each in a segment of its own.

        Args:
            sizes: Bytes of each piece, again from the start when they are used up; none: whole again.
        """
        pieces = tuple(sizes)
        with self._tester.doing(lambda: Chunk(link=self.name, sizes=pieces)):
            turn = itertools.cycle(pieces)
            self.link.chunk = (lambda: next(turn)) if pieces else None
            words = f"in pieces of {', '.join(map(str, pieces))} bytes" if pieces else "whole again"
            self._tester.history.annotate(f"{self.name}: what is sent leaves {words}")

    def half_close(self) -> None:
        """Says that no more bytes come from us; still reads."""
        with self._tester.doing(lambda: HalfClose(link=self.name)):
            self.link.half_close()
            self._tester.history.annotate(f"{self.name}: our side is closed for writing")

    def abort(self) -> None:
        """Ends the link with a reset."""
        with self._tester.doing(lambda: Abort(link=self.name)):
            self.link.abort()

    # Expectation -----------------------------------------------------------------------------------

    def expect_end(self, *, within: float | None = None) -> None:
        """Waits until the node ends the link.

        Raises:
            Unmet: It lives on.
        """
        with self._tester.doing(lambda: ExpectEnd(link=self.name, within=within)):
            seconds = self._tester.reply if within is None else within
            ended = self._tester.links.wait(lambda: self.link.ended is not None, seconds)
            check(ended, "end of the link", "the link lives on")
            self._tester.history.annotate("expected end of the link: met")

    def expect_refusal(
        self, reason: int | None = None, *, unless: type[Message] = Init, within: float | None = None
    ) -> Close:
        """Waits for CLOSE in place of the next handshake message.

        Args:
            reason: The reason it must have; None for any.
            unless: The message that must not come.
            within: Seconds; T1 when None.

        Raises:
            Unmet: No CLOSE, or another reason, or the message that must not come.
        """
        with self._tester.doing(lambda: ExpectRefusal(link=self.name, reason=reason, unless=unless.__name__)):
            wanted = {} if reason is None else {"reason": reason}
            found = self._await(lambda seen: isinstance(seen.message, Close | unless), within)
            close: Close = self._judge(found, Close, wanted)
            return close

    def close(self) -> None:
        """Ends the link in order, without CLOSE."""
        with self._tester.doing(lambda: EndLink(link=self.name)):
            self.link.close()

    def take(self, seen: Observation) -> None:
        """Takes in what came. Called by the link, and with what came before this end was there."""
        self._hear(seen)

"""The end that others connect to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from conformance.config import Locator
from conformance.errors import Unmet
from conformance.expect import check
from conformance.link import Link
from conformance.observe import Observation
from conformance.session.machine import SessionConfig
from conformance.session.negotiate import Offer
from conformance.tester.ends import End
from conformance.tester.session import SessionEnd, TesterPolicy, TesterSession, offer_in_script
from conformance.tester.shared import Shared, fresh_zid
from conformance.tester.steps import Accept, EndLink
from scapy_layers.codes import WhatAmI

E = TypeVar("E", bound=End)


class ListenerEnd:
    """Waits for links. Made by ``Tester.listen``.

    Attributes:
        name: Of the listener; its links have names of their own.
        locator: Where it listens, with the port that the system chose.
    """

    def __init__(self, tester: Shared, locator: Locator, name: str) -> None:
        self.name = name
        self._tester = tester
        self._waiting: deque[_Caller] = deque()
        self._listener = tester.links.listen(locator, self._on_link, name)
        self.locator: Locator = self._listener.locator

    def accept(
        self,
        within: float | None = None,
        *,
        whatami: int = WhatAmI.ROUTER,
        zid: bytes | None = None,
        lease: float = 10.0,
        cookie: bytes | None = None,
        initial_sn: int | None = None,
        users: dict[bytes, bytes] | None = None,
        **offer: Any,
    ) -> SessionEnd:
        """Takes the next link that somebody made; the handshake has not begun.

        Args:
            within: Seconds to wait; T1 when None.
            whatami: Our role.
            zid: Our ZenohID; a fresh one when None.
            lease: Seconds.
            cookie: The challenge of InitAck; a random one when None.
            initial_sn: The first sequence number; a random one when None.
            users: Passwords of the users that may connect; None when anybody may.
            offer: Fields of ``Offer``: the most that InitAck accepts.

        Raises:
            Unmet: Nobody connects.
        """
        ours = fresh_zid(self._tester.rng) if zid is None else zid
        initial_sn = self._tester.first_number(initial_sn)
        caller = self._next(within)

        def step() -> Accept:
            return Accept(
                link=caller.link.name,
                listener=self.name,
                within=within,
                whatami=int(whatami),
                zid=zid.hex() if zid else "",
                lease=lease,
                initial_sn=initial_sn,
                cookie=(cookie or b"").hex(),
                users={
                    user.decode(errors="replace"): word.decode(errors="replace")
                    for user, word in (users or {}).items()
                },
                offer=offer_in_script(offer),
            )

        with self._tester.doing(step):
            config = SessionConfig(zid=ours, whatami=whatami, lease=lease, offer=Offer(**offer), users=users)
            policy = TesterPolicy(initial_sn, cookie)
            self._tester.takes_part |= whatami != WhatAmI.CLIENT
            end = SessionEnd(
                self._tester, caller.link, TesterSession(config, rng=self._tester.rng, policy=policy)
            )
            end.accepting()
            return caller.hand_over(end)

    def accept_link(self, within: float | None = None) -> End:
        """Takes the next link that somebody made, without a session.

        Raises:
            Unmet: Nobody connects.
        """
        caller = self._next(within)
        with self._tester.doing(
            lambda: Accept(link=caller.link.name, listener=self.name, session=False, within=within)
        ):
            return caller.hand_over(End(self._tester, caller.link))

    @property
    def called(self) -> bool:
        """A link waits to be accepted."""
        return bool(self._waiting)

    def expect_no_link(self, fence: Callable[[], object]) -> None:
        """Runs a fence, and judges that nobody connected before its answer.

        Raises:
            Unmet: Somebody did.
        """
        fence()
        check(not self._waiting, "no link before the fence's answer", "a link")

    def close(self) -> None:
        """Takes no more links; those that were accepted live on."""
        with self._tester.doing(lambda: EndLink(link=self.name)):
            self._listener.close()

    def _on_link(self, link: Link) -> None:
        self._waiting.append(_Caller(link))

    def _next(self, within: float | None) -> _Caller:
        seconds = self._tester.reply if within is None else within
        if not self._tester.links.wait(lambda: bool(self._waiting), seconds):
            raise Unmet(f"a link to {self.locator.proto}", "nobody connects")
        return self._waiting.popleft()


class _Caller:
    """A link that was not accepted yet, and what came over it."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._came: list[Observation] = []
        link.on_batch = self._came.append

    def hand_over(self, end: E) -> E:
        """Gives an end what came before it was there; returns it."""
        for seen in self._came:
            end.take(seen)
        return end

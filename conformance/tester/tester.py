"""Makes ends of every kind, and writes down what happened at them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance.config import Credentials, Locator
from conformance.errors import NoRoom, Unmet
from conformance.link import Link
from conformance.session.group import JOIN_BATCH_SIZE, Group, GroupConfig
from conformance.session.machine import SessionConfig
from conformance.session.negotiate import Offer
from conformance.tester import steps
from conformance.tester.ends import End
from conformance.tester.group import GroupEnd
from conformance.tester.journal import Journal
from conformance.tester.listener import ListenerEnd
from conformance.tester.scout import ResponderEnd, ScoutEnd
from conformance.tester.session import SessionEnd, TesterPolicy, TesterSession, offer_in_script
from conformance.tester.shared import Shared, fresh_zid
from conformance.tester.writing import write
from scapy_layers.codes import CloseReason, WhatAmI
from scapy_layers.transport import Close, Init


class Tester(Shared):
    """Makes ends and holds what they share: history, links, time, seeded choices, bends.

    Attributes:
        locator: The node's.
        reply: T1 in seconds.
        rng: Seeded; all choices of a test come from it.
        on_send: Bends, applied in order to what sessions send.
        as_written: Sessions count to 2^bits - 1, see ``Node``.
    """

    as_written = False

    # Begins like a class of tests, which pytest would collect.
    __test__ = False

    def _fresh(self) -> None:
        super()._fresh()
        self._had_sessions = False

    # Links that we make --------------------------------------------------------------------------------

    def link(self, locator: Locator | str | None = None, *, name: str = "") -> End:
        """Makes a link without a session.

        Args:
            locator: Where to; the node's when None.
            name: Of the link, in history and scripts; the next letter when empty.

        Raises:
            LinkFailed: The node cannot be reached.
        """
        name = self.next_name(name)
        with self.doing(lambda: steps.Connect(link=name, locator=_text(locator))):
            return End(self, self._connect(locator, name))

    def starting(
        self,
        *,
        whatami: int = WhatAmI.CLIENT,
        zid: bytes | None = None,
        lease: float = 10.0,
        locator: Locator | str | None = None,
        name: str = "",
        initial_sn: int | None = None,
        user: tuple[bytes, bytes] | None = None,
        **offer: Any,
    ) -> SessionEnd:
        """Makes a link with a session machine that has not said anything yet.

        Args:
            whatami: Our role.
            zid: Our ZenohID; a fresh one when None.
            lease: Seconds.
            locator: Where to; the node's when None.
            name: Of the link; the next letter when empty.
            initial_sn: The first sequence number; a random one when None.
            user: User and password that we show; those of the tester when None.
            offer: Fields of ``Offer``: ``fsn``, ``rid``, ``batch_size``, ``qos``, ``patch``, ``lowlatency``,
                ``compression``, ``region``.
        """
        ours = fresh_zid(self.rng) if zid is None else zid
        initial_sn = self.first_number(initial_sn)
        name = self.next_name(name)
        said: dict[str, Any] = {
            "link": name,
            "locator": _text(locator),
            "whatami": int(whatami),
            "zid": zid.hex() if zid else "",
            "lease": lease,
            "initial_sn": initial_sn,
            "user": user[0].decode(errors="replace") if user else "",
            "password": user[1].decode(errors="replace") if user else "",
            "offer": offer_in_script(offer),
        }
        with self.doing(lambda: steps.Start(**said)):
            config = SessionConfig(
                zid=ours,
                whatami=whatami,
                lease=lease,
                offer=Offer(**offer),
                credentials=Credentials(user=user[0], password=user[1]) if user else self.user,
            )
            self.takes_part |= whatami != WhatAmI.CLIENT
            session = TesterSession(
                config, rng=self.rng, policy=TesterPolicy(initial_sn, as_written=self.as_written)
            )
            return SessionEnd(self, self._connect(locator, name), session)

    def session(self, **config: Any) -> SessionEnd:
        """Makes a link and opens a session; arguments as in ``starting``.

        Raises:
            NoRoom: The node says that it has no room for one more session, and had another one of ours.
            Unmet: The node does not go along.
        """
        end = self.starting(**config)
        try:
            end.open()
        except Unmet as unmet:
            said = (seen.message for seen in end.inbox)
            full = any(isinstance(one, Close) and one.reason == CloseReason.MAX_SESSIONS for one in said)
            # One that is over may not have been noticed yet; whether it ever is, the canary behind the test shows.
            if full and self._had_sessions:
                raise NoRoom(unmet.expected, unmet.seen, unmet.detail) from unmet
            raise
        self._had_sessions = True
        return end

    # Links that others make ------------------------------------------------------------------------------

    def listen(self, locator: Locator | str = "tcp/127.0.0.1:0", *, name: str = "") -> ListenerEnd:
        """Waits for links of others.

        Args:
            locator: Where; port 0 for one of the system's choice.
            name: Of the listener; the next letter when empty.

        Raises:
            LinkFailed: Nobody can listen there.
        """
        name = self.next_name(name)
        with self.doing(lambda: steps.Listen(link=name, locator=_text(locator))):
            return ListenerEnd(self, _locator(locator, listening=True), name)

    # Datagrams ---------------------------------------------------------------------------------------------

    def scout(self, locator: Locator | str, *, name: str = "") -> ScoutEnd:
        """Makes an end that scouts, at a port that is in no group.

        Args:
            locator: A node or a group: ``udp/239.255.0.1:7446#iface=lo``.
            name: Of the end; the next letter when empty.
        """
        name = self.next_name(name)
        with self.doing(lambda: steps.OpenScout(link=name, locator=_text(locator))):
            return ScoutEnd(self, _locator(locator), name)

    def responder(
        self,
        locator: Locator | str,
        *answers: str,
        name: str = "",
        zid: bytes | None = None,
        whatami: int = WhatAmI.ROUTER,
    ) -> ResponderEnd:
        """Makes an end that hears the SCOUTs of a group.

        Args:
            locator: The group.
            answers: Locators of the HELLO that answers each SCOUT at once; without any, a test answers.
            name: Of the end; the next letter when empty.
            zid: Our ZenohID; a fresh one when None.
            whatami: Our role.
        """
        name = self.next_name(name)
        said: dict[str, Any] = {
            "link": name,
            "locator": _text(locator),
            "answers": answers or None,
            "whatami": int(whatami),
            "zid": zid.hex() if zid else "",
        }
        with self.doing(lambda: steps.OpenResponder(**said)):
            ours = fresh_zid(self.rng) if zid is None else zid
            end = ResponderEnd(self, _locator(locator), name, ours, whatami)
            if answers:
                end.answers(*answers)
            return end

    def group(
        self,
        locator: Locator | str,
        *,
        name: str = "",
        whatami: int = WhatAmI.PEER,
        zid: bytes | None = None,
        lease: float = 10.0,
        join: bool = True,
        **offer: Any,
    ) -> GroupEnd:
        """Makes an end in a multicast group.

        Args:
            locator: The group.
            name: Of the end; the next letter when empty.
            whatami: Our role.
            zid: Our ZenohID; a fresh one when None.
            lease: Seconds.
            join: Sends the first JOIN at once.
            offer: Fields of ``Offer``; a group's batch size is 8192 unless given.
        """
        name = self.next_name(name)
        said: dict[str, Any] = {
            "link": name,
            "locator": _text(locator),
            "whatami": int(whatami),
            "zid": zid.hex() if zid else "",
            "lease": lease,
            "offer": offer_in_script(offer),
            "join": join,
        }
        with self.doing(lambda: steps.OpenGroup(**said)):
            config = GroupConfig(
                zid=fresh_zid(self.rng) if zid is None else zid,
                whatami=whatami,
                lease=lease,
                offer=Offer(**{"batch_size": JOIN_BATCH_SIZE, **offer}),
            )
            self.takes_part |= whatami != WhatAmI.CLIENT
            end = GroupEnd(self, _locator(locator), name, Group(config, rng=self.rng, policy=TesterPolicy()))
            if join:
                end.join()
            return end

    # The rest ------------------------------------------------------------------------------------------------

    def init(self, **fields: Any) -> Init:
        """Returns an InitSyn with a fresh ZenohID; fields given win."""
        return Init(**{"zid": fresh_zid(self.rng), **fields})

    def advance(self, seconds: float) -> None:
        """Lets time pass: bytes move, sessions keep themselves alive."""
        with self.doing(lambda: steps.Advance(seconds=seconds)):
            self.links.wait(lambda: False, seconds)

    def record(self, seed: int = 0) -> Journal:
        """Writes down as a script what is done from here on, for good."""
        self.journal = Journal(seed)
        return self.journal

    @contextmanager
    def recording(self, seed: int = 0) -> Iterator[Journal]:
        """Writes down what is done from here on as a script: ``journal.script()``."""
        before, self.journal = self.journal, Journal(seed)
        try:
            yield self.journal
        finally:
            self.journal = before

    def write(self, folder: Path, name: str, *, title: str = "", remarks: list[str] | None = None) -> Path:
        """Writes all that was seen into a folder: rows, and a capture with remarks that Wireshark shows.

        Args:
            folder: ``observations.jsonl`` and ``captures/`` are made in it, or added to; a ``run.json`` if it has none.
            name: What was tried; the capture is called after it.
            title: Stands at the first packet; the name when empty.
            remarks: Stand at the last packet.

        Returns:
            The capture.

        Raises:
            OSError: The folder cannot be written.
        """
        return write(self.history, folder, name, node=str(self.locator), title=title, remarks=remarks)

    def close(self) -> None:
        """Ends all links."""
        self.links.close()

    def _connect(self, locator: Locator | str | None, name: str) -> Link:
        where = self.locator if locator is None else _locator(locator)
        return self.links.connect(where, name)


def _locator(locator: Locator | str, *, listening: bool = False) -> Locator:
    return Locator.parse(locator, listening=listening) if isinstance(locator, str) else locator


def _text(locator: Locator | str | None) -> str:
    return str(locator or "")

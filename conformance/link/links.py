"""The links of a test or a node, and the loop that serves them."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from conformance.config import CONNECT_SECONDS, Locator, Tls
from conformance.errors import LinkFailed, UsageError
from conformance.link.addresses import connected_socket, endpoints_of, listening_socket
from conformance.link.datagram import DatagramLink, DatagramSocket
from conformance.link.framing import Framing, Prefixed
from conformance.link.group import Datagrams
from conformance.link.link import Home, Link
from conformance.link.listener import DatagramListener, Listener, OnLink, StreamListener
from conformance.link.reaching import OnFailed, Reaching
from conformance.link.stream import StreamLink
from conformance.observe import History
from scapy_layers.batch import PREFIX
from scapy_layers.codes import Kind


class Links(Home):
    """Makes links and serves them in one loop.

    Args:
        history: Where everything is recorded. None: nothing is kept, and batches leave at the end of a turn.
        tls: Certificates for tls locators.

    Attributes:
        links: Those that live.
    """

    def __init__(self, history: History | None, tls: Tls | None = None) -> None:
        super().__init__(history)
        self._tls = tls
        self._contexts: dict[bool, ssl.SSLContext] = {}

    def connect(self, locator: Locator, name: str, seconds: float = CONNECT_SECONDS) -> Link:
        """Makes a link that is ready for batches. While TLS or WebSocket shake hands the loop serves the others.

        Args:
            locator: Where.
            name: In the history.
            seconds: How long the other end may take to answer, and again to shake hands.

        Raises:
            LinkFailed: Nobody listens there, nothing answers in time, or the handshake fails.
            UsageError: The locator needs a certificate or a package that is not there.
        """
        framing = self._framing(locator, accepting=False)
        made = connected_socket(locator, seconds)
        if framing is None:
            shared = DatagramSocket(self, made, None)
            link = DatagramLink(self, name, locator, shared, None, lambda: endpoints_of(made, locator))
            shared.carry(link)
            return link
        stream = StreamLink(self, name, locator, made, framing, lambda: endpoints_of(made, locator))
        if not framing.opened:
            stream.start()
            done = self.wait(lambda: framing.opened or stream.ended is not None, seconds)
            if stream.ended is not None or not done:
                stream.abort()
                why = stream.ended if done else "no answer in time"
                raise LinkFailed(f"no link to {locator} ({why}); does it speak {locator.proto}?")
        return stream

    def reach(
        self,
        locator: Locator,
        name: str,
        on_link: OnLink,
        on_failed: OnFailed,
        seconds: float = CONNECT_SECONDS,
    ) -> Reaching | None:
        """Makes a link as ``connect`` does, but without waiting; only a name that must be looked up takes time.

        Args:
            locator: Where.
            name: In the history.
            on_link: Called from the loop when the link is ready for batches.
            on_failed: Called from the loop with the reason when there is none.
            seconds: How long all of it may take.

        Returns:
            What can be cancelled; None on udp, where there is nothing to wait for.

        Raises:
            UsageError: The locator needs a certificate or a package that is not there.
        """
        framing = self._framing(locator, accepting=False)
        if framing is not None:
            return Reaching(self, locator, name, framing, on_link, on_failed, seconds)

        def at_once() -> None:
            try:
                link = self.connect(locator, name)
            except LinkFailed as error:
                on_failed(str(error))
            else:
                on_link(link)

        self.call_later(at_once)
        return None

    def listen(self, locator: Locator, on_link: OnLink, name: str = "in") -> Listener:
        """Takes links in.

        Args:
            locator: Where; port 0 lets the system choose.
            on_link: Called with each link when it is ready for batches. On udp that is with its first datagram.
            name: Links are called by it and a number: ``in1``, ``in2``.

        Raises:
            LinkFailed: The address is taken, or not ours.
            UsageError: The locator needs a certificate or a package that is not there.
        """

        def framing() -> Framing:
            made = self._framing(locator, accepting=True)
            assert made is not None
            return made

        if locator.proto != "udp":
            framing()  # what is missing shows now, not with the first connection
        bound, true = listening_socket(locator)
        if locator.proto == "udp":
            return DatagramListener(self, true, bound, on_link, name)
        return StreamListener(self, true, bound, framing, on_link, name)

    def datagrams(self, locator: Locator, name: str, *, group: bool, kind: Kind | None = None) -> Datagrams:
        """Makes UDP sockets for scouting or a multicast transport.

        Args:
            locator: A group, ``udp/224.0.0.224:7446#iface=lo``, or an address.
            name: In the history.
            group: What is sent to the locator is heard: membership in the group, or the address is bound. Otherwise
                only what is sent to ``Datagrams.address``, such as HELLO as answer to a SCOUT.
            kind: SCOUTING for SCOUT and HELLO; None for batches of a multicast transport.

        Raises:
            LinkFailed: No such group, interface or address here.
        """
        return Datagrams(self, locator, name, listens=group, kind=kind)

    def close(self) -> None:
        """Ends everything that still lives."""
        if self.closed:
            return
        for link in list(self.links):
            link.close()
        while self.leftovers:
            for left in list(self.leftovers):
                left.close()
        self.shut()

    def _framing(self, locator: Locator, *, accepting: bool) -> Framing | None:
        """Returns how batches stand on a new link; None: each is a datagram."""
        match locator.proto:
            case "udp":
                return None
            case "tls":
                return self._encrypted(locator, accepting=accepting)
            case "ws":
                return _websocket(locator, accepting=accepting)
            case _:
                framing = Prefixed()
                framing.prefix = PREFIX
                return framing

    def _encrypted(self, locator: Locator, *, accepting: bool) -> Framing:
        from conformance.link import tls

        context = self._contexts.get(accepting)
        if context is None:
            make: Callable[[Tls | None], ssl.SSLContext] = (
                tls.server_context if accepting else tls.client_context
            )
            context = self._contexts[accepting] = make(self._tls)
        return tls.Encrypted(context, None if accepting else locator.host)


def _websocket(locator: Locator, *, accepting: bool) -> Framing:
    try:
        from conformance.link.websocket import WebSocket
    except ImportError:
        raise UsageError(
            f"{locator}: links over WebSocket need the package websockets; install the extra 'conformance'"
        ) from None
    return WebSocket(None if accepting else locator.bare.partition("/")[2])

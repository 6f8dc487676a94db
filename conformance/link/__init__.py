"""Sockets: one loop moves the bytes of all links and records them.

``links.Links`` makes everything; ``stream.StreamLink`` and ``datagram.DatagramLink`` are the two kinds of ``link.Link``.
How batches stand in a stream is a ``framing.Framing``, which knows no socket.
"""

from conformance.link.group import Datagrams
from conformance.link.link import Link
from conformance.link.links import Links
from conformance.link.listener import Listener
from conformance.link.loop import Timer
from conformance.link.reaching import Reaching

__all__ = ["Datagrams", "Link", "Links", "Listener", "Reaching", "Timer"]

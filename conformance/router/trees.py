"""The network as the rest of the router sees it, with ``OWN`` for what begins here."""

from __future__ import annotations

from conformance.router.network import Network
from conformance.router.tables import OWN


class Trees:
    """Remembers the answers of a network until it changes."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._children: dict[bytes, frozenset[int]] = {}
        self._shape = network.shape()

    def news(self) -> bool:
        """Tells whether anything goes another way than when this was asked last."""
        shape = self._network.shape()
        if shape == self._shape:
            return False
        self._shape = shape
        self._children.clear()
        return True

    def children(self, source: bytes) -> frozenset[int]:
        """Returns the faces to which what began at a node goes on from here."""
        found = self._children.get(source)
        if found is None:
            found = self._children[source] = frozenset(self._network.children(source or self._network.zid))
        return found

    def node_id(self, source: bytes) -> int:
        """Returns our number of a node; 0 for ourselves."""
        return self._network.node_id(source) if source else 0

    def ours(self, node: bytes) -> bool:
        """Tells whether what begins at a node counts as ours: it says nothing about its links, we speak for it."""
        return self._network.speaks_for(node)

    def toward(self, origin: bytes, node: bytes) -> int | None:
        """Returns the face over which what began at one node reaches another; None when that is not by us."""
        return self._network.toward(origin or self._network.zid, node)

    def reached(self) -> set[bytes]:
        """Returns the nodes that can be reached."""
        return set(self._network.nodes())

    def known(self) -> set[bytes]:
        """Returns all nodes, those out of reach too that we may come to reach again."""
        return {node.zid for node in self._network.known()}

    def upstream(self, source: bytes) -> int | None:
        """Returns the face over which what began at a node comes to us; None when it does not."""
        return self._network.upstream(source)

    def source(self, face: int, node_id: int) -> bytes | None:
        """Returns the node at which a message began, by the NodeId that a neighbour gave; ``OWN`` for ourselves."""
        source = self._network.source(face, node_id)
        return OWN if source == self._network.zid else source

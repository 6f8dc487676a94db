"""What follows from the records of all nodes: who can be reached, and which way everything goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.router.spanning import Links, parents


@dataclass(slots=True)
class Node:
    """What is known of one node.

    Attributes:
        zid: Wire bytes of its ZenohID.
        whatami: Its role.
        sn: Version of its record; 0 while we know no more than its name.
        locators: Where it listens; None when nobody said.
        links: The nodes it says it has links with, each with the weight it sets (0 for none).
        gateway: It says it is the way into another region.
        bare: The version was told without links, as peers do about others.
    """

    zid: bytes
    whatami: int
    sn: int = 0
    locators: tuple[str, ...] | None = None
    links: dict[bytes, int] = field(default_factory=dict)
    gateway: bool = False
    bare: bool = False


@dataclass(slots=True)
class Ways:
    """The part of one source's tree that we are next to.

    Attributes:
        upstream: The face over which what began at the source comes to us; None when it does not.
        towards: The face behind which each node there lies.
        faces: The faces that occur, each once.
    """

    upstream: int | None = None
    towards: dict[bytes, int] = field(default_factory=dict)
    faces: list[int] = field(default_factory=list)


class Graph:
    """The graph at one moment, seen from one node; made anew for every version.

    Args:
        own: Wire bytes of our ZenohID.
        nodes: What is known of each node, ourselves among them.
        links: Lengths of links that are known already.
        peers: The nodes are peers, of which some tell no links.

    Attributes:
        leaves: Nodes that never told anything, each with the node it hangs on.
        direct: Neighbours that tell who they are, but no links.
        reached: All that can be reached, ourselves first.
    """

    def __init__(self, own: bytes, nodes: Mapping[bytes, Node], links: Links, *, peers: bool) -> None:
        self._own = own
        self._lengths: dict[bytes, dict[bytes, float]] = {zid: {} for zid, node in nodes.items() if node.sn}
        self.direct: list[bytes] = []
        silent: dict[bytes, list[bytes]] = {}
        for zid, near in self._lengths.items():
            for other, weight in nodes[zid].links.items():
                far = nodes.get(other)
                if far is None or other == zid:
                    continue
                if far.sn == 0:
                    silent.setdefault(other, []).append(zid)
                elif zid in far.links:
                    near[other] = links.length(zid, other, max(weight, far.links[zid]))
                elif peers and zid == own and not far.links:
                    self.direct.append(other)
        links.keep(self._lengths)
        inside = parents(self._lengths, own)
        holders = {leaf: [zid for zid in those if zid in inside] for leaf, those in silent.items()}
        self.leaves = {leaf: min(those) for leaf, those in holders.items() if those}
        self.reached = [*inside, *self.leaves, *self.direct]

    def is_like(self, other: Graph) -> bool:
        """Tells whether everything goes the same ways as in another graph."""
        return (self._lengths, self.leaves, self.direct) == (other._lengths, other.leaves, other.direct)

    def ways(self, source: bytes, faces: Mapping[bytes, int]) -> Ways:
        """Returns which ways lead on from us for what began at a node.

        Args:
            source: Wire bytes of the ZenohID at which it began.
            faces: The face of each neighbour in the graph.
        """
        # What we hold begins where we are; what others hold is theirs to send on.
        root = self._own if self.leaves.get(source) == self._own else source
        tree = parents(self._lengths, root) if root in self._lengths else {}
        ways = Ways()
        if self._own in tree:
            ways.upstream = faces.get(tree[self._own] or b"")
            for zid, before in tree.items():
                face = faces.get(zid) if before == self._own else ways.towards.get(before or b"")
                if face is not None:
                    ways.towards[zid] = face
            for leaf, holder in self.leaves.items():
                if holder in ways.towards:
                    ways.towards[leaf] = ways.towards[holder]
        here = self._own in tree or source in self.direct
        ends = [leaf for leaf, holder in self.leaves.items() if here and holder == self._own]
        if root == self._own:
            ends += self.direct
        ways.towards.update({zid: faces[zid] for zid in ends if zid in faces and zid != source})
        ways.faces = sorted(set(ways.towards.values()))
        return ways

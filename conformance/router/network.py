"""The graph of routers (or of peers), which each node builds from what all of them say about their links.

Every node tells its neighbours in LINKSTATE who it is and with whom it has links, and passes on what it hears
about others, newer versions only: so all come to know the same graph. A link counts when both of its ends say
that it is there. From the graph follows for each node a tree of shortest paths, the same on all nodes, along
which everything travels that begins at that node: each other node is reached once, and nothing goes in circles.

Two kinds of neighbours say nothing about their links and get a place all the same:

- One that never sent LINKSTATE is a leaf. It hangs on one of the nodes that have a link with it, on the one
  with the smallest ZenohID, and that node speaks for it.
- Peers that look for each other by themselves tell who they are, but not their links. What begins here goes to
  them, and what begins at them ends here: they reach the others without us.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from conformance.router import linkstates
from conformance.router.graph import Graph, Node, Ways
from conformance.router.linkstates import MAX_LOCATOR, MAX_LOCATORS, MAX_PSID, MAX_SN, Record
from conformance.router.spanning import Links
from scapy_layers.codes import WhatAmI
from scapy_layers.network import NetworkOam

log = logging.getLogger(__name__)

MAX_NODES = 256
"""Nodes in the graph, ourselves included. Trees are worked out for each source; larger networks are built of regions."""

MAX_ALL_LINKS = 8192
"""Links of all records together; more would make every change expensive."""

MAX_LOST = 128
"""Nodes kept although nothing leads to them. A record can come before the one that leads to its node, and is not
sent again; kept for long they would only fill the memory."""

MAX_RECLAIMS = 64
"""Times we outdo a record about ourselves that is newer than ours. It is left over from an earlier life of this
node, or there are two with one ZenohID, which would outdo each other for ever."""


@dataclass(slots=True)
class Neighbour:
    """The other end of a session.

    Attributes:
        zid: Wire bytes of its ZenohID.
        whatami: Its role.
        takes_part: It is a node of the graph; the others are only greeted.
        names: The nodes its indices mean.
        named: The nodes of which it knows what our index is.
        told: For each node the newest version that went over this session, in either direction.
        pending: Nodes whose records are to be sent, in order.
        greeting: A message is owed even if it has no record.
        spoke: It has told its own record.
        overtaken: What it is to be told about itself: it began anew, and does not know that others still have a
            later version of its record, from an earlier life. What it says is right, only its version is not.
        index: What we call it when it is not in the graph and we tell it that we have a link with it.
        friends: With whom it says it has links, when it is not in the graph.
    """

    zid: bytes
    whatami: int
    takes_part: bool
    names: dict[int, bytes] = field(default_factory=dict)
    named: set[bytes] = field(default_factory=set)
    told: dict[bytes, int] = field(default_factory=dict)
    pending: dict[bytes, None] = field(default_factory=dict)
    greeting: bool = True
    spoke: bool = False
    overtaken: Node | None = None
    index: int = 0
    friends: frozenset[bytes] = frozenset()


class Network:
    """The graph as one node sees it, without I/O.

    Args:
        zid: Wire bytes of our ZenohID.
        whatami: Our role; nodes of the same role take part in the graph.
        locators: Where we listen, told to everybody.

    Attributes:
        version: Grows with every change of what the graph is made of.
        zid: Wire bytes of our ZenohID.
    """

    def __init__(self, zid: bytes, whatami: int, locators: Sequence[str] = ()) -> None:
        self.version = 0
        self.zid = zid
        self._whatami = whatami
        self._own = Node(zid, whatami, sn=1, locators=_fitting(locators))
        self._nodes: dict[bytes, Node] = {zid: self._own}
        self._index: dict[bytes, int] = {zid: 0}
        self._last_index = 0
        self._neighbours: dict[int, Neighbour] = {}
        self._lost: dict[bytes, None] = {}
        self._reclaims = 0
        self._graph: Graph | None = None
        self._made_of = 0
        self._shape = 0
        self._known_lengths = Links()
        self._there: dict[bytes, int] = {}
        self._ways: dict[bytes, Ways] = {}

    # Neighbours ------------------------------------------------------------------------------------

    def up(self, face: int, zid: bytes, whatami: int) -> None:
        """Takes in a new neighbour, and owes it what we know.

        One with another role than ours takes no part: a peer gets a list of no nodes from a router, a router
        gets the peer's own record, and what they tell about nodes stays out of the graph.
        """
        if zid == self.zid or face in self._neighbours:
            log.info("face %d: a neighbour %s cannot be added to the graph", face, zid.hex())
            return
        neighbour = Neighbour(zid, whatami, takes_part=whatami == self._whatami, names={0: zid})
        if not neighbour.takes_part:
            self._neighbours[face] = neighbour
            if self._whatami == WhatAmI.PEER:
                neighbour.index = self._free_index()
                neighbour.pending[self.zid] = None
            return
        node = self._node(zid, whatami)
        if node is None:
            log.info("face %d: the graph is full, %s takes no part", face, zid.hex())
            neighbour.takes_part = False
            self._neighbours[face] = neighbour
            return
        if zid not in self._graph_now().reached:
            # A record of it that we still have is one of an earlier life.
            self._forget_record(node)
        self._neighbours[face] = neighbour
        neighbour.pending.update(dict.fromkeys(self._nodes))
        self._reclaims = 0
        self._own.links[zid] = 0
        self._renew_own()

    def down(self, face: int) -> None:
        """Takes out a neighbour whose session has ended."""
        neighbour = self._neighbours.pop(face, None)
        if neighbour is None or not neighbour.takes_part:
            return
        if self._is_neighbour(neighbour.zid):
            # Its other session is the way to it now.
            self.version += 1
            return
        self._own.links.pop(neighbour.zid, None)
        self._reclaims = 0
        self._renew_own()

    def receive(self, face: int, oam: NetworkOam) -> None:
        """Takes LINKSTATE of a neighbour; what makes no sense is left out. Never raises."""
        neighbour = self._neighbours.get(face)
        if neighbour is None or not linkstates.is_linkstate(oam):
            return
        records = linkstates.read(oam)
        if isinstance(records, str):
            log.info("face %d: LINKSTATE ignored: %s", face, records)
            return
        believed = []
        for record in records:
            why = linkstates.why_absurd(record) or self._name(neighbour, record)
            if why:
                log.info("face %d: record of LINKSTATE ignored: %s", face, why)
            else:
                believed.append(record)
        for record in believed:
            zid = neighbour.names.get(record.psid)
            if zid is None:
                log.info("face %d: record of LINKSTATE ignored: no node has index %d", face, record.psid)
            elif neighbour.takes_part:
                self._take(face, neighbour, zid, record)
            elif zid == neighbour.zid:
                neighbour.friends = frozenset(filter(None, map(neighbour.names.get, record.links)))
        self._drop_lost()

    def take(self) -> list[tuple[int, NetworkOam]]:
        """Returns what is to be sent to which neighbour, and forgets it."""
        out = []
        for face, neighbour in self._neighbours.items():
            if not neighbour.pending and not neighbour.greeting and not neighbour.overtaken:
                continue
            records = list(self._records(neighbour))
            if records or neighbour.greeting:
                out.append((face, linkstates.write(records)))
            neighbour.greeting = False
        return out

    # What follows from it --------------------------------------------------------------------------

    def source(self, face: int, node_id: int) -> bytes | None:
        """Returns the node that a NodeId of this neighbour means; the neighbour itself for 0 or an unknown one.

        It can be ourselves: then a message of ours has come back, and must not be sent on.
        """
        neighbour = self._neighbours.get(face)
        return None if neighbour is None else neighbour.names.get(node_id, neighbour.zid)

    def node_id(self, zid: bytes) -> int:
        """Returns our own index of a node, for NodeId; 0 for ourselves and for those we speak for."""
        return 0 if self.speaks_for(zid) else self._index.get(zid, 0)

    def speaks_for(self, zid: bytes) -> bool:
        """Tells whether what begins at a node counts as ours: we are it, or it never told anything and hangs on us."""
        return zid == self.zid or self._graph_now().leaves.get(zid) == self.zid

    def children(self, source: bytes) -> list[int]:
        """Returns the faces to which what began at a node goes on from here."""
        return list(self._ways_of(source).faces)

    def toward(self, source: bytes, zid: bytes) -> int | None:
        """Returns the face behind which a node lies on the way from a source; None when that way is not ours."""
        return self._ways_of(source).towards.get(zid)

    def upstream(self, source: bytes) -> int | None:
        """Returns the face over which what began at a node comes to us; None when it does not."""
        return self._ways_of(source).upstream

    def shape(self) -> int:
        """Returns a number that grows whenever something goes another way than before."""
        self._graph_now()
        return self._shape

    def nodes(self) -> list[bytes]:
        """Returns the nodes that can be reached, ourselves first."""
        return list(self._graph_now().reached)

    def linked(self, face: int, zid: bytes) -> bool:
        """Tells whether a neighbour of another role says it has a link of its own with a node.

        A router need not carry anything between two peers that have one.
        """
        neighbour = self._neighbours.get(face)
        return neighbour is not None and zid in neighbour.friends

    def known(self) -> list[Node]:
        """Returns what is known of every node, of those that cannot be reached too."""
        return list(self._nodes.values())

    # Own record ------------------------------------------------------------------------------------

    def _renew_own(self) -> None:
        self._own.sn += 1
        self.version += 1
        self._spread(self._own)
        self._drop_lost()

    def _reclaim(self, record: Record, links: dict[bytes, int] | None) -> None:
        """Outdoes a record about ourselves that is not ours."""
        same = links is None or links.keys() == self._own.links.keys()
        if record.sn < self._own.sn or (record.sn == self._own.sn and (same or not links)):
            return
        if self._reclaims == MAX_RECLAIMS or record.sn >= MAX_SN:
            log.info("somebody else goes on speaking for our ZenohID %s", self.zid.hex())
            return
        self._reclaims += 1
        self._own.sn = record.sn
        self._renew_own()

    # Records of others -----------------------------------------------------------------------------

    def _name(self, neighbour: Neighbour, record: Record) -> str:
        """Notes which node an index of a neighbour means; returns why it cannot be, or nothing."""
        if record.zid is None:
            return ""
        if (record.psid == 0) != (record.zid == neighbour.zid):
            return f"index {record.psid} cannot be {record.zid.hex()}: 0 is the sender, and only the sender"
        neighbour.names[record.psid] = record.zid
        return ""

    def _take(self, face: int, neighbour: Neighbour, zid: bytes, record: Record) -> None:
        links = self._links(face, neighbour, record)
        if zid == self.zid:
            neighbour.told[zid] = max(neighbour.told.get(zid, 0), record.sn)
            self._reclaim(record, links)
            return
        node = self._node(zid, self._whatami if record.whatami is None else record.whatami)
        if node is None:
            log.info("face %d: the graph is full, %s stays out", face, zid.hex())
            return
        if record.sn == 0:
            if node.sn and zid != neighbour.zid:
                # It knows the name only: it forgot what it was told, or never was.
                neighbour.told[zid] = 0
                neighbour.pending[zid] = None
            return
        neighbour.told[zid] = max(neighbour.told.get(zid, 0), record.sn)
        if zid == neighbour.zid and not neighbour.spoke:
            neighbour.spoke = True
            if record.sn < node.sn:
                neighbour.overtaken = Node(zid, node.whatami, sn=node.sn, links=links or {})
        if record.sn > node.sn or (record.sn == node.sn and node.bare and links):
            total = sum(len(one.links) for one in self._nodes.values())
            if links and total - len(node.links) + len(links) > MAX_ALL_LINKS:
                log.info("face %d: the graph has too many links, those of %s stay out", face, zid.hex())
                links = {}
            self._change(node, record, links or {}, own_words=zid == neighbour.zid)
            self._spread(node)

    def _change(self, node: Node, record: Record, links: dict[bytes, int], *, own_words: bool) -> None:
        # Peers pass on who others are without their links; that does not mean that there are none any more.
        bare = self._whatami == WhatAmI.PEER and not links and not own_words
        if not bare and (links != node.links or node.sn == 0):
            node.links = links
            self.version += 1
        elif node.sn == 0:
            self.version += 1
        node.bare = bare
        node.sn = record.sn
        node.gateway = record.gateway
        if record.whatami is not None:
            node.whatami = record.whatami
        if record.locators is not None:
            node.locators = record.locators[:MAX_LOCATORS]

    def _links(self, face: int, neighbour: Neighbour, record: Record) -> dict[bytes, int] | None:
        """Returns the links of a record by node, those left out that mean nothing to us; None for a name alone."""
        if record.sn == 0:
            return None
        links: dict[bytes, int] = {}
        weights = record.weights or (0,) * len(record.links)
        for psid, weight in zip(record.links, weights, strict=False):
            zid = neighbour.names.get(psid)
            if zid is None or self._node(zid, self._whatami) is None:
                log.info("face %d: link to index %d of LINKSTATE ignored", face, psid)
            else:
                links[zid] = weight
        return links

    def _spread(self, node: Node) -> None:
        """Owes a record to all neighbours that have not seen this version."""
        for neighbour in self._neighbours.values():
            if not neighbour.takes_part:
                if node is self._own and self._whatami == WhatAmI.PEER:
                    neighbour.pending[node.zid] = None
            elif node.zid != neighbour.zid and neighbour.told.get(node.zid, 0) < node.sn:
                neighbour.pending[node.zid] = None

    def _records(self, neighbour: Neighbour) -> Iterator[Record]:
        """Gives the records owed to a neighbour, and the names of all nodes they mention."""
        pending, neighbour.pending = neighbour.pending, {}
        mentioned = dict.fromkeys(pending)
        for zid in pending:
            if zid in self._nodes and zid != neighbour.zid:
                mentioned.update(dict.fromkeys(self._nodes[zid].links))
        if neighbour.overtaken and neighbour.zid in self._nodes:
            yield self._record(neighbour.overtaken, neighbour)
            mentioned.update(dict.fromkeys(neighbour.overtaken.links))
        neighbour.overtaken = None
        for zid in mentioned:
            node = self._nodes.get(zid)
            if node is None:
                continue
            if zid in pending and node.sn and zid != neighbour.zid:
                neighbour.told[zid] = max(neighbour.told.get(zid, 0), node.sn)
                neighbour.named.add(zid)
                yield self._record(node, neighbour)
            elif zid not in neighbour.named:
                neighbour.named.add(zid)
                yield Record(psid=self._index[zid], sn=0, zid=zid, whatami=node.whatami)
        if neighbour.index and neighbour.zid not in neighbour.named:
            neighbour.named.add(neighbour.zid)
            yield Record(
                psid=neighbour.index, sn=0, zid=neighbour.zid, whatami=neighbour.whatami, gateway=True
            )

    def _record(self, node: Node, neighbour: Neighbour) -> Record:
        links = {self._index[zid]: weight for zid, weight in node.links.items() if zid in self._index}
        if neighbour.index and node is self._own:
            links[neighbour.index] = 0
        return Record(
            psid=self._index[node.zid],
            sn=node.sn,
            zid=node.zid,
            whatami=node.whatami,
            locators=node.locators,
            links=tuple(links),
            weights=tuple(links.values()),
            gateway=node.gateway,
        )

    # The table of nodes ----------------------------------------------------------------------------

    def _node(self, zid: bytes, whatami: int) -> Node | None:
        """Returns a node, made if need be; None when there is no room."""
        node = self._nodes.get(zid)
        if node is not None:
            return node
        if len(self._nodes) >= MAX_NODES:
            self._drop_lost(keep=0)
            if len(self._nodes) >= MAX_NODES:
                return None
        node = self._nodes[zid] = Node(zid, whatami)
        self._index[zid] = self._free_index()
        # Each neighbour has to know our index of it, the one that told us of the node too.
        for neighbour in self._neighbours.values():
            if neighbour.takes_part:
                neighbour.pending[zid] = None
        return node

    def _free_index(self) -> int:
        """Returns an index that no node has, as late as possible one that another had: messages may still bear it."""
        taken = {*self._index.values(), *(neighbour.index for neighbour in self._neighbours.values())}
        while True:
            self._last_index = self._last_index % MAX_PSID + 1
            if self._last_index not in taken:
                return self._last_index

    def _forget_record(self, node: Node) -> None:
        """Makes a node a mere name: whoever has it now may begin its versions anew."""
        node.sn = 0
        node.bare = False
        node.links = {}
        node.locators = None
        for neighbour in self._neighbours.values():
            neighbour.told.pop(node.zid, None)
            neighbour.pending.pop(node.zid, None)

    def _drop_lost(self, keep: int = MAX_LOST) -> None:
        """Forgets nodes to which nothing leads, the longest lost first, until few are left."""
        found = {self.zid}
        ahead = [self._own]
        while ahead:
            for zid in ahead.pop().links:
                node = self._nodes.get(zid)
                if node is not None and zid not in found:
                    found.add(zid)
                    ahead.append(node)
        self._lost = {zid: None for zid in self._lost if zid in self._nodes and zid not in found}
        self._lost.update(dict.fromkeys(zid for zid in self._nodes if zid not in found))
        while len(self._lost) > keep:
            zid = next(iter(self._lost))
            del self._lost[zid], self._nodes[zid], self._index[zid]
            for neighbour in self._neighbours.values():
                neighbour.named.discard(zid)
                neighbour.told.pop(zid, None)
                neighbour.pending.pop(zid, None)

    def _is_neighbour(self, zid: bytes) -> bool:
        return any(other.zid == zid and other.takes_part for other in self._neighbours.values())

    # Graph -----------------------------------------------------------------------------------------

    def _graph_now(self) -> Graph:
        """Returns the graph, made anew when something has changed."""
        if self._graph is None or self._made_of != self.version:
            self._made_of = self.version
            graph = Graph(self.zid, self._nodes, self._known_lengths, peers=self._whatami == WhatAmI.PEER)
            # A node may be there twice; its first session counts.
            there = {
                other.zid: face for face, other in reversed(self._neighbours.items()) if other.takes_part
            }
            if self._graph is None or there != self._there or not graph.is_like(self._graph):
                self._ways = {}
                self._shape += 1
            self._graph, self._there = graph, there
        return self._graph

    def _ways_of(self, source: bytes) -> Ways:
        graph = self._graph_now()
        ways = self._ways.get(source)
        if ways is None:
            if len(self._ways) >= MAX_NODES:
                # Sources that are no nodes of the graph must not fill the memory.
                self._ways = {}
            ways = self._ways[source] = graph.ways(source, self._there)
        return ways


def _fitting(locators: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in locators if len(text.encode()) <= MAX_LOCATOR)[:MAX_LOCATORS]

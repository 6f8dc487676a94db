"""The graph of nodes, with networks joined in memory and messages carried as bytes, in any order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from itertools import combinations, count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.router import linkstates, network, spanning
from conformance.router.linkstates import Record
from conformance.router.network import Network
from conformance.router.spanning import length, parents, sip_hash
from scapy_layers.catalogue import decode
from scapy_layers.codes import WhatAmI
from scapy_layers.network import NetworkOam

ROUTER, PEER = WhatAmI.ROUTER, WhatAmI.PEER

US, A, B, C, D = (bytes([number] * 4) for number in (9, 1, 2, 3, 4))

OBSERVED = (
    (
        "f46259691361b93515c8b379c0f37288",
        "3365093ae54fd35ea7f758f636186021",
        "dae16eb4b010350ba1b3ce1524082340",
        "6c7d51a47154c1074aca8975e961c605",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "b47c0074a85df663822fb77e50b89232",
        "d4c5ed16d07a2f7c146af33b6a4fc206",
        "c43b6d7980afede679aa41e931160b05",
        "a",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "4b43dbb94f781d1deae3b7a9aa234219",
        "d317e962c153c39ea3395cd48490601c",
        "67e5023c0613f9b0c4b107161e706105",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "4eb244e7a92354a60cbc4d8482c0e636",
        "32c6519b06c87a106ed12a8a6d30f20a",
        "12f2f025fdf52ff26b713ddcd63605",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "c4a9cd745ae89bba810899959286e172",
        "1f87ac8e367a505b9cdfe3da9fc9e06e",
        "56dba8c36a93ef99f764fd18912405",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "1eb8afb0145254505dcdbfb359665bf4",
        "0355ed803587bd9fda119932f20c4f27",
        "bfa6818280d534a8a4a248121916e105",
        "a",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "857739e7312252db7f18e6819fbee9b4",
        "89a61d58d4546f3ecd686ce8f00c034c",
        "f9c64f4467859d087f10646cca3805",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "d1397e60d1de604c23bf95d5d294b4e5",
        "be3fdd2c0a094ea8dc8d71655cc31d2b",
        "e5601bf957b037c41d072229bbcf05",
        "a",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "16d6d11de43a6203110be2cb0ba9c362",
        "ed171ed616698f2b193ab291f5836fe8",
        "bf60fc686b206290a68d30724e3b05",
        "a",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "3787ff6adf058414fe81a896e9e9114a",
        "e564b6082d54d3150151c8a91e451bc4",
        "516ac5ce5ff8bbef36a742813ffd05",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "5a1c4bb5c142062645f8e5facbbc9a11",
        "ac5256044221a1e93ea5f023303e5763",
        "5840f85956ac4f539ec107f72511b505",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "1bb0c000eb3156a5de05efd5bfbf7f36",
        "3fbe0be084c4049ee6a57a081006e2f8",
        "8ade6756fd5149f80d19586eb50705",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "75a9f61e9fbd5615c34f51339cfb9a3a",
        "0f7db6cfe0d42279c73b4bca968e2762",
        "8925ab94cbeb90b85d70e373c1dd05",
        "b",
    ),
    (
        "f46259691361b93515c8b379c0f37288",
        "3c265f20181527b8eaff817022b583ba",
        "29502ab708f5b3ed6ffea6781f599065",
        "f2a7bb391080090d67cf8f3215778605",
        "b",
    ),
)
"""Own, first, second and far ZenohID (random ones), and over which of the two a publication went."""


class Mesh:
    """Networks and links between them; what is under way on one link stays in order."""

    def __init__(self, rng: random.Random, size: int, whatami: int = ROUTER) -> None:
        self.rng = rng
        self.whatami = whatami
        self.networks = [Network(rng.randbytes(7) + bytes([at + 1]), whatami) for at in range(size)]
        self.at = {network.zid: at for at, network in enumerate(self.networks)}
        self.faces = count(1)
        self.links: dict[frozenset[int], dict[int, int]] = {}
        self.behind: dict[int, tuple[int, int]] = {}
        self.on_way: dict[int, deque[bytes]] = defaultdict(deque)
        self.ending: list[tuple[int, int]] = []
        self.carried = 0
        self.sent: Counter[tuple[int, bytes, int]] = Counter()

    def join(self, one: int, other: int) -> None:
        """Opens a session: both ends learn of it before anything travels."""
        here, there = next(self.faces), next(self.faces)
        self.links[frozenset((one, other))] = {one: here, other: there}
        self.behind[here], self.behind[there] = (other, there), (one, here)
        for at, face, peer in ((one, here, other), (other, there, one)):
            self.networks[at].up(face, self.networks[peer].zid, self.whatami)
            self.collect(at)

    def cut(self, one: int, other: int) -> None:
        """Ends a session: what is under way is lost, and each end notices in its own time."""
        for at, face in self.links.pop(frozenset((one, other))).items():
            del self.behind[face]
            self.on_way.pop(face, None)
            self.ending.append((at, face))

    def collect(self, at: int) -> None:
        for face, message in self.networks[at].take():
            if face in self.behind:
                self.on_way[self.behind[face][1]].append(bytes(message))
                for record in message.linkstate.records:
                    self.sent[face, record["zid"], record["state_sn"]] += 1

    def step(self) -> bool:
        """Lets one thing happen, whichever; tells whether there was one."""
        ready = [("carry", face) for face, queue in self.on_way.items() if queue]
        ready += [("end", at) for at in range(len(self.ending))]
        if not ready:
            return False
        what, which = self.rng.choice(ready)
        if what == "carry":
            at = self.behind[self.behind[which][1]][0]
            message = decode(self.on_way[which].popleft())
            assert isinstance(message, NetworkOam)
            self.networks[at].receive(which, message)
            self.carried += 1
        else:
            at, face = self.ending.pop(which)
            self.networks[at].down(face)
        self.collect(at)
        return True

    def settle(self) -> None:
        most = self.carried + 60 * len(self.networks) ** 3
        while self.step():
            assert self.carried < most, "the messages never end"

    def component(self, at: int) -> set[int]:
        found, ahead = {at}, [at]
        while ahead:
            here = ahead.pop()
            for link in self.links:
                if here in link:
                    (there,) = link - {here}
                    if there not in found:
                        found.add(there)
                        ahead.append(there)
        return found

    def reached(self, source: int) -> list[int]:
        """Returns the nodes to which something comes that begins at one, each as often as it comes there."""
        zid = self.networks[source].zid
        out, ahead = [], [source]
        while ahead:
            here = ahead.pop()
            out.append(here)
            assert len(out) <= 2 * len(self.networks), "it goes in circles"
            ahead += [self.behind[face][0] for face in self.networks[here].children(zid)]
        return out

    def judge(self) -> None:
        for at, here in enumerate(self.networks):
            component = self.component(at)
            assert {self.at[zid] for zid in here.nodes()} == component
            assert len(here.nodes()) == len(component)
            links = {zid: set(node.links) for zid, node in here._nodes.items() if self.at[zid] in component}
            assert links == {
                self.networks[one].zid: {
                    self.networks[other].zid for link in self.links if one in link for other in link - {one}
                }
                for one in component
            }
            assert sorted(self.reached(at)) == sorted(component)
            for other in component - {at}:
                self.judge_way(at, other)

    def judge_way(self, source: int, target: int) -> None:
        """Follows ``toward`` from a source to a target, and NodeId on the way."""
        zid, here = self.networks[source].zid, source
        for _ in self.networks:
            face = self.networks[here].toward(zid, self.networks[target].zid)
            assert face is not None
            assert face in self.networks[here].children(zid)
            there, arriving = self.behind[face]
            assert self.networks[there].source(arriving, self.networks[here].node_id(zid)) == zid
            here = there
            if here == target:
                break
        assert here == target


@st.composite
def plans(draw: st.DrawFn) -> tuple[int, list[tuple[str, int, int]], int]:
    """A number of nodes, links that come and go, and a seed for the order in which messages arrive."""
    size = draw(st.integers(2, 12))
    pairs = list(combinations(range(size), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=24))
    there: set[tuple[int, int]] = set()
    steps = []
    for pair in chosen:
        steps.append(("cut" if pair in there else "join", *pair))
        there ^= {pair}
        if draw(st.booleans()):
            steps.append(("wait", draw(st.integers(0, 12)), 0))
    return size, steps, draw(st.integers(0, 1 << 16))


def play(mesh: Mesh, steps: list[tuple[str, int, int]]) -> None:
    for what, one, other in steps:
        if what == "wait":
            for _ in range(one):
                mesh.step()
        elif what == "join":
            mesh.join(one, other)
        else:
            mesh.cut(one, other)


@given(plans())
@settings(max_examples=40, deadline=None)
def test_links_that_come_and_go_leave_one_graph_and_trees_that_reach_everybody_once(plan: Any) -> None:
    size, steps, seed = plan
    mesh = Mesh(random.Random(seed), size)
    play(mesh, steps)
    mesh.settle()
    mesh.judge()


@given(st.integers(2, 6), st.integers(0, 1 << 16))
@settings(max_examples=10, deadline=None)
def test_full_mesh_of_peers_is_one_hop_for_everything(size: int, seed: int) -> None:
    mesh = Mesh(random.Random(seed), size, PEER)
    play(mesh, [("join", one, other) for one, other in combinations(range(size), 2)])
    mesh.settle()
    mesh.judge()
    zid = mesh.networks[0].zid
    assert len(mesh.networks[0].children(zid)) == size - 1
    assert all(other.children(zid) == [] for other in mesh.networks[1:])


@given(plans())
@settings(max_examples=10, deadline=None)
def test_links_of_peers_that_come_and_go_leave_one_graph_too(plan: Any) -> None:
    size, steps, seed = plan
    mesh = Mesh(random.Random(seed), size, PEER)
    play(mesh, steps)
    mesh.settle()
    mesh.judge()


@given(st.integers(2, 7), st.integers(0, 1 << 16))
@settings(max_examples=15, deadline=None)
def test_version_of_a_record_crosses_a_link_twice_at_most_in_each_direction(size: int, seed: int) -> None:
    mesh = Mesh(random.Random(seed), size)
    play(mesh, [("join", one, other) for one, other in combinations(range(size), 2)])
    mesh.settle()
    mesh.judge()
    # Twice when a name crosses with the record.
    assert max(mesh.sent.values()) <= 2


# One network and what a test says to it ------------------------------------------------------------


def joined(*neighbours: bytes, whatami: int = ROUTER) -> Network:
    """Returns a network with faces 1, 2, ... to some neighbours, its first messages taken."""
    here = Network(US, whatami, ["tcp/127.0.0.1:7447"])
    for face, zid in enumerate(neighbours, 1):
        here.up(face, zid, whatami)
    here.take()
    return here


def says(here: Network, face: int, *records: Record) -> None:
    here.receive(face, linkstates.write(records))


def taken(here: Network) -> dict[int, list[Record]]:
    """Returns what a network sends, read again from its bytes."""
    out = {}
    for face, message in here.take():
        records = linkstates.read(decode(bytes(message)))
        assert isinstance(records, list)
        out[face] = records
    return out


def itself(zid: bytes, *others: bytes, sn: int = 1) -> list[Record]:
    """Returns what a neighbour says that has links with us and with others."""
    names = [Record(psid=at, sn=0, zid=other, whatami=ROUTER) for at, other in enumerate((US, *others), 1)]
    return [
        Record(psid=0, sn=sn, zid=zid, whatami=ROUTER, links=tuple(range(1, len(others) + 2))),
        *names,
    ]


def test_new_neighbour_gets_our_record_and_its_own_name() -> None:
    here = Network(US, ROUTER, ["tcp/127.0.0.1:7447"])
    here.up(1, A, ROUTER)
    assert taken(here) == {
        1: [
            Record(psid=0, sn=2, zid=US, whatami=ROUTER, locators=("tcp/127.0.0.1:7447",), links=(1,)),
            Record(psid=1, sn=0, zid=A, whatami=ROUTER),
        ]
    }
    assert here.take() == []


def test_message_has_the_bytes_that_real_nodes_send() -> None:
    here = Network(bytes.fromhex("0102"), ROUTER, ["tcp/1"])
    here.up(1, bytes.fromhex("0a0b"), ROUTER)
    ((_, message),) = here.take()
    assert (
        bytes(message).hex()
        == "df012108" + "19" + "02" + "07000202010201010574" + "63702f310101" + "03010002" + "0a0b0100"
    )


def test_link_counts_once_both_ends_say_so() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, C))
    says(here, 2, *itself(B))
    assert here.nodes()[:3] == [US, *sorted((A, B), key=lambda zid: length(US, zid))]
    assert here.children(A) == [2]
    # C never spoke: A says there is a link, so C hangs on A.
    assert set(here.nodes()) == {US, A, B, C}
    assert here.toward(US, C) == 1
    says(here, 1, Record(psid=2, sn=1, zid=C, whatami=ROUTER, links=()))
    assert set(here.nodes()) == {US, A, B}
    says(here, 1, Record(psid=2, sn=2, zid=C, whatami=ROUTER, links=(0,)))
    assert set(here.nodes()) == {US, A, B, C}


def test_news_goes_on_to_all_others_and_old_news_to_nobody() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, sn=5))
    heard = taken(here)
    assert [record.zid for record in heard[2] if record.sn] == [A]
    assert 1 not in heard
    says(here, 1, *itself(A, sn=5))
    says(here, 1, *itself(A, sn=4))
    assert here.take() == []
    # Of two things said with one number the first one stays, here as everywhere.
    says(here, 1, Record(psid=0, sn=5, zid=A, whatami=ROUTER))
    assert here.children(B) == [1]


def test_news_of_others_does_not_go_back_to_who_told_it() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, C), Record(psid=2, sn=1, zid=C, whatami=ROUTER, links=(0,)))
    here.take()
    says(here, 1, Record(psid=2, sn=2, zid=C, whatami=ROUTER, links=()))
    assert {face: [record.zid for record in records] for face, records in taken(here).items()} == {2: [C]}


def test_node_that_a_neighbour_only_knows_by_name_is_told_to_it() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, sn=5))
    here.take()
    says(here, 2, Record(psid=3, sn=0, zid=A, whatami=ROUTER))
    assert [(record.zid, record.sn) for record in taken(here)[2] if record.sn] == [(A, 5)]


def test_node_id_is_read_with_the_index_of_the_neighbour_and_written_with_ours() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, C))
    says(here, 1, Record(psid=2, sn=1, zid=C, whatami=ROUTER, links=(0,)))
    assert here.source(1, 0) == A
    assert here.source(1, 1) == US
    assert here.source(1, 2) == C
    assert here.source(1, 77) == A
    assert here.source(9, 0) is None
    assert here.node_id(US) == 0
    said = taken(here)
    # The one that told us of C has to know our index of it too.
    for face in (1, 2):
        ours = {record.zid: record.psid for record in said[face]}
        assert here.node_id(C) == ours[C] != 0


def test_neighbour_that_says_nothing_is_spoken_for() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A))
    assert here.children(US) == [1, 2]
    assert here.children(B) == [1]
    assert here.children(A) == [2]
    assert here.node_id(B) == 0
    assert here.speaks_for(B)
    assert not here.speaks_for(A)


def test_silent_neighbour_of_two_hangs_on_the_smaller_one_only() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, B))
    assert A < US
    assert here.children(US) == [1]
    assert here.toward(US, B) == 1
    assert here.children(B) == []
    assert here.node_id(B) != 0


def test_nodes_behind_a_link_that_ended_are_gone() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, C))
    says(here, 1, Record(psid=2, sn=1, zid=C, whatami=ROUTER, links=(0,)))
    before = here.version
    here.down(1)
    assert here.version > before
    assert set(here.nodes()) == {US, B}
    assert here.children(C) == []
    (own,) = [record for record in taken(here)[2] if record.zid == US]
    assert len(own.links) == 1


def test_second_session_of_a_neighbour_takes_over_when_the_first_ends() -> None:
    here = joined(A)
    says(here, 1, *itself(A))
    here.up(2, A, ROUTER)
    assert here.children(US) == [1]
    here.down(1)
    assert here.children(US) == [2]
    here.down(2)
    assert here.children(US) == []


def test_record_of_ours_from_an_earlier_life_is_outdone() -> None:
    here = joined(A)
    says(here, 1, *itself(A), Record(psid=1, sn=40, zid=US, whatami=ROUTER, links=(0,)))
    ((own, *_),) = taken(here).values()
    assert (own.zid, own.sn) == (US, 41)


def test_two_nodes_with_one_zid_do_not_outdo_each_other_for_ever() -> None:
    here = joined(A)
    says(here, 1, *itself(A))
    sn, answers = 10, 0
    for _ in range(500):
        says(here, 1, Record(psid=1, sn=sn, zid=US, whatami=ROUTER, links=()))
        heard = [record.sn for record in taken(here).get(1, []) if record.zid == US]
        answers += len(heard)
        sn = max([sn, *heard]) + 1
    assert answers == network.MAX_RECLAIMS


def test_neighbour_that_began_anew_is_told_which_version_others_have_of_it() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, B, sn=30))
    says(here, 2, *itself(B, A))
    here.down(1)
    here.up(3, A, ROUTER)
    here.take()
    assert A in here.nodes()
    says(here, 3, *itself(A, sn=2))
    (own,) = [record for record in taken(here)[3] if record.zid == A and record.sn]
    assert own.sn == 30
    assert len(own.links) == 1


def test_neighbour_that_was_gone_may_begin_its_versions_anew() -> None:
    here = joined(A, B)
    says(here, 1, *itself(A, sn=30))
    says(here, 2, *itself(B))
    here.down(1)
    here.up(3, A, ROUTER)
    here.take()
    says(here, 3, *itself(A, sn=2))
    assert here.children(B) == [3]
    assert [(record.zid, record.sn) for record in taken(here)[2] if record.sn] == [(A, 2)]


# Other roles ---------------------------------------------------------------------------------------


def test_router_greets_a_peer_with_no_record_and_learns_its_links_only() -> None:
    here = Network(US, ROUTER)
    here.up(1, A, PEER)
    ((_, message),) = here.take()
    assert bytes(message).hex() == "df0121080100"
    says(here, 1, *itself(A, B))
    assert here.nodes() == [US]
    assert here.linked(1, B)
    assert not here.linked(1, C)
    assert not here.linked(2, B)


def test_peer_tells_a_router_its_links_and_names_it_a_gateway() -> None:
    here = Network(US, PEER)
    here.up(1, A, ROUTER)
    here.up(2, B, PEER)
    own, *names = taken(here)[1]
    indices = {record.zid: record.psid for record in names}
    assert set(own.links) == set(indices.values())
    assert {record.zid for record in names if record.gateway} == {A}
    assert here.children(US) == [2]


def test_peers_that_tell_no_links_get_what_begins_here_and_nothing_else() -> None:
    here = joined(A, B, C, whatami=PEER)
    for face, zid in ((1, A), (2, B)):
        says(
            here,
            face,
            Record(psid=0, sn=2, zid=zid, whatami=PEER),
            Record(psid=1, sn=0, zid=US, whatami=PEER),
        )
    assert here.children(US) == [1, 2, 3]
    # C said nothing at all: it has nobody but us.
    assert here.children(A) == [3]
    assert here.children(C) == [1, 2]


def test_peer_that_is_passed_on_without_links_keeps_those_it_told() -> None:
    here = joined(A, B, D, whatami=PEER)
    says(here, 3, *itself(D))
    says(here, 1, Record(psid=3, sn=4, zid=B, whatami=PEER))
    assert here.children(B) == [1]
    says(here, 2, *itself(B, sn=4))
    assert here.children(B) == [1, 3]
    says(here, 1, Record(psid=3, sn=5, zid=B, whatami=PEER))
    assert here.children(B) == [1, 3]


# Bad input -----------------------------------------------------------------------------------------


ABSURD = [
    Record(psid=1 << 16, sn=1, zid=C, whatami=ROUTER, links=(0,)),
    Record(psid=5, sn=1 << 62, zid=C, whatami=ROUTER, links=(0,)),
    Record(psid=5, sn=1, zid=C, whatami=ROUTER, links=tuple(range(linkstates.MAX_LINKS + 1))),
    Record(psid=0, sn=7, zid=C, whatami=ROUTER, links=(0,)),
    Record(psid=6, sn=7, zid=A, whatami=ROUTER, links=()),
    Record(psid=9, sn=7, links=(0,)),
]


@pytest.mark.parametrize("record", ABSURD)
def test_absurd_record_is_left_out_and_noted(record: Record, caplog: pytest.LogCaptureFixture) -> None:
    here = joined(A)
    says(here, 1, *itself(A))
    here.take()
    caplog.set_level("INFO")
    before = here.version
    says(here, 1, record)
    assert here.version == before
    assert here.nodes() == [US, A]
    assert here.take() == []
    assert "ignored" in caplog.text


def test_links_to_unknown_indices_are_left_out() -> None:
    here = joined(A)
    says(here, 1, *itself(A), Record(psid=0, sn=2, zid=A, whatami=ROUTER, links=(1, 88)))
    assert here.nodes() == [US, A]


def test_more_nodes_than_fit_are_left_out_and_neighbours_stay() -> None:
    here = joined(A)
    says(here, 1, *itself(A))
    for start in range(2, 3000, 500):
        some = range(start, start + 500)
        zids = [number.to_bytes(2, "little") + b"\x77" for number in some]
        says(
            here,
            1,
            *(Record(psid=psid, sn=1, zid=zid, links=(0,)) for psid, zid in zip(some, zids, strict=True)),
        )
        says(here, 1, Record(psid=0, sn=start, zid=A, whatami=ROUTER, links=(1, *some)))
    assert len(here.known()) <= network.MAX_NODES
    assert A in here.nodes()


def test_links_of_all_records_together_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    here = joined(A)
    some = range(2, 130)
    zids = {psid: psid.to_bytes(2, "little") + b"\x77" for psid in some}
    says(here, 1, *itself(A), *(Record(psid=psid, sn=0, zid=zids[psid], whatami=ROUTER) for psid in some))
    caplog.set_level("INFO")
    says(here, 1, *(Record(psid=psid, sn=1, links=(0, *some)) for psid in some))
    assert sum(len(node.links) for node in here.known()) <= network.MAX_ALL_LINKS
    assert "too many links" in caplog.text
    says(here, 1, Record(psid=0, sn=2, zid=A, whatami=ROUTER, links=(1, 2, 3)))
    assert {A, zids[2], zids[3]} < set(here.nodes())


def test_ways_are_kept_while_nothing_goes_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[tuple[bytes, bytes]] = []
    surplus = spanning.surplus

    def counted(low: bytes, high: bytes) -> float:
        hashed.append((low, high))
        return surplus(low, high)

    monkeypatch.setattr(spanning, "surplus", counted)
    here = joined(A, B)
    says(here, 1, *itself(A, C))
    says(here, 2, *itself(B, C))
    shape = here.shape()
    assert len(hashed) == 2
    says(here, 1, Record(psid=2, sn=1, zid=C, whatami=ROUTER, links=(0,)))
    assert here.shape() > shape
    says(here, 1, Record(psid=3, sn=1, zid=D, whatami=ROUTER))
    shape, ways = here.shape(), here._ways_of(C)
    # D says nothing of a link with C: all stays as it is.
    says(here, 1, Record(psid=2, sn=2, links=(0, 3)))
    assert here.shape() == shape
    assert here._ways_of(C) is ways
    assert len(hashed) == 3
    says(here, 1, Record(psid=3, sn=2, links=(2,)))
    assert here.shape() > shape
    assert D in here.nodes()
    assert len(hashed) == 4
    here.down(2)
    assert B not in here.nodes()
    assert {end for ends in here._known_lengths._surpluses for end in ends} == {US, A, C, D}


def test_nodes_to_which_something_leads_are_kept_however_far() -> None:
    here = joined(A)
    some = range(2, 200)
    zids = {psid: psid.to_bytes(2, "little") + b"\x77" for psid in some}
    says(here, 1, *itself(A), *(Record(psid=psid, sn=1, zid=zids[psid], links=(0,)) for psid in some))
    says(here, 1, Record(psid=0, sn=2, zid=A, whatami=ROUTER, links=(1, *some)))
    assert set(here.nodes()) == {US, A, *zids.values()}
    assert here.toward(US, zids[199]) == 1


def test_nodes_to_which_nothing_leads_are_forgotten_in_time() -> None:
    here = joined(A)
    says(here, 1, *itself(A))
    for number in range(2, 800):
        says(here, 1, Record(psid=number, sn=1, zid=number.to_bytes(2, "little") + b"\x77", links=(0,)))
    assert len(here.known()) <= network.MAX_LOST + 2
    assert here.nodes() == [US, A]


@given(st.binary(max_size=120), st.lists(st.binary(max_size=60), max_size=3))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_taken_or_left_and_the_trees_stay_sound(body: bytes, more: list[bytes]) -> None:
    here = joined(A, B)
    says(here, 1, *itself(A))
    for raw in (body, *more):
        message = NetworkOam(bytes.fromhex("df012108") + bytes([len(raw)]) + raw)
        here.receive(1, message)
        for face, out in here.take():
            assert face in {1, 2}
            decode(bytes(out))
    for zid in [*here.nodes(), C, b""]:
        assert set(here.children(zid)) <= {1, 2}
        assert 0 <= here.node_id(zid) <= linkstates.MAX_PSID


@given(
    st.lists(
        st.builds(
            Record,
            psid=st.integers(0, 5),
            sn=st.integers(0, 9),
            zid=st.sampled_from([None, US, A, B, C, D]),
            whatami=st.sampled_from([None, ROUTER, PEER]),
            links=st.lists(st.integers(0, 6), max_size=4).map(tuple),
        ),
        max_size=12,
    ),
    st.sampled_from([ROUTER, PEER]),
)
@settings(max_examples=150, deadline=None)
def test_any_records_are_taken_or_left_and_answers_stay_few(records: list[Record], whatami: int) -> None:
    here = joined(A, B, whatami=whatami)
    for record in records:
        says(here, 1, record)
        assert len(taken(here)) <= 2
    for zid in [US, A, B, C, D]:
        assert set(here.children(zid)) <= {1, 2}


def test_other_management_messages_are_none_of_its_business() -> None:
    here = joined(A)
    here.receive(1, NetworkOam(oam_id=7, data=b"x"))
    here.receive(4, linkstates.write(itself(A)))
    assert here.take() == []


# Trees ---------------------------------------------------------------------------------------------


def test_hash_is_siphash_1_3() -> None:
    # Measured with the standard hasher of Rust, whose key is zero.
    assert sip_hash(b"") == 0xD1FBA762150C532C


def test_choice_between_equal_ways_is_that_of_real_routers() -> None:
    # Observed: a 1.10.2 router, two neighbours, and a node that both say they have a link with.
    for here, one, other, far, chosen in OBSERVED:
        root, ends = bytes.fromhex(here), {"a": bytes.fromhex(one), "b": bytes.fromhex(other)}
        target = bytes.fromhex(far)
        lengths: dict[bytes, dict[bytes, float]] = defaultdict(dict)
        for end in ends.values():
            for pair in ((root, end), (end, target)):
                lengths[pair[0]][pair[1]] = lengths[pair[1]][pair[0]] = length(*pair)
        assert parents(lengths, root)[target] == ends[chosen]


def test_weight_of_a_link_is_the_larger_one_and_leads_round_it() -> None:
    here = joined(A, B)
    names = [Record(psid=1, sn=0, zid=US), Record(psid=2, sn=0, zid=C)]
    for face, zid, weight in ((1, A, 300), (2, B, 0)):
        says(
            here,
            face,
            Record(psid=0, sn=1, zid=zid, links=(1, 2), weights=(0, weight)),
            *names,
            Record(psid=2, sn=1, zid=C, links=(0,)),
        )
    says(here, 1, Record(psid=3, sn=0, zid=B), Record(psid=2, sn=2, zid=C, links=(0, 3)))
    assert here.toward(US, C) == 2

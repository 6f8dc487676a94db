"""Order, repetition, omission, replay, and several sessions at once."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from conformance.observe import Endpoints
from fuzz.campaigns.base import Setting
from fuzz.campaigns.counting import WIDTHS, orders
from fuzz.campaigns.messages import KINDS
from fuzz.campaigns.several import MOST_LINKS
from fuzz.campaigns.state import CAMPAIGN, NOISE_SIZES, NOISES, Behind
from fuzz.cases import THEN, Case, reach
from fuzz.phrases import EMPTY, act, batch, handshake, init, kinds, listen, numbered, opening, subscriber
from fuzz.player import Answers, Ending, Initiator, NotReached, Pipe, Played, Player, Trace, run
from fuzz.player.pipe import FIRST_SN
from fuzz.scenarios import scenarios
from fuzz.script import Do, Script, Step, Template
from fuzz.sequences import Scenario
from fuzz.states import State
from scapy_layers.batch import contents, prefixed
from scapy_layers.codes import Resolution
from scapy_layers.data import Query
from scapy_layers.message import Message
from scapy_layers.network import Request
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Frame, Init, Open

SOURCES = {source.name: source for source in CAMPAIGN.make(Setting())}
ENDS = Endpoints(("127.0.0.1", 1), ("127.0.0.1", 2))
VALUES = {
    "sn": write_vle(FIRST_SN),
    "sn_be": write_vle(FIRST_SN),
    "zid": bytes(range(1, 17)),
    "cookie": write_vle(4) + b"cook",
    "rid": write_vle(5),
    f"from {FIRST_SN}": write_vle(FIRST_SN),
}


def cases(most: int) -> Iterator[Case]:
    """Yields cases of every source, single ones and others."""
    for source in SOURCES.values():
        yield from islice(source.cases(random.Random(1)), most)
        yield from islice(source.more(random.Random(1)), 5)


def inside(step: Step) -> tuple[Message, ...]:
    """Returns the messages of a batch that is right in every respect."""
    seen = contents(step.data.fill(VALUES)[2:])
    assert seen.error is None, f"{step.note}: {seen.error}"
    return seen.messages


# What cases send ----------------------------------------------------------------------------------------


def test_sources_have_names_of_their_own() -> None:
    names = [source.name for source in CAMPAIGN.make(Setting())]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: str(scenario.name))
def test_scenarios_say_nothing_wrong(scenario: Scenario) -> None:
    for step in scenario.steps:
        if step.do is Do.SEND:
            assert inside(step)


def test_every_kind_of_message_is_there_and_right() -> None:
    assert set(kinds()) == {*KINDS, EMPTY}
    for kind, make in kinds().items():
        if kind not in ("SCOUT", "HELLO"):
            assert kind == EMPTY or inside(make("a")), kind


def test_every_ordered_pair_of_kinds_is_offered() -> None:
    pairs = {
        (case.plan[0], case.plan[1])
        for source in SOURCES.values()
        if isinstance(source, Behind)
        for case in source.cases(random.Random(1))
    }
    assert pairs == {(first, second) for first in kinds() for second in kinds()}
    edges = {edge for source in SOURCES.values() if isinstance(source, Behind) for edge in source.edges()}
    assert {(edge.edge, edge.message) for edge in edges if edge.field == THEN} == pairs


def test_a_pair_is_sent_in_its_order() -> None:
    source = Behind("PUSH")
    case = next(case for case in source.cases(random.Random(1)) if case.plan[0] == "INTEREST")
    assert [step.note for step in case.steps] == ["INTEREST", "PUSH"]
    assert case.message == source.message == "PUSH"
    chains = islice(source.more(random.Random(1)), 20)
    assert all(case.plan[-1] == "PUSH" and len(case.steps) > 2 for case in chains)


def test_cases_are_bounded_plain_and_the_same_for_a_seed() -> None:
    once = [(case.mutation, case.steps) for case in cases(6)]
    again = [(case.mutation, case.steps) for case in cases(6)]
    assert once == again
    for words, steps in once:
        script = Script(steps)
        assert script.size < 10 << 20, words
        assert script.sends < 5000, words
        assert len({step.link for step in steps}) <= MOST_LINKS + 2, words
        if script.size < 10_000:
            assert Script.from_json(script.to_json()) == script


def test_edges_are_what_single_cases_cover() -> None:
    for source in SOURCES.values():
        covered = {edge for case in source.cases(random.Random(1)) for edge in case.edges}
        assert covered == set(source.edges()), source.name


@pytest.mark.parametrize("width", list(WIDTHS))
def test_numbers_stay_within_their_width_unless_told(width: Resolution) -> None:
    mask = (1 << WIDTHS[width]) - 1
    source = SOURCES[f"numbers of {WIDTHS[width]} bits"]
    seen = set()
    for case in source.cases(random.Random(1)):
        for step in case.steps[4:]:
            sn = int(inside(step)[0].sn) if "beyond" not in case.mutation else 0
            assert sn <= mask
            seen.add(sn)
    assert {0, 1, mask, mask - 1} <= seen
    assert orders(mask)["one further ahead than may be"] == [0, (mask >> 1) + 1, 1]


# Live values --------------------------------------------------------------------------------------------


@contextmanager
def pipes() -> Iterator[tuple[Pipe, Pipe, socket.socket]]:
    """Two links; the other end of the first."""
    ours, theirs = socket.socketpair()
    second, rest = socket.socketpair()
    trace, answers = Trace(), Answers()
    pipe, other = (Pipe(sock, ENDS, trace, answers, bytes([n]) * 16) for n, sock in ((1, ours), (2, second)))
    pipe.others = other.others = {"a": pipe, "b": other}
    with ours, theirs, second, rest:
        yield pipe, other, theirs


def test_values_of_another_link() -> None:
    with pipes() as (pipe, other, _):
        other.values["cookie"] = b"\x02ok"
        assert Template.parse("{cookie@b}{zid@b}").fill(pipe) == b"\x02ok" + b"\x02" * 16
        assert Template.parse("{cookie@b|last bit flipped}").fill(pipe) == b"\x02oj"
        with pytest.raises(KeyError):
            Template.parse("{cookie@c}").fill(pipe)


def test_cookie_and_request_id_are_learned_from_answers() -> None:
    with pipes() as (pipe, _, theirs):
        early = pipe["cookie"], pipe["rid"]
        theirs.sendall(prefixed(bytes(Init(A=1, zid=b"\x03", cookie=b"biscuit"))))
        theirs.sendall(
            prefixed(bytes(Frame(sn=1, messages=[Request(request_id=300, key_suffix="k", body=Query())])))
        )
        pipe.receive()
        assert (pipe["cookie"], pipe["rid"]) == (b"\x07biscuit", write_vle(300))
        assert early != (pipe["cookie"], pipe["rid"])


def test_numbers_begin_where_they_are_told_to() -> None:
    with pipes() as (pipe, _, _):
        pipe.sn_mask = 0x7F
        filled = Template.parse("{from 127}{sn}{sn}{sn_be}{sn}").fill(pipe)
        assert filled == b"\x7f\x7f\x00\x7f\x01"


def test_repetitions_have_ids_and_keys_of_their_own() -> None:
    step = numbered(lambda number, key: subscriber(number, f"fuzz/{key}"), times=3, note="many")
    with pipes() as (pipe, _, _):
        said = []
        for pipe.turn in range(step.times):
            said.append(contents(step.data.fill(pipe)[2:]).messages[0].messages[0].body)
        assert [(body.entity_id, body.key_suffix) for body in said] == [
            (1, "fuzz/000001"),
            (2, "fuzz/000002"),
            (3, "fuzz/000003"),
        ]


def test_a_link_that_is_not_read_does_not_keep_us_from_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be read must not look like something to do."""
    monkeypatch.setattr("fuzz.player.pipe.SEND_SECONDS", 0.05)
    with pipes() as (pipe, _, theirs):
        theirs.sendall(prefixed(b"\x04"))
        pipe.sock.setblocking(False)
        pipe.paused = True
        done = threading.Event()

        def send() -> None:
            pipe.send(bytes(4 << 20))
            done.set()

        threading.Thread(target=send, daemon=True).start()
        assert done.wait(60)


@pytest.mark.parametrize("piece", [1000, 65_536])
def test_a_flood_is_skipped_and_what_is_small_behind_it_is_read(
    monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr("fuzz.player.pipe.MOST_WAITING", 50_000)
    large, small = prefixed(b"\x04" * 20_000), prefixed(bytes(Frame(sn=1)))
    with pipes() as (pipe, _, theirs):
        stream = large * 6 + small + large * 2 + small
        for at in range(0, len(stream), piece):
            theirs.sendall(stream[at : at + piece])
            pipe.receive()
        seen = [answer for answer in pipe.inbox if len(answer.batch) < 100]
        assert [answer.names for answer in seen] == [("FRAME",)] * 2
        assert len(pipe.inbox) - 2 < 6, "large ones are skipped"
        assert not any(answer.refused for answer in pipe.inbox)


class Acceptor:
    """Answers INIT and OPEN, with a cookie and a width of numbers."""

    def __init__(self, sock: socket.socket, cookie: bytes) -> None:
        self.sock, self.cookie = sock, cookie
        self.heard: list[Message] = []

    def answer(self, times: int) -> None:
        """Takes so many batches."""
        for _ in range(times):
            self._answer()

    def _answer(self) -> None:
        size = int.from_bytes(self.sock.recv(2), "little")
        message = contents(self.sock.recv(size)).messages[0]
        self.heard.append(message)
        if isinstance(message, Init):
            reply: Message = Init(
                A=1,
                S=1,
                zid=b"\x09",
                fsn=message.fsn,
                rid=2,
                batch_size=message.batch_size,
                cookie=self.cookie,
            )
        else:
            reply = Open(A=1, initial_sn=0)
        self.sock.sendall(prefixed(bytes(reply)))


def test_a_handshake_by_hand_waits_for_what_it_needs() -> None:
    with pipes() as (pipe, _, theirs):
        player = Player(Initiator.__new__(Initiator), 60.0)
        player.links["a"] = pipe
        pipe.state = State.CONNECTED
        acceptor = Acceptor(theirs, b"fresh")
        thread = threading.Thread(target=acceptor.answer, args=(2,), daemon=True)
        thread.start()
        steps = (init(fsn=Resolution.BITS_8), listen(), opening(first=0x7E), listen())
        run(player.steps(steps, Played()))
        thread.join(60)
        assert acceptor.heard[1].cookie == b"fresh"
        assert acceptor.heard[1].initial_sn == 0x7E
        assert pipe.state is State.OPEN
        assert pipe.sn_mask == 0x7F
        assert [pipe["sn"], pipe["sn"], pipe["sn"]] == [b"\x7e", b"\x7f", b"\x00"]


def test_a_value_of_a_link_that_there_is_not_ends_the_case_only() -> None:
    with pipes() as (pipe, _, _):
        player = Player(Initiator.__new__(Initiator), 0.1)
        player.links["a"] = pipe
        with pytest.raises(NotReached, match="no value"):
            run(player.steps((opening(cookie="cookie@q"),), Played()))


# A real node --------------------------------------------------------------------------------------------


def test_exchanges_mean_something_to_a_real_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scenario as it is brings about what it is for."""
    monkeypatch.setattr("fuzz.player.player.HEARING", 1.0)
    wanted = {
        "handshake": ["INIT", "OPEN"],
        "publication to another session": ["PUSH"],
        "query, reply, final": ["REQUEST", "RESPONSE", "RESPONSE_FINAL"],
        "two queryables": ["REQUEST", "RESPONSE", "ERR", "RESPONSE_FINAL"],
        "interest, declarations, final": ["D_FINAL", "D_SUBSCRIBER", "D_TOKEN", "U_TOKEN", "U_SUBSCRIBER"],
        "tokens that are there and tokens that come": ["D_TOKEN", "D_FINAL", "U_TOKEN"],
        "a fragmented publication to another session": ["PUSH"],
        "the same alias in two sessions": ["PUSH"],
    }
    node = node_of(RunConfig(node="pypi", run_dir=tmp_path, run_id="state", seed=1))
    node.start()
    try:
        player = Player(Initiator(node.locator), 2.0)
        for scenario in scenarios():
            # What others said is on its way once the node is done with them.
            links = sorted({step.link for step in scenario.steps})
            behind = [act(Do.SETTLE, link) for link in links] * 2
            played = player.play(Script((reach(scenario.state, "a"), *scenario.steps, *behind)))
            assert not played.failure, scenario.name
            assert not set(wanted.get(scenario.name, [])) - set(played.names), scenario.name
        steps = (reach(State.CONNECTED, "a"), *handshake(), batch(b"\xff"))
        assert player.play(Script(steps)).ending is Ending.REFUSED
    finally:
        node.stop()


def test_cookies_of_noise_differ_and_come_on_links_of_their_own() -> None:
    cases = list(SOURCES["cookies of noise"].cases(random.Random(1)))
    assert len(cases) == len(NOISE_SIZES)
    for case in cases:
        assert [step.do for step in case.steps] == [Do.REACH, Do.SEND, Do.AWAIT] * NOISES
        said = [step.data for step in case.steps if step.do is Do.SEND]
        assert len(set(said)) == NOISES


@pytest.mark.parametrize(("story", "said"), [("INIT", init), ("OPEN", opening)])
def test_half_of_a_message_waits_behind_a_length_that_says_more(
    story: str, said: Callable[[str], Step]
) -> None:
    (case,) = (case for case in cases(100) if case.mutation == f"many links behind half an {story}")
    halves = [step for step in case.steps if step.note.startswith("half of ")]
    assert len(halves) > 2
    for step in halves:
        sent, whole = step.data.fill(VALUES), said(step.link).data.fill(VALUES)
        assert sent[:2] == (127).to_bytes(2, "little")
        assert whole[2:].startswith(sent[2:])
        assert 0 < len(sent) < len(whole)

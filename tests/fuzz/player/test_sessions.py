"""What a session can be in: declarations, queries that wait, half a message, what INIT agreed on."""

import select
import time
from collections.abc import Iterator

import pytest

from conformance.config import Locator, RunConfig
from conformance.nodes import Node, node_of
from fuzz.cases import reach, send
from fuzz.player import Ending, Initiator, NotReached, Pipe, Player
from fuzz.player.sessions import (
    ALIAS,
    ASSISTANT,
    COMPRESSION,
    HALF,
    LOW_LATENCY,
    QUERIES,
    SERVED,
    WAITING,
    WHOLE,
    agreed,
    frame,
    helper,
)
from fuzz.player.tasks import run
from fuzz.script import Script
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.batch import contents
from scapy_layers.data import Put
from scapy_layers.network import Push, ResponseFinal
from scapy_layers.transport import Fragment
from tests.fuzz.fakes import Server

REPLY = 30.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    config = RunConfig(node="ref", run_dir=tmp_path_factory.mktemp("run"), run_id="run", seed=1)
    with node_of(config) as running:
        yield running


@pytest.fixture
def player(node: Node) -> Iterator[Player]:
    made = Player(Initiator(node.locator), REPLY)
    yield made
    made.leave()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(lambda _: "")
    yield made
    made.close()


def test_node_knows_what_was_declared(player: Player) -> None:
    pipe = player.reach(State.DECLARED)
    other = player.reach(State.OPEN, "b")
    other.send(
        frame(
            Push(key_suffix=f"{pipe.facts['base']}/k", extensions=[ext.QoS(D=1)], body=Put(data=b"v"))
        ).fill(other)
    )
    run(player.fenced(other))
    assert heard(pipe, "PUSH") == ("FRAME", "PUSH", "PUT")


def heard(pipe: Pipe, name: str) -> tuple[str, ...]:
    """Waits for a batch with a message in it; returns the names of all that are in it."""
    deadline = time.monotonic() + REPLY
    while time.monotonic() < deadline:
        for answer in pipe.take():
            if name in answer.names:
                return answer.names
        pipe.wait(deadline - time.monotonic())
        pipe.receive()
    return ()


def test_alias_stands_for_the_base_key(player: Player) -> None:
    pipe = player.reach(State.DECLARED)
    player.helpers[ASSISTANT].deaf = False
    pipe.send(
        frame(
            Push(key_scope=ALIAS, M=1, key_suffix="/k", extensions=[ext.QoS(D=1)], body=Put(data=b"v"))
        ).fill(pipe)
    )
    run(player.fenced(pipe))
    assert heard(player.helpers[ASSISTANT], "PUSH") == ("FRAME", "PUSH", "PUT")


def test_queries_of_the_node_wait_for_us(player: Player) -> None:
    pipe = player.reach(State.PENDING)
    assert len(pipe.rids) == len(set(pipe.rids)) == WAITING
    first, second = pipe["rid"], pipe["rid"]
    assert first != second
    beside = player.helpers[ASSISTANT]
    beside.deaf = False
    asked = beside.facts["request"] - WAITING
    pipe.send(frame(ResponseFinal(request_id=contents(b"\x1a" + first).messages[0].request_id)).fill(pipe))
    finals: list[ResponseFinal] = []
    while not finals:
        assert beside.wait(REPLY)
        beside.receive()
        inside = [one for answer in beside.take() for one in contents(answer.batch).messages[0].messages]
        finals += [one for one in inside if isinstance(one, ResponseFinal)]
    assert len(finals) == 1
    assert asked <= finals[0].request_id < asked + WAITING


def test_queries_of_ours_wait(player: Player) -> None:
    pipe = player.reach(State.PENDING)
    run(player.fenced(pipe))
    # None was ended by the node; when the assistant leaves, all of them are.
    player.helpers.pop(ASSISTANT).close()
    ended: list[int] = []
    while len(ended) < len(QUERIES):
        assert pipe.wait(REPLY)
        pipe.receive()
        for answer in pipe.take():
            inside = contents(answer.batch).messages[0].messages
            ended += [one.request_id for one in inside if isinstance(one, ResponseFinal)]
    assert sorted(ended) == list(QUERIES)


def test_half_a_message_becomes_a_whole_one(player: Player) -> None:
    pipe = player.reach(State.FRAGMENTING)
    hearer = player.reach(State.OPEN, "b")
    from scapy_layers.declarations import DeclareSubscriber
    from scapy_layers.network import Declare

    hearer.send(frame(Declare(body=DeclareSubscriber(entity_id=1, key_suffix="fuzz/k"))).fill(hearer))
    run(player.fenced(hearer))
    last = bytes(Fragment(R=1, sn=0, data=WHOLE[HALF:]))
    step = send("size", last[:1], "sn", last[2:])
    pipe.send(step.data.fill(pipe))
    assert heard(hearer, "PUSH") == ("FRAME", "PUSH", "PUT")


def test_assistant_outlives_cases_and_is_made_anew_when_it_is_gone(player: Player) -> None:
    player.reach(State.DECLARED)
    first = player.helpers[ASSISTANT]
    player.close()
    player.reach(State.DECLARED)
    assert player.helpers[ASSISTANT] is first
    first.close()
    player.reach(State.DECLARED)
    assert not player.helpers[ASSISTANT].ended
    player.leave()
    assert not player.helpers


def test_an_assistant_has_few_links_and_does_not_leave_one_that_needs_it(player: Player) -> None:
    kept = player.reach(State.PENDING, "kept")
    first = player.helpers[ASSISTANT]
    for _ in range(2 * SERVED):
        player.reach(State.DECLARED)
    assert player.helpers[ASSISTANT] is first
    kept.close()
    served = set()
    for _ in range(SERVED + 1):
        player.reach(State.DECLARED)
        served.add(player.helpers[ASSISTANT])
    # The link before is closed when the next is made.
    assert len(served) == 2
    assert first not in served
    assert first.ended


def test_assistant_that_the_node_has_ended_behind_its_last_words_is_made_anew(player: Player) -> None:
    player.reach(State.DECLARED)
    first = player.helpers[ASSISTANT]
    first.send(b"\x01\x00\xff")
    ended = select.poll()
    ended.register(first.fileno(), select.POLLRDHUP)
    assert ended.poll(REPLY * 1000)
    # CLOSE is there to be read, and the end behind it.
    player.reach(State.DECLARED)
    assert player.helpers[ASSISTANT] is not first
    assert not player.helpers[ASSISTANT].ended


def test_links_of_one_player_do_not_hear_each_other(player: Player) -> None:
    keys = {player.reach(State.DECLARED, name).facts["base"] for name in "abc"}
    assert len(keys) == 3
    assert all(key.startswith("@fuzz/") for key in keys)


@pytest.mark.parametrize("state", [State.LOW_LATENCY, State.COMPRESSED])
def test_node_that_does_not_agree_is_no_node_for_it(server: Server, state: State) -> None:
    player = Player(Initiator(Locator("tcp", "127.0.0.1", server.port)), REPLY)
    with pytest.raises(NotReached, match="does not accept"):
        player.reach(state)
    player.leave()


def test_helper_that_is_not_reached_is_not_kept(server: Server) -> None:
    player = Player(Initiator(Locator("tcp", "127.0.0.1", server.port)), 0.05)
    server._stalled = True
    with pytest.raises(NotReached):
        run(helper(player, "x"))
    assert not player.helpers


@pytest.mark.parametrize(
    ("shape", "header", "there"),
    [
        ("INIT/a1(05,27)", LOW_LATENCY, True),
        ("INIT/a1(06)", COMPRESSION, True),
        ("INIT/a1(01,27)", LOW_LATENCY, False),
        ("INIT/21", COMPRESSION, False),
        ("INIT/a1(45)", LOW_LATENCY, False),
    ],
)
def test_what_was_agreed_on(server: Server, shape: str, header: str, *, there: bool) -> None:
    player = Player(Initiator(Locator("tcp", "127.0.0.1", server.port)), REPLY)
    pipe = player.reach(State.CONNECTED)
    pipe.facts["agreed"] = shape
    assert agreed(pipe, header) is there
    player.leave()


def test_stimulus_in_a_state_with_declarations(player: Player) -> None:
    played = player.play(Script((reach(State.PENDING, "a"), send("size", b"\x04"))))
    assert (played.failure, played.ending) == ("", Ending.ACCEPTED)

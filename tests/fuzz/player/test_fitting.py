"""Large messages for nodes that have agreed to small batches."""

import random
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.oracles.canary import Canary
from fuzz.player import Initiator, Player, Trace
from fuzz.player.answers import Answers
from fuzz.player.fitting import NODE_BATCH, fitted, room_of
from fuzz.player.pipe import Pipe
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.batch import BatchReader, contents, prefixed
from scapy_layers.data import Put
from scapy_layers.message import Extension
from scapy_layers.network import Push
from scapy_layers.transport import Fragment, Frame, Init
from tests.fuzz.campaigns.test_state import ENDS


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    mine, other = socket.socketpair()
    with mine, other:
        yield Pipe(mine, ENDS, Trace(), Answers(), bytes(16))


def framed(size: int, pipe: Pipe) -> bytes:
    """Returns a batch of so many bytes, with the number that is due."""
    before = pipe.sn
    _ = pipe["sn"]
    made = Frame(R=1, sn=before, messages=[Push(key_suffix="a/b", body=Put(data=b""))])
    return prefixed(
        bytes(
            Frame(
                R=1,
                sn=before,
                messages=[Push(key_suffix="a/b", body=Put(data=bytes(size - len(bytes(made)) - 4)))],
            )
        )
    )


def test_large_message_goes_in_fragments_of_the_agreed_size(pipe: Pipe) -> None:
    pipe.facts["room"] = room_of(bytes(Init(A=1, S=1, zid=b"\x01" * 9, batch_size=2048, cookie=b"")))
    first = pipe.sn
    whole = framed(20_000, pipe)
    batches = list(BatchReader().feed(fitted(whole, pipe)))
    parts = [contents(batch).messages[0] for batch in batches]
    assert max(map(len, batches)) <= 2048 - 2
    assert [part.sn for part in parts] == list(range(first, first + len(parts)))
    assert pipe.sn == first + len(parts)
    assert [part.M for part in parts] == [1] * (len(parts) - 1) + [0]
    assert whole.endswith(b"".join(bytes(part.data) for part in parts))


@pytest.mark.parametrize(
    ("more", "chain"),
    [(1, [ext.Lane(priority=1), ext.First()]), (1, [ext.Lane(priority=1)]), (0, []), (1, [ext.Drop()])],
)
def test_large_fragment_goes_in_several_that_stand_for_it(
    pipe: Pipe, more: int, chain: list[Extension]
) -> None:
    pipe.facts["room"] = 2048
    first, data = pipe.sn, bytes(range(250)) * 40
    _ = pipe["sn"]
    whole = Fragment(R=1, M=more, sn=first, extensions=list(chain), data=data)
    batches = list(BatchReader().feed(fitted(prefixed(bytes(whole)), pipe)))
    parts = [contents(batch).messages[0] for batch in batches]
    assert max(map(len, batches)) <= 2048 - 2
    assert [part.sn for part in parts] == list(range(first, first + len(parts)))
    assert pipe.sn == first + len(parts)
    assert [part.M for part in parts] == [1] * (len(parts) - 1) + [more]
    assert b"".join(bytes(part.data) for part in parts) == data
    told = [[type(one) for one in part.extensions or ()] for part in parts]
    assert told[0] == [type(one) for one in chain]
    assert set(map(tuple, told[1:])) == {tuple(type(one) for one in chain if isinstance(one, ext.Lane))}


@pytest.mark.parametrize(("room", "size"), [(0, 20_000), (2048, 2000), (31, 20_000), (2048, NODE_BATCH + 2)])
def test_what_fits_or_is_to_be_too_large_stays_whole(pipe: Pipe, room: int, size: int) -> None:
    pipe.facts["room"] = room
    data = framed(size, pipe)
    assert fitted(data, pipe) == data


@pytest.mark.parametrize("size", [40, 64, 128])
def test_what_states_and_the_canary_say_fits_the_batches_that_the_node_has_agreed_to(
    tmp_path: Path, size: int
) -> None:
    # No session of the canary ends while the others are opened and tried, however long that takes.
    words = f"-m conformance.refnode --listen {{locator}} --batch-size {size} --lease 600"
    config = RunConfig(
        node=f"cmd:{shlex.quote(sys.executable)} {words}", run_dir=tmp_path, run_id="run", seed=1
    )
    with node_of(config) as node:
        player = Player(Initiator(node.locator), 30.0)
        # The queries of the node that the other state needs come in FRAGMENTs where there is less room.
        for state in (State.DECLARED, State.PENDING)[: 1 + (size == 128)]:
            player.reach(state)
        player.leave()
        canary = Canary(node, 30.0, random.Random(1))
        canary.open()
        assert all((canary.routes, canary.replies, canary.joins, canary.named, canary.guests.tokens))
        assert [canary.look(), canary.look_at_common(), canary.look_at_tokens()] == [None] * 3
        canary.close()


def test_length_that_lies_stays_a_lie(pipe: Pipe) -> None:
    pipe.facts["room"] = 2048
    data = b"\x01\x00" + framed(20_000, pipe)[2:]
    assert fitted(data, pipe) == data

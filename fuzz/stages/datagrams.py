"""Nodes that hear SCOUT, that look for others, that are in a multicast group."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

from conformance.config import Locator, RunConfig
from conformance.errors import NodeDidNotStart, NotApplicable
from conformance.nodes.base import Node
from conformance.nodes.child import private_scouting, scouting_of
from fuzz.cases import reach, send
from fuzz.player import Door, NotReached, Player, run
from fuzz.player.accepting import PAUSE_SECONDS
from fuzz.player.datagrams import SCOUT, Company, Overheard, Seeker, Speaker
from fuzz.player.doorbell import Doorbell
from fuzz.player.doors import NoLink
from fuzz.script import Script
from fuzz.stages.base import LANES, Stage, variant
from fuzz.states import State
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.message import Message
from scapy_layers.primitives import zid_to_text
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Join

QUIET: dict[str, Any] = {"scouting/gossip/autoconnect": {"router": [], "peer": []}}
"""A node shall be led nowhere by what is said in sessions."""

OPEN_MS = 500
"""So long a node that looks for others waits for an answer of one that it has found."""

FIRST_SECONDS = 2.0
"""So long a node that has started may take until it speaks in its group."""


class Datagrams(Stage):
    """A node that is spoken to in a group.

    Attributes:
        state: The first of the states that it is for.
    """

    state: ClassVar[State]
    prompt = True

    def check(self) -> None:
        """See Stage."""
        why = self.trouble(self.config.reply)
        if why:
            raise NotApplicable(why)

    def trouble(self, reply: float) -> str:
        """See Stage."""
        return self.trouble_at(self.door(), reply)

    def trouble_at(self, door: Door, reply: float) -> str:
        """Returns why the first state is not reached through a door, or nothing."""
        player = Player(door, reply)
        try:
            player.reach(self.state)
        except NotReached as error:
            return str(error)
        else:
            return ""
        finally:
            player.leave()


class Scouting(Datagrams):
    """A node that answers SCOUT, in a group of its own if it is ours.

    Raises:
        NotApplicable: Nobody knows where it hears SCOUT.
    """

    needs = "scouts"
    state = State.SCOUTING

    def __init__(self, node: Node, config: RunConfig, where: Mapping[str, Any]) -> None:
        made = variant(node, {**private_scouting(), **where}) if node.owned and node.configured else node
        if made.scouting is None:
            raise NotApplicable("it is unknown where the node listens for SCOUT")
        super().__init__(made, config)

    def door(self) -> Door:
        """See Stage."""
        assert self.node.scouting is not None
        return Speaker(self.node.scouting)

    def check(self) -> None:
        """See Stage."""
        super().check()
        player = self.player()
        played = player.play(Script((reach(State.SCOUTING, "a"), send(SCOUT))))
        player.leave()
        inside = [one for answer in played.answers for one in contents(answer.batch, Kind.SCOUTING).messages]
        if any(isinstance(one, Hello) and zid_to_text(one.zid) != self.node.zid for one in inside):
            raise NotApplicable("other nodes answer SCOUT at the same address")


class Overhearing(Datagrams):
    """A node that says something in a group by itself, which has to be known.

    Args:
        node: Of the kind.
        config: The run.
        group: Where.
        said: What.
    """

    def __init__(self, node: Node, config: RunConfig, group: Locator, said: type[Message]) -> None:
        super().__init__(node, config)
        self.group = group
        self.said = Overheard(group, said)

    def launch(self) -> None:
        """See Stage.

        Raises:
            NotApplicable: It says nothing there, the first time.
        """
        self.said.forget()
        self.node.start()
        try:
            run(self.said.first(FIRST_SECONDS))
        except NoLink as error:
            if self.node.starts > 1:
                raise NodeDidNotStart(str(error)) from None
            raise NotApplicable(str(error)) from None

    def stop(self) -> None:
        """See Stage."""
        super().stop()
        self.said.close()


class Seeking(Overhearing):
    """A peer that looks for others, in a group of its own."""

    needs = "seeks"
    state = State.SEEKING
    lanes = LANES
    prompt = False

    def __init__(self, node: Node, config: RunConfig, where: Mapping[str, Any]) -> None:
        scouting = private_scouting()
        wanted = {
            "mode": "peer",
            **scouting,
            "scouting/multicast/autoconnect": {"router": [], "peer": ["router", "peer"]},
            **where,
        }
        # While it waits for one that it follows, it follows no other.
        made = variant(node, wanted, {**QUIET, "transport/unicast/open_timeout": OPEN_MS})
        group = scouting_of(scouting)
        assert group is not None
        super().__init__(made, config, group, Scout)
        # One more than there are players, to see whether it follows.
        self._bells = [Doorbell() for _ in range(self.lanes + 1)]
        self._turn = itertools.cycle(self._bells[: self.lanes])

    def door(self) -> Door:
        """See Stage."""
        return Seeker(self.group, self.said, next(self._turn))

    def renew(self, player: Player) -> None:
        """See Stage."""

    def trouble(self, reply: float) -> str:
        """See Stage. A node that has just followed a HELLO that led nowhere may pause."""
        door = Seeker(self.group, self.said, self._bells[-1])
        return self.trouble_at(door, max(reply, PAUSE_SECONDS))

    def stop(self) -> None:
        """See Stage."""
        super().stop()
        for bell in self._bells:
            bell.close()


class Joining(Overhearing):
    """A peer in a multicast group of its own, which takes sessions too."""

    needs = "joins"
    state = State.JOINED

    def __init__(self, node: Node, config: RunConfig, where: Mapping[str, Any]) -> None:
        address = private_scouting()["scouting/multicast/address"]
        group = Locator.parse(f"udp/{address}#iface=lo")
        wanted = {
            "mode": "peer",
            "listen/endpoints": ["tcp/127.0.0.1:0", str(group)],
            "scouting/multicast/enabled": False,
            **where,
        }
        super().__init__(variant(node, wanted, QUIET), config, group, Join)

    def door(self) -> Door:
        """See Stage."""
        return Company(self.group, super().door(), self.said)

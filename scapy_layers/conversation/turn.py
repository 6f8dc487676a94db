"""A message with all that is needed to say what it means."""

from __future__ import annotations

from typing import NamedTuple

from scapy_layers.conversation.heard import Heard
from scapy_layers.conversation.memory import Memory, Talk
from scapy_layers.conversation.session import Party, Session


class Turn(NamedTuple):
    """Who says what: a message, the link it came on, and the end that sent it.

    Attributes:
        memory: All that is remembered.
        talk: What is remembered of the link.
        way: Which way of the link: 0 or 1.
        heard: The message.
    """

    memory: Memory
    talk: Talk
    way: int
    heard: Heard

    @property
    def session(self) -> Session:
        """What the link belongs to now: a handshake may change it."""
        return self.talk.session

    @property
    def side(self) -> int:
        """The end of the session that speaks, 0 or 1."""
        return self.way ^ self.talk.flipped

    @property
    def speaker(self) -> Party:
        """What is known of that end."""
        return self.session.parties[self.side]

    @property
    def listener(self) -> Party:
        """What is known of the other end."""
        return self.session.parties[1 - self.side]

    @property
    def asks(self) -> int:
        """The end under which requests and interests of the speaker are kept."""
        return 0 if self.session.multicast else self.side

    @property
    def answers(self) -> int:
        """The end whose requests and interests the speaker answers; in a group nobody can tell whose."""
        return 0 if self.session.multicast else 1 - self.side

"""Plays scripts against a node: links without ceremony, thousands of cases a second.

``Player`` brings links into states and sends; a ``Door`` says where links come from; ``Answers`` reads what comes
back; ``Trace`` remembers all of it. The conformance tester does the same with every message taken apart, which
takes ten times as long; here only answers of a new shape are.
"""

from fuzz.player.answers import Answer, Answers
from fuzz.player.doors import Door, Initiator
from fuzz.player.pipe import Pipe
from fuzz.player.player import Ending, NotReached, Played, Player, reach, settling, template_of
from fuzz.player.tasks import Task, Wait, run
from fuzz.player.trace import Event, Trace

# Behind the player: each registers how its states are reached.
from fuzz.player import accepting, datagrams, sessions  # isort: skip

__all__ = [
    "Answer",
    "Answers",
    "Door",
    "Ending",
    "Event",
    "Initiator",
    "NotReached",
    "Pipe",
    "Played",
    "Player",
    "Task",
    "Trace",
    "Wait",
    "accepting",
    "datagrams",
    "reach",
    "run",
    "sessions",
    "settling",
    "template_of",
]

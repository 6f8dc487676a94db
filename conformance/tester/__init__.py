"""Our ends of links, sessions, scouting and groups, every step of them bendable.

``Tester`` makes ends: ``link``, ``session``, ``starting``, ``listen``, ``scout``, ``responder``, ``group``. What they
share is in ``shared``, what they hear and expect in ``hearing``. ``bends`` change what leaves, ``script`` says what to
do as plain data, ``play`` does it, ``journal`` writes it down.
"""

from conformance.tester.bending import Bend, Bent
from conformance.tester.canary import is_refusal, is_unanswered, trouble, why_not_well
from conformance.tester.counting import largest_number
from conformance.tester.ends import End
from conformance.tester.group import GroupEnd
from conformance.tester.listener import ListenerEnd
from conformance.tester.play import play
from conformance.tester.played import Played
from conformance.tester.scout import ResponderEnd, ScoutEnd
from conformance.tester.script import Script
from conformance.tester.session import SessionEnd, TesterPolicy
from conformance.tester.shared import Fencing, fresh_zid
from conformance.tester.tester import Tester

__all__ = [
    "Bend",
    "Bent",
    "End",
    "Fencing",
    "GroupEnd",
    "ListenerEnd",
    "Played",
    "ResponderEnd",
    "ScoutEnd",
    "Script",
    "SessionEnd",
    "Tester",
    "TesterPolicy",
    "fresh_zid",
    "is_refusal",
    "is_unanswered",
    "largest_number",
    "play",
    "trouble",
    "why_not_well",
]

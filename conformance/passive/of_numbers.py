"""Rules of sequence numbers, fragments, and request ids: what depends on what was said before."""

# ruff: noqa: D103  (a rule is named by what it demands)

from __future__ import annotations

from conformance.expect import check
from conformance.passive.rules import rule
from conformance.passive.talk import DROP, FIRST, MULTILINK, QOS, Talk, extension_of, lane_of
from conformance.session.sequence import USED_BITS, WRITTEN_BITS
from scapy_layers.codes import Priority
from scapy_layers.extensions import Lane
from scapy_layers.message import Message
from scapy_layers.network import Response, ResponseFinal
from scapy_layers.transport import Fragment, Frame

TOPS = frozenset((1 << bits) - 1 for bits in (*USED_BITS, *WRITTEN_BITS))
"""Numbers behind which 0 comes: the range in use is smaller than the one on the page."""


def _alone(talk: Talk) -> bool:
    """Tells whether a session has no other link on which something may travel."""
    return talk.certain and not talk.agreed(MULTILINK)


def _followed(talk: Talk) -> bool:
    """Tells whether all that travels on a session is seen here, in its order."""
    return _alone(talk) and talk.proto != "udp"


@rule("ZN-FRM-010", Frame, Fragment)
def numbers_rise_by_one(message: Message, talk: Talk) -> bool | None:
    return None if lane_of(message) not in talk.whole and _next(message, talk) else False


@rule("ZN-FRG-003", Frame, Fragment)
def numbers_go_on_behind_fragments(message: Message, talk: Talk) -> bool | None:
    return None if lane_of(message) in talk.whole and _next(message, talk) else False


def _next(message: Message, talk: Talk) -> bool:
    """Judges that a number is the one behind the last of its channel; tells whether that is known.

    Raises:
        Unmet: It is another.
    """
    last, number = talk.numbers.get(lane_of(message)), message.fields.get("sn")
    if last is None or number is None or not _followed(talk):
        return False
    check(number == last + 1 or (number == 0 and last in TOPS), "the next number of the channel", "another")
    return True


@rule("ZN-OPEN-011", Frame, Fragment)
def numbers_begin_where_open_says(message: Message, talk: Talk) -> bool | None:
    if lane_of(message) in talk.numbers or talk.opened is None or not _followed(talk):
        return False
    check(message.fields.get("sn") == talk.opened.initial_sn, "the number that OPEN announced", "another")
    return None


@rule("ZN-FRM-002", Frame, Fragment)
def numbers_are_in_the_agreed_range(message: Message, talk: Talk) -> bool | None:
    number = message.fields.get("sn")
    if number is None or not talk.certain:
        return False
    bits = talk.bits("fsn")
    check(number >> bits == 0, f"a number of at most {bits} bits", "a larger one")
    return None


@rule("ZN-FRG-102", Frame)
def nothing_comes_between_fragments(frame: Frame, talk: Talk) -> bool | None:
    if not _followed(talk):
        return False
    check(lane_of(frame) not in talk.unfinished, "the other fragments first", "FRAME")
    return None


@rule("ZN-INIT-043", Fragment)
def fragments_are_marked_only_when_agreed(fragment: Fragment, talk: Talk) -> bool | None:
    if not talk.certain or talk.patch:
        return False
    marked = extension_of(fragment, FIRST) is not None or extension_of(fragment, DROP) is not None
    check(not marked, "fragments without First and Drop when patch 0 is agreed", "with")
    return None


@rule("ZN-INIT-044", Fragment)
def first_fragments_are_marked_when_agreed(fragment: Fragment, talk: Talk) -> bool | None:
    if not _followed(talk) or not talk.patch:
        return False
    begins = lane_of(fragment) not in talk.unfinished
    marked = extension_of(fragment, FIRST) is not None
    if begins and extension_of(fragment, DROP) is not None:
        return False
    check(begins == marked, "First on the first fragment of a message, on no other", "the opposite")
    return None


# Lanes ---------------------------------------------------------------------------------------------------


@rule("ZN-NET-006", Frame, echoed=True)
def lane_is_that_of_the_priority_inside(frame: Frame, talk: Talk) -> bool | None:
    lane = extension_of(frame, 0x1)
    if not talk.certain or not talk.agreed(QOS) or not (lane is None or isinstance(lane, Lane)):
        return False
    number = Priority.DATA if lane is None else lane.fields["priority"]
    judged = False
    for message in frame.fields.get("messages", ()):
        qos = extension_of(message, 0x1)
        if qos is None or "priority" not in qos.fields:
            continue
        judged = True
        words = "priority and lane of the same number"
        check(qos.fields["priority"] == number, words, "of two different ones")
    return judged


# Requests -------------------------------------------------------------------------------------------------


@rule("ZN-FIN-002", ResponseFinal)
def final_has_the_id_of_a_request(final: ResponseFinal, talk: Talk) -> bool | None:
    if not _alone(talk) or final.errors:
        return False
    check(talk.asked[final.request_id], "RESPONSE_FINAL for a request of ours", "for none")
    return None


@rule("ZN-FIN-004", ResponseFinal)
def one_final_answers_a_request(final: ResponseFinal, talk: Talk) -> bool | None:
    asked = talk.asked[final.request_id] if not final.errors else 0
    if not _alone(talk) or not asked:
        return False
    check(talk.finished[final.request_id] < asked, "one RESPONSE_FINAL", "another one")
    return None


@rule("ZN-RSP-002", Response)
def response_has_the_id_of_a_request(response: Response, talk: Talk) -> bool | None:
    if not _alone(talk) or response.errors:
        return False
    check(talk.asked[response.request_id], "RESPONSE for a request of ours", "for none")
    return None


@rule("ZN-FIN-003", Response)
def no_response_comes_behind_the_final(response: Response, talk: Talk) -> bool | None:
    asked = talk.asked[response.request_id] if not response.errors else 0
    if not _alone(talk) or not asked:
        return False
    check(talk.finished[response.request_id] < asked, "no RESPONSE behind RESPONSE_FINAL", "RESPONSE")
    return None

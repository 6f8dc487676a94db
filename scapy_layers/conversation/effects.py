"""What each message does to what is remembered. The tables at the end are the place to look first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from scapy_layers import extensions
from scapy_layers.codes import InterestMode, Kind, Priority
from scapy_layers.conversation.exchanges import Exchange, ExchangeKind, Key
from scapy_layers.conversation.session import extension
from scapy_layers.conversation.turn import Turn
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.errors import WireError
from scapy_layers.fragments import Piece, Place
from scapy_layers.lanes import WHOLE, Part
from scapy_layers.message import Layer, message_class
from scapy_layers.network import Declare, Interest, Request, Response, ResponseFinal
from scapy_layers.primitives import Reader
from scapy_layers.remarks import Lane, Remark, RemarkKind
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, Open


class Carried(NamedTuple):
    """A network message that a FRAME or the last FRAGMENT brought.

    Attributes:
        message: The message.
        errors: What is refused in it.
        pieces: Packet numbers of the fragments.
        left: Bytes behind it in what the fragments made; receivers pass over them.
    """

    message: Layer
    errors: Sequence[WireError] = ()
    pieces: tuple[int, ...] = ()
    left: int = 0


def carried_by(frame: Frame) -> list[Carried]:
    """Returns the network messages of a FRAME."""
    inside = frame.fields.get("messages", ())
    if not frame.errors:
        return [Carried(message) for message in inside]
    return [Carried(message, message.errors) for message in inside]


# Handshake ----------------------------------------------------------------------------------------


def _init(turn: Turn) -> None:
    talk, message = turn.talk, turn.heard.message
    if message.A and talk.opened[1 - turn.way] and talk.inits[turn.way] is None and not talk.link.tcp:
        talk.link.disordered = talk.link.late = True  # the other one has answered it before
    elif _too_late(turn):
        return
    talk.inits[turn.way] = message
    turn.session.introduce(turn.side, message)
    other = talk.inits[1 - turn.way]
    ack = message if message.A else other
    if ack is None or not ack.A:
        talk.switch()
        return
    # Where one INIT was not captured: the acceptor names what both will do. It may come first, too, for the
    # beginning of a direction is sought for longer than that of the other.
    syn = other if message.A else message
    turn.session.agree(ack if syn is None or syn.A else syn, ack)
    if other is not None:
        turn.memory.make_sure(talk)
    talk.switch()


def _open(turn: Turn) -> None:
    talk, session = turn.talk, turn.session
    if _too_late(turn):
        return
    if not turn.heard.message.A and talk.opened[1 - turn.way] and not talk.link.tcp:
        talk.link.disordered = talk.link.late = True  # it was answered before
    session.open(turn.side, turn.heard.message)
    # In low latency nothing tells of datagrams that are lost.
    turn.speaker.complete = talk.inits[turn.way] is not None and (talk.link.tcp or not session.lowlatency)
    if session.multilink and turn.memory.midway:
        # The link may join a session whose beginning was not captured.
        turn.speaker.doubt()
    talk.opened[turn.way] = talk.settled[turn.way] = True
    if turn.heard.message.A and talk.missed[1 - turn.way]:
        talk.settled[1 - turn.way] = True  # what it answers is among what is missing
    talk.starts[turn.way] = int(turn.heard.message.initial_sn)
    talk.switch()
    if all(talk.opened) and session.multilink:
        turn.memory.unite(talk, turn.heard.time)
    elif all(talk.opened) and all(talk.inits):
        turn.memory.cross(talk, turn.heard.time)


def _too_late(turn: Turn) -> bool:
    """Tells whether the handshake is over; nodes take no notice of INIT and OPEN then."""
    if not all(turn.talk.opened):
        return False
    turn.heard.ignored = True
    turn.heard.remark(RemarkKind.PLACE, f"{turn.heard.message.name} inside a session")
    return True


def _close(turn: Turn) -> None:
    talk = turn.talk
    if talk.link.tcp:
        # Messages of the other end may be under way; the end of the connection ends all.
        return
    talk.ended[turn.way] = True
    if turn.session.multicast:
        turn.memory.drop(talk)
    elif all(talk.ended):
        turn.memory.close(talk)


def _join(turn: Turn) -> None:
    session = turn.session
    if not session.multicast:
        turn.heard.ignored = True
        turn.heard.remark(RemarkKind.PLACE, "JOIN outside of a group")
    elif session.parties[0].zid is None:
        session.join(turn.heard.message)
        session.compression = turn.talk.compressed
    else:
        # One JOIN may be something else that looks like it, the same again is none.
        turn.memory.make_sure(turn.talk)


# Lanes --------------------------------------------------------------------------------------------


def _frame(turn: Turn) -> list[Carried]:
    frame = turn.heard.message
    if place := _number(turn, WHOLE):
        lost = turn.memory.fragments.interrupt(place, frame.fields["sn"])
        _missed(turn, lost)
    return carried_by(frame)


def _fragment(turn: Turn) -> list[Carried]:
    heard, fragment = turn.heard, turn.heard.message
    first = extension(fragment, extensions.First) is not None
    drop = extension(fragment, extensions.Drop) is not None
    inside = bool(turn.session.patch) and not first
    place = _number(turn, Part(fragment=True, begins=first, ends=drop or not fragment.M, inside=inside))
    if place is None:
        return []
    piece = Piece(heard.number, fragment.sn, fragment.data, more=bool(fragment.M), first=first, drop=drop)
    speaker = turn.speaker
    whole, remark = turn.memory.fragments.take(
        place,
        piece,
        patch=turn.session.patch,
        mask=speaker.numbers.mask,
        complete=speaker.complete,
        opens=turn.talk.inits[turn.way] is not None and speaker.numbers.is_first(place.lane, fragment.sn),
    )
    _missed(turn, remark)
    if whole is None:
        return []
    cls = message_class(Kind.NETWORK, whole.data[0] & 0x1F) if whole.data else None
    if cls is None:
        _missed(turn, Remark(RemarkKind.FRAGMENT, "the fragments make no network message"))
        return []
    reader = Reader(whole.data)
    message = cls.read(reader)
    return [Carried(message, message.errors, whole.pieces, reader.left)]


def _number(turn: Turn, part: Part) -> Place | None:
    """Judges the sequence number of a FRAME or FRAGMENT; returns its lane unless receivers drop it."""
    heard, session, fields = turn.heard, turn.session, turn.heard.message.fields
    qos = extension(heard.message, extensions.Lane)
    lane = heard.lane = Lane(Priority.DATA if qos is None else Priority(qos.priority), bool(fields["R"]))
    if lane.priority is not Priority.DATA:
        if session.qos is False:
            heard.remark(RemarkKind.LANE, f"lane {lane.priority.name} in a session without QoS")
        elif session.qos is None:
            session.qos = True
    reorder = turn.memory.limits.reorder if session.multilink else 0
    lossy = not turn.talk.link.tcp
    taken = turn.speaker.numbers.take(lane, fields["sn"], part, reorder=reorder, lossy=lossy)
    _missed(turn, taken.remark)
    heard.ignored = not taken.fresh
    # Behind a CLOSE in the same datagram there is no session any more.
    return Place(session.number, turn.side, lane) if taken.fresh and session.links else None


def _missed(turn: Turn, remark: Remark | None) -> None:
    """Adds a remark, if there is one, that says that something of the sender was not heard."""
    if remark:
        if not turn.talk.link.tcp and (
            remark.kind in {RemarkKind.GAP, RemarkKind.OLD}
            or (remark.kind is RemarkKind.FRAGMENT and _may_lack_some(turn))
        ):
            remark = remark._replace(kind=RemarkKind.UNORDERED)
        turn.heard.remarks.append(remark)
        turn.speaker.complete = False


def _may_lack_some(turn: Turn) -> bool:
    """Tells whether fragments may have been lost on the way: a number is missing here, or none says where it begins."""
    if turn.session.multilink or not turn.session.patch:
        return True
    return any(one.kind in {RemarkKind.LOSS, RemarkKind.UNORDERED} for one in turn.heard.remarks)


# Requests and interests ---------------------------------------------------------------------------


def _request(turn: Turn) -> None:
    number = turn.heard.message.request_id
    before = _ask(turn, "query", number)
    if before and not turn.session.multicast and turn.session.certain(1 - turn.side):
        text = f"request id {number} is in use since packet {before.asked}"
        turn.heard.remarks.append(turn.session.unheard(RemarkKind.REQUEST, text))


def _response(turn: Turn) -> None:
    heard, exchanges = turn.heard, turn.memory.exchanges
    heard.exchange = exchanges.answer(turn.session, _asked(turn), heard.number, heard.time)
    if heard.exchange is None:
        # A final that travels in another lane may overtake what it follows.
        heard.exchange = exchanges.answer_late(turn.session, _asked(turn), heard.number, heard.time)
        if heard.exchange:
            kind, text = RemarkKind.REQUEST, f"behind the RESPONSE_FINAL of packet {heard.exchange.ended}"
            # In low latency nothing numbers datagrams, which the final may have overtaken.
            heard.remarks.append(Remark(kind, text) if heard.lane else turn.session.unheard(kind, text))
    _check_asked(turn)


def _response_final(turn: Turn) -> None:
    heard = turn.heard
    heard.exchange = turn.memory.exchanges.end(turn.session, _asked(turn), heard.number, heard.time)
    _check_asked(turn)


def _interest(turn: Turn) -> None:
    heard, message = turn.heard, turn.heard.message
    if message.mode == InterestMode.FINAL:
        key = ("interest", turn.asks, message.interest_id, "")
        heard.exchange = turn.memory.exchanges.end(turn.session, key, heard.number, heard.time)
        if heard.exchange:
            heard.keyexpr = heard.exchange.keyexpr
        return
    _ask(turn, "interest", message.interest_id, future=bool(message.mode & InterestMode.FUTURE))


def _ask(turn: Turn, kind: ExchangeKind, number: int, *, future: bool = False) -> Exchange | None:
    """Opens a request or interest; returns the one that had its id."""
    heard = turn.heard
    heard.exchange = Exchange(kind, number, heard.keyexpr, heard.number, heard.time, future=future)
    return turn.memory.exchanges.begin(turn.session, (kind, turn.asks, number, ""), heard.exchange)


def _asked(turn: Turn) -> Key:
    return "query", turn.answers, turn.heard.message.request_id, ""


def _check_asked(turn: Turn) -> None:
    """Adds a remark to an answer to nothing, if the request must have been heard, had there been one."""
    if turn.heard.exchange is None and _remembers_all(turn, 1 - turn.side):
        text = f"no open request has the id {turn.heard.message.request_id}"
        turn.heard.remarks.append(turn.session.unheard(RemarkKind.REQUEST, text))


def _remembers_all(turn: Turn, side: int) -> bool:
    """Tells whether what one end has open must be known."""
    return turn.session.certain(side) and turn.memory.exchanges.lossless(turn.session)


# Declarations -------------------------------------------------------------------------------------


def _declare(turn: Turn) -> None:
    heard, message = turn.heard, turn.heard.message
    if message.I:
        key = ("interest", turn.answers, message.interest_id, "")
        heard.interest = turn.memory.exchanges.answer(turn.session, key, heard.number, heard.time)
    DECLARATIONS[type(message.body)].effect(turn)


def _alias(turn: Turn) -> None:
    heard, number = turn.heard, turn.heard.message.body.key_id
    if heard.keyexpr is None:
        return
    remark = turn.memory.aliases.declare(turn.session, turn.side, number, heard.keyexpr)
    if remark:
        heard.remarks.append(remark)
    else:
        _declared(turn, number)


def _no_alias(turn: Turn) -> None:
    heard, number = turn.heard, turn.heard.message.body.key_id
    heard.keyexpr, remark = turn.memory.aliases.undeclare(turn.session, turn.side, number)
    if remark:
        heard.remarks.append(remark)
    _undeclared(turn, number)


def _entity(turn: Turn) -> None:
    _declared(turn, turn.heard.message.body.entity_id)


def _no_entity(turn: Turn) -> None:
    """Ties an undeclaration to its declaration, from which it has its key."""
    heard, body = turn.heard, turn.heard.message.body
    # For those who are interested a node may take back what it never declared here; then it says the key.
    named = bool(heard.keyexpr)
    known = _undeclared(turn, body.entity_id)
    heard.keyexpr = heard.keyexpr or (heard.exchange.keyexpr if heard.exchange else None)
    if not (known or named) and _remembers_all(turn, turn.side):
        text = f"{body.name} of {body.entity_id}, which is not declared"
        heard.remarks.append(turn.session.unheard(RemarkKind.DECLARATION, text))


def _final(turn: Turn) -> None:
    """Notes that the current part of an interest is answered, which ends one without a future."""
    heard = turn.heard
    interest = heard.exchange = heard.interest
    if interest:
        interest.complete = heard.number
        if not interest.future:
            key = ("interest", turn.answers, interest.id, "")
            turn.memory.exchanges.end(turn.session, key, heard.number, heard.time)


def _declared(turn: Turn, number: int) -> None:
    heard, exchanges = turn.heard, turn.memory.exchanges
    key = _kept_as(turn, number)
    known = exchanges.find(turn.session, key)
    if known and known.keyexpr == heard.keyexpr:
        heard.exchange = exchanges.answer(turn.session, key, heard.number, heard.time)
        return
    if known and turn.session.certain(turn.side):
        text = f"{heard.message.body.name} {number} was {known.keyexpr!r} since packet {known.asked}"
        heard.remarks.append(turn.session.unheard(RemarkKind.DECLARATION, text))
    heard.exchange = Exchange("declaration", number, heard.keyexpr, heard.number, heard.time)
    exchanges.begin(turn.session, key, heard.exchange)
    if not number:
        # It may be taken back without its key; then it must be the only one without a number.
        unnamed = (*key[:3], "")
        if exchanges.begin(turn.session, unnamed, heard.exchange):
            exchanges.begin(turn.session, unnamed, SEVERAL)


def _undeclared(turn: Turn, number: int) -> bool:
    """Finds what is taken back, if that can be said, and tells whether there is anything of that id."""
    heard, exchanges = turn.heard, turn.memory.exchanges
    key = _kept_as(turn, number)
    if number or heard.keyexpr:
        heard.exchange = exchanges.end(turn.session, key, heard.number, heard.time)
        if heard.exchange and exchanges.find(turn.session, (*key[:3], "")) is heard.exchange:
            exchanges.forget(turn.session, (*key[:3], ""))
        return heard.exchange is not None
    known = exchanges.find(turn.session, (*key[:3], ""))
    if known and known is not SEVERAL:
        heard.exchange = exchanges.end(turn.session, (*key[:3], ""), heard.number, heard.time)
        exchanges.forget(turn.session, (*key[:3], _named(turn, known.keyexpr)))
    return known is not None


SEVERAL = Exchange("declaration", 0, None, 0, 0)
"""Stands for more than one open declaration without a number."""


def _kept_as(turn: Turn, number: int) -> Key:
    """Returns what a declaration is known by: its id, or, where that is 0, as between routers, node and key."""
    message = turn.heard.message
    kind = DECLARATIONS[type(message.body)].kind
    sender = turn.session.number if turn.session.multicast else turn.side
    return (kind, sender, number, "") if number else (kind, sender, 0, _named(turn, turn.heard.keyexpr))


def _named(turn: Turn, keyexpr: str | None) -> str:
    node = extension(turn.heard.message, extensions.NodeId)
    return f"{node.node_id if node else 0} {keyexpr}"


# The tables ---------------------------------------------------------------------------------------

EFFECTS: Mapping[type[Layer], Callable[[Turn], list[Carried] | None]] = {
    Init: _init,  # who is there; the second one: what both agree on
    Open: _open,  # lease, first sequence number; from here on as agreed; may join a session of several links
    Close: _close,  # ends a session on UDP; TCP has an end of its own
    Join: _join,  # who sends to a group, and its next sequence numbers
    Frame: _frame,  # takes a sequence number, breaks a chain of fragments; carries network messages
    Fragment: _fragment,  # takes a sequence number; may complete a network message
    Request: _request,  # opens a query
    Response: _response,  # answers it
    ResponseFinal: _response_final,  # ends it
    Interest: _interest,  # opens an interest, or ends it
    Declare: _declare,  # answers an interest, if it says so; and by its body:
}
"""Any other message, and one that is refused or that receivers drop, changes nothing."""


class Declaration(NamedTuple):
    """What a body declares or undeclares, and its effect."""

    kind: str
    effect: Callable[[Turn], None]


DECLARATIONS: Mapping[type[Layer], Declaration] = {
    DeclareKeyExpr: Declaration("keyexpr", _alias),  # an alias of the sender
    UndeclareKeyExpr: Declaration("keyexpr", _no_alias),
    DeclareSubscriber: Declaration("subscriber", _entity),
    UndeclareSubscriber: Declaration("subscriber", _no_entity),
    DeclareQueryable: Declaration("queryable", _entity),
    UndeclareQueryable: Declaration("queryable", _no_entity),
    DeclareToken: Declaration("token", _entity),
    UndeclareToken: Declaration("token", _no_entity),
    DeclareFinal: Declaration("interest", _final),  # all that an interest asked for at the time is told
}

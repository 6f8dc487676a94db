"""The session machine: wires states, negotiation, lanes and policy; holds no rule itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from conformance.config import Credentials
from conformance.errors import LocalError, RemoteError
from conformance.session.events import Closed, Event, Opened, Received
from conformance.session.fragments import MAX_MESSAGE
from conformance.session.lanes import Inbox, Outbox, Unit
from conformance.session.multilink import Proof
from conformance.session.negotiate import DEFAULT_SIZES, Offer, accepted, agreed, chain_of, offer_of
from conformance.session.policy import Dice, Policy, password_proof
from conformance.session.registry import Registry
from conformance.session.rsa import PrivateKey
from conformance.session.states import HANDSHAKE, State, Trigger, after
from scapy_layers.batch import LONG_PREFIX, MAX_BATCH, PREFIX, Contents, contents
from scapy_layers.codes import CloseReason, Kind, Priority, WhatAmI
from scapy_layers.errors import WireError
from scapy_layers.extensions import (
    AuthInitAck,
    AuthInitSyn,
    AuthOpenAck,
    AuthOpenSyn,
    Compression,
    LowLatency,
    QoSOffer,
    UsrPwd,
    UsrPwdNonce,
    UsrPwdProof,
)
from scapy_layers.message import Extension, Message
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open

HANDSHAKE_SECONDS = 10.0
"""How long a handshake may take, as real nodes have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """What our end of a session is and offers.

    Attributes:
        zid: Wire bytes of our ZenohID.
        whatami: Our role.
        offer: What INIT proposes, or the most that InitAck accepts.
        lease: Seconds, announced in OPEN.
        credentials: What we show when we connect.
        users: Passwords of the users that may connect to us; None when anybody may.
        handshake_seconds: Time for the handshake.
        max_message: Bytes of unfinished messages, fragments of all lanes together.
        batching: Messages that are queued together share FRAMEs.
        max_links: Links of a session at most.
        key: With which we show that links of ours belong together; needed for more than one.
    """

    zid: bytes
    whatami: int = WhatAmI.CLIENT
    offer: Offer = field(default_factory=Offer)
    lease: float = 10.0
    credentials: Credentials | None = None
    users: Mapping[bytes, bytes] | None = None
    handshake_seconds: float = HANDSHAKE_SECONDS
    max_message: int = MAX_MESSAGE
    batching: bool = False
    max_links: int = 1
    key: PrivateKey | None = None


class Session:
    """One end of a unicast session over one link, without I/O.

    Nothing happens until ``connect`` or ``accept``. All times are seconds of a monotonic clock that the
    owner reads.

    Attributes:
        config: What our end is.
        policy: What it decides.
        state: Where the session stands.
        agreed: What was negotiated; our own offer before.
        peer: The other end, once the session is open.
    """

    def __init__(
        self,
        config: SessionConfig,
        *,
        rng: Dice,
        policy: Policy | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.config = config
        self.policy = policy or Policy()
        self.state = State.IDLE
        self.agreed = config.offer
        self.peer: Opened | None = None
        self._rng = rng
        self._registry = registry or Registry()
        self._node: tuple[bytes, int] = (b"", 0)
        self._outbox = Outbox(self.policy, config.offer, batching=config.batching)
        self._inbox: Inbox | None = None
        self._cookie = b""
        self._nonce: int | None = None
        self._proof = Proof(config.key, rng) if config.key is not None and config.max_links > 1 else None
        self._first: Session | None = None
        self._handshake_until: float | None = None
        self._last_sent = 0.0
        self._last_heard = 0.0

    @property
    def over(self) -> bool:
        """The session has ended."""
        return self.state is State.CLOSED

    @property
    def prefix(self) -> int:
        """Bytes of the length in front of the next batch on a stream link, in both directions."""
        return LONG_PREFIX if self.state is State.OPEN and self.agreed.lowlatency else PREFIX

    @property
    def limit(self) -> int:
        """Bytes of the largest batch that the next length may announce."""
        return self.config.max_message if self.prefix == LONG_PREFIX else MAX_BATCH

    @property
    def joined(self) -> bool:
        """This link is one more of a session that there was."""
        return self._first is not None

    @property
    def initial_sn(self) -> int:
        """Our first sequence number on every lane, once the handshake has come to it."""
        return self._outbox.initial_sn

    # Intents ---------------------------------------------------------------------------------------

    def connect(self, now: float | None = None) -> None:
        """Queues InitSyn.

        Args:
            now: The time, from which the handshake is limited; None for no limit.

        Raises:
            LocalError: The session was started before.
        """
        self._move(Trigger.CONNECT)
        self._limit_handshake(now)
        offer = self.config.offer
        chain = chain_of(offer)
        if self.config.credentials:
            chain.append(AuthInitSyn(extensions=[UsrPwd()]))
        if self._proof is not None:
            chain.append(self._proof.probe())
        # S=0 in the answer would mean two things when the proposal was not the default.
        self._control(self._init(offer, chain))

    def accept(self, now: float | None = None) -> None:
        """Waits for InitSyn.

        Args:
            now: The time, from which the handshake is limited; None for no limit.

        Raises:
            LocalError: The session was started before.
        """
        self._move(Trigger.ACCEPT)
        self._limit_handshake(now)

    def send(
        self,
        message: Message,
        *,
        reliable: bool = True,
        priority: int = Priority.DATA,
        raw: bytes | None = None,
    ) -> None:
        """Queues a network message: numbered, in a FRAME, or in FRAGMENTs when it does not fit.

        Args:
            message: The message.
            reliable: The channel.
            priority: The lane.
            raw: Its bytes, where they are known: who sends a message over many sessions builds it once.

        Raises:
            LocalError: The session is not open, or the lane was not agreed.
        """
        if self.state is not State.OPEN:
            raise LocalError(f"a session that is {self.state!s} carries no network messages")
        if priority != Priority.DATA and not self.agreed.qos:
            raise LocalError("a lane other than DATA needs QoS agreed by both ends")
        self._outbox.put(message, (reliable, int(priority)), prefix=self.prefix, raw=raw)

    def lane_for(self, priority: int) -> int:
        """Returns the lane on which a message of a priority can go: DATA when lanes were not agreed."""
        return priority if self.agreed.qos else int(Priority.DATA)

    def take_sn(self, *, reliable: bool = True, priority: int = Priority.DATA) -> int:
        """Returns the next sequence number of a lane and counts on; for FRAMEs that are made by hand."""
        return self._outbox.take_sn((reliable, int(priority)))

    def close(self, reason: int = CloseReason.GENERIC) -> None:
        """Queues CLOSE and ends the session; one that has not begun or is over stays silent.

        What was queued before leaves before, unless the other end does not read it (UNRESPONSIVE).
        """
        if self.state is State.CLOSED:
            return
        if reason == CloseReason.UNRESPONSIVE:
            self._outbox.drop()
        silent = self.state in {State.IDLE, State.ACCEPTING}
        if not silent:
            self._control(Close(reason=reason))
        self._end(Trigger.CLOSE_SENT)

    # Bytes and time ----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Bytes of network messages that are queued."""
        return self._outbox.waiting

    @property
    def has_more(self) -> bool:
        """Something is queued."""
        return len(self._outbox) > 0

    def units_to_send(self, now: float, most: int | None = None) -> list[Unit]:
        """Returns what is queued, batch by batch, and forgets it.

        Args:
            now: The time.
            most: Batches at most; fragments are made when they are asked for, so a big message costs little
                memory for as long as it waits.
        """
        units = self._outbox.take(most)
        if units:
            self._last_sent = now
        return units

    def batches_to_send(self, now: float) -> list[bytes]:
        """Returns what is queued as bytes of batches, without length prefixes, and forgets it."""
        return [unit.wrap(unit.raw) for unit in self.units_to_send(now)]

    def wrap(self, raw: bytes) -> bytes:
        """Returns a batch as it travels now: with the header byte of compression where that was agreed."""
        return self.policy.wrapped(raw) if self._compressing else raw

    def unwrap(self, batch: bytes) -> bytes:
        """Returns what a batch holds: without the header byte of compression where that was agreed.

        Raises:
            WireError: What is compressed cannot be taken apart.
        """
        if self._compressing:
            return self.policy.unwrapped(batch, self.limit)
        return batch

    def receive(self, batch: bytes, now: float) -> list[Event]:
        """Takes one batch as it travelled, without its length prefix."""
        try:
            plain = self.unwrap(batch)
        except WireError as error:
            return self.receive_contents(Contents((), error, batch), now)
        return self.receive_contents(contents(plain), now)

    def receive_contents(self, inside: Contents, now: float) -> list[Event]:
        """Takes one batch that was unwrapped and taken apart before.

        A node that breaks the protocol gets CLOSE with the reason it deserves, and the events end with
        Closed.
        """
        if self.state in {State.IDLE, State.CLOSED}:
            return []
        if self.state is not State.OPEN or self.policy.renews_lease(inside.messages):
            self._last_heard = now
        handshake = self.state in HANDSHAKE
        events: list[Event] = []
        try:
            for message in inside.messages:
                if message.errors:
                    break
                events += self._take(message, now)
                if self.over:
                    return events
            # Behind a message of the handshake nodes ignore what does not decode.
            if inside.error and not (handshake and inside.messages and not inside.messages[0].errors):
                raise RemoteError(
                    f"the batch does not decode: {inside.error}", self.policy.refusal_of(inside.error)
                )
            if not inside.messages and handshake and not self.policy.takes_empty_units():
                raise RemoteError("an empty batch during the handshake", self.policy.refusal_of(None))
        except RemoteError as error:
            events.append(self._refuse(error))
        return events

    def refuse(self, error: WireError) -> list[Event]:
        """Ends the session for bytes that are no batch, such as a length beyond ``limit``."""
        if self.state in {State.IDLE, State.CLOSED}:
            return []
        return [self._refuse(RemoteError(str(error), self.policy.refusal_of(error)))]

    def link_ended(self, why: str) -> list[Event]:
        """Ends the session because its link is gone; nothing is sent."""
        if self.state is State.CLOSED:
            return []
        started = self.state is not State.IDLE
        self._end(Trigger.LINK_ENDED)
        self._outbox.drop()
        return [Closed(None, by_us=False, why=why)] if started else []

    def next_deadline(self) -> float | None:
        """Returns when ``tick`` is wanted: keep-alive, lease or handshake; None when nothing is due."""
        if self.state in HANDSHAKE:
            return self._handshake_until
        if self.state is not State.OPEN:
            return None
        ours, theirs = self._leases()
        keep_alive = self._last_sent + self.policy.keep_alive_period(ours, theirs)
        return min(keep_alive, self._last_heard + self.policy.effective_lease(ours, theirs))

    def tick(self, now: float) -> list[Event]:
        """Does what is due: queues KEEP_ALIVE, or gives the session up after a silent lease."""
        if self.state in HANDSHAKE:
            if self._handshake_until is None or now < self._handshake_until:
                return []
            return [
                self._give_up(
                    Trigger.TIMED_OUT, self.policy.handshake_refusal(), "the handshake took too long"
                )
            ]
        if self.state is not State.OPEN:
            return []
        ours, theirs = self._leases()
        if now >= self._last_heard + self.policy.effective_lease(ours, theirs):
            why = "the node was silent for a whole lease"
            closed = self._give_up(Trigger.EXPIRED, self.policy.expiry_reason(), why)
            return [replace(closed, all_links=self.policy.expiry_ends_all_links())]
        if now >= self._last_sent + self.policy.keep_alive_period(ours, theirs):
            self._control(KeepAlive())
        return []

    def neglected(self, now: float) -> float:
        """Returns for how many seconds nothing was sent although KEEP_ALIVE was due; 0 below a lease.

        The peer may end the session for that, or has done so.
        """
        if self.state is not State.OPEN:
            return 0.0
        ours, theirs = self._leases()
        most = max(self.policy.keep_alive_period(ours, theirs), min(ours, theirs))
        silence = now - self._last_sent
        return silence if silence >= most else 0.0

    # Inside ------------------------------------------------------------------------------------------

    def _leases(self) -> tuple[float, float]:
        assert self.peer is not None
        return self._announced_lease(self.peer.lease), self.peer.lease

    def _announced_lease(self, theirs: float | None) -> float:
        return self.policy.announced_lease(self.config.lease, theirs)

    def _limit_handshake(self, now: float | None) -> None:
        self._handshake_until = None if now is None else now + self.config.handshake_seconds

    @property
    def _compressing(self) -> bool:
        return self.state is State.OPEN and self.agreed.compression

    def _control(self, message: Message) -> None:
        self._outbox.control(message, prefix=self.prefix, compressed=self._compressing)

    def _move(self, trigger: Trigger) -> None:
        try:
            self.state = after(self.state, trigger)
        except ValueError as error:
            raise LocalError(str(error)) from None

    def _end(self, trigger: Trigger) -> None:
        self._move(trigger)
        self._registry.remove(self._node[0], self)
        self._inbox = None

    def _refuse(self, error: RemoteError) -> Closed:
        return self._give_up(Trigger.BROKEN, error.reason, str(error))

    def _give_up(self, trigger: Trigger, reason: int | None, why: str) -> Closed:
        if self.state is State.OPEN:
            # Whoever broke the protocol or fell silent is not told the rest.
            self._outbox.drop()
        if reason is not None:
            self._control(Close(reason=reason))
        self._end(trigger)
        return Closed(reason, by_us=True, why=why)

    def _take(self, message: Message, now: float) -> list[Event]:
        if isinstance(message, Close):
            return self._take_close(message)
        match self.state:
            case State.OPEN:
                return self._take_in_session(message)
            case State.ACCEPTING:
                self._take_init_syn(message)
                return []
            case State.INIT_ANSWERED:
                return [self._take_open_syn(message, now)]
            case State.INIT_SENT:
                self._take_init_ack(message)
                return []
            case _:
                return [self._take_open_ack(message, now)]

    def _take_in_session(self, message: Message) -> list[Event]:
        if isinstance(message, Frame | Fragment):
            if self.agreed.lowlatency:
                raise RemoteError(f"{message.name} in a low-latency session")
            assert self._inbox is not None
            return self._inbox.take(message)
        if message.kind is Kind.NETWORK:
            if not self.policy.accepts_bare(lowlatency=self.agreed.lowlatency):
                raise RemoteError(f"{message.name} outside FRAME")
            return [Received(message, reliable=True, priority=int(Priority.DATA))]
        # INIT, OPEN, JOIN, OAM and KEEP_ALIVE change nothing in an open session.
        return []

    def _take_close(self, message: Close) -> list[Event]:
        if not self.policy.ends_on_close(session=bool(message.value("S"))):
            return []
        if self.policy.answers_close():
            self._control(Close(reason=message.reason))
        self._end(Trigger.CLOSE_RECEIVED)
        whole = self.policy.ends_all_links(session=bool(message.value("S")))
        return [Closed(message.reason, by_us=False, why="CLOSE received", all_links=whole)]

    # Handshake, acceptor -----------------------------------------------------------------------------

    def _take_init_syn(self, message: Message) -> None:
        if not isinstance(message, Init) or message.value("A"):
            raise self._unexpected(message, "InitSyn")
        self._check_version(message)
        proposed = offer_of(message)
        answer = accepted(self.config.offer, proposed, self.policy)
        self.agreed = replace(answer, region=proposed.region)
        self._node = (message.zid, message.whatami)
        self._cookie = self.policy.cookie(self._rng)
        chain = chain_of(answer)
        if self.config.users is not None:
            if not _asks_for_user(message):
                refusal = self.policy.authentication_refusal()
                raise RemoteError("no user and password offered, which are demanded here", refusal)
            self._nonce = self._rng.randint(0, (1 << 64) - 1)
            chain.append(AuthInitAck(extensions=[UsrPwdNonce(nonce=self._nonce)]))
        if self._proof is not None:
            chain += self._proof.challenge(message)
        self._control(self._init(answer, chain, cookie=self._cookie, proposed=proposed))
        self._move(Trigger.INIT_SYN)

    def _take_open_syn(self, message: Message, now: float) -> Opened:
        if not isinstance(message, Open) or message.value("A"):
            raise self._unexpected(message, "OpenSyn")
        if not self.policy.accepts_cookie(self._cookie, bytes(message.cookie)):
            raise RemoteError("the cookie is not the one of InitAck", self.policy.unexpected("cookie"))
        self._check_user(message)
        if self._proof is not None and not self._proof.check(message):
            refusal = self.policy.authentication_refusal()
            raise RemoteError("no proof of the key that was named for several links", refusal)
        lease = self._check_open(message)
        self._admit()
        chain = self._confirmations()
        if self._nonce is not None:
            chain.append(AuthOpenAck(extensions=[UsrPwd()]))
        if self._proof is not None:
            chain += self._proof.confirmation()
        self._set_out()
        self._control(self._open(chain, theirs=lease))
        return self._opened(Trigger.OPEN_SYN, message, lease, now)

    def _check_user(self, message: Open) -> None:
        if self._nonce is None:
            return
        proof = next(
            (
                inner
                for extension in message.extensions or ()
                if isinstance(extension, AuthOpenSyn)
                for inner in extension.extensions or ()
                if isinstance(inner, UsrPwdProof)
            ),
            None,
        )
        users = self.config.users or {}
        if proof is None or not self.policy.accepts_user(
            users, bytes(proof.user or b""), self._nonce, bytes(proof.hmac or b"")
        ):
            raise RemoteError("user or password is wrong", self.policy.authentication_refusal())

    # Handshake, initiator ----------------------------------------------------------------------------

    def _take_init_ack(self, message: Message) -> None:
        if not isinstance(message, Init) or not message.value("A"):
            raise self._unexpected(message, "InitAck")
        self._check_version(message)
        answer = offer_of(message)
        if not message.value("S"):
            # Whoever reads the defaults here can only mean them when they were proposed: nothing may be raised.
            fsn, rid, batch_size = self.policy.sizes_unsaid(self.config.offer.sizes)
            answer = replace(answer, fsn=fsn, rid=rid, batch_size=batch_size)
        self.agreed = agreed(self.config.offer, answer, self.policy)
        self._node = (message.zid, message.whatami)
        self._set_out()
        chain = self._confirmations()
        nonce = _nonce_of(message)
        if self.config.credentials and nonce is not None:
            proof = password_proof(self.config.credentials.password, nonce)
            user = UsrPwdProof(user=self.config.credentials.user, hmac=proof)
            chain.append(AuthOpenSyn(extensions=[user]))
        if self._proof is not None:
            chain += self._proof.answer(message)
        self._control(self._open(chain, cookie=self.policy.returned_cookie(message.cookie)))
        self._move(Trigger.INIT_ACK)

    def _take_open_ack(self, message: Message, now: float) -> Opened:
        if not isinstance(message, Open) or not message.value("A"):
            raise self._unexpected(message, "OpenAck")
        lease = self._check_open(message)
        if self._proof is not None:
            self._proof.confirmed(message)
        self._admit()
        return self._opened(Trigger.OPEN_ACK, message, lease, now)

    # Handshake, both -----------------------------------------------------------------------------------

    def _unexpected(self, message: Message, expected: str) -> RemoteError:
        return RemoteError(f"{message.name} instead of {expected}", self.policy.unexpected(expected))

    def _check_version(self, message: Init) -> None:
        if not self.policy.accepts_version(message.version):
            raise RemoteError(f"protocol version {message.version:#04x}", self.policy.version_refusal())

    def _check_open(self, message: Open) -> float:
        """Checks what OPEN announces and returns the lease in seconds."""
        if not self.policy.accepts_initial_sn(message.initial_sn, self.agreed.fsn):
            raise RemoteError("the initial sequence number is outside the agreed range")
        lease = float(message.lease) * (1.0 if message.value("T") else 0.001)
        if not self.policy.accepts_lease(lease):
            raise RemoteError(f"a lease of {lease:g} seconds")
        return lease

    def _admit(self) -> None:
        zid = self._node[0]
        registry = self._registry
        self._first = self._first_link(registry.present.get(zid, []))
        # A link of a session that there is already is no other session.
        present = registry.present.keys() if self._first is None else registry.present.keys() - {zid}
        reason = self.policy.admits(self.config.zid, zid, present, registry.max_sessions)
        if reason is not None:
            raise RemoteError(f"no session with this node: {_reason_name(reason)}", reason)
        registry.add(zid, self)
        if self._first is not None:
            self._outbox.count_with(self._first._outbox)  # noqa: SLF001  (another one of us)

    def _first_link(self, links: list[object]) -> Session | None:
        """Returns the first link of the session to which this one belongs; None when it is a session of its own."""
        first = links[0] if links else None
        proof = self._proof
        if not isinstance(first, Session) or proof is None or len(links) >= self.config.max_links:
            return None
        other = first._proof  # noqa: SLF001
        proven = proof.done and other is not None and other.done and proof.partner == other.partner
        same = first.agreed == self.agreed and first._node == self._node  # noqa: SLF001
        return first if proven and same else None

    def _set_out(self) -> None:
        self._outbox.agreed = self.agreed
        if self._first is None:
            self._outbox.initial_sn = self.policy.initial_sn(self.agreed.fsn, self._rng)

    def _init(
        self,
        offer: Offer,
        chain: list[Extension],
        cookie: bytes | None = None,
        proposed: Offer | None = None,
    ) -> Init:
        """Makes InitSyn, or InitAck when there is a cookie and something was proposed."""
        sizes = {}
        # Without S some read the defaults, others what was proposed: it is left out when both are meant.
        readings = {DEFAULT_SIZES} if proposed is None else {DEFAULT_SIZES, proposed.sizes}
        if any(self.policy.writes_sizes(offer.sizes, reading) for reading in readings):
            sizes = {"S": 1, "fsn": offer.fsn, "rid": offer.rid, "batch_size": offer.batch_size}
        answer = {} if cookie is None else {"A": 1, "cookie": cookie}
        return Init(
            version=self.policy.version(),
            whatami=self.config.whatami,
            zid=self.config.zid,
            extensions=chain,
            **sizes,
            **answer,
        )

    def _open(self, chain: list[Extension], cookie: bytes | None = None, theirs: float | None = None) -> Open:
        """Makes OpenSyn when there is a cookie, else OpenAck."""
        lease = self._announced_lease(theirs)
        if self.policy.lease_in_seconds(lease):
            unit = {"T": 1, "lease": int(lease)}
        else:
            unit = {"T": 0, "lease": round(lease * 1000)}
        side = {"A": 1} if cookie is None else {"A": 0, "cookie": cookie}
        return Open(initial_sn=self._outbox.initial_sn, extensions=chain, **unit, **side)

    def _confirmations(self) -> list[Extension]:
        chain: list[Extension] = []
        if self.policy.confirms_qos(agreed=self.agreed.qos):
            chain.append(QoSOffer())
        if self.policy.confirms_lowlatency(agreed=self.agreed.lowlatency):
            chain.append(LowLatency())
        if self.policy.confirms_compression(agreed=self.agreed.compression):
            chain.append(Compression())
        return chain

    def _opened(self, trigger: Trigger, message: Open, lease: float, now: float) -> Opened:
        self.peer = Opened(*self._node, self.agreed, lease, message.initial_sn)
        if self._first is None:
            self._inbox = Inbox(self.policy, self.agreed, message.initial_sn, self.config.max_message)
        else:
            # What comes over all links of a session is counted together.
            self._inbox = self._first._inbox  # noqa: SLF001
        self._last_sent = self._last_heard = now
        self._move(trigger)
        return self.peer


def _reason_name(reason: int) -> str:
    return CloseReason(reason).name if reason in set(CloseReason) else f"reason {reason:#04x}"


def _asks_for_user(init: Init) -> bool:
    return any(
        isinstance(inner, UsrPwd)
        for extension in init.extensions or ()
        if isinstance(extension, AuthInitSyn)
        for inner in extension.extensions or ()
    )


def _nonce_of(init: Init) -> int | None:
    for extension in init.extensions or ():
        if isinstance(extension, AuthInitAck):
            for inner in extension.extensions or ():
                if isinstance(inner, UsrPwdNonce):
                    return int(inner.nonce)
    return None

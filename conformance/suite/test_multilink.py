"""Sessions of several links: what offers them, and what ends a link or all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from conformance.config import START_SECONDS, RunConfig
from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.nodes import Node
from conformance.plugin import req, slow, transports
from conformance.session.rsa import PrivateKey, PublicKey, new_key
from conformance.suite.common import frame, listed, routes, silent, undropped
from conformance.tester import SessionEnd, Tester
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.extensions import (
    MultiLinkAck,
    MultiLinkInitAck,
    MultiLinkInitSyn,
    MultiLinkOpenSyn,
)
from scapy_layers.message import Extension
from scapy_layers.network import Declare, Push
from scapy_layers.transport import Close, Init, KeepAlive, Open

E = TypeVar("E", bound=Extension)

pytestmark = transports("tcp")

TesterOf = Callable[..., Tester]

MULTILINK = 0x4
"""Number of the extension in INIT and OPEN."""

LEASE = 0.4
"""Seconds: short enough for a test, long against the slack of timers."""

NONCE = b"8 bytes!"


def multilink(message: Init | Open) -> list[str]:
    """Returns the encodings of the multilink extensions of a message."""
    encodings = ("Unit", "Z64", "ZBuf", "reserved")
    return [encodings[ext.ENC] for ext in message.extensions or [] if ext.ext_id == MULTILINK]


def of_kind(message: Init | Open, kind: type[E]) -> E:
    """Returns the multilink extension of a message."""
    return next(ext for ext in message.extensions or [] if isinstance(ext, kind))


@dataclass
class Bundle:
    """A node of ours that makes several links of one session.

    Attributes:
        tester: Of a node that takes several links.
        key: With which each link shows that it belongs to the others.
        links: Those made so far; the first one numbers what leaves on all of them.
    """

    tester: Tester
    key: PrivateKey = field(init=False)
    links: list[SessionEnd] = field(default_factory=list)
    _other: SessionEnd | None = None

    def __post_init__(self) -> None:
        self.key = new_key(self.tester.rng)
        self._zid = bytes(self.tester.rng.randint(1, 255) for _ in range(8))

    def offer(self) -> tuple[SessionEnd, Init]:
        """Makes a link and offers that it be one of several; returns the answer."""
        end = self.tester.starting(zid=self._zid)
        n, e = self.key.public.wire
        end.init(extensions=[MultiLinkInitSyn(n=n, e=e)])
        return end, end.take_init_ack()

    def join(self, **fields: Any) -> SessionEnd:
        """Makes one more link of the session. Fields are those of OpenSyn."""
        end, ack = self.offer()
        if multilink(ack) != ["ZBuf"]:
            raise NotApplicable("the node makes no sessions of several links")
        probe = of_kind(ack, MultiLinkInitAck)
        theirs = PublicKey.of(bytes(probe.n), bytes(probe.e))
        nonce = self.key.decipher(bytes(probe.nonce))
        check(theirs and nonce, "a key, and a number ciphered for ours", "something else")
        assert theirs is not None
        assert nonce is not None
        end.open_syn(extensions=[MultiLinkOpenSyn(nonce=theirs.cipher(nonce, self.tester.rng))], **fields)
        end.take_open_ack()
        self.links.append(end)
        return end

    def carries(self, end: SessionEnd) -> None:
        """Judges that data goes over one link to another node, and back over any link that lives."""
        if self._other is None:
            self._other = routes(self.tester.session())
            self._other.declare_subscriber("harness/multilink/out/*")
            back = DeclareSubscriber(entity_id=1, key_suffix="harness/multilink/back/*")
            end.send(frame(self.links[0], Declare(body=back)))
        word = self.tester.word()
        out, back_key = (f"harness/multilink/{way}/{word}" for way in ("out", "back"))
        end.send(frame(self.links[0], undropped(key_suffix=out)))
        came = self._other.wait(lambda: self._got(out, self._other), self.tester.reply)
        check(came, "what is published over this link at another node", "nothing")
        self._other.put(back_key)
        came = self._other.wait(lambda: self._got(back_key, *self.links), self.tester.reply)
        check(came, "what another node publishes on a link of the session", "nothing")

    def _got(self, key: str, *ends: SessionEnd | None) -> bool:
        """Tells whether one of these has got a publication."""
        seen = [(end, one.message) for end in ends if end is not None for one in end.inbox]
        return any(isinstance(message, Push) and end.key(message) == key for end, message in seen)


@req("ZN-INIT-037", "ZN-OPEN-021")
def test_multilink_is_answered_when_it_is_on(tester_of: TesterOf) -> None:
    _, ack = Bundle(tester_of(transport__unicast__max_links=1)).offer()
    check(not multilink(ack), "nothing when it is off", listed(multilink(ack)))
    bundle = Bundle(tester_of(transport__unicast__max_links=2))
    _, ack = bundle.offer()
    check(multilink(ack) == ["ZBuf"], "ZBuf in InitAck", listed(multilink(ack)))
    opened = bundle.join().last(Open)
    check(multilink(opened) == ["Unit"], "Unit in OpenAck", listed(multilink(opened)))
    plain = bundle.tester.session()
    seen = multilink(plain.last(Init)) + multilink(plain.last(Open))
    check(not seen, "nothing unasked", listed(seen))


@req("ZN-INIT-037", "ZN-OPEN-021")
def test_node_probes_multilink_and_answers_the_challenge(
    tester: Tester, launched: Callable[..., Node]
) -> None:
    door = tester.listen("tcp/127.0.0.1:0")
    launched(connect__endpoints=[str(door.locator)], transport__unicast__max_links=2)
    end = door.accept(START_SECONDS)
    syn = end.take_init_syn()
    check(multilink(syn) == ["ZBuf"], "ZBuf in InitSyn", listed(multilink(syn)))
    probe = of_kind(syn, MultiLinkInitSyn)
    theirs = PublicKey.of(bytes(probe.n), bytes(probe.e))
    check(theirs, "a key", "something else")
    assert theirs is not None
    own = new_key(tester.rng)
    n, e = own.public.wire
    end.init_ack(extensions=[MultiLinkInitAck(n=n, e=e, nonce=theirs.cipher(NONCE, tester.rng))])
    answer = end.take_open_syn()
    check(multilink(answer) == ["ZBuf"], "ZBuf in OpenSyn", listed(multilink(answer)))
    returned = own.decipher(bytes(of_kind(answer, MultiLinkOpenSyn).nonce))
    check(returned == NONCE, "our number, ciphered for us", "something else")
    end.open_ack(extensions=[MultiLinkAck()])
    end.fence()


@req("ZN-CLS-003", "ZN-CLS-004")
def test_s_of_close_ends_the_whole_session_or_one_link(tester_of: TesterOf) -> None:
    tester = tester_of(transport__unicast__max_links=2)
    for whole in (True, False):
        bundle = Bundle(tester)
        one, other = bundle.join(), bundle.join()
        for end in (one, other):
            bundle.carries(end)
        one.send(Close(S=int(whole)))
        one.expect_end()
        if whole:
            other.expect_end()
        else:
            bundle.carries(other)
            check(other.link.ended is None, "the other link lives", "it ends")


@req("ZN-KA-106")
@slow
def test_each_link_of_a_session_has_a_lease_of_its_own(tester_of: TesterOf, run_config: RunConfig) -> None:
    bundle = Bundle(tester_of(transport__unicast__max_links=2))
    bundle.tester.on_send.append(silent)
    lease = {"T": 0, "lease": round(LEASE * 1000)}
    quiet, alive = bundle.join(**lease), bundle.join(**lease)
    for end in (quiet, alive):
        bundle.carries(end)
    for _ in range(int((LEASE + run_config.slack) / LEASE * 4) + 1):
        alive.send(KeepAlive())
        quiet.wait(lambda: quiet.link.ended is not None, LEASE / 4)
    check(quiet.link.ended is not None, "the silent link ends", "it lives on")
    check(alive.link.ended is None, "the other link lives", "it ends")
    bundle.carries(alive)

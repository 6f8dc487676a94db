"""The faults of the planted node: what each is, what sets it off, and which class a campaign shall find it in."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.config import RunConfig
from conformance.nodes import node_of
from conformance.nodes.base import Node
from fuzz.cases import reach, send
from fuzz.phrases import numbered
from fuzz.script import Do, Script, Step
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import InterestMode
from scapy_layers.data import Del, Err, Put, Query
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.message import Message
from scapy_layers.network import (
    Declare,
    Interest,
    NetworkOam,
    Push,
    Request,
    Response,
    ResponseFinal,
)
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Fragment, Frame, Init, Open

PROCESS = Path(__file__).with_name("planted_process.py")

KEY = "fuzz/planted"
COMMON = "fuzz/k"
"""One that the oracles look at."""
U16, U32 = (1 << 16) - 1, (1 << 32) - 1
FRAME = bytes(Frame(R=1, sn=0))[:1]
FRAGMENT = bytes(Fragment(M=1, sn=0))[:1]
LAST = bytes(Fragment(R=1, M=0, sn=0))[:1]
STOUT = bytes(Push(key_suffix=KEY, body=Put(data=bytes(1 << 16))))
ZID = b"\xf6\xe7\x5bzid of a link"
COOKIE = b"\xf7\xe7\x5bcookie"


@dataclass(frozen=True)
class Fault:
    """One fault of the planted node.

    Attributes:
        purpose: One line.
        harms: Classes in which it may be found, as ``fuzz.oracles.Harm`` names them.
        trigger: What sets it off on a fresh node, in as few messages as there are.
        many: So many times; 1 when once is enough.
    """

    purpose: str
    harms: tuple[str, ...]
    trigger: Script
    many: int = 1


def command(*faults: str, options: str = "") -> str:
    """Returns what ``--node`` is given to run the planted node with these faults."""
    words = [shlex.quote(word) for word in (sys.executable, str(PROCESS))]
    return f"cmd:{' '.join([*words, '{locator}', *faults, options])}".strip()


def planted(folder: Path, *faults: str, seed: int = 1) -> Node:
    """Returns the planted node, not started yet."""
    return node_of(RunConfig(node=command(*faults), run_dir=folder, run_id="planted", seed=seed))


def said(message: Message, link: str = "a") -> Step:
    """Returns the step that says a network message in a session."""
    return send("size", FRAME, "sn", bytes(message), link=link, note=str(message.name))


def declared(body: Message, link: str = "a") -> Step:
    """Returns the step that declares something in a session."""
    return said(Declare(body=body), link)


def in_session(*steps: Step) -> Script:
    """Returns a script that opens the sessions that its steps use, and plays them."""
    links = dict.fromkeys(step.link for step in steps)
    return Script((*(reach(State.OPEN, link) for link in links), *steps))


def _init(**fields: int) -> Script:
    head, tail = bytes(Init(zid=ZID, **fields)).split(ZID)
    return Script((reach(State.CONNECTED, "a"), send("size", head, "zid", tail)))


def _open(**fields: int) -> Script:
    head, tail = bytes(Open(cookie=COOKIE, **fields)).split(write_vle(len(COOKIE)) + COOKIE)
    return Script((reach(State.INIT_ACKED, "a"), send("size", head, "cookie", tail)))


FAULTS: dict[str, Fault] = {
    "abort": Fault(
        "aborts on the highest subscriber id",
        ("crash",),
        in_session(declared(DeclareSubscriber(entity_id=U32, key_suffix=KEY))),
    ),
    "panic": Fault(
        "panics on an encoding that there is not: the session ends, the process lives",
        ("panic",),
        in_session(said(Push(key_suffix=KEY, body=Put(E=1, encoding=1 << 16, data=b"x")))),
    ),
    "late": Fault(
        "dies 50 ms behind an interest with the highest id",
        ("crash",),
        in_session(said(Interest(mode=InterestMode.CURRENT, interest_id=U32, tokens=1))),
    ),
    "delayed": Fault(
        "dies 0.4 seconds behind the end of the highest subscriber",
        ("crash",),
        in_session(declared(UndeclareSubscriber(entity_id=U32))),
    ),
    "pair": Fault(
        "dies of a consolidation that there is not, once something with a time was published in that session",
        ("crash",),
        in_session(
            said(Push(key_suffix=KEY, body=Put(T=1, timestamp=1 << 62, timestamp_id=b"\x01", data=b"x"))),
            said(Request(request_id=1, key_suffix=KEY, body=Query(consolidation=9))),
        ),
    ),
    "across": Fault(
        "dies of a final answer with a high id while another session has a token",
        ("crash",),
        in_session(
            declared(DeclareToken(entity_id=1, key_suffix=KEY)),
            # Sessions are served side by side: which of two messages the node deals with first is open without this.
            Step(Do.SETTLE, "a"),
            said(ResponseFinal(request_id=U32), link="b"),
        ),
    ),
    "stall": Fault(
        "stops serving at a consolidation of 128 or more",
        ("stall",),
        in_session(said(Request(request_id=1, key_suffix=KEY, body=Query(consolidation=200)))),
    ),
    "freeze": Fault(
        "serves nobody for 2.2 seconds behind the highest token id",
        ("pause", "stall"),
        in_session(declared(DeclareToken(entity_id=U32, key_suffix=KEY))),
    ),
    "refuse": Fault(
        "takes no new session behind an INIT with a batch size of 0",
        ("refusing", "stall"),
        _init(S=1, batch_size=0),
    ),
    "deadroutes": Fault(
        "carries nothing any more behind the highest alias",
        ("disturbed", "stall"),
        in_session(declared(DeclareKeyExpr(key_id=U16, key_suffix=KEY))),
    ),
    "deadtables": Fault(
        "answers no question any more behind the end of the highest alias, though sessions open",
        ("stall", "disturbed"),
        in_session(declared(UndeclareKeyExpr(key_id=U16))),
    ),
    "leak": Fault(
        "keeps 256 KB for each PUSH with a NodeId",
        ("growth",),
        in_session(said(Push(key_suffix=KEY, extensions=[ext.NodeId(node_id=1)], body=Put(data=b"x")))),
        many=200,
    ),
    "hoard": Fault(
        "keeps 64 KB for each key of a subscriber that it never heard before",
        ("growth",),
        in_session(
            numbered(
                lambda number, key: Declare(body=DeclareSubscriber(entity_id=number, key_suffix=key)),
                times=1,
                note="D_SUBSCRIBER",
            )
        ),
        many=400,
    ),
    "fds": Fault(
        "keeps a descriptor for each INIT of another version",
        ("leak",),
        _init(version=8),
        many=200,
    ),
    "threads": Fault(
        "keeps a thread for each end of a queryable",
        ("leak",),
        in_session(declared(UndeclareQueryable(entity_id=1))),
        many=200,
    ),
    "spin": Fault(
        "has a thread that never rests behind a lease of 0",
        ("busy",),
        _open(lease=0),
    ),
    "slow": Fault(
        "answers 20 ms later behind a time stamp of 0",
        ("slow",),
        in_session(said(Push(key_suffix=KEY, body=Put(T=1, timestamp=0, timestamp_id=b"\x01", data=b"x")))),
    ),
    "disturb": Fault(
        "alters what others publish behind the highest OAM id",
        ("disturbed",),
        in_session(said(NetworkOam(ENC=0, oam_id=U16))),
    ),
    "speck": Fault(
        "alters one publication in 50 behind a subscriber with a large id",
        ("disturbed",),
        in_session(declared(DeclareSubscriber(entity_id=U32, key_suffix=KEY))),
    ),
    "lose": Fault(
        "loses one publication in three behind a query without time",
        ("disturbed",),
        in_session(
            said(Request(request_id=1, key_suffix=KEY, extensions=[ext.Timeout(timeout=0)], body=Query()))
        ),
    ),
    "dropkey": Fault(
        "carries nothing any more for the key of a DEL with a time",
        ("disturbed",),
        in_session(said(Push(key_suffix=COMMON, body=Del(T=1, timestamp=1, timestamp_id=b"\x01")))),
    ),
    "doublekey": Fault(
        "hands on everything twice for the key of a value of 255 bytes or some more",
        ("disturbed",),
        in_session(said(Push(key_suffix=COMMON, body=Put(data=bytes(255))))),
    ),
    "takeaway": Fault(
        "ends the subscribers that others have of a key with the subscriber of a session",
        ("disturbed",),
        in_session(
            declared(DeclareSubscriber(entity_id=1, key_suffix=COMMON)),
            declared(UndeclareSubscriber(entity_id=1)),
        ),
    ),
    "mingle": Fault(
        "puts a byte into what other sessions have begun in fragments, behind each larger fragment",
        ("disturbed", "undue"),
        Script((reach(State.OPEN, "a"), send("size", FRAGMENT, "sn_be", bytes(200)))),
    ),
    "skip": Fault(
        "leaves out sequence numbers behind a subscriber with a large id",
        ("disturbed",),
        in_session(declared(DeclareSubscriber(entity_id=U32, key_suffix=KEY))),
    ),
    "undue": Fault(
        "closes the oldest session of another at the highest queryable id",
        ("undue", "disturbed"),
        in_session(declared(DeclareQueryable(entity_id=U32, key_suffix=KEY))),
    ),
    "mumble": Fault(
        "says KEEP_ALIVE no more behind the first token",
        ("overdue",),
        in_session(declared(DeclareToken(entity_id=1, key_suffix=KEY))),
    ),
    "keep": Fault(
        "keeps links for ever that begin no session, behind the first alias",
        ("overdue",),
        in_session(declared(DeclareKeyExpr(key_id=1, key_suffix=KEY))),
    ),
    "faithful": Fault(
        "keeps sessions for ever that are silent",
        ("overdue",),
        in_session(),
    ),
    "hold": Fault(
        "keeps links for ever on which CLOSE was said, behind a queryable with a large id",
        ("overdue",),
        in_session(declared(DeclareQueryable(entity_id=U32, key_suffix=KEY))),
    ),
    "cling": Fault(
        "keeps what sessions declared behind their end, from the first token with a large id on",
        ("disturbed",),
        in_session(declared(DeclareToken(entity_id=U32, key_suffix=KEY))),
    ),
    "stick": Fault(
        "keeps what sessions declared behind their end",
        ("disturbed",),
        in_session(),
    ),
    "inherit": Fault(
        "gives the subscribers of a session that has ended to the next one, from the first with a large id on",
        ("disturbed",),
        in_session(declared(DeclareSubscriber(entity_id=U32, key_suffix=KEY))),
    ),
    "forget": Fault(
        "tells nobody of tokens any more behind a subscriber with a large id",
        ("disturbed",),
        in_session(declared(DeclareSubscriber(entity_id=U32, key_suffix=KEY))),
    ),
    "linger": Fault(
        "serves subscribers that were taken back, behind a token with a large id",
        ("disturbed",),
        in_session(declared(DeclareToken(entity_id=U32, key_suffix=KEY))),
    ),
    "recall": Fault(
        "asks queryables that were taken back, behind a token with a large id",
        ("disturbed",),
        in_session(declared(DeclareToken(entity_id=U32, key_suffix=KEY))),
    ),
    "picky": Fault(
        "loses publications of certain sizes behind a token with a large id",
        ("disturbed",),
        in_session(declared(DeclareToken(entity_id=U32, key_suffix=KEY))),
    ),
    "stout": Fault(
        "aborts at a value of 64 KiB",
        ("crash",),
        in_session(
            *(
                send("size", FRAGMENT, "sn", STOUT[at : at + 40_000])
                if at + 40_000 < len(STOUT)
                else send("size", LAST, "sn", STOUT[at:])
                for at in range(0, len(STOUT), 40_000)
            )
        ),
    ),
    "coarse": Fault(
        "alters publications of more than 64 KiB behind a token with a large id",
        ("disturbed",),
        in_session(declared(DeclareToken(entity_id=U32, key_suffix=KEY))),
    ),
    "hurry": Fault(
        "tells new sessions another lease than before, behind a lease of the highest number",
        ("disturbed",),
        _open(lease=U32),
    ),
    "unname": Fault(
        "forgets the first alias of all others at an alias with a large id",
        ("disturbed", "undue"),
        in_session(declared(DeclareKeyExpr(key_id=U16, key_suffix=KEY))),
    ),
    "wordy": Fault(
        "loses replies whose key is an alias, behind an alias with a large id",
        ("disturbed",),
        in_session(declared(DeclareKeyExpr(key_id=U16, key_suffix=KEY))),
    ),
    "mute": Fault(
        "answers nothing any more in the session of a declaration with the highest NodeId",
        ("deaf",),
        in_session(
            said(
                Declare(
                    extensions=[ext.NodeId(node_id=U16)],
                    body=DeclareToken(entity_id=1, key_suffix=KEY),
                )
            )
        ),
    ),
    "rude": Fault(
        "closes the session in which an alias ends",
        ("undue",),
        replace(
            in_session(
                declared(DeclareKeyExpr(key_id=1, key_suffix=KEY)), declared(UndeclareKeyExpr(key_id=1))
            ),
            valid=True,
        ),
    ),
    "undecodable": Fault(
        "answers an interest with the highest NodeId with a number that is cut",
        ("undecodable",),
        in_session(
            said(
                Interest(
                    mode=InterestMode.CURRENT, interest_id=1, tokens=1, extensions=[ext.NodeId(node_id=U16)]
                )
            )
        ),
    ),
    "farewell": Fault(
        "aborts when it is asked to end, behind the end of a queryable with a high id",
        ("unclean",),
        in_session(declared(UndeclareQueryable(entity_id=U16))),
    ),
    "sometimes": Fault(
        "aborts at the end of the highest token, one time in three",
        ("crash",),
        in_session(declared(UndeclareToken(entity_id=U32))),
        many=30,
    ),
    "exit0": Fault(
        "ends in order at an error with an encoding that there is not",
        ("crash",),
        in_session(said(Response(request_id=1, key_suffix=KEY, body=Err(E=1, encoding=1 << 16, data=b"x")))),
    ),
}

"""OPEN: cookie, lease, initial sequence number, confirmations. Spec: Session Establishment, OPEN."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers import extensions
from scapy_layers.codes import Resolution
from scapy_layers.conversation.session import extension
from scapy_layers.lint.notes import Scene
from scapy_layers.lint.rule import ECLIPSE, Break, rule
from scapy_layers.message import Extension
from scapy_layers.transport import Open

_LOW_CHANCE = Resolution.BITS_32
"""From this resolution on, the same random number twice is no chance."""


@rule("ZN-INIT-029", level="MUST", text="OpenSyn returns the cookie bit for bit", on=Open)
def _cookie(scene: Scene) -> Iterator[Break]:
    link, said = scene.link, scene.layer
    ack = link.ack if link.open_ack is None and scene.side == link.initiator else None
    if said.A or said.partial or ack is None or ack.partial:
        return
    if bytes(said.cookie) != bytes(ack.cookie):
        yield Break(f"{len(said.cookie)} bytes that are not the {len(ack.cookie)} of InitAck")


@rule("ZN-OPEN-005", level="MUST", text="OpenSyn with another cookie is refused", on=Open)
def _forgery(scene: Scene) -> Iterator[Break]:
    link = scene.link
    syn, ack = link.open_syn, link.ack
    if not scene.layer.A or scene.side == link.initiator or syn is None or ack is None:
        return
    if syn.partial or ack.partial or bytes(syn.cookie) == bytes(ack.cookie):
        return
    longer = bytes(syn.cookie).startswith(bytes(ack.cookie))
    yield Break("accepted all the same", ECLIPSE if longer else None)


@rule("ZN-OPEN-003", level="FACT", text="OPEN offers a lease", on=Open)
def _no_lease(scene: Scene) -> Iterator[Break]:
    if scene.layer.fields.get("lease") == 0:
        yield Break("a lease of 0")


@rule("ZN-OPEN-007", level="MUST", text="the initial SN is inside the agreed range", on=Open)
def _range(scene: Scene) -> Iterator[Break]:
    session, said = scene.session, scene.layer.fields.get("initial_sn")
    if session is not None and session.fsn is not None and said is not None and said >> (8 << session.fsn):
        yield Break(f"{int(said)} at {8 << session.fsn} bit")


@rule("ZN-OPEN-009", level="MUST", text="an initial SN outside the agreed range is refused", on=Open)
def _taken(scene: Scene) -> Iterator[Break]:
    link, session = scene.link, scene.session
    if not scene.layer.A or link.open_syn is None or session is None or session.fsn is None:
        return
    said = link.open_syn.fields.get("initial_sn")
    if scene.side != link.initiator and said is not None and said >> (8 << session.fsn):
        yield Break(f"{int(said)} at {8 << session.fsn} bit was accepted")


@rule("ZN-OPEN-008", level="FACT", text="the initial SN is drawn at random", on=Open)
def _random(scene: Scene) -> Iterator[Break]:
    session, heard = scene.session, scene.heard
    said = scene.layer.fields.get("initial_sn")
    if session is None or said is None or heard.source_zid is None or heard.target_zid is None:
        return
    if session.fsn is None or session.fsn < _LOW_CHANCE or session.multilink or scene.link.copied:
        return
    ends = heard.source_zid, heard.target_zid
    before, start = scene.memory.starts.get(ends) or (session, None)
    scene.memory.starts[ends] = session, int(said)
    # The same session: an OPEN in a datagram that was repeated, or captured twice. While the one before has links,
    # this may be one more of them.
    again = start == said and before is not session and not before.links
    if again and scene.memory.once(session.number, f"random {ends}"):
        yield Break(f"{int(said)} as in the session before between the same two", ECLIPSE)


# Extensions -----------------------------------------------------------------------------------------


def _confirmed(number: str, feature: str, kind: type[Extension], *, needed: bool) -> None:
    """Registers the rule about an extension of OPEN that repeats what INIT has agreed."""
    text = f"{feature} is in OPEN {'exactly' if needed else 'only'} when INIT agreed on it"

    def check(scene: Scene) -> Iterator[Break]:
        link, session = scene.link, scene.session
        if link.syn is None or link.ack is None or session is None or scene.layer.partial:
            return
        agreed = getattr(session, feature)
        there = extension(scene.layer, kind) is not None
        if there and agreed is False:
            yield Break(f"{kind.__name__}, which INIT has not agreed on")
        elif needed and agreed and not there:
            yield Break(f"no {kind.__name__}, though INIT agreed on it", ECLIPSE)

    rule(number, level="FACT", text=text, on=Open)(check)


_confirmed("ZN-OPEN-018", "qos", extensions.QoSOffer, needed=False)
_confirmed("ZN-OPEN-022", "lowlatency", extensions.LowLatency, needed=True)
_confirmed("ZN-OPEN-023", "compression", extensions.Compression, needed=True)


@rule("ZN-OPEN-020", level="FACT", text="Auth in OPEN belongs to Auth in INIT", on=Open)
def _auth(scene: Scene) -> Iterator[Break]:
    link, said = scene.link, scene.layer
    if link.syn is None or link.ack is None or said.partial:
        return
    there = any(
        extension(said, kind) is not None for kind in (extensions.AuthOpenSyn, extensions.AuthOpenAck)
    )
    asked = any(
        extension(init, kind) is not None
        for init in (link.syn, link.ack)
        for kind in (extensions.AuthInitSyn, extensions.AuthInitAck)
    )
    if there and not asked:
        yield Break("Auth, without any in INIT")


@rule("ZN-OPEN-021", level="FACT", text="MultiLink is a ZBuf in OpenSyn and a Unit in OpenAck", on=Open)
def _multilink(scene: Scene) -> Iterator[Break]:
    wrong = extensions.MultiLinkOpenSyn if scene.layer.A else extensions.MultiLinkAck
    if extension(scene.layer, wrong) is not None:
        yield Break(f"a {'ZBuf in OpenAck' if scene.layer.A else 'Unit in OpenSyn'}")

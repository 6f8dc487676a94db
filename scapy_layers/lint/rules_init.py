"""INIT: what is proposed, and that the answer only lowers it. Spec: Session Establishment."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers import extensions
from scapy_layers.codes import DEFAULT_BATCH_SIZE, PROTOCOL_VERSION, Resolution
from scapy_layers.conversation.session import extension
from scapy_layers.lint.notes import CookieNotes, Scene, digest
from scapy_layers.lint.rule import PICO, Break, rule
from scapy_layers.message import Extension, Layer
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam


def _version(scene: Scene) -> Iterator[Break]:
    said = scene.layer.fields.get("version", PROTOCOL_VERSION)
    if said != PROTOCOL_VERSION:
        yield Break(f"version {said:#04x}")


rule("ZN-INIT-014", level="FACT", text="the version is 0x09", on=Init)(_version)
rule("ZN-SCT-018", level="MUST", text="a SCOUT carries version 0x09", on=Scout)(_version)
rule("ZN-HLO-010", level="MUST", text="HELLO carries version 0x09", on=Hello)(_version)
rule("ZN-JOIN-002", level="FACT", text="JOIN carries version 0x09", on=Join)(_version)


def _shortest(scene: Scene) -> Iterator[Break]:
    zid = scene.layer.fields.get("zid")
    if isinstance(zid, bytes) and len(zid) > 1 and not zid[-1]:
        yield Break(f"a ZenohID with {len(zid) - len(zid.rstrip(bytes(1)))} zero bytes at its end")


_SHORT = "a ZenohID is as long as its value needs: its last byte is not zero"
rule("ZN-INIT-015", level="FACT", text=_SHORT, on=Init)(_shortest)
rule("ZN-SCT-015", level="FACT", text=_SHORT, on=Scout)(_shortest)
rule("ZN-HLO-007", level="FACT", text=_SHORT, on=Hello)(_shortest)
rule("ZN-JOIN-003", level="FACT", text=_SHORT, on=Join)(_shortest)


@rule(
    "ZN-MSG-006",
    "ZN-INIT-008",
    "ZN-OPEN-006",
    level="FACT",
    text="INIT and OPEN exist on unicast only",
    on=(Init, Open),
)
def _unicast(scene: Scene) -> Iterator[Break]:
    if scene.session is not None and scene.session.multicast:
        yield Break(f"{scene.layer.name} to a group")


@rule("ZN-MSG-007", level="FACT", text="JOIN exists on multicast only", on=Join)
def _multicast(scene: Scene) -> Iterator[Break]:
    if scene.session is not None and not scene.session.multicast:
        yield Break("JOIN on a unicast link")


# Order --------------------------------------------------------------------------------------------

_LATER = (Interest, ResponseFinal, Response, Request, Push, Declare, NetworkOam, Frame, Fragment)


@rule("ZN-INIT-001", level="FACT", text="InitSyn, InitAck, OpenSyn, OpenAck, in this order", on=(Init, Open))
def _order(scene: Scene) -> Iterator[Break]:
    link, said = scene.link, scene.layer
    # A datagram without answer is sent again; without InitSyn the beginning was not captured. Where bytes are missing,
    # another connection may have begun between the same ports.
    if link.syn is None or not scene.heard.way.link.tcp or not link.whole[scene.side]:
        return
    answers, opens = bool(said.A), isinstance(said, Open)
    name = f"{'Open' if opens else 'Init'}{'Ack' if answers else 'Syn'}"
    there = (link.syn, link.ack, link.open_syn, link.open_ack)
    step = 2 * opens + answers
    if answers == (scene.side == link.initiator):
        yield Break(f"{name} from the side that sent {'OpenSyn' if opens else 'InitSyn'}")
    elif there[step] is not None:
        yield Break(f"a second {name} on the link")
    elif there[step - 1] is None and link.whole[1 - scene.side]:
        yield Break(f"{name} before what it answers")


@rule(
    "ZN-MSG-009",
    "ZN-INIT-007",
    level="FACT",
    text="network messages flow only after session set-up",
    on=(Frame, Fragment, KeepAlive, TransportOam, *_LATER[:7]),
)
def _early(scene: Scene) -> Iterator[Break]:
    link, session = scene.link, scene.session
    if link.syn is None or scene.heard.within is not None or session is None or session.multicast:
        return
    if not all(link.whole) or link.closed != [None, None]:
        return
    if not scene.heard.way.link.tcp:
        # A datagram of the handshake may be lost, or the session before not known to be over.
        return
    # The acceptor is free to send behind its OpenAck, the initiator once it has that.
    if link.open_ack is None:
        yield Break(f"{scene.layer.name} before OpenAck")


# What the answer may say --------------------------------------------------------------------------


def _proposal(scene: Scene) -> Init | None:
    """Returns the InitSyn that an InitAck answers."""
    link = scene.link
    answers = scene.layer.fields.get("A") and scene.side != link.initiator and link.open_ack is None
    return link.syn if answers else None


@rule("ZN-INIT-047", level="MUST NOT", text="InitAck raises neither FSN nor RID", on=Init)
def _raised(scene: Scene) -> Iterator[Break]:
    syn, ack = _proposal(scene), scene.layer
    # Without S the page reads the proposal as accepted, real nodes read the defaults: no way to tell.
    if syn is None or not ack.S:
        return
    for name in ("fsn", "rid"):
        asked = getattr(syn, name) if syn.S else Resolution.BITS_32
        if getattr(ack, name) > asked:
            yield Break(f"{name} {8 << getattr(ack, name)} bit after a proposal of {8 << asked} bit")


@rule("ZN-INIT-048", level="FACT", text="InitAck states no larger batch size than proposed", on=Init)
def _larger(scene: Scene) -> Iterator[Break]:
    syn, ack = _proposal(scene), scene.layer
    if syn is None or not ack.S:
        return
    asked = syn.batch_size if syn.S else DEFAULT_BATCH_SIZE
    if ack.batch_size > asked:
        yield Break(f"batch size {ack.batch_size} after a proposal of {asked}")


@rule("ZN-INIT-002", level="FACT", text="InitAck brings a cookie", on=Init)
def _no_cookie(scene: Scene) -> Iterator[Break]:
    if scene.layer.A and not scene.layer.partial and not scene.layer.cookie:
        yield Break("an empty cookie", PICO)


@rule("ZN-INIT-031", level="FACT", text="cookies differ from handshake to handshake", on=Init)
def _same_cookie(scene: Scene) -> Iterator[Break]:
    cookie = bytes(scene.layer.fields.get("cookie") or b"")
    if not cookie or scene.link.ack is not None:
        return
    link, mark = scene.heard.way.link, digest(cookie)
    before = scene.memory.cookies.get(mark)
    # A datagram may come twice, and is there twice where it was captured on two interfaces.
    if before is not None and (link.tcp or before.link != link.number):
        scene.link.copied = _is_copy(scene, before)
        if not scene.link.copied:
            yield Break(f"the cookie of packet {before.packet} again")
    scene.memory.cookies[mark] = CookieNotes(scene.heard.number, link.number)


def _is_copy(scene: Scene, before: CookieNotes) -> bool:
    """Tells whether the handshake is another link's, captured behind a translation of addresses: its OpenSyn comes later."""
    other, syn = scene.memory.links.get(before.link), scene.link.syn
    if other is None or other is scene.link or other.open_syn is not None or other.syn is None:
        return False
    return syn is not None and bytes(syn) == bytes(other.syn)


def _answers(
    number: str, ack: tuple[type[Extension], ...], syn: tuple[type[Extension], ...], text: str
) -> None:
    """Registers the rule that an extension of InitAck answers one of InitSyn."""

    def check(scene: Scene) -> Iterator[Break]:
        proposal = _proposal(scene)
        if proposal is None or proposal.partial or scene.layer.partial:
            return
        for kind in ack:
            if extension(scene.layer, kind) is not None and not any(
                extension(proposal, asked) is not None for asked in syn
            ):
                yield Break(f"{kind.__name__} in InitAck, nothing like it in InitSyn")

    rule(number, level="FACT", text=text, on=Init)(check)


_QOS = (extensions.QoSOffer, extensions.QoSLink)
_answers("ZN-INIT-049", _QOS, _QOS, "QoS is in InitAck only if InitSyn has it")
_answers(
    "ZN-INIT-035",
    (extensions.InitAckShm,),
    (extensions.InitSynShm,),
    "Shm is in InitAck only if InitSyn has it",
)
_answers(
    "ZN-INIT-037",
    (extensions.MultiLinkInitAck,),
    (extensions.MultiLinkInitSyn,),
    "MultiLink is in InitAck only if InitSyn has it",
)
_answers(
    "ZN-INIT-038",
    (extensions.LowLatency,),
    (extensions.LowLatency,),
    "LowLatency is in InitAck only if InitSyn has it",
)
_answers(
    "ZN-INIT-039",
    (extensions.Compression,),
    (extensions.Compression,),
    "Compression is in InitAck only if InitSyn has it",
)


@rule("ZN-INIT-032", level="FACT", text="QoS offered as Unit is answered as Unit, or not at all", on=Init)
def _qos_form(scene: Scene) -> Iterator[Break]:
    syn, ack = _proposal(scene), scene.layer
    if syn is None:
        return
    if (
        extension(syn, extensions.QoSOffer) is not None
        and extension(syn, extensions.QoSLink) is None
        and extension(ack, extensions.QoSLink) is not None
    ):
        yield Break("QoSLink in answer to QoS")


@rule("ZN-INIT-040", level="FACT", text="InitAck states no higher patch version than offered", on=Init)
def _patch(scene: Scene) -> Iterator[Break]:
    syn = _proposal(scene)
    said = extension(scene.layer, extensions.Patch)
    if syn is None or said is None or said.partial:
        return
    offer = extension(syn, extensions.Patch)
    most = offer.patch if offer is not None and not offer.partial else 0
    if said.patch > most:
        yield Break(f"patch {said.patch} after an offer of {most}")


@rule("ZN-INIT-051", level="FACT", text="LowLatency and QoS lanes are not joined on one link", on=Init)
def _both(scene: Scene) -> Iterator[Break]:
    if _proposal(scene) is None:
        return
    ack = scene.layer
    if extension(ack, extensions.LowLatency) is not None and any(
        extension(ack, kind) is not None for kind in _QOS
    ):
        yield Break("InitAck accepts both")


# Refusals -------------------------------------------------------------------------------------------


@rule(
    "ZN-CLS-107",
    level="SHOULD",
    text="a refusal before the session stands says unsupported or invalid",
    on=Close,
)
def _refusal(scene: Scene) -> Iterator[Break]:
    link = scene.link
    if link.syn is None or link.open_ack is not None or scene.side == link.initiator:
        return
    # More specific reasons are what ZN-CLS-106 asks for.
    if scene.layer.fields.get("reason") == 0 and link.closed[1 - scene.side] is None:
        yield Break("refused as GENERIC", "eclipse-zenoh")


def _refused_syn(layer: Layer, kind: str) -> bool:
    return any(type(error).__name__ == kind for error in layer.errors)


@rule(
    "ZN-EXT-103",
    level="FACT",
    text="an unknown mandatory extension in the handshake is answered by CLOSE unsupported",
    on=(Init, Open, Close),
)
def _unsupported(scene: Scene) -> Iterator[Break]:
    link = scene.link
    if link.syn is None or scene.side == link.initiator or link.open_ack is not None:
        return
    asked = link.open_syn or link.syn
    if not _refused_syn(asked, "UnknownMandatoryExtension"):
        return
    if isinstance(scene.layer, Close):
        if scene.layer.fields.get("reason") != 1:
            yield Break(f"refused with reason {scene.layer.fields.get('reason')}", "eclipse-zenoh")
    else:
        yield Break(f"accepted with {scene.layer.name}")


@rule(
    "ZN-INIT-045",
    "ZN-INIT-003",
    level="FACT",
    text="another version is answered by CLOSE unsupported",
    on=(Init, Close),
)
def _other_version(scene: Scene) -> Iterator[Break]:
    link = scene.link
    if link.syn is None or scene.side == link.initiator or link.open_syn is not None:
        return
    if link.syn.fields.get("version", PROTOCOL_VERSION) == PROTOCOL_VERSION:
        return
    if isinstance(scene.layer, Close):
        if scene.layer.fields.get("reason") != 1:
            yield Break(f"refused with reason {scene.layer.fields.get('reason')}", "eclipse-zenoh")
    else:
        yield Break("accepted")

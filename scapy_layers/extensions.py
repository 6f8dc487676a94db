"""The known extensions, one small class each, and the tables that say which message has which.

A class is named after the extension; where messages give the same name to different bytes, the class
says which one it is. Header bytes in the comments have Z clear.
"""

from __future__ import annotations

from typing import Any

from scapy.packet import Packet

from scapy_layers import shape
from scapy_layers.codes import Bound, Enc, Priority, QueryTarget, What
from scapy_layers.codes import Encoding as EncodingId
from scapy_layers.fields import (
    U8,
    AnyField,
    Bits,
    BytesField,
    CountedBytes,
    CountedText,
    Flag,
    Many,
    Reserved,
    Rest,
    Vle,
    ZidField,
    packed,
    unless,
    when,
)
from scapy_layers.message import Extension, Extensions, Region, RegionOf, extension, region
from scapy_layers.ros2 import from_attachment
from scapy_layers.shape import Carries, Condition


class AttachmentField(BytesField):
    """An attachment; what rmw_zenoh says with it about a ROS 2 message is shown beside the bytes."""

    __slots__ = []

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Shows the bytes, or what they say."""
        ros2 = from_attachment(x) if isinstance(x, bytes) else None
        return super().i2repr(pkt, x) if ros2 is None else f"{x.hex()} ({ros2})"


def attachment() -> AnyField:
    """An attachment: opaque bytes up to the end of the extension."""
    return AttachmentField("attachment", b"", shape.Rest("attachment"))


def timestamp() -> list[AnyField]:
    """The Timestamp primitive: NTP64 time (seconds << 32 | fraction), then a counted ZenohID.

    Spec: Wire Primitives, Timestamp.
    """
    return [Vle("timestamp", 64, ntp64=True), ZidField("timestamp_id")]


def encoding() -> list[AnyField]:
    """The Encoding field: id and the bit S in one VLE integer, a schema when S.

    Spec: Wire Primitives, Encoding.
    """
    return [
        *packed(Bits("encoding", 31, EncodingId), Flag("S"), vle=True, enforced=32),
        *when("S", CountedBytes("schema", z=8)),
    ]


def entity_global_id() -> list[AnyField]:
    """EntityGlobalId: packed length nibble, ZenohID, entity id."""
    return [
        *packed(Bits("zid_len", 4, default=None, counts="zid"), Reserved(4)),
        ZidField("zid", length="zid_len"),
        Vle("eid", 32),
    ]


def key() -> list[AnyField]:
    """Key reference: ExprId of the alias (0 for none), suffix when N. Spec: Wire Primitives, WireExpr."""
    return [Vle("key_scope", 16, enforced=True), *when("N", CountedText("key_suffix", z=16))]


def rsa_key() -> list[AnyField]:
    """A public RSA key: modulus and exponent, low byte first."""
    return [CountedBytes("n", z=64, enforced=False), CountedBytes("e", z=64, enforced=False)]


def ciphered_nonce() -> list[AnyField]:
    """A number that only the owner of a key can read."""
    return [CountedBytes("nonce", z=64, enforced=False)]


def counters() -> list[AnyField]:
    """Which shared counters the sender uses, one per priority from 0 to 7; none on best-effort links."""
    return [
        *packed(Bits("has_counters", 8, default=None, allowed=(0, 1))),
        *when("has_counters", Many("counters", Vle("counter", 16, enforced=True), times=8)),
    ]


class ShmReference(Region):
    """Where in shared memory some bytes stand. As real nodes do it, with a length in front (reading R-31)."""

    name = "SHM reference"
    fields_desc = region(
        Vle("size", 64, default=1),
        Vle("segment_id", 16, enforced=True),
        Vle("index", 16, enforced=True),
        Vle("generation", 32, enforced=True),
    )


def sliced() -> list[AnyField]:
    """A payload of slices: of kind 0 the bytes themselves, of kind 1 where they stand in shared memory."""
    return [
        Many(
            "slices",
            *packed(Bits("kind", 8, default=None, allowed=(0, 1))),
            *when(("kind", 0), CountedBytes("slice", z=64, enforced=False)),
            *when("kind", RegionOf("reference", ShmReference)),
        )
    ]


SYN = (Condition("A", 0),)
"""In InitSyn and OpenSyn."""

ACK = (Condition("A", 1),)
"""In InitAck and OpenAck."""


# INIT and OPEN (Session Establishment, INIT Extensions, OpenSyn and OpenAck Extensions) ------------


class QoSOffer(Extension):
    """0x01: QoS lanes wanted (INIT) or confirmed (OPEN)."""

    name = "QoS"
    fields_desc = extension(0x1, Enc.UNIT)


class QoSLink(Extension):
    """0x21: priorities and reliability of one link of a session."""

    name = "QoSLink"
    fields_desc = extension(
        0x1,
        Enc.Z64,
        *packed(
            Bits("reliability", 1),
            Bits("last_priority", 8),
            Bits("first_priority", 8),
            Bits("has_reliability", 1),
            Bits("has_priorities", 1),
            Bits("qos", 1),
            vle=True,
        ),
    )


class InitSynShm(Extension):
    """0x42 of InitSyn: the sender's shared-memory segment, for the other end to look into."""

    name = "Shm"
    enforced = False
    conditions = SYN
    fields_desc = extension(0x2, Enc.ZBUF, Vle("segment_id", 32))


class InitAckShm(Extension):
    """0x42 of InitAck: what stood in the other end's segment, and the own segment."""

    name = "Shm"
    enforced = False
    conditions = ACK
    fields_desc = extension(0x2, Enc.ZBUF, Vle("challenge", 64), Vle("segment_id", 32))


class UsrPwd(Extension):
    """0x02 inside Auth: user and password wanted (InitSyn), accepted (OpenAck)."""

    name = "UsrPwd"
    fields_desc = extension(0x2, Enc.UNIT)


class UsrPwdNonce(Extension):
    """0x22 inside Auth of InitAck: what the password is to be hashed with."""

    name = "UsrPwd"
    fields_desc = extension(0x2, Enc.Z64, Vle("nonce", 64))


class UsrPwdProof(Extension):
    """0x42 inside Auth of OpenSyn: the user, and HMAC-SHA3-256 of the password with the nonce as key."""

    name = "UsrPwd"
    fields_desc = extension(
        0x2, Enc.ZBUF, CountedBytes("user", z=64, enforced=False), CountedBytes("hmac", z=64, enforced=False)
    )


class PubKeySyn(Extension):
    """0x41 inside Auth of InitSyn: the initiator's RSA key."""

    name = "PubKey"
    fields_desc = extension(0x1, Enc.ZBUF, *rsa_key())


class PubKeyAck(Extension):
    """0x41 inside Auth of InitAck: the acceptor's RSA key, and a nonce ciphered for the initiator."""

    name = "PubKey"
    fields_desc = extension(0x1, Enc.ZBUF, *rsa_key(), *ciphered_nonce())


class PubKeyProof(Extension):
    """0x41 inside Auth of OpenSyn: the nonce ciphered for the acceptor."""

    name = "PubKey"
    fields_desc = extension(0x1, Enc.ZBUF, *ciphered_nonce())


class PubKeyDone(Extension):
    """0x01 inside Auth of OpenAck: accepted."""

    name = "PubKey"
    fields_desc = extension(0x1, Enc.UNIT)


class AuthInitSyn(Extension):
    """0x43 of InitSyn: authentication; the body is a chain of its own, one extension per method."""

    name = "Auth"
    enforced = False
    conditions = SYN
    fields_desc = extension(0x3, Enc.ZBUF, Extensions(UsrPwd, PubKeySyn, always=True))


class AuthInitAck(Extension):
    """0x43 of InitAck."""

    name = "Auth"
    enforced = False
    conditions = ACK
    fields_desc = extension(0x3, Enc.ZBUF, Extensions(UsrPwdNonce, PubKeyAck, always=True))


class AuthOpenSyn(Extension):
    """0x43 of OpenSyn."""

    name = "Auth"
    enforced = False
    conditions = SYN
    fields_desc = extension(0x3, Enc.ZBUF, Extensions(UsrPwdProof, PubKeyProof, always=True))


class AuthOpenAck(Extension):
    """0x43 of OpenAck."""

    name = "Auth"
    enforced = False
    conditions = ACK
    fields_desc = extension(0x3, Enc.ZBUF, Extensions(UsrPwd, PubKeyDone, always=True))


class MultiLinkInitSyn(Extension):
    """0x44 of InitSyn: the RSA key that shows later that another link belongs to the same node."""

    name = "MultiLink"
    enforced = False
    conditions = SYN
    fields_desc = extension(0x4, Enc.ZBUF, *rsa_key())


class MultiLinkInitAck(Extension):
    """0x44 of InitAck: the acceptor's key, and a nonce ciphered for the initiator."""

    name = "MultiLink"
    enforced = False
    conditions = ACK
    fields_desc = extension(0x4, Enc.ZBUF, *rsa_key(), *ciphered_nonce())


class MultiLinkOpenSyn(Extension):
    """0x44 of OpenSyn: the nonce ciphered for the acceptor."""

    name = "MultiLink"
    enforced = False
    fields_desc = extension(0x4, Enc.ZBUF, *ciphered_nonce())


class MultiLinkAck(Extension):
    """0x04: multilink acknowledged (OpenAck)."""

    name = "MultiLinkAck"
    fields_desc = extension(0x4, Enc.UNIT)


class LowLatency(Extension):
    """0x05: network messages without FRAME wanted."""

    name = "LowLatency"
    fields_desc = extension(0x5, Enc.UNIT)


class Compression(Extension):
    """0x06: LZ4 batches wanted."""

    name = "Compression"
    fields_desc = extension(0x6, Enc.UNIT)


class Patch(Extension):
    """0x27: patch version; 1 and above know First and Drop of FRAGMENT."""

    name = "Patch"
    fields_desc = extension(0x7, Enc.Z64, Vle("patch", 8))


class RegionName(Extension):
    """0x48: name of the administrative region, UTF-8."""

    name = "RegionName"
    fields_desc = extension(0x8, Enc.ZBUF, Rest("region", text=True))


class OpenShm(Extension):
    """0x22: shared-memory answer as the page has it."""

    name = "Shm"
    fields_desc = extension(0x2, Enc.Z64, Vle("challenge", 64))


class OpenSynShm(Extension):
    """0x42 of OpenSyn of newer nodes: what stood in the other end's segment, and a counter for each priority."""

    name = "Shm"
    enforced = False
    conditions = SYN
    fields_desc = extension(0x2, Enc.ZBUF, Vle("challenge", 64), *counters())


class OpenAckShm(Extension):
    """0x42 of OpenAck of newer nodes: a counter for each priority."""

    name = "Shm"
    enforced = False
    conditions = ACK
    fields_desc = extension(0x2, Enc.ZBUF, *counters())


class RemoteBound(Extension):
    """0x27 in OPEN: which bound of a region the sender is."""

    name = "RemoteBound"
    fields_desc = extension(0x7, Enc.Z64, Vle("bound", 8, Bound))


# FRAME, FRAGMENT, transport OAM, JOIN --------------------------------------------------------------


class Lane(Extension):
    """0x31: priority lane of a FRAME, FRAGMENT or transport OAM; absent means DATA."""

    name = "QoS"
    fields_desc = extension(
        0x1,
        Enc.Z64,
        *packed(Bits("priority", 3, Priority, default=Priority.DATA), vle=True),
        mandatory=True,
    )


class First(Extension):
    """0x02: this FRAGMENT starts a message."""

    name = "First"
    fields_desc = extension(0x2, Enc.UNIT)


class Drop(Extension):
    """0x03: the sender gave up the message it was fragmenting."""

    name = "Drop"
    fields_desc = extension(0x3, Enc.UNIT)


class JoinLanes(Extension):
    """0x51: next sequence numbers of each priority, 0 to 7."""

    name = "QoS"
    fields_desc = extension(
        0x1,
        Enc.ZBUF,
        Many("lanes", Vle("next_sn_re", 32), Vle("next_sn_be", 32), times=8),
        mandatory=True,
    )


class JoinShm(Extension):
    """0x52: shared memory, opaque."""

    name = "Shm"
    fields_desc = extension(0x2, Enc.ZBUF, Rest("data"), mandatory=True)


# Network messages (Message Reference, Common Network Extensions) -----------------------------------


class QoS(Extension):
    """0x21: priority and congestion control of a network message; absent means DATA, Drop."""

    name = "QoS"
    fields_desc = extension(
        0x1,
        Enc.Z64,
        *packed(
            Bits("F", 1),
            Bits("E", 1),
            Bits("D", 1),
            Bits("priority", 3, Priority, default=Priority.DATA),
            vle=True,
        ),
    )


class Timestamp(Extension):
    """0x42: Timestamp of a network message."""

    name = "Timestamp"
    fields_desc = extension(0x2, Enc.ZBUF, *timestamp())


class NodeId(Extension):
    """0x33: the last forwarder (page), the source in the sender's link-state graph (real nodes)."""

    name = "NodeId"
    fields_desc = extension(0x3, Enc.Z64, Vle("node_id", 16), mandatory=True)


class ResponderId(Extension):
    """0x43 in RESPONSE: who answers."""

    name = "ResponderId"
    fields_desc = extension(0x3, Enc.ZBUF, *entity_global_id())


class Target(Extension):
    """0x34: which queryables a REQUEST is for."""

    name = "QueryTarget"
    fields_desc = extension(0x4, Enc.Z64, Vle("target", 8, QueryTarget, allowed=QueryTarget), mandatory=True)


class Budget(Extension):
    """0x25: most replies wanted."""

    name = "Budget"
    fields_desc = extension(0x5, Enc.Z64, Vle("budget", 32, default=1))


class Timeout(Extension):
    """0x26: how long a REQUEST waits, in ms."""

    name = "Timeout"
    fields_desc = extension(0x6, Enc.Z64, Vle("timeout", 64))


class StackedTimestamp(Region):
    """When a message passed one point on its way."""

    name = "stacked timestamp"
    fields_desc = region(*timestamp())


class TimestampStack(Extension):
    """0x47: timestamps that nodes on the way append. Not on the pages; newer nodes have it."""

    name = "TimestampStack"
    fields_desc = extension(
        0x7,
        Enc.ZBUF,
        U8("conf_flags", 1, allowed=range(1, 256)),
        Many(
            "records",
            *packed(Flag("custom"), Reserved(4), Bits("point", 3)),
            *when("custom", CountedBytes("record", z=64, enforced=False)),
            *unless("custom", RegionOf("stamp", StackedTimestamp)),
            most=255,
        ),
    )


# Declarations --------------------------------------------------------------------------------------


class QueryableInfo(Extension):
    """0x21 of D_QUERYABLE: complete, and the distance in hops."""

    name = "QueryableInfo"
    fields_desc = extension(
        0x1, Enc.Z64, *packed(Bits("distance", 16), Reserved(7), Bits("complete", 1), vle=True)
    )


class WireExpr(Extension):
    """0x5f of U_SUBSCRIBER, U_QUERYABLE, U_TOKEN: the key; the suffix fills the extension."""

    name = "WireExpr"
    fields_desc = extension(
        0xF,
        Enc.ZBUF,
        *packed(Reserved(6), Bits("mapping", 1), Flag("N")),
        Vle("key_scope", 16, enforced=True),
        *when("N", Rest("key_suffix", text=True)),
        mandatory=True,
    )


# Data sub-messages ---------------------------------------------------------------------------------


class SourceInfo(Extension):
    """0x41: which entity sent it, with a number of its own."""

    name = "SourceInfo"
    fields_desc = extension(0x1, Enc.ZBUF, *entity_global_id(), Vle("source_sn", 32))


class Shm(Extension):
    """0x12 of PUT and ERR: the payload is sliced and may refer to shared memory."""

    name = "Shm"
    fields_desc = extension(0x2, Enc.UNIT, mandatory=True)


class PutAttachment(Extension):
    """0x43 of PUT: opaque bytes."""

    name = "Attachment"
    fields_desc = extension(0x3, Enc.ZBUF, attachment())


class DelAttachment(Extension):
    """0x42 of DEL: opaque bytes."""

    name = "Attachment"
    fields_desc = extension(0x2, Enc.ZBUF, attachment())


class QueryAttachment(Extension):
    """0x45 of QUERY: opaque bytes."""

    name = "Attachment"
    fields_desc = extension(0x5, Enc.ZBUF, attachment())


class QueryBodyShm(Extension):
    """0x04 of QUERY: the body that follows is sliced."""

    name = "QueryBodyShm"
    fields_desc = extension(0x4, Enc.UNIT)


class QueryBody(Extension):
    """0x43 of QUERY: encoding, then the payload to the end of the extension."""

    name = "QueryBody"
    conditions = (Carries("extensions", 0x04, negated=True),)
    fields_desc = extension(0x3, Enc.ZBUF, *encoding(), Rest("data"))


class QueryBodySliced(Extension):
    """0x43 of QUERY behind 0x04: encoding, then a sliced payload.

    Real nodes count in its length the bytes that the slices refer to, not the slices.
    """

    name = "QueryBody"
    bounded = False
    conditions = (Carries("extensions", 0x04),)
    fields_desc = extension(0x3, Enc.ZBUF, *encoding(), *sliced())


class LinkState(Region):
    """The body of OAM LINKSTATE: what the sender knows of nodes and the links between them.

    A node is named by its psid, an index of the sender's own. Spec: none; as real nodes do it.
    """

    name = "LINKSTATE"
    fields_desc = region(
        Many(
            "records",
            *packed(
                Bits("gateway", 1),
                Flag("has_weights"),
                Flag("has_locators"),
                Flag("has_whatami"),
                Flag("has_zid"),
                vle=True,
            ),
            Vle("psid", 64),
            Vle("state_sn", 64),
            *when("has_zid", ZidField("zid")),
            *when(
                "has_whatami", U8("whatami", What.PEER, What, allowed=(What.ROUTER, What.PEER, What.CLIENT))
            ),
            *when("has_locators", Many("locators", CountedText("locator", z=8, locator=True))),
            Many("links", Vle("link", 64)),
            *when("has_weights", Many("weights", Vle("weight", 16, enforced=True), times="links")),
        )
    )


# Which message has which ---------------------------------------------------------------------------

NONE = Extensions()
SCOUTING = Extensions(skips_mandatory=True)
INIT = Extensions(
    QoSOffer,
    QoSLink,
    InitSynShm,
    InitAckShm,
    AuthInitSyn,
    AuthInitAck,
    MultiLinkInitSyn,
    MultiLinkInitAck,
    LowLatency,
    Compression,
    Patch,
    RegionName,
)
OPEN = Extensions(
    QoSOffer,
    OpenShm,
    OpenSynShm,
    OpenAckShm,
    AuthOpenSyn,
    AuthOpenAck,
    MultiLinkOpenSyn,
    MultiLinkAck,
    LowLatency,
    Compression,
    RemoteBound,
)
FRAME = Extensions(Lane)
FRAGMENT = Extensions(Lane, First, Drop)
TRANSPORT_OAM = Extensions(Lane)
JOIN = Extensions(JoinLanes, JoinShm, Patch)
PUSH = Extensions(QoS, Timestamp, NodeId, TimestampStack)
REQUEST = Extensions(QoS, Timestamp, NodeId, Target, Budget, Timeout, TimestampStack)
RESPONSE = Extensions(QoS, Timestamp, ResponderId, TimestampStack)
RESPONSE_FINAL = Extensions(QoS, Timestamp)
NETWORK_OAM = Extensions(QoS, Timestamp)
DECLARE = Extensions(QoS, Timestamp, NodeId)
INTEREST = Extensions(QoS, Timestamp, NodeId)
D_QUERYABLE = Extensions(QueryableInfo)
UNDECLARE = Extensions(WireExpr)
PUT = Extensions(SourceInfo, Shm, PutAttachment)
# 0x43 in a DEL is where zenoh-pico puts the attachment; other nodes forward it and show it to nobody.
DEL = Extensions(SourceInfo, DelAttachment, PutAttachment)
QUERY = Extensions(SourceInfo, QueryBodyShm, QueryBody, QueryBodySliced, QueryAttachment)
ERR = Extensions(SourceInfo, Shm)

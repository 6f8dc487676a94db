"""For the Scapy shell: every layer, the codes, and the helpers of a session at the keyboard.

``from scapy_layers.all import *`` also teaches Scapy where Zenoh travels: SCOUT and HELLO on UDP port 7446,
batches on UDP port 7447.
"""

from __future__ import annotations

from typing import Any

from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_bottom_up, bind_layers, bind_top_down

from scapy_layers.batch import Batch, BatchReader, Contents, contents, prefixed
from scapy_layers.catalogue import EXTENSIONS, MESSAGES, decode, decode_batch, decode_one, shapes
from scapy_layers.codes import (
    DEFAULT_PORT,
    PROTOCOL_VERSION,
    SCOUTING_PORT,
    Bound,
    CloseReason,
    Consolidation,
    DataId,
    DeclarationId,
    Enc,
    Encoding,
    InterestMode,
    Kind,
    NetworkId,
    OamId,
    Priority,
    QueryTarget,
    Resolution,
    ScoutingId,
    TransportId,
    What,
    WhatAmI,
)
from scapy_layers.data import Del, Err, Put, Query, Reply
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
from scapy_layers.errors import (
    BadValue,
    Overlong,
    Truncated,
    UnknownMandatoryExtension,
    UnknownMessage,
    WireError,
)
from scapy_layers.extensions import (
    Auth,
    Budget,
    Compression,
    DelAttachment,
    Drop,
    First,
    InitShm,
    JoinLanes,
    JoinShm,
    Lane,
    LowLatency,
    MultiLink,
    MultiLinkAck,
    NodeId,
    OpenShm,
    OpenShmCounters,
    Patch,
    PutAttachment,
    QoS,
    QoSLink,
    QoSOffer,
    QueryableInfo,
    QueryAttachment,
    QueryBody,
    QueryBodyShm,
    RegionName,
    RemoteBound,
    ResponderId,
    Shm,
    SourceInfo,
    Target,
    Timeout,
    Timestamp,
    TimestampStack,
    WireExpr,
)
from scapy_layers.message import UnknownExtension, message_class
from scapy_layers.network import (
    Declare,
    Interest,
    NetworkOam,
    Push,
    Request,
    Response,
    ResponseFinal,
)
from scapy_layers.primitives import Counted, CountedList, WideInt, zid_from_text, zid_to_text
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import (
    Close,
    Fragment,
    Frame,
    Init,
    Join,
    KeepAlive,
    Open,
    TransportOam,
)

# A test compares this with the catalogue, so that no layer is missing at the keyboard.
__all__ = [
    "DEFAULT_PORT",
    "EXTENSIONS",
    "MESSAGES",
    "PROTOCOL_VERSION",
    "SCOUTING_PORT",
    "Auth",
    "BadValue",
    "Batch",
    "BatchReader",
    "Bound",
    "Budget",
    "Close",
    "CloseReason",
    "Compression",
    "Consolidation",
    "Contents",
    "Counted",
    "CountedList",
    "DataId",
    "DeclarationId",
    "Declare",
    "DeclareFinal",
    "DeclareKeyExpr",
    "DeclareQueryable",
    "DeclareSubscriber",
    "DeclareToken",
    "Del",
    "DelAttachment",
    "Drop",
    "Enc",
    "Encoding",
    "Err",
    "First",
    "Fragment",
    "Frame",
    "Hello",
    "Init",
    "InitShm",
    "Interest",
    "InterestMode",
    "Join",
    "JoinLanes",
    "JoinShm",
    "KeepAlive",
    "Kind",
    "Lane",
    "LowLatency",
    "MultiLink",
    "MultiLinkAck",
    "NetworkId",
    "NetworkOam",
    "NodeId",
    "OamId",
    "Open",
    "OpenShm",
    "OpenShmCounters",
    "Overlong",
    "Patch",
    "Priority",
    "Push",
    "Put",
    "PutAttachment",
    "QoS",
    "QoSLink",
    "QoSOffer",
    "Query",
    "QueryAttachment",
    "QueryBody",
    "QueryBodyShm",
    "QueryTarget",
    "QueryableInfo",
    "RegionName",
    "RemoteBound",
    "Reply",
    "Request",
    "Resolution",
    "ResponderId",
    "Response",
    "ResponseFinal",
    "Scout",
    "ScoutingId",
    "Shm",
    "SourceInfo",
    "Target",
    "Timeout",
    "Timestamp",
    "TimestampStack",
    "TransportId",
    "TransportOam",
    "Truncated",
    "UndeclareKeyExpr",
    "UndeclareQueryable",
    "UndeclareSubscriber",
    "UndeclareToken",
    "UnknownExtension",
    "UnknownMandatoryExtension",
    "UnknownMessage",
    "What",
    "WhatAmI",
    "WideInt",
    "WireError",
    "WireExpr",
    "contents",
    "decode",
    "decode_batch",
    "decode_one",
    "prefixed",
    "shapes",
    "zid_from_text",
    "zid_to_text",
]


class _ScoutingDatagram(Packet):
    """Stands for SCOUT or HELLO where a port is bound; the first byte of a datagram tells which."""

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *_args: Any, **_kwargs: Any) -> Any:
        """Scapy's entry: chooses the class for some bytes."""
        return message_class(Kind.SCOUTING, _pkt[0] & 0x1F) or Raw


# A HELLO answers from any port to the port that the SCOUT came from; only one that nobody asked for is sent
# to the scouting port. So the port is what Scapy fills in, not what a HELLO must have.
bind_bottom_up(UDP, _ScoutingDatagram, dport=SCOUTING_PORT)
bind_bottom_up(UDP, _ScoutingDatagram, sport=SCOUTING_PORT)
bind_top_down(UDP, Scout, dport=SCOUTING_PORT)
bind_top_down(UDP, Hello, sport=SCOUTING_PORT)
bind_bottom_up(UDP, Batch, sport=DEFAULT_PORT)
bind_layers(UDP, Batch, dport=DEFAULT_PORT)

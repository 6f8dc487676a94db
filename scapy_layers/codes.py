"""The numbers of the specification as enumerations, named like its tables."""

from __future__ import annotations

from enum import IntEnum, IntFlag

PROTOCOL_VERSION = 0x09
"""Message Reference, INIT: the current protocol version."""

SCOUTING_PORT = 7446
"""UDP port of SCOUT; the default group is 224.0.0.224."""

DEFAULT_PORT = 7447
"""Default port of stream and datagram links."""

DEFAULT_BATCH_SIZE = 65_535
"""Session Establishment, Batch Size: unicast, when S is clear."""


class Kind(IntEnum):
    """The layers whose ids are counted apart (Message Reference, Message ID Ranges)."""

    SCOUTING = 0
    TRANSPORT = 1
    NETWORK = 2
    DECLARATION = 3
    DATA = 4


class ScoutingId(IntEnum):
    """Scouting messages."""

    SCOUT = 0x01
    HELLO = 0x02


class TransportId(IntEnum):
    """Transport messages, 0x00 to 0x07."""

    OAM = 0x00
    INIT = 0x01
    OPEN = 0x02
    CLOSE = 0x03
    KEEP_ALIVE = 0x04
    FRAME = 0x05
    FRAGMENT = 0x06
    JOIN = 0x07


class NetworkId(IntEnum):
    """Network messages, 0x19 to 0x1f."""

    INTEREST = 0x19
    RESPONSE_FINAL = 0x1A
    RESPONSE = 0x1B
    REQUEST = 0x1C
    PUSH = 0x1D
    DECLARE = 0x1E
    OAM = 0x1F


class DeclarationId(IntEnum):
    """Bodies of DECLARE."""

    D_KEYEXPR = 0x00
    U_KEYEXPR = 0x01
    D_SUBSCRIBER = 0x02
    U_SUBSCRIBER = 0x03
    D_QUERYABLE = 0x04
    U_QUERYABLE = 0x05
    D_TOKEN = 0x06
    U_TOKEN = 0x07
    D_FINAL = 0x1A


class DataId(IntEnum):
    """Data sub-messages."""

    PUT = 0x01
    DEL = 0x02
    QUERY = 0x03
    REPLY = 0x04
    ERR = 0x05


class Enc(IntEnum):
    """ENC bits of an extension header and of OAM."""

    UNIT = 0
    Z64 = 1
    ZBUF = 2
    RESERVED = 3


class WhatAmI(IntEnum):
    """Role of a node, two-bit code (HELLO, INIT, JOIN)."""

    ROUTER = 0
    PEER = 1
    CLIENT = 2


class What(IntFlag):
    """Roles asked for in SCOUT, and role in a link-state record (WhatAmIMatcher)."""

    ROUTER = 1
    PEER = 2
    CLIENT = 4


class Resolution(IntEnum):
    """Resolution codes: width of sequence numbers (FSN) and request ids (RID)."""

    BITS_8 = 0
    BITS_16 = 1
    BITS_32 = 2
    BITS_64 = 3


class CloseReason(IntEnum):
    """Reason byte of CLOSE."""

    GENERIC = 0x00
    UNSUPPORTED = 0x01
    INVALID = 0x02
    MAX_SESSIONS = 0x03
    MAX_LINKS = 0x04
    EXPIRED = 0x05
    UNRESPONSIVE = 0x06
    CONNECTION_TO_SELF = 0x07


class Priority(IntEnum):
    """Priority class of a network message and of a lane."""

    CONTROL = 0
    REAL_TIME = 1
    INTERACTIVE_HIGH = 2
    INTERACTIVE_LOW = 3
    DATA_HIGH = 4
    DATA = 5
    DATA_LOW = 6
    BACKGROUND = 7


class InterestMode(IntEnum):
    """Mode bits of INTEREST."""

    FINAL = 0
    CURRENT = 1
    FUTURE = 2
    CURRENT_FUTURE = 3


class QueryTarget(IntEnum):
    """Target extension of REQUEST."""

    BEST_MATCHING = 0
    ALL = 1
    ALL_COMPLETE = 2


class Consolidation(IntEnum):
    """ConsolidationMode of QUERY and REPLY."""

    AUTO = 0
    NONE = 1
    MONOTONIC = 2
    LATEST = 3


class Bound(IntEnum):
    """RemoteBound extension of OPEN."""

    NORTH = 0
    SOUTH = 1


class Encoding(IntEnum):
    """Ids of the predefined encodings; 0xffff carries its name in the schema."""

    ZENOH_BYTES = 0
    ZENOH_STRING = 1
    ZENOH_SERIALIZED = 2
    APPLICATION_OCTET_STREAM = 3
    TEXT_PLAIN = 4
    APPLICATION_JSON = 5
    TEXT_JSON = 6
    APPLICATION_CDR = 7
    APPLICATION_CBOR = 8
    APPLICATION_YAML = 9
    TEXT_YAML = 10
    TEXT_JSON5 = 11
    APPLICATION_PYTHON_SERIALIZED_OBJECT = 12
    APPLICATION_PROTOBUF = 13
    APPLICATION_JAVA_SERIALIZED_OBJECT = 14
    APPLICATION_OPENMETRICS_TEXT = 15
    IMAGE_PNG = 16
    IMAGE_JPEG = 17
    IMAGE_GIF = 18
    IMAGE_BMP = 19
    IMAGE_WEBP = 20
    APPLICATION_XML = 21
    APPLICATION_X_WWW_FORM_URLENCODED = 22
    TEXT_HTML = 23
    TEXT_XML = 24
    TEXT_CSS = 25
    TEXT_JAVASCRIPT = 26
    TEXT_MARKDOWN = 27
    TEXT_CSV = 28
    APPLICATION_SQL = 29
    APPLICATION_COAP_PAYLOAD = 30
    APPLICATION_JSON_PATCH_JSON = 31
    APPLICATION_JSON_SEQ = 32
    APPLICATION_JSONPATH = 33
    APPLICATION_JWT = 34
    APPLICATION_MP4 = 35
    APPLICATION_SOAP_XML = 36
    APPLICATION_YANG = 37
    AUDIO_AAC = 38
    AUDIO_FLAC = 39
    AUDIO_MP4 = 40
    AUDIO_OGG = 41
    AUDIO_VORBIS = 42
    VIDEO_H261 = 43
    VIDEO_H263 = 44
    VIDEO_H264 = 45
    VIDEO_H265 = 46
    VIDEO_H266 = 47
    VIDEO_MP4 = 48
    VIDEO_OGG = 49
    VIDEO_RAW = 50
    VIDEO_VP8 = 51
    VIDEO_VP9 = 52
    CUSTOM = 0xFFFF


class OamId(IntEnum):
    """Known ids of network OAM."""

    LINKSTATE = 0x0001

"""What the numbers of encodings stand for: their names, and what a reader can do with such payloads.

Spec: Wire Primitives, Encoding; the names are those that the API of nodes takes and shows.
"""

from __future__ import annotations

from typing import Final

from scapy_layers.codes import Encoding

_NAMES = """
zenoh/bytes zenoh/string zenoh/serialized application/octet-stream text/plain application/json text/json
application/cdr application/cbor application/yaml text/yaml text/json5 application/python-serialized-object
application/protobuf application/java-serialized-object application/openmetrics-text image/png image/jpeg
image/gif image/bmp image/webp application/xml application/x-www-form-urlencoded text/html text/xml text/css
text/javascript text/markdown text/csv application/sql application/coap-payload application/json-patch+json
application/json-seq application/jsonpath application/jwt application/mp4 application/soap+xml
application/yang audio/aac audio/flac audio/mp4 audio/ogg audio/vorbis video/h261 video/h263 video/h264
video/h265 video/h266 video/mp4 video/ogg video/raw video/vp8 video/vp9
""".split()  # noqa: SIM905  (in the order of their numbers; a list would be three times as long)

NAMES: Final = {Encoding(number): name for number, name in enumerate(_NAMES)}
"""All but CUSTOM, whose name is its schema."""

JSON: Final = frozenset({"application/json", "text/json", "application/json-patch+json"})
"""Names of encodings that a JSON parser takes."""

TEXT: Final = frozenset(
    {
        "zenoh/string",
        "application/yaml",
        "application/openmetrics-text",
        "application/xml",
        "application/x-www-form-urlencoded",
        "application/sql",
        "application/json-seq",
        "application/jsonpath",
        "application/jwt",
        "application/soap+xml",
        "application/yang",
    }
)
"""Names of encodings that are text, besides ``JSON`` and all of ``text/``."""

_BINARY = frozenset(name for name in _NAMES if not name.startswith("text/")) - TEXT - JSON - {"zenoh/bytes"}

_SUFFIXES = {
    "zenoh/string": "txt",
    "text/plain": "txt",
    "application/json": "json",
    "text/json": "json",
    "application/cdr": "cdr",
    "application/cbor": "cbor",
    "application/yaml": "yaml",
    "text/yaml": "yaml",
    "text/json5": "json5",
    "application/python-serialized-object": "pickle",
    "application/protobuf": "pb",
    "application/java-serialized-object": "ser",
    "application/openmetrics-text": "txt",
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/bmp": "bmp",
    "image/webp": "webp",
    "application/xml": "xml",
    "text/html": "html",
    "text/xml": "xml",
    "text/css": "css",
    "text/javascript": "js",
    "text/markdown": "md",
    "text/csv": "csv",
    "application/sql": "sql",
    "application/json-patch+json": "json",
    "application/json-seq": "json-seq",
    "application/jsonpath": "txt",
    "application/jwt": "jwt",
    "application/mp4": "mp4",
    "application/soap+xml": "xml",
    "application/yang": "yang",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/ogg": "ogg",
    "audio/vorbis": "ogg",
    "video/h261": "h261",
    "video/h263": "h263",
    "video/h264": "h264",
    "video/h265": "h265",
    "video/h266": "h266",
    "video/mp4": "mp4",
    "video/ogg": "ogv",
}


def name_of(number: int, schema: bytes | None = None) -> str:
    """Returns the text of an encoding, such as ``text/plain;utf8``; ``unknown(53)`` for a number without name."""
    text = schema_text(schema)
    if number == Encoding.CUSTOM:
        return text
    name = NAMES.get(number) or f"unknown({number})"  # type: ignore[call-overload]  # an int finds its member
    return f"{name};{text}" if text else name


def schema_text(schema: bytes | None) -> str:
    """Returns a schema as text; bytes that are no UTF-8 are escaped."""
    return (schema or b"").decode("utf-8", "backslashreplace")


def is_text(name: str) -> bool:
    """Tells whether payloads of an encoding (its text, with or without schema) are text."""
    base = _base(name)
    return base.startswith("text/") or base in TEXT or base in JSON


def is_json(name: str) -> bool:
    """Tells whether payloads of an encoding are JSON."""
    return _base(name) in JSON


def is_binary(name: str) -> bool:
    """Tells whether payloads of an encoding are known to be no text: images, CBOR ... ``zenoh/bytes`` says nothing."""
    return _base(name) in _BINARY


def suffix_of(name: str) -> str:
    """Returns what the name of a file with such a payload ends in, without the dot; ``bin`` when nothing fits."""
    base = _base(name)
    return _SUFFIXES.get(base) or ("txt" if base.startswith("text/") else "bin")


def _base(name: str) -> str:
    return name.partition(";")[0]

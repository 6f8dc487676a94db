"""Captures as Wireshark sees them, in Python: pyshark packets with typed Zenoh fields.

    from scapy_layers import wireshark

    with wireshark.open("capture.pcapng", display_filter="zenoh.put") as capture:
        for packet in capture:
            print(packet.number, packet.zenoh.keyexpr, packet.zenoh.put.data)

``packet.zenoh.frame.sn`` is the field ``zenoh.frame.sn``; the words are those of Wireshark's filters. Numbers,
flags and packet numbers are int, texts, keys and ZenohIDs str, payloads bytes, times float (seconds); what
has no value, like a remark of Wireshark (``packet.zenoh.expert...``), is True.

Packets are those of pyshark, and so is everything in them that is not Zenoh.

A packet often holds several messages. A field that occurs once in a packet is that value; one that occurs more
often is the list of its values in the order of the bytes. ``packet.zenoh.get_field_as_list("put.data")`` is a list
however often it occurs, and empty when it does not. A field that does not occur raises AttributeError;
``packet.zenoh.get("put.data")`` is None then. Where a name has a value and fields of its own (``zenoh.error``
and ``zenoh.error.offset``), the value is ``packet.zenoh.error.value``. What is a keyword of Python has ``_``
behind it: ``packet.zenoh.del_``.

pyshark is imported when a capture is opened, no earlier.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from scapy_layers import tshark as program
from scapy_layers.tshark import Tshark, TsharkError
from scapy_layers.typed_fields import FieldTable

if TYPE_CHECKING:
    from scapy_layers.pyshark_captures import FileCapture, LiveCapture, Plan

__all__ = ["PROTOCOL", "Tshark", "TsharkError", "live", "open", "parameters", "script", "tshark"]

PROTOCOL = "zenoh"
"""Name of the protocol in Wireshark."""

Mode = Literal["ek", "json"]
"""How tshark hands packets over.

``ek`` gives types to the fields of the other protocols too. In it tshark sorts the values of a field by what they
stand in, so where messages of different kinds have a field in common (``zenoh.keyexpr`` of PUSH and of RESPONSE in
one packet) the list has all of the one kind first. ``json`` keeps the order of the bytes, and the other protocols
are text.
"""

Preference = str | int | bool | Path


def script() -> Path:
    """Returns the dissector for Wireshark: ``tshark -X lua_script:PATH``.

    Raises:
        TsharkError: This installation is incomplete.
    """
    path = Path(__file__).with_name("zenoh.lua")
    if not path.is_file():
        raise TsharkError(f"{path} is missing: install this package again")
    return path


def tshark(path: str | Path | None = None) -> Tshark:
    """Returns the tshark of this machine, with its version.

    Args:
        path: Of the program, or its name; the usual places are looked at when None.

    Raises:
        TsharkError: There is none, or it is too old.
    """
    return program.find(path)


def parameters(tshark_path: str | Path | None = None) -> list[str]:
    """Returns what tshark has to be given to load our dissector once; nothing where it is installed.

    Raises:
        TsharkError: There is no tshark, or it loads another Zenoh dissector already.
    """
    ours = script()
    for plugin in tshark(tshark_path).plugins():
        if PROTOCOL not in plugin.name.lower():
            continue
        if is_current(plugin.path):
            return []
        raise TsharkError(
            f"Wireshark loads another Zenoh dissector, {plugin.path}: if it came from here, "
            f"`zenoh-dissect wireshark install` renews it; otherwise move it away"
        )
    return ["-X", f"lua_script:{ours}"]


INSTALLED = "Installed by zenoh-dissect wireshark install"
"""What the first line of an installed file says, behind the mark of a comment; the file as it is follows."""


def is_current(path: Path) -> bool:
    """Tells whether a file is our dissector in this version, installed or copied by hand."""
    try:
        text = path.read_bytes()
    except OSError:
        return False
    if text.startswith(f"-- {INSTALLED}".encode()):
        text = text.partition(b"\n")[2]
    return text == script().read_bytes()


def open(  # noqa: A001  (as gzip.open and the like)
    capture: str | Path,
    *,
    display_filter: str | None = None,
    mode: Mode = "ek",
    layers: Sequence[str] | None = None,
    two_passes: bool = False,
    decode_as: Mapping[str, str] | None = None,
    preferences: Mapping[str, Preference] | None = None,
    keylog: str | Path | None = None,
    tshark_path: str | Path | None = None,
) -> FileCapture:
    """Opens a capture with our dissector.

    Iterating reads from the beginning and keeps nothing; ``capture[5]`` reads as far as it has to and keeps
    what it read. It can be closed, and used with ``with``.

    Args:
        capture: pcap or pcapng, plain or compressed: whatever Wireshark reads.
        display_filter: Which packets are wanted, as in Wireshark: ``zenoh.keyexpr == "a/b"``.
        mode: How tshark hands packets over.
        layers: The protocols that are wanted beside ``frame``; all when None. ``("zenoh",)`` is the quickest.
        two_passes: Also tell what only later packets say: ``zenoh.response_in`` of a request.
        decode_as: Protocols of ports: ``{"tcp.port==8000": "zenoh"}``.
        preferences: Of Wireshark, by name: ``{"tcp.reassemble_out_of_order": True}``.
        keylog: File with the secrets of TLS sessions, as SSLKEYLOGFILE names it.
        tshark_path: Of the program; the usual places are looked at when None.

    Raises:
        FileNotFoundError: There is no such capture, or it is a folder, a pipe, or a device.
        TsharkError: There is no tshark or no pyshark, or another Zenoh dissector is in the way. Also raised
            while reading, after the last packet that can be read, when tshark complains about the capture.
    """
    _require_pyshark()
    from scapy_layers.pyshark_captures import FileCapture

    path = Path(capture)
    if path.exists() and not path.is_file():
        # For pyshark all of this is a folder.
        raise FileNotFoundError(
            f"{path} is {'a folder' if path.is_dir() else 'no ordinary file'}, not a capture"
        )
    return FileCapture(
        _plan(mode, layers, preferences, keylog, tshark_path, two_passes=two_passes),
        path,
        display_filter=display_filter,
        decode_as=None if decode_as is None else dict(decode_as),
    )


def live(
    interface: str | Sequence[str],
    *,
    capture_filter: str | None = None,
    display_filter: str | None = None,
    mode: Mode = "ek",
    layers: Sequence[str] | None = None,
    decode_as: Mapping[str, str] | None = None,
    preferences: Mapping[str, Preference] | None = None,
    keylog: str | Path | None = None,
    tshark_path: str | Path | None = None,
) -> LiveCapture:
    """Captures with our dissector, from the first iteration on until closed.

    Args:
        interface: Name of an interface, or of several.
        capture_filter: What is captured, in the language of tcpdump: ``tcp port 7447``.
        display_filter: As for ``open``, like everything below.
        mode: As for ``open``.
        layers: As for ``open``.
        decode_as: As for ``open``.
        preferences: As for ``open``.
        keylog: As for ``open``.
        tshark_path: As for ``open``.

    Raises:
        TsharkError: As for ``open``; while reading, when this user may not capture or there is no such interface.
    """
    _require_pyshark()
    from scapy_layers.pyshark_captures import LiveCapture

    return LiveCapture(
        _plan(mode, layers, preferences, keylog, tshark_path),
        [interface] if isinstance(interface, str) else list(interface),
        capture_filter=capture_filter,
        display_filter=display_filter,
        decode_as=None if decode_as is None else dict(decode_as),
    )


def _require_pyshark() -> None:
    if importlib.util.find_spec("pyshark") is None:
        raise TsharkError("pyshark is not installed: pip install 'zenoh-harness[capture]'")


def _plan(
    mode: Mode,
    layers: Sequence[str] | None,
    preferences: Mapping[str, Preference] | None,
    keylog: str | Path | None,
    tshark_path: str | Path | None,
    *,
    two_passes: bool = False,
) -> Plan:
    from scapy_layers.pyshark_captures import Plan

    if mode not in {"ek", "json"}:
        raise ValueError(f"mode is ek or json, not {mode!r}")
    found = tshark(tshark_path)
    loading, table = _loading(found, script().read_bytes())
    wanted = dict(preferences or {})
    if keylog is not None:
        wanted["tls.keylog_file"] = Path(keylog).resolve()
    arguments = [*loading, *(["-2"] if two_passes else [])]
    for name, value in wanted.items():
        arguments += ["-o", f"{name}:{str(value).upper() if isinstance(value, bool) else value}"]
    if layers is not None:
        arguments += ["-J", " ".join(dict.fromkeys(["frame", *layers]))]
    return Plan(found, mode, arguments, table)


@cache
def _loading(found: Tshark, _dissector: bytes) -> tuple[list[str], FieldTable]:
    """Returns what loads our dissector, and its fields; once for each text of it, as tshark takes its time."""
    loading = parameters(found.path)
    fields = found.fields(PROTOCOL, *loading)
    if f"{PROTOCOL}.frame.sn" not in fields:
        if found.refuses and all(plugin.path != script() for plugin in found.plugins(*loading)):
            raise TsharkError(program.where_root_may(found))
        raise TsharkError(
            f"{found.path} does not load {script()}: it has no Lua, or another Zenoh dissector has taken its name; "
            f"`{found.path} -G plugins {' '.join(loading)}` tells"
        )
    return loading, FieldTable(fields)

"""``zenoh-dissect export``: payloads into files."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from scapy_layers.commands.events import events
from scapy_layers.commands.filters import Filters, add_filters
from scapy_layers.commands.sources import Sources, add_sources
from scapy_layers.commands.terminal import WRONG_USE, Screen, Subparsers, WrongUseError, add_command, folder

if TYPE_CHECKING:
    from scapy_layers.samples import Content

MANIFEST = "export.jsonl"

MOST_OF_KEY = 100
"""Characters of a key in the name of a file; every file system takes 255."""

EXAMPLES = """\
examples:
  zenoh-dissect export capture.pcapng --out payloads
  zenoh-dissect export capture.pcapng --out images --key 'camera/**'
  jq -r 'select(.event == "reply") | .file' payloads/export.jsonl
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "export",
        _export,
        summary="write payloads to files, with a list of what is in each",
        description="Writes the payload of each value, query, reply and error to its own file in DIR, named by\n"
        f"sequence number, key and encoding, such as 000017-camera_front.jpg. {MANIFEST} in DIR has one\n"
        "JSON line per file: the same as from `samples`, with `file` and `size` instead of `payload`;\n"
        "with several captures each line also has `capture`.\n"
        "Whatever the keys are, nothing outside DIR is written, and no existing file is overwritten.\n\n"
        "Exit status: 0 all read, 1 a capture is damaged (the intact part was written), 2 wrong use.",
        examples=EXAMPLES,
    )
    add_sources(parser)
    add_filters(parser)
    parser.add_argument(
        "--out", required=True, metavar="DIR", type=folder, help="output folder; created if missing"
    )


def _export(arguments: argparse.Namespace) -> int:
    filters = Filters.of(arguments)
    screen = Screen(arguments)
    sources = Sources(arguments, screen)
    folder: Path = arguments.out
    written = size = 0
    elsewhere = 0
    listed: TextIO | None = None
    try:
        for capture, event in _contents(sources, filters):
            if event.payload is None:
                elsewhere += bool(event.shared)
                continue
            # Only now, so that wrong use leaves nothing behind.
            listed = _manifest(folder) if listed is None else listed
            written += 1
            size += len(event.payload)
            _write(folder, written, event, listed, capture)
        if listed is None and sources.status != WRONG_USE:
            listed = _manifest(folder)
    finally:
        if listed is not None:
            listed.close()
    if listed is not None:
        screen.line(f"{written:,} payloads, {size:,} bytes, in {folder}")
    if elsewhere:
        screen.line(f"{elsewhere:,} payloads are in shared memory, not in the capture")
    return sources.status


def _contents(sources: Sources, filters: Filters) -> Iterator[tuple[str | None, Content]]:
    """Yields what has a payload, with the name of its capture if there are several."""
    from scapy_layers.samples import Content

    for source in sources:
        capture = source.name if len(sources) > 1 else None
        for event in events(source, filters):
            if isinstance(event, Content):
                yield capture, event


def _manifest(folder: Path) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / MANIFEST).open("x", encoding="utf-8")
    except FileExistsError:
        what = "already contains an export" if folder.is_dir() else "is not a folder"
        raise WrongUseError(f"{folder} {what}; choose another folder with --out") from None
    except OSError as error:
        raise WrongUseError(f"{folder}: {error.strerror}") from None


def _write(folder: Path, number: int, event: Content, listed: TextIO, capture: str | None) -> None:
    assert event.payload is not None
    try:
        name = _new_file(folder, f"{number:06}-{_stem(event.keyexpr)}", _suffix(event), event.payload)
        line = {"file": name, "size": len(event.payload)} | event.as_data()
        del line["payload"]
        if capture is not None:
            line["capture"] = capture
        listed.write(json.dumps(line, ensure_ascii=False) + "\n")
        # A disk that files fill must not be full when it comes to their list.
        listed.flush()
    except OSError as error:
        raise WrongUseError(f"{folder}: {error.strerror}, after {number - 1:,} payloads") from None


def _new_file(folder: Path, stem: str, suffix: str, payload: bytes) -> str:
    """Writes a file that was not there, with a number in its name if need be; returns the name."""
    for again in count(1):
        name = f"{stem}-{again}.{suffix}" if again > 1 else f"{stem}.{suffix}"
        try:
            # "x" neither overwrites nor follows a link that is there.
            with (folder / name).open("xb") as file:
                file.write(payload)
        except FileExistsError:
            continue
        except OSError:
            (folder / name).unlink(missing_ok=True)  # half a payload is none
            raise
        return name
    raise AssertionError("counting does not end")


def _stem(keyexpr: str | None) -> str:
    """Returns what a key becomes in the name of a file: letters, digits and ``.-_`` of ASCII, nothing else."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", keyexpr or "").strip("._-")
    return safe[:MOST_OF_KEY] or "unnamed"


def _suffix(event: Content) -> str:
    from scapy_layers.encodings import suffix_of

    return suffix_of(event.encoding_name or "")

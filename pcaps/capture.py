"""Makes the captures of this folder: real nodes on loopback, recorded from the wire.

``python pcaps/capture.py [NAME ...]`` plays scenarios (all without a name; ``--list`` shows them). Each one
starts eclipse-zenoh nodes as processes in a network of their own, with fixed ZenohIDs and ports that the
system chooses, and leaves three things: ``NAME.pcapng``, ``NAME.truth.json`` with what the API of the
nodes handed out (so that decoders are judged by somebody else's word), and a row in ``manifest.toml``.

Nothing waits for a fixed time: a scenario goes on when a reply, a sample or a packet arrived. A ``get`` of
``fence`` that nobody answers makes sure that a router has taken all that a client sent before.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import sys
import tomllib
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Run as a script, this folder is on the path instead of the checkout it is in.
sys.path.insert(0, str(HERE.parent))

from pcaps.recording import CaptureError, own_network, pcapng  # noqa: E402
from pcaps.releases import NODE, release  # noqa: E402
from pcaps.scenarios import SCENARIOS  # noqa: E402
from pcaps.stage import Stage  # noqa: E402

LICENCE = "GPL-2.0-or-later"


def capture(name: str, out: Path, version: str, releases: dict[str, str]) -> dict[str, Any]:
    """Plays a scenario, writes its files, returns its row.

    Raises:
        CaptureError: It could not be played; the files are as before.
        OSError: They cannot be written.
    """
    described = SCENARIOS[name]
    with Stage(releases) as stage:
        described.play(stage)
        packets, saw = stage.results()
    raw, truth = pcapng(packets), as_text(saw).encode()
    for suffix, content in ((".pcapng", raw), (".truth.json", truth)):
        temporary = out / f".{name}{suffix}"
        temporary.write_bytes(content)
        temporary.replace(out / f"{name}{suffix}")
    row: dict[str, Any] = {
        "file": f"{name}.pcapng",
        "shows": described.shows,
        "node": NODE,
        "version": version,
        "command": f"python pcaps/capture.py {name}",
        "date": datetime.now(UTC).date(),
        "licence": LICENCE,
        "sha256": hashlib.sha256(raw).hexdigest(),
        "truth": f"{name}.truth.json",
        "truth_sha256": hashlib.sha256(truth).hexdigest(),
    }
    if described.versions:
        row["beside"] = list(described.versions)
    if described.opaque:
        row["opaque"] = True
    return row


def as_text(saw: dict[str, dict[str, Any]]) -> str:
    """Returns what the nodes saw as JSON in which each thing seen has a line of its own."""
    nodes = []
    for name, sections in saw.items():
        parts = []
        for section, seen in sections.items():
            if isinstance(seen, list):
                rows = ",\n".join(f"   {json.dumps(item, ensure_ascii=False)}" for item in seen)
                parts.append(f'  "{section}": [\n{rows}\n  ]')
            else:
                parts.append(f'  "{section}": {json.dumps(seen, ensure_ascii=False)}')
        nodes.append(f' "{name}": {{\n' + ",\n".join(parts) + "\n }")
    return "{\n" + ",\n".join(nodes) + "\n}\n"


MANIFEST = "manifest.toml"

HEADER = """\
# Where each capture comes from. A capture without a row, or with another SHA-256, fails our tests.
# Rows of captures that capture.py makes are written by it.
"""


def read_manifest(out: Path) -> list[dict[str, Any]]:
    """Returns the rows of a manifest, none when there is no file.

    Raises:
        CaptureError: It is no manifest.
    """
    try:
        rows = tomllib.loads((out / MANIFEST).read_text(encoding="utf-8")).get("capture", [])
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CaptureError(f"{out / MANIFEST} cannot be read: {error}") from None
    if not all(isinstance(row, dict) and isinstance(row.get("file"), str) for row in rows):
        raise CaptureError(f"{out / MANIFEST} has a row without a file")
    return list(rows)


def write_manifest(out: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes a manifest whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    tables = [
        "\n[[capture]]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in row.items())
        for row in sorted(rows, key=lambda row: str(row["file"]))
    ]
    temporary = out / f".{MANIFEST}"
    temporary.write_text(HEADER + "".join(tables), encoding="utf-8")
    temporary.replace(out / MANIFEST)


def _toml(value: Any) -> str:
    # A JSON string is a TOML basic string; true and a list of strings are the same in both.
    return value.isoformat() if isinstance(value, date) else json.dumps(value, ensure_ascii=False)


def make(names: list[str], out: Path, releases: dict[str, str]) -> None:
    """Makes captures and their rows.

    Args:
        names: Scenarios.
        out: Folder to write to.
        releases: Import paths of further releases of the API.

    Raises:
        CaptureError: One cannot be made; those before it are complete.
        OSError: The folder cannot be written.
    """
    try:
        version = importlib.metadata.version(NODE)
    except importlib.metadata.PackageNotFoundError:
        raise CaptureError(f"{NODE} is not installed; install the extra 'node'") from None
    out.mkdir(parents=True, exist_ok=True)
    rows = {row["file"]: row for row in read_manifest(out)}
    for name in names:
        try:
            row = capture(name, out, version, releases)
        except CaptureError as error:
            raise CaptureError(f"{name}: {error}") from None
        rows[row["file"]] = row
        write_manifest(out, rows.values())
        print(f"{out / row['file']}: {(out / row['file']).stat().st_size} bytes")


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Makes the captures of this folder from real nodes on loopback."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios to play; all when none is given")
    parser.add_argument(
        "--out", type=Path, default=HERE, metavar="DIR", help="where to write; default: this folder"
    )
    parser.add_argument("--list", action="store_true", help="show the scenarios and end")
    options = parser.parse_args(arguments)
    if options.list:
        for name, described in SCENARIOS.items():
            print(f"{name:18}{described.shows}")
        return 0
    unknown = [name for name in options.names if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; --list shows them")
    names = options.names or list(SCENARIOS)
    try:
        # Before there is no network to fetch them from.
        releases = {version: release(version) for name in names for version in SCENARIOS[name].versions}
        own_network()
        make(names, options.out, releases)
    except CaptureError as error:
        print(f"capture.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"capture.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

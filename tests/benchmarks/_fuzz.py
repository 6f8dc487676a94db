"""What the benchmarks of the fuzzer share: how a run is started, and its rows."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def command(campaign: str, node: str, folder: Path, seed: int, *options: str) -> list[str]:
    """Returns the words of a run."""
    words = [sys.executable, "-m", "fuzz", "run", campaign, "--node", node, "--run-dir", str(folder)]
    return [*words, "--seed", str(seed), *options]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file, as far as it is there; not the footer."""
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                row = json.loads(line)
                if not row.get("footer"):
                    yield row


def sent(row: dict[str, Any]) -> bytes:
    """Returns all that a case sent."""
    text: str = row["sent_hex"]
    if row.get("sent_zlib"):
        text = zlib.decompress(base64.b64decode(row["sent_zlib"])).decode()
    return bytes.fromhex(text.replace(" ", ""))

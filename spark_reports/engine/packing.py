"""Our own packages as one zip file, which is how they get to the Python workers of a cluster.

Spark has ``--py-files`` for this, but passes over wheels, and a job that carries its code needs nothing installed on
the workers but Python, PyArrow and NumPy.
"""

import importlib.resources
import zipfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

PACKAGES = ("spark_reports", "scapy_layers")
"""What a worker may be asked to import."""

NAME = "zenoh-harness.zip"

# Zip files cannot hold earlier times; the same content shall be the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def pack(folder: Path) -> Path:
    """Writes the packages that are running into a zip file in a folder, and returns its path."""
    target = folder / NAME
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for name, content in _files(importlib.resources.files(package), package):
                archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)
    return target


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}", entry.read_bytes()

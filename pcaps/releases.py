"""Further releases of the nodes' API, each in a folder of its own beside the others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pcaps.recording import CaptureError

NODE = "eclipse-zenoh"


def release(version: str) -> str:
    """Returns the import path of a release; it is fetched once, into the cache that ``--node pypi:`` uses.

    Raises:
        CaptureError: It is not to be had.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zenoh-harness" / "nodes"
    folder = cache / f"{NODE}-{version}-{sys.implementation.cache_tag}"
    if not folder.exists():
        _fetch(version, folder)
    return str(folder)


def _fetch(version: str, folder: Path) -> None:
    """Installs one release, whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        target = Path(temporary) / "package"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*pip, "--target", str(target), f"{NODE}=={version}"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1].removeprefix("ERROR: ")
            raise CaptureError(f"{NODE} {version} cannot be installed: {reason}")
        if not folder.exists():
            shutil.move(target, folder)

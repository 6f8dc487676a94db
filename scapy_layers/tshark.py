"""tshark, Wireshark without windows: where it is, what it has loaded, which fields it knows.

As root, Wireshark 4.4 and newer run no Lua scripts but those in the folder of all users, without a word. Then tshark is
started as a user who may do nothing but read all files and capture, by ``setpriv``.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

OLDEST = (3, 6)
"""Version of Wireshark that everything here was made for; older ones are refused."""

_ELSEWHERE = (
    "/Applications/Wireshark.app/Contents/MacOS/tshark",
    "C:/Program Files/Wireshark/tshark.exe",
)
"""Where it is when it is not on the path."""

_PATIENCE = 120
"""Seconds a question to tshark may take."""


EVERYBODY = "Global Lua Plugins"
"""What it calls the folder of scripts of all users."""

_NOBODY = 65534
"""User and group that nobody has: on Linux everywhere the same."""

_MAY = ",".join(f"+{what}" for what in ("dac_override", "net_admin", "net_raw"))
"""What that user may do: open all files, as root may; capture."""


class TsharkError(Exception):
    """tshark is missing, does not load the dissector, or gave up; the text says what to do."""


class Plugin(NamedTuple):
    """Something that tshark has loaded.

    Attributes:
        name: Of its file.
        version: As it says itself; may be empty.
        kind: ``lua script``, ``dissector``, ...
        path: Its file.
    """

    name: str
    version: str
    kind: str
    path: Path


@dataclass(frozen=True, slots=True)
class Tshark:
    """One installation.

    Attributes:
        path: Of the program; where it refuses root's scripts, of one that starts it as another user, if that can be.
        version: Of Wireshark: 4, 0, 17.
        refuses: This user is root, for whom it runs no Lua scripts but those of all users.
    """

    path: Path
    version: tuple[int, ...]
    refuses: bool = False

    def folders(self) -> dict[str, Path]:
        """Returns Wireshark's folders by what it calls them.

        ``Personal configuration``, ``Personal Lua Plugins``, ``Global Plugins``, ...
        """
        pairs = (line.partition(":") for line in self._told("folders").splitlines())
        return {name.strip(): Path(path.strip()) for name, colon, path in pairs if colon}

    def plugins(self, *arguments: str) -> list[Plugin]:
        """Returns what it has loaded when it is given some arguments."""
        rows = (line.split("\t") for line in self._told("plugins", *arguments).splitlines())
        return [
            Plugin(row[0].strip(), row[1].strip(), row[2].strip(), Path(row[3]))
            for row in rows
            if len(row) == 4
        ]

    def fields(self, protocol: str, *arguments: str) -> dict[str, str]:
        """Returns the fields of a protocol with their types (``FT_UINT64``); empty when there is none."""
        found: dict[str, str] = {}
        for line in self._told("fields", *arguments).splitlines():
            row = line.split("\t")
            if row[0] == "F" and row[4] == protocol:
                found[row[2]] = row[3]
        return found

    def types(self) -> dict[str, Any]:
        """Returns what ``-T ek`` tells Elasticsearch of each protocol: the types of its fields."""
        told = json.loads(self._told("elastic-mapping"), object_pairs_hook=_joined)
        types: dict[str, Any] = told["mappings"]["properties"]["layers"]["properties"]
        return types

    def _told(self, what: str, *arguments: str) -> str:
        run = subprocess.run(
            [self.path, "-G", what, *arguments], capture_output=True, timeout=_PATIENCE, check=False
        )
        if run.returncode:
            raise TsharkError(f"{self.path} -G {what}: {complaint(run.stderr) or 'no answer'}")
        return run.stdout.decode("utf-8", "replace")


def _joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON; where a protocol stands twice in it, all of its fields are kept."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        there = found.get(name)
        if (
            isinstance(there, dict)
            and isinstance(value, dict)
            and there.keys() == value.keys() == {"properties"}
        ):
            found[name] = {"properties": there["properties"] | value["properties"]}
        else:
            found[name] = value
    return found


def find(program: str | Path | None = None) -> Tshark:
    """Returns the tshark of this machine.

    Args:
        program: Name or path; the usual places are looked at when None.

    Raises:
        TsharkError: There is none, or it is too old.
    """
    names: Sequence[str] = ("tshark", *_ELSEWHERE) if program is None else (str(program),)
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        where = "" if program is None else f" as {program}"
        raise TsharkError(f"tshark was not found{where}: install Wireshark's command line (package tshark)")
    return _known(path)


def is_there() -> bool:
    """Tells whether there is one that can be used."""
    try:
        find()
    except TsharkError:
        return False
    return True


_for_others: dict[str, Tshark] = {}
"""Those that start another as a user who is not root, by their paths: who puts one of these on the path finds it again."""


@cache
def _known(path: str) -> Tshark:
    if path in _for_others:
        return _for_others[path]
    try:
        run = subprocess.run([path, "--version"], capture_output=True, timeout=_PATIENCE, check=False)
    except OSError as error:
        raise TsharkError(f"{path} cannot be run: {error.strerror}") from None
    numbers = re.search(r"TShark \(Wireshark\) (\d+(?:\.\d+)+)", run.stdout.decode("utf-8", "replace"))
    if not numbers:
        raise TsharkError(f"{path} is no tshark: it does not tell the version of Wireshark")
    version = tuple(int(number) for number in numbers[1].split("."))
    if version < OLDEST:
        raise TsharkError(
            f"{path} is Wireshark {numbers[1]}; {'.'.join(map(str, OLDEST))} or newer is needed"
        )
    found = Tshark(Path(path), version)
    return _for_root(found) if is_root() else found


def is_root() -> bool:
    """Tells whether this process may do everything, which Wireshark takes for a danger."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _for_root(found: Tshark) -> Tshark:
    """Returns one that runs Lua scripts for root, if this machine has the means."""
    with tempfile.TemporaryDirectory(prefix="zenoh-tshark-") as folder:
        probe = Path(folder) / "probe.lua"
        probe.touch()
        if _runs(found, probe):
            return found
        setpriv = shutil.which("setpriv")
        if setpriv is not None and _runs(
            other := replace(found, path=_started_by(setpriv, found.path)), probe
        ):
            found = _for_others[str(other.path)] = replace(other, refuses=True)
            return found
    # Without a folder for scripts it has no Lua, whoever starts it.
    return replace(found, refuses=EVERYBODY in found.folders())


def _runs(found: Tshark, script: Path) -> bool:
    try:
        return any(plugin.path == script for plugin in found.plugins("-X", f"lua_script:{script}"))
    except (TsharkError, OSError):
        return False


def _started_by(setpriv: str, program: Path) -> Path:
    """Returns a program that starts another one as a user who may read all files and capture, until this process ends."""
    folder = tempfile.mkdtemp(prefix="zenoh-tshark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    user = [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    words = [setpriv, *user, f"--inh-caps={_MAY}", f"--ambient-caps={_MAY}", str(program)]
    path = Path(folder) / "tshark"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)
    return path


def where_root_may(found: Tshark) -> str:
    """Returns what to do so that Wireshark loads the dissector for root, for whom it runs no scripts of its own."""
    folder = found.folders()[EVERYBODY]
    return (
        f"as root Wireshark {'.'.join(map(str, found.version))} runs no Lua scripts: use it as another user, "
        f"or give it to all users: `zenoh-dissect wireshark install --dir {folder}`"
    )


def complaint(stderr: bytes) -> str:
    """Returns what tshark wrote on standard error as one line, without what it always says."""
    lines = (line.strip().removeprefix("tshark: ") for line in stderr.decode("utf-8", "replace").splitlines())
    return " ".join(line for line in lines if line and not line.startswith(_CHATTER))


_CHATTER = ("Running as user ", "Capturing on ", "** (tshark")

"""``zenoh-dissect wireshark``: the dissector and a profile for Wireshark, into its folders and out of them.

Every file that is written begins with a line that says so, with a checksum of the rest. That line is all the
memory there is: what does not have it is foreign, and where the checksum is wrong somebody has changed the file.
Wireshark leaves the line out when it writes its settings itself, so these are foreign from then on.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from scapy_layers.commands.terminal import REFUSED, Subparsers, WrongUseError, add_command, printable

if TYPE_CHECKING:
    from scapy_layers.tshark import Tshark

DISTRIBUTION = "zenoh-harness"
PROFILE = "Zenoh"
SETTINGS = ("colorfilters", "dfilter_buttons", "preferences")
"""Files of a profile, named as Wireshark wants it."""

PLUGIN = "zenoh.lua"
PLUGIN_FOLDERS = (
    "Personal Lua Plugins",
    "Global Lua Plugins",
    "Personal Plugins",
    "Global Plugins",
)

EXAMPLES = """\
examples:
  zenoh-dissect wireshark install            then: wireshark -C Zenoh capture.pcapng
  zenoh-dissect wireshark install --dir ~/plugins --force
  zenoh-dissect wireshark remove
  tshark -X lua_script:$(zenoh-dissect wireshark path) -r capture.pcapng
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "wireshark",
        _act,
        summary="install the Wireshark dissector, or print its path",
        description="Installs the dissector into Wireshark's folder of personal Lua plugins, and a profile with\n"
        "columns, colours and filter buttons for Zenoh into its settings; removes both again; or prints\n"
        "the path of the dissector, for tshark -X lua_script:PATH. Files that it did not install, or that\n"
        "were changed since, are not touched without --force.\n\n"
        "Exit status: 0 done, 1 something was left unchanged, 2 wrong use.",
        examples=EXAMPLES,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    install = actions.add_parser("install", help="install or update the dissector and the profile")
    install.set_defaults(action=_install)
    remove = actions.add_parser("remove", help="remove what install wrote")
    remove.set_defaults(action=_remove)
    for action in (install, remove):
        action.add_argument(
            "--dir",
            type=Path,
            metavar="DIR",
            help="plugin folder (default: your personal one, as reported by tshark)",
        )
        action.add_argument(
            "--profile",
            action=argparse.BooleanOptionalAction,
            help=f"also install or remove your profile {PROFILE} (default: yes, unless --dir is given)",
        )
        action.add_argument(
            "--force",
            action="store_true",
            help="also overwrite or remove files from elsewhere and changed files",
        )
    path = actions.add_parser("path", help="print the path of the dissector")
    path.set_defaults(action=_path)


# Files ----------------------------------------------------------------------------------------------


class State(Enum):
    """Whose a file is."""

    MISSING = auto()
    CURRENT = auto()
    """Ours, as this version writes it."""
    OURS = auto()
    """Ours, of another version."""
    CHANGED = auto()
    """Ours once; somebody has changed it."""
    FOREIGN = auto()


@dataclass(frozen=True, slots=True)
class Delivery:
    """A file that is to be, or was, installed.

    Attributes:
        source: In this package.
        target: Where it goes.
        comment: What a comment begins with in such a file.
    """

    source: Path
    target: Path
    comment: str

    def state(self) -> State:
        """Looks at what is there.

        Raises:
            WrongUseError: It cannot be read, or is no file.
        """
        try:
            there = self.target.read_bytes()
        except FileNotFoundError:
            return State.MISSING
        except OSError as error:
            raise WrongUseError(f"{self.target}: {error.strerror}") from None
        if there in {self.text(), self.source.read_bytes()}:
            return State.CURRENT
        line, _, rest = there.partition(b"\n")
        if not line.startswith(self._mark()):
            return State.FOREIGN
        return State.OURS if line.endswith(_checksum(rest)) else State.CHANGED

    def text(self) -> bytes:
        """Returns what is installed."""
        text = self.source.read_bytes()
        said = f", {DISTRIBUTION} {_version()}, sha256 ".encode()
        return self._mark() + said + _checksum(text) + b"\n" + text

    def write(self) -> None:
        """Installs it.

        Raises:
            WrongUseError: That is not possible.
        """
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self.target.write_bytes(self.text())
        except OSError as error:
            raise WrongUseError(f"{self.target} cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        """Takes it away.

        Raises:
            WrongUseError: That is not possible.
        """
        try:
            self.target.unlink()
        except OSError as error:
            raise WrongUseError(f"{self.target} cannot be removed: {error.strerror}") from None

    def _mark(self) -> bytes:
        from scapy_layers.wireshark import INSTALLED

        return f"{self.comment} {INSTALLED}".encode()


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _version() -> str:
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


# Actions --------------------------------------------------------------------------------------------


def _act(arguments: argparse.Namespace) -> int:
    from scapy_layers.wireshark import TsharkError

    try:
        status: int = arguments.action(arguments)
    except TsharkError as error:
        raise WrongUseError(str(error)) from None
    return status


def _path(_arguments: argparse.Namespace) -> int:
    from scapy_layers import wireshark
    from scapy_layers.tshark import is_root, where_root_may

    if is_root():
        # Where it is told needs no tshark.
        with suppress(wireshark.TsharkError):
            found = wireshark.tshark()
            if found.refuses and wireshark.parameters():
                print(where_root_may(found), file=sys.stderr)
    print(_script())
    return 0


def _install(arguments: argparse.Namespace) -> int:
    from scapy_layers.tshark import EVERYBODY, where_root_may

    program = _tshark(arguments)
    folders = {} if program is None else program.folders()
    plugin, settings = _deliveries(arguments, folders)
    states = {delivery: delivery.state() for delivery in (plugin, *settings)}
    if states[plugin] in {State.FOREIGN, State.CHANGED} and not arguments.force:
        why = (
            "was not installed by this tool"
            if states[plugin] is State.FOREIGN
            else "was changed since it was installed"
        )
        raise WrongUseError(f"{plugin.target} {why}: move it away, or --force overwrites it")
    status = 0
    for delivery, state in states.items():
        if state is State.CURRENT:
            _say(f"is up to date: {delivery.target}")
        elif state in {State.FOREIGN, State.CHANGED} and not arguments.force:
            _say(f"left unchanged, --force overwrites it: {delivery.target}")
            status = REFUSED
        else:
            delivery.write()
            _say(f"{'written' if state is State.MISSING else 'renewed'}: {delivery.target}")
    beside = [folders[name].resolve() for name in PLUGIN_FOLDERS if name in folders]
    together = any(plugin.target.resolve().is_relative_to(folder) for folder in beside)
    for other in _others(plugin.target.resolve(), beside if together else []):
        _say(f"another Zenoh dissector is installed, move one of them away: {other}")
        status = REFUSED
    everybody = folders.get(EVERYBODY)
    if program is not None and program.refuses:
        if everybody is None or not plugin.target.resolve().is_relative_to(everybody.resolve()):
            _say(where_root_may(program))
    elif program is not None and together and not _is_loaded(program, plugin.target.resolve()):
        _say(
            "tshark does not load plugins from that folder;\n"
            f"give it the dissector instead: tshark -X lua_script:{_script()}"
        )
    if settings:
        _say(f"to use it: wireshark -C {PROFILE} CAPTURE")
    return status


def _remove(arguments: argparse.Namespace) -> int:
    program = _tshark(arguments)
    plugin, settings = _deliveries(arguments, {} if program is None else program.folders())
    status = 0
    for delivery in (plugin, *settings):
        state = delivery.state()
        if state is State.MISSING:
            continue
        if state is State.FOREIGN or (state is State.CHANGED and not arguments.force):
            why = (
                "not installed by this tool"
                if state is State.FOREIGN
                else "changed since, --force removes it"
            )
            _say(f"left unchanged ({why}): {delivery.target}")
            status = REFUSED
            continue
        delivery.remove()
        _say(f"removed: {delivery.target}")
    if settings:
        _remove_folder(settings[0].target.parent)
    return status


def _remove_folder(folder: Path) -> None:
    """Removes the folder of the profile unless there is something in it, like what Wireshark remembers."""
    if not folder.is_dir():
        return
    left = sorted(path.name for path in folder.iterdir())
    if left:
        _say(f"left unchanged, it contains {', '.join(left)}: {folder}")
    else:
        folder.rmdir()


def _deliveries(
    arguments: argparse.Namespace, folders: Mapping[str, Path]
) -> tuple[Delivery, list[Delivery]]:
    """Returns the plugin, and the files of the profile if that is wanted."""
    folder: Path | None = arguments.dir or folders.get(PLUGIN_FOLDERS[0])
    if folder is None:
        raise WrongUseError(
            "this tshark has no folder for Lua plugins: is it built with Lua? Use --dir to choose another"
        )
    if folder.exists() and not folder.is_dir():
        raise WrongUseError(f"{folder} is not a folder")
    plugin = Delivery(_script(), folder / PLUGIN, "--")
    wanted = arguments.dir is None if arguments.profile is None else arguments.profile
    if not wanted:
        return plugin, []
    personal = folders.get("Personal configuration")
    if personal is None:
        raise WrongUseError("without tshark the profile folder is unknown: use --no-profile to skip it")
    source = Path(__file__).parents[1] / "profile"
    return plugin, [Delivery(source / name, personal / "profiles" / PROFILE / name, "#") for name in SETTINGS]


def _others(ours: Path, beside: Iterable[Path]) -> Iterator[Path]:
    """Yields the other files that look like a Zenoh dissector: next to ours, and in folders with their folders."""
    seen = {ours}
    for paths in (ours.parent.glob("*"), *(folder.rglob("*") for folder in beside)):
        for path in sorted(paths):
            if "zenoh" in path.name.lower() and path.is_file() and path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def _is_loaded(program: Tshark, plugin: Path) -> bool:
    return any(loaded.path.resolve() == plugin for loaded in program.plugins())


def _tshark(arguments: argparse.Namespace) -> Tshark | None:
    """Returns the tshark of this machine; None where it is not needed and there is none."""
    from scapy_layers import wireshark

    try:
        return wireshark.tshark()
    except wireshark.TsharkError as error:
        if arguments.dir is None:
            raise WrongUseError(f"{error}; or give the plugin folder with --dir") from None
        return None


def _script() -> Path:
    from scapy_layers import wireshark

    return wireshark.script()


def _say(text: str) -> None:
    print(printable(text))

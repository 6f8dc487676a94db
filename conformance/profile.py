"""``python -m conformance.profile NODE``: writes a first profile of a node by asking it."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import textwrap
from pathlib import Path

from conformance.config import PROTOCOLS, REPLY_SECONDS, Credentials, RunConfig
from conformance.errors import HarnessError, UsageError
from conformance.nodes import Node, node_of
from conformance.profiles import read_profile
from conformance.questions import NOT_ASKED, Findings, Inquiry
from scapy_layers.commands.terminal import folder, forget_output

EXIT_USAGE = 2
"""Wrong options."""

EXIT_FAILED = 3
"""The node could not be had, or is no node."""

WIDTH = 110


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(
        prog="python -m conformance.profile",
        description="Asks a node what it supports and writes a first profile for a person to check and complete. "
        "Use it with: pytest --pyargs conformance.suite --node NODE --profile FILE",
    )
    made.add_argument(
        "node", metavar="NODE", help="a locator, pypi[:VERSION], ref[:MUTANT] or cmd:'COMMAND {locator}'"
    )
    made.add_argument(
        "--out", type=folder, metavar="FILE", help="where to write it (default: standard output)"
    )
    made.add_argument("--name", default="", metavar="IMPL", help="name of the implementation")
    made.add_argument("--release", default="", metavar="VERSION", help="version of the release")
    made.add_argument(
        "--time-scale", type=float, default=1.0, metavar="X", help="multiply all waiting times (default: 1)"
    )
    made.add_argument(
        "--user",
        metavar="NAME[:PASSWORD]",
        help="who we are, for a node that asks for a user and a password; NAME alone takes the password from the "
        "variable ZENOH_PASSWORD. It is written nowhere",
    )
    made.add_argument(
        "--i-may-test-this-node",
        action="store_true",
        help="allow a node that is not on this machine's loopback",
    )
    return made


def main(words: list[str] | None = None) -> int:
    """Asks a node and writes its profile; returns the exit code."""
    options = parser().parse_args(words)
    try:
        if not 0 < options.time_scale < float("inf"):
            raise UsageError("--time-scale must be more than 0")
        # Before anybody is asked anything.
        if options.out is not None and options.out.exists():
            raise _there_already(options.out)
        text = ask(options)
        write(text, options.out)
    except UsageError as error:
        return _say(error, EXIT_USAGE)
    except HarnessError as error:
        return _say(error, EXIT_FAILED)
    except KeyboardInterrupt:
        return 130
    return 0


def _say(error: HarnessError, code: int) -> int:
    sys.stderr.write(f"conformance.profile: {error}\n")
    return code


def ask(options: argparse.Namespace) -> str:
    """Asks the node that the options name; returns its profile.

    Raises:
        HarnessError: The node cannot be had or asked.
    """
    with tempfile.TemporaryDirectory(prefix="zenoh-profile-") as folder:
        config = RunConfig(
            node=options.node,
            run_dir=Path(folder),
            run_id="profile",
            seed=0,
            time_scale=options.time_scale,
            may_test=options.i_may_test_this_node,
            user=Credentials.parse(options.user) if options.user is not None else None,
        )
        node = node_of(config)
        with node:
            found = Inquiry(node, REPLY_SECONDS * options.time_scale, random.SystemRandom()).ask()
            found.time_scale = max(found.time_scale, options.time_scale)
            return profile_of(node, found, options.name, options.release)


def write(text: str, out: Path | None) -> None:
    """Writes a profile.

    Raises:
        UsageError: It cannot be written there, or something is there already.
    """
    if out is None:
        _show(text)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _there_already(out) from None
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written ({error.strerror})") from None


def _show(text: str) -> None:
    if sys.stdout is None:
        raise UsageError("there is no standard output; name a file with --out")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        forget_output()
        raise UsageError(f"standard output: {error.strerror}; name a file with --out") from None


def _there_already(out: Path) -> UsageError:
    return UsageError(f"--out {out}: is there already; what people wrote into it shall not be lost")


def profile_of(node: Node, found: Findings, name: str = "", release: str = "") -> str:
    """Returns the text of a profile with a comment on all that was seen."""
    lines = [
        *_comment(
            f"First profile of a node at {node.locator}, made by asking it. Read it and complete it: what is "
            "not among the features is n/a in every run."
        ),
        "",
        *[line for topic, words in found.facts for line in _comment(f"{topic}: {words}")],
        "",
        f"impl = {quoted(name or node.impl)}",
    ]
    known = release or node.version
    if known != "unknown":
        lines.append(f"version = {quoted(known)}")
    if found.roles:
        lines.append(f"roles = {listed(found.roles)}")
    lines += [
        f"transports = {listed([proto for proto in PROTOCOLS if proto in found.transports])}",
        f"scouting = {quoted(found.scouting)}",
        f"fence = {quoted(found.fence)}",
        "",
        *_comment(f"Not asked, because a link alone tells nothing about it: {', '.join(NOT_ASKED)}."),
        f"features = {listed(found.features)}",
        "",
        *_comment("So many tests apply at least; take the figure of a run that you trust."),
        "minimum = 1",
        "",
        *_comment("true: tests that may harm the node need no --allow-destructive."),
        "destructive = false",
        f"time_scale = {found.time_scale:g}",
        "",
        *_comment("What does not apply, with the reason that the report gives:"),
        "# [[excluded]]",
        '# requirements = ["ZN-KA-106"]',
        '# reason = "takes one link a session"',
        "",
    ]
    text = "\n".join(lines)
    # What is written can be read again; a mistake here is ours, and found at once.
    read_profile(text, "first", "the profile that was written")
    return text


def quoted(text: str) -> str:
    """Returns a text as TOML has it; what cannot be printed is left out."""
    clean = (
        "".join(letter for letter in text if letter.isprintable()).replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{clean}"'


def listed(texts: list[str]) -> str:
    """Returns a list as TOML has it."""
    return f"[{', '.join(map(quoted, texts))}]"


def _comment(text: str) -> list[str]:
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return textwrap.wrap(clean, WIDTH, initial_indent="# ", subsequent_indent="#   ")


if __name__ == "__main__":
    sys.exit(main())

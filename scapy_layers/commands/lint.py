"""``zenoh-dissect lint``: which requirements a capture breaks."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scapy_layers.commands.sources import Source, Sources, add_sources
from scapy_layers.commands.terminal import REFUSED, Colour, Piece, Screen, Subparsers, add_command

if TYPE_CHECKING:
    from scapy_layers.lint import Finding

EXAMPLES = """\
examples:
  zenoh-dissect lint capture.pcapng
  zenoh-dissect lint *.pcapng --format jsonl | jq -r 'select(.severity == "must") | .requirement' | sort | uniq -c
  zenoh-dissect lint capture.pcapng --only INIT --only ZN-FIN-004
  zenoh-dissect lint --rules
"""

MOST = 5
"""Findings of one rule and one severity that are shown of a capture, unless all are wanted."""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "lint",
        _lint,
        summary="list the requirements that the traffic in a capture breaks",
        description="Checks every message of a capture against the requirements that can be judged passively, and\n"
        "shows one line per violation: packet, severity, requirement, who broke it, what was seen.\n\n"
        "must       a MUST, MUST NOT or plain statement of the specification is broken\n"
        "should     a SHOULD is broken\n"
        "deviation  broken in a way already known from released nodes\n\n"
        "What was not captured is not judged: after a loss, rules that depend on it report nothing.\n"
        "Exit status: 0 nothing of severity must, 1 something is or a capture is damaged, 2 wrong use.",
        examples=EXAMPLES,
    )
    add_sources(parser)
    for action in parser._actions:  # noqa: SLF001  (--rules needs no capture)
        if action.dest == "captures":
            action.nargs = "*"
    parser.add_argument(
        "-f", "--format", choices=("text", "jsonl"), default="text", help="jsonl: docs/formats.md"
    )
    parser.add_argument("--rules", action="store_true", help="list the rules and exit")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="only requirements whose id starts with this, with or without ZN-: INIT, ZN-FIN-004",
    )
    parser.add_argument(
        "--strict", action="store_true", help="also exit with 1 for known deviations and broken SHOULDs"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"show every finding, not just {MOST} of each kind (jsonl always does)",
    )


def _lint(arguments: argparse.Namespace) -> int:
    from scapy_layers.commands.terminal import WrongUseError
    from scapy_layers.lint import RULES

    for one in arguments.only:
        if not any(_wanted(rule.ids, [one]) for rule in RULES):
            raise WrongUseError(f"no rule matches {one!r}; `zenoh-dissect lint --rules` lists all")
    screen = Screen(arguments)
    if arguments.rules:
        _list(screen, arguments.format, arguments.only)
        return 0
    if not arguments.captures:
        raise WrongUseError("lint needs a CAPTURE, or --rules")
    sources = Sources(arguments, screen)
    broken = False
    for source in sources:
        broken |= _judge(source, screen, arguments, several=len(sources) > 1)
    return max(sources.status, REFUSED if broken else 0)


def _wanted(ids: tuple[str, ...], only: list[str]) -> bool:
    starts = tuple(one.upper() if one.upper().startswith("ZN-") else f"ZN-{one.upper()}" for one in only)
    return not starts or any(number.startswith(starts) for number in ids)


def _list(screen: Screen, form: str, only: list[str]) -> None:
    from scapy_layers.lint import RULES

    for rule in sorted(RULES, key=_id_of):
        if not _wanted(rule.ids, only):
            continue
        on = sorted({cls.__name__ for cls in rule.on})
        if form == "jsonl":
            screen.raw(
                json.dumps(
                    {
                        "requirement": rule.ids[0],
                        "also": list(rule.ids[1:]),
                        "level": rule.level,
                        "text": rule.text,
                        "on": on,
                    }
                )
            )
        else:
            also = f" (also {', '.join(rule.ids[1:])})" if len(rule.ids) > 1 else ""
            screen.line(Piece(f"{rule.ids[0]:<12}", Colour.NAME), f" {rule.level:<8} {rule.text}{also}")


def _id_of(rule: Any) -> str:
    return str(rule.ids[0])


def _judge(source: Source, screen: Screen, arguments: argparse.Namespace, *, several: bool) -> bool:
    """Shows what one capture breaks; tells whether that makes the exit status 1."""
    from scapy_layers.lint import Linter, Severity

    linter = Linter()
    count: Counter[Severity] = Counter()
    shown: Counter[tuple[str, Severity]] = Counter()
    if several and arguments.format == "text":
        screen.line(Piece(f"== {source.name}", Colour.NAME))
    for finding in (one for unit in source.units() for one in linter.hear(unit)):
        if not _wanted(finding.rule.ids, arguments.only):
            continue
        severity = finding.severity
        count[severity] += 1
        if arguments.format == "jsonl":
            file = {"file": source.name} if several else {}
            screen.raw(json.dumps(_object(finding) | file))
            continue
        kind = finding.rule.ids[0], severity
        shown[kind] += 1
        if arguments.all or shown[kind] <= MOST:
            screen.line(*_line(finding))
    _tell_doubtful(screen, source, linter.doubtful)
    if arguments.format == "text":
        for (number, severity), times in shown.items():
            if not arguments.all and times > MOST:
                screen.line(Piece(f"{number}: {times - MOST} more of severity {severity}", Colour.DIM))
        said = ", ".join(f"{count[severity]} {severity}" for severity in Severity if count[severity])
        if linter.judged:
            colour = Colour.OK if not count[Severity.MUST] else Colour.WRONG
            screen.line(Piece(said or "nothing broken", colour))
        else:
            screen.line("no Zenoh messages to judge")
    return bool(sum(count.values()) if arguments.strict else count[Severity.MUST])


def _tell_doubtful(screen: Screen, source: Source, count: int) -> None:
    """Tells how many findings may be the fault of the capture, and are not shown."""
    if count:
        more = "1 more finding is" if count == 1 else f"{count} more findings are"
        screen.complain(
            f"{source.name}: {more} not told: packets of both directions were captured out of "
            "order, or lost, so answers may stand in front of what they answer"
        )


def _line(finding: Finding) -> Iterator[Piece]:
    from scapy_layers.lint import Severity

    severity = finding.severity
    colour = {
        Severity.MUST: Colour.WRONG,
        Severity.SHOULD: Colour.NOTE,
        Severity.DEVIATION: Colour.DIM,
    }[severity]
    yield Piece(f"{finding.packet:>6}  ", Colour.DIM)
    yield Piece(f"{severity:<9}  ", colour)
    yield Piece(f"{finding.rule.ids[0]:<12}", Colour.NAME)
    yield Piece(f"  {finding.way.source} -> {finding.way.target}  ", Colour.DIM)
    yield Piece("/".join(finding.path))
    if finding.keyexpr:
        yield Piece(" ")
        yield Piece(finding.keyexpr[:80], Colour.KEY)
    yield Piece(f"{': ' if finding.path else ''}{finding.text}", colour)
    yield Piece(f" ({finding.rule.text}{f'; known in {finding.known}' if finding.known else ''})", Colour.DIM)


def _object(finding: Finding) -> dict[str, Any]:
    return {
        "requirement": finding.rule.ids[0],
        "also": list(finding.rule.ids[1:]),
        "level": finding.rule.level,
        "severity": str(finding.severity),
        "known": finding.known,
        "rule": finding.rule.text,
        "text": finding.text,
        "packet": finding.packet,
        "time": finding.time,
        "link": {"number": finding.way.link.number, "protocol": "tcp" if finding.way.link.tcp else "udp"},
        "source": str(finding.way.source),
        "target": str(finding.way.target),
        "source_zid": finding.source_zid,
        "path": list(finding.path),
        "keyexpr": finding.keyexpr,
    }

"""``zenoh-fuzz list``: the campaigns."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fuzz.commands.run import OK
from fuzz.commands.telling import in_a_sentence, tell

if TYPE_CHECKING:
    from fuzz.campaigns import Campaign

DESCRIPTION = """
Lists the campaigns, one per line. With -v, also lists for each campaign the states in which its cases are sent, the
messages it mutates, and the oracles it adds or excludes; --json also gives its number of field edges.
"""


def add_list(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("list", help="list the campaigns", description=DESCRIPTION)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also list states, messages and oracles of each"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(function=list_command)


@in_a_sentence
def list_command(options: argparse.Namespace, argv: list[str]) -> int:  # noqa: ARG001  (called like the others)
    """Shows the campaigns, as many as somebody wants to see; returns the exit code."""
    with suppress(BrokenPipeError):
        _show(options)
    return OK


def _show(options: argparse.Namespace) -> None:
    from fuzz.campaigns import CAMPAIGNS

    if options.json:
        tell(
            json.dumps(
                [_facts(campaign, edges=True) for campaign in CAMPAIGNS.values()],
                ensure_ascii=False,
                indent=1,
            )
        )
        return
    width = max(map(len, CAMPAIGNS), default=0)
    for campaign in CAMPAIGNS.values():
        tell(f"{campaign.name:{width}}  {campaign.purpose}")
        if options.verbose:
            facts = _facts(campaign)
            tell(f"{'':{width}}  states    {', '.join(facts['states'])}")
            tell(f"{'':{width}}  messages  {', '.join(facts['messages'])}")
            for name in ("oracles", "without"):
                if facts[name]:
                    tell(f"{'':{width}}  {name:8}  {', '.join(facts[name])}")


def _facts(campaign: Campaign, *, edges: bool = False) -> dict[str, Any]:
    from fuzz.campaigns import Setting

    sources = list(campaign.make(Setting()))
    pairs = Counter((str(source.state), source.message) for source in sources)
    facts: dict[str, Any] = {
        "name": campaign.name,
        "purpose": campaign.purpose,
        "states": sorted({state for state, _ in pairs}),
        "messages": sorted({message for _, message in pairs}),
        "pairs": len(pairs),
        "weight": campaign.weight,
        "oracles": list(campaign.oracles),
        "without": list(campaign.without),
    }
    if edges:
        facts["edges"] = len({edge for source in sources for edge in source.edges()})
    return facts

"""The kill matrix as a page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

CELL = 5
"""Pixels of one requirement and one mutant in the matrix."""

MARGIN = 90
"""Pixels for the names of areas."""

STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --soft: #5a5a5a; --line: #d5d5d5; --paper: #fff;
  --good: #23734a; --bad: #b3261e; --quiet: #d9dde2; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --soft: #a8a8a8; --line: #3c3f43; --paper: #16181a;
  --good: #5fc38f; --bad: #ff8a80; --quiet: #32363b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--paper); margin: 2rem auto;
  max-width: 78rem; padding: 0 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
p { max-width: 62rem; } .soft { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: var(--paper); }
code { font: .92em ui-monospace, monospace; overflow-wrap: anywhere; } td.n { text-align: right; white-space: nowrap; }
.matrix { overflow: auto; border: 1px solid var(--line); padding: .5rem; }
.matrix svg { display: block; } .matrix text { font: 10px system-ui, sans-serif; fill: var(--soft); }
.pass { fill: var(--quiet); } .kill { fill: var(--good); } .stray { fill: var(--bad); }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .35em 0 1em; vertical-align: -.05em; }
input { font: inherit; padding: .3rem .6rem; width: 22rem; max-width: 100%; border: 1px solid var(--line);
  background: var(--paper); color: var(--text); }
"""

LEGEND = """<p>Each row is a mutant: the reference node with one rule broken. Each column is a requirement.
<span class="key" style="background: var(--good)"></span>broken by the mutant, and a test of it noticed
<span class="key" style="background: var(--bad)"></span>not said to be broken, but a test of it noticed
<span class="key" style="background: var(--quiet)"></span>tested, and nothing was noticed</p>"""

SCRIPT = """
const box = document.querySelector("#filter");
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("#mutants tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
  }
});
"""


def page(document: Mapping[str, Any]) -> str:
    """Returns the page of what stands in ``proof.json``."""
    summary = document["summary"]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>Kill matrix: Zenoh conformance suite</title>",
        f"<style>{STYLE}</style></head><body>",
        "<h1>Kill matrix</h1>",
        f"<p>{_verdict(summary)} {_when(document)}</p>",
        _summary(summary),
        "<h2>Requirements and mutants</h2>",
        LEGEND,
        f'<div class="matrix">{_matrix(document)}</div>',
        "<h2>Mutants</h2>",
        '<p><input id="filter" placeholder="Filter" aria-label="Filter mutants"></p>',
        _mutants(document["mutants"], summary["stray_bound"]),
        _nulls(document["nulls"]),
        _without(document["requirements"]),
        f"<script>{SCRIPT}</script></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _text(value: object) -> str:
    return html.escape(str(value))


def _when(document: Mapping[str, Any]) -> str:
    minutes = document["seconds"] / 60
    return f'<span class="soft">{_text(document["started_at"])}, {minutes:.1f} min, seed {document["seed"]}</span>'


def _verdict(summary: Mapping[str, Any]) -> str:
    if summary["holds"]:
        return '<strong class="good">The proof holds.</strong>'
    return '<strong class="bad">The proof does not hold.</strong>'


def _summary(summary: Mapping[str, Any]) -> str:
    strays = ", ".join(f"{count} mutants with {number}" for number, count in summary["strays"].items())
    correct = summary["correct_node"]
    rows = [
        ("Mutants killed by a test of their own requirement", f"{summary['killed']} of {summary['mutants']}"),
        ("Requirements with a mutant of their own", str(summary["requirements_with_a_mutant"])),
        ("Stray kills", strays or "none"),
        (
            "Correct node",
            ", ".join(f"{count} {name}" for name, count in sorted(correct["outcomes"].items())) or "not run",
        ),
        ("Passes with a null node", str(summary["null_passes"])),
    ]
    for title, names in (
        ("Survivors", summary["survivors"]),
        ("Too many stray kills", summary["beyond_the_bound"]),
        ("Not passed by the correct node", correct["not_passed"]),
    ):
        if names:
            rows.append((title, ", ".join(names)))
    cells = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _cells(mutant: Mapping[str, Any], marked: Mapping[str, list[str]]) -> dict[str, tuple[str, str]]:
    """Returns what is known of a mutant by requirement: how it shows, and the test."""
    cells: dict[str, tuple[str, str]] = {}
    for test, outcome in mutant["outcomes"].items():
        if outcome == "pass":
            cells |= {name: ("pass", test) for name in marked.get(test, ()) if name not in cells}
    for noticed in filter(None, [mutant["killed"], *mutant["elsewhere"], *mutant["strays"]]):
        for name in noticed["requirements"]:
            broken = name in mutant["requirements"] or noticed is mutant["killed"]
            cells[name] = ("kill" if broken else "stray", noticed["test"])
    return cells


def _matrix(document: Mapping[str, Any]) -> str:
    """Draws a cell for each pair about which something is known; quiet ones are one shape, so that the page is small."""
    requirements = list(document["requirements"])
    column = {name: MARGIN + number * CELL for number, name in enumerate(requirements)}
    marked: dict[str, list[str]] = {}
    for name, known in document["requirements"].items():
        for test in known["tests"]:
            marked.setdefault(test, []).append(name)
    quiet: list[str] = []
    loud: list[str] = []
    mutants = document["mutants"].values()
    for row, mutant in enumerate(mutants):
        y = 16 + row * CELL
        for name, (sort, test) in _cells(mutant, marked).items():
            if sort == "pass":
                quiet.append(f"M{column[name]} {y}h{CELL - 1}v{CELL - 1}h-{CELL - 1}z")
                continue
            title = _text(f"{mutant['mutant']} {mutant['title']}: {name} by {test}")
            loud.append(
                f'<rect class="{sort}" x="{column[name]}" y="{y}" width="{CELL - 1}" height="{CELL - 1}">'
                f"<title>{title}</title></rect>"
            )
    names = _areas(requirements, [mutant["mutant"] for mutant in mutants])
    width, height = MARGIN + len(requirements) * CELL + 8, 24 + len(mutants) * CELL
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="Kill matrix">'
        f'{names}<path class="pass" d="{"".join(quiet)}"/>{"".join(loud)}</svg>'
    )


def _areas(requirements: list[str], mutants: list[str]) -> str:
    """Writes the names of areas over the columns and beside the rows."""
    out = []
    for names, across in ((requirements, True), (mutants, False)):
        before = ""
        for number, name in enumerate(names):
            area = name.split("-")[1] if name.count("-") else name
            if area == before:
                continue
            before = area
            if across:
                at = MARGIN + number * CELL
                # Small areas would write over each other.
                if sum(other.split("-")[1] == area for other in names) >= 5:
                    out.append(f'<text x="{at}" y="10">{_text(area)}</text>')
            else:
                out.append(
                    f'<text x="{MARGIN - 6}" y="{23 + number * CELL}" text-anchor="end">{_text(area)}</text>'
                )
    return "".join(out)


def _mutants(mutants: Mapping[str, Any], bound: int) -> str:
    rows = []
    for mutant in mutants.values():
        killed = mutant["killed"]
        if killed is None:
            said = f'<span class="bad">survived</span> {_text(mutant["trouble"])}'
        else:
            said = (
                f"<code>{_text(killed['test'].rpartition('::')[2])}</code><br>"
                f'<span class="soft">expected {_text(killed["expected"])}; seen {_text(killed["seen"])}</span>'
            )
        strays = mutant["strays"]
        wild = ' class="n bad"' if len(strays) > bound else ' class="n"'
        titles = _text("\n".join(f"{stray['test']}: {stray['seen']}" for stray in strays))
        rows.append(
            f"<tr><td><code>{_text(mutant['mutant'])}</code></td><td>{_text(mutant['title'])}</td><td>{said}</td>"
            f'<td{wild} title="{titles}">{len(strays)} of {len(mutant["outcomes"])}</td>'
            f'<td class="n">{mutant["seconds"]:.1f} s</td></tr>'
        )
    head = "<tr><th>Mutant</th><th>What it does wrong</th><th>Killed by</th><th>Strays</th><th>Time</th></tr>"
    return f'<table id="mutants"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


def _nulls(nulls: Mapping[str, Any]) -> str:
    if not nulls:
        return ""
    rows = []
    for kind, null in nulls.items():
        words = ", ".join(f"{count} {name}" for name, count in sorted(null["outcomes"].items()))
        passed = ", ".join(null["passed"]) or "none"
        rows.append(
            f"<tr><td>{_text(kind)}</td><td>{_text(words or null['trouble'])}</td><td>{_text(passed)}</td></tr>"
        )
    head = "<tr><th>Node</th><th>Outcomes</th><th>Passed</th></tr>"
    return f"<h2>Nodes that are none</h2><table>{head}{''.join(rows)}</table>"


def _without(requirements: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{_text(name)}</code></td><td>{_text(known['unproven'])}</td></tr>"
        for name, known in requirements.items()
        if known["unproven"]
    ]
    if not rows:
        return ""
    head = "<tr><th>Requirement</th><th>Why</th></tr>"
    return f"<h2>Requirements without a mutant</h2><table>{head}{''.join(rows)}</table>"

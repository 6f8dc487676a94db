"""The state table for people: the picture and the list in ``docs/session.md``, drawn from ``states.TABLE``.

``python -m conformance.session.picture docs`` draws both again; it needs Graphviz (``dot``).
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from conformance.session.states import TABLE, State

GROUPS = {
    "initiator": (State.INIT_SENT, State.OPEN_SENT),
    "acceptor": (State.ACCEPTING, State.INIT_ANSWERED),
    "another node of the group": (State.STRANGER, State.MEMBER),
}
"""States that stand together in the picture."""

BEGIN = "<!-- table: drawn from conformance/session/states.py by conformance/session/picture.py -->"
END = "<!-- end of the table -->"


def edges() -> dict[tuple[State, State], list[str]]:
    """Returns the triggers that lead from one state to another."""
    found: dict[tuple[State, State], list[str]] = defaultdict(list)
    for (state, trigger), target in TABLE.items():
        found[state, target].append(str(trigger))
    return dict(found)


def dot() -> str:
    """Returns the picture as Graphviz text."""
    lines = [
        "digraph session {",
        "  rankdir=TB; nodesep=0.5; ranksep=0.6; fontname=Helvetica; fontsize=12;",
        '  node [shape=box, style="rounded,filled", fillcolor="#eef3fb", color="#30507a", fontname=Helvetica];',
        '  edge [fontname=Helvetica, fontsize=10, color="#555555"];',
        f'  "{State.OPEN}" [fillcolor="#d8f0dc"]; "{State.JOINED}" [fillcolor="#d8f0dc"];',
        f'  "{State.MEMBER}" [fillcolor="#d8f0dc"]; "{State.CLOSED}" [fillcolor="#eeeeee"];',
    ]
    for number, (title, states) in enumerate(GROUPS.items()):
        inside = " ".join(f'"{state}";' for state in states)
        lines.append(
            f'  subgraph cluster_{number} {{ label="{title}"; color="#bbbbbb"; style=rounded; {inside} }}'
        )
    for (state, target), triggers in edges().items():
        label = "\\l".join(triggers) + "\\l"
        lines.append(f'  "{state}" -> "{target}" [label="{label}"];')
    return "\n".join([*lines, "}", ""])


def table() -> str:
    """Returns the table as Markdown."""
    rows = [
        f"| {state} | {', '.join(triggers)} | {target} |" for (state, target), triggers in edges().items()
    ]
    return "\n".join(["| State | What happens | State behind it |", "|---|---|---|", *rows])


def with_table(page: str) -> str:
    """Returns a page with the table of today between its marks.

    Raises:
        ValueError: The page has no such marks.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


def main(folder: Path) -> None:
    """Draws the picture and the table again."""
    drawn = subprocess.run(["dot", "-Tsvg"], input=dot(), capture_output=True, text=True, check=True)  # noqa: S607  (found by the system)
    (folder / "session.svg").write_text(drawn.stdout)
    page = folder / "session.md"
    page.write_text(with_table(page.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A tester's run into files: rows, and a capture with remarks."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from conformance.config import RunConfig
from conformance.observe import Address, Direction, History, Observation
from conformance.recorder import CaptureWriter, NodeFacts, close_run, observation_rows, open_run
from spark_reports.rows import CAPTURES, OBSERVATIONS, RUN, RowWriter

UNKNOWN = NodeFacts(impl="unknown", version="unknown", whatami="", zid="")

KIND = "tester"
"""What ``run.json`` says about a folder that a tester began."""


def write(
    history: History,
    folder: Path,
    name: str,
    *,
    node: str,
    title: str = "",
    remarks: list[str] | None = None,
) -> Path:
    """Writes a history into a folder; see ``Tester.write``.

    Args:
        history: What was seen.
        folder: Where; one that no run has begun gets a ``run.json``.
        name: What was tried.
        node: Where the node is.
        title: Stands at the first packet.
        remarks: Stand at the last packet.

    Raises:
        OSError: The folder cannot be written.
        RowsError: Rows that are there already cannot be read.
    """
    captures = folder / CAPTURES
    captures.mkdir(parents=True, exist_ok=True)
    if not (folder / RUN).exists():
        config = RunConfig(node=node, run_dir=folder, run_id=folder.name, seed=0)
        close_run(config, open_run(config, UNKNOWN, KIND, f"conformance.tester: {name}"))
    path = _free(captures, re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run")
    with RowWriter(folder / OBSERVATIONS) as rows:
        for row in observation_rows(folder.name, name, history):
            rows.write(row)
    with CaptureWriter(path) as capture:
        capture.add(from_one_side(history), title or name, remarks)
    return path


def from_one_side(history: History) -> History:
    """Returns a history in which what passed between two ends of ours stands once, as the end that connected has it.

    Both ends have seen it, and a capture that shows it twice looks like one full of retransmissions. What the other
    end sent stands where it was sent, as something that came in.
    """
    ends = history.endpoints
    callers = {(end.local, end.remote): name for name, end in ends.items() if not end.accepted}
    callee = {
        name: callers[end.remote, end.local]
        for name, end in ends.items()
        if end.accepted and (end.remote, end.local) in callers
    }
    linked = {*callee, *callee.values()}
    speakers = {end.local for name, end in ends.items() if end.proto == "udp" and name not in linked}
    shown = History()
    shown.endpoints = {name: end for name, end in ends.items() if name not in callee}
    at: list[int] = []
    for seen in history.observations:
        ours = seen
        if seen.link in callee and seen.direction is Direction.SENT:
            ours = dataclasses.replace(seen, link=callee[seen.link], direction=Direction.RECEIVED)
        elif seen.link in callee or (seen.direction is Direction.RECEIVED and _twice(seen, linked, speakers)):
            # Remarks on what is left out stay, at what stands before it.
            at.append(max(0, len(shown.observations) - 1))
            continue
        at.append(len(shown.observations))
        shown.observations.append(dataclasses.replace(ours, seq=at[-1]))
    for seen in history.observations:
        for text in history.notes(seen.seq):
            shown.annotate(text, at[seen.seq])
    return shown


def _twice(seen: Observation, linked: set[str], speakers: set[Address]) -> bool:
    """Tells whether something that came in was sent by an end of ours, so that it is in the history already."""
    return seen.link in linked or (seen.route is not None and seen.route[0] in speakers)


def _free(folder: Path, name: str) -> Path:
    """Returns the path of a capture that is not there yet."""
    path, number = folder / f"{name}.pcapng", 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}.pcapng"
    return path

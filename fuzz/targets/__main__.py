"""Shows a finding about one of our readers again: ``python -m fuzz.targets scapy batch input.bin``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import HarnessError
from fuzz.targets import TARGETS


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 when the reader does something wrong with the bytes, 0 when not, 3 when it cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.targets", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("form", help="what the bytes are, as in finding.json")
    parser.add_argument("input", type=Path)
    arguments = parser.parse_args(argv)
    target = TARGETS[arguments.target]()
    try:
        target.start()
        bucket = target.shows(arguments.input.read_bytes(), arguments.form)
    except (HarnessError, OSError) as error:
        print(f"python -m fuzz.targets: {error}", file=sys.stderr)
        return 3
    print(bucket or "no fault found")
    return 1 if bucket else 0


if __name__ == "__main__":
    sys.exit(main())

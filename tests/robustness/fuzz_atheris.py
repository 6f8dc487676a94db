"""Coverage-guided fuzzing of one target: ``python -m tests.robustness.fuzz_atheris strict -max_total_time=60``.

Needs the extra ``atheris`` (CPython 3.11 or 3.12). What follows the target goes to libFuzzer; the batches of the
captures in pcaps/ are the corpus it starts from.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.robustness.inputs import seeds

try:
    import atheris
except ImportError:
    sys.exit("fuzz_atheris: atheris is not there: pip install 'zenoh-harness[atheris]'")

with atheris.instrument_imports(include=["scapy_layers"]):
    from fuzz.readers.invariants import TARGETS


def main() -> None:
    """Runs libFuzzer; it ends the process."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"fuzz_atheris: name a target: {', '.join(TARGETS)}")
    with tempfile.TemporaryDirectory() as corpus:
        for number, raw in enumerate(seeds()):
            (Path(corpus) / f"{number:05}").write_bytes(raw)
        target = TARGETS[name]

        def one(raw: bytes) -> None:
            target(raw)

        atheris.Setup([sys.argv[0], *sys.argv[2:], corpus], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

"""A real eclipse-zenoh client in a process of its own: ``python _real_client.py CONFIG KEY``.

Opens a session with the configuration (a JSON object of paths and values), declares a subscriber, prints a line for
what it hears, and ends with its standard input.
"""

from __future__ import annotations

import json
import resource
import sys


def main() -> int:
    """Runs the client."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import zenoh

    config = zenoh.Config()
    for path, value in json.loads(sys.argv[1]).items():
        config.insert_json5(path, json.dumps(value))

    def hear(sample: zenoh.Sample) -> None:
        print(f"{sample.key_expr}={sample.payload.to_string()}", flush=True)  # noqa: T201  (its output is what it is for)

    with zenoh.open(config) as session:
        subscriber = session.declare_subscriber(sys.argv[2], hear)
        sys.stdin.read()
        subscriber.undeclare()  # type: ignore[no-untyped-call]
    return 0


if __name__ == "__main__":
    sys.exit(main())

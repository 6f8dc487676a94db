"""A reference node whose router fails for one key: what a bug of ours would do. Started like the node itself."""

from __future__ import annotations

import sys
from typing import Any

from conformance.refnode.__main__ import main
from conformance.router import Router
from scapy_layers.network import Push

_receive = Router.receive


def receive(self: Router, face: Any, message: Any, *rest: Any, **options: Any) -> None:
    if isinstance(message, Push) and message.key_suffix == "fail":
        raise RuntimeError("on purpose")
    _receive(self, face, message, *rest, **options)


Router.receive = receive  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

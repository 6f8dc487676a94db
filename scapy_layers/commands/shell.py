"""``zenoh-dissect shell``: Scapy with all layers."""

from __future__ import annotations

import argparse

from scapy_layers.commands.terminal import Subparsers, add_command

BANNER = """\
Zenoh 1.x layers. Three things to try:
  >>> ls(Init)                                                  the fields of a message
  >>> decode(bytes.fromhex('25003d00016101026869')).show()      strict decoding
  >>> sniff(offline='capture.pcapng', session=ZenohSession).summary()"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    add_command(
        commands,
        "shell",
        _shell,
        summary="open a Scapy shell with all layers",
        description="Opens a Scapy shell in which every layer, decode() and contents() are defined.",
    )


def _shell(_arguments: argparse.Namespace) -> int:
    from scapy.main import interact

    from scapy_layers import all as layers

    names = {name: getattr(layers, name) for name in layers.__all__}
    interact(mydict=names, argv=["zenoh-dissect"], mybanner=BANNER)
    return 0

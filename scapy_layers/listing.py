"""Lists the layers where Scapy looks for them: ``explore("zenoh")`` and ``load_layer("zenoh")``.

Scapy knows layers by their module and expects it inside its own package; one that is elsewhere cannot be
explored, and the menu of ``explore()`` fails on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType

import scapy.layers
from scapy.config import conf
from scapy.packet import Packet

LISTED = "scapy.layers.zenoh"
"""The name under which Scapy finds the layers."""

_PACKAGE = __name__.partition(".")[0]


def list_layers(module: ModuleType, layers: Iterable[type[Packet]]) -> None:
    """Lists layers of this package as one module of Scapy.

    Args:
        module: What ``load_layer`` takes the names from.
        layers: What ``explore`` shows; classes that only serve others are left out.
    """
    for name in [name for name in conf.layers.ldict if name.partition(".")[0] == _PACKAGE]:
        del conf.layers.ldict[name]
    conf.layers.ldict[LISTED] = list(layers)
    sys.modules[LISTED] = module
    # The menu evaluates the dotted name.
    scapy.layers.zenoh = module

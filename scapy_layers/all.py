"""For the Scapy shell: every layer, the codes, and the helpers of a session at the keyboard.

``from scapy_layers.all import *`` also binds SCOUT and HELLO to UDP port 7446.
"""

from __future__ import annotations

from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_layers

from scapy_layers.batch import BatchReader, Contents, contents, prefixed
from scapy_layers.catalogue import MESSAGES, decode, decode_batch
from scapy_layers.codes import *  # noqa: F403
from scapy_layers.data import *  # noqa: F403
from scapy_layers.declarations import *  # noqa: F403
from scapy_layers.errors import *  # noqa: F403
from scapy_layers.extensions import *  # noqa: F403
from scapy_layers.message import UnknownExtension
from scapy_layers.network import *  # noqa: F403
from scapy_layers.primitives import Counted, CountedList, WideInt
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import *  # noqa: F403

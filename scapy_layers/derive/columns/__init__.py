"""Messages as columns: numpy walks the shapes, one field over all messages at a time. No Scapy, no Spark.

``Decoder(catalogue.shapes()).decode(units)`` gives one Arrow record batch for each kind of message and one for what
strict decoding refuses: the same messages, values and errors as ``catalogue.decode_batch``, unit by unit.
"""

from scapy_layers.derive.columns.decoded import Decoded
from scapy_layers.derive.columns.decoder import CrowdedError, Decoder, Wanted
from scapy_layers.derive.columns.schema import ERRORS, PLACE, schemas
from scapy_layers.derive.columns.units import MOST_BYTES, UnitKind, Units

__all__ = [
    "ERRORS",
    "MOST_BYTES",
    "PLACE",
    "CrowdedError",
    "Decoded",
    "Decoder",
    "UnitKind",
    "Units",
    "Wanted",
    "schemas",
]

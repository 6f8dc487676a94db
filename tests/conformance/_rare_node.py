"""Correct nodes that do what few nodes do: the reference node with other decisions that the pages leave to it.

Started as ``python -m tests.conformance._rare_node --mutant NAME``, with the options of the reference node.
"""

from __future__ import annotations

import sys
import time

from conformance.refnode.__main__ import main
from conformance.refnode.mutants import mutant
from conformance.refnode.mutants.registry import Bent, Memory
from conformance.router.policy import RouterPolicy
from scapy_layers.message import UnknownExtension
from scapy_layers.network import Push, Request
from scapy_layers.transport import Init, Open


@mutant("TELLS-AT-ONCE")
class TellsAtOnce(RouterPolicy):
    """Whoever joins is told of all there is, and has no time to ask first."""

    def joining_seconds(self, whatami: int) -> float:
        del whatami
        return 0.0

    def tokens_unasked(self, whatami: int) -> bool:
        del whatami
        return True


@mutant("ADDS-EXTENSIONS", of=(Push, Request))
def adds_an_optional_extension_to_every_body(message: Push | Request, _: Memory) -> Bent:
    body = message.body
    body.extensions = [UnknownExtension(ext_id=0xD, M=0, ENC=0), *(body.extensions or [])]
    body.Z = None
    return message


@mutant("THINKS", of=(Init, Open))
def thinks_before_each_answer_of_a_handshake(message: Init | Open, _: Memory) -> Bent:
    time.sleep(0.3)
    return message


if __name__ == "__main__":
    sys.exit(main())

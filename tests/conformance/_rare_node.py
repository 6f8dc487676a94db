"""Correct nodes that do what few nodes do: the reference node with other decisions that the pages leave to it.

Started as ``python -m tests.conformance._rare_node --mutant NAME``, with the options of the reference node.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import ClassVar

from conformance.refnode.__main__ import main
from conformance.refnode.mutants import mutant
from conformance.refnode.mutants.fragments import NO_MESSAGE
from conformance.refnode.mutants.registry import Bent, Memory
from conformance.router.policy import RouterPolicy
from conformance.session.policy import Dice, Policy
from conformance.session.sequence import WRITTEN_BITS
from scapy_layers.declarations import DeclareKeyExpr
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.network import Declare, Push, Request, Response, ResponseFinal
from scapy_layers.primitives import WideInt
from scapy_layers.transport import Fragment, Frame, Init, Open

EVERY_OTHER = itertools.cycle([True, False])


@mutant("TELLS-AT-ONCE")
class TellsAtOnce(RouterPolicy):
    """Whoever joins is told of all there is, and has no time to ask first."""

    def joining_seconds(self, whatami: int) -> float:
        del whatami
        return 0.0

    def tokens_unasked(self, whatami: int) -> bool:
        del whatami
        return True


@mutant("TELLS-EVERYTHING")
class TellsEverything(TellsAtOnce):
    """Everybody is told of all there is, whatever it asks for: Routing makes no exception."""

    def narrows(self) -> bool:
        return False


@mutant("COUNTS-AS-THE-PAGE")
class CountsToTheEndOfTheRangeOnThePage(Policy):
    """Its numbers end at 2^bits - 1, where other nodes use what fits 1, 2, 4 or 9 VLE bytes."""

    def initial_sn(self, resolution: int, rng: Dice) -> int:
        return rng.randint(0, (1 << WRITTEN_BITS[resolution]) - 1)

    def following_sn(self, sn: int, resolution: int) -> int:
        return (sn + 1) % (1 << WRITTEN_BITS[resolution])

    def is_new(self, last: int, sn: int, resolution: int) -> bool:
        count = 1 << WRITTEN_BITS[resolution]
        return 0 < (sn - last) % count < count // 2


@mutant("HAS-COOKIES-OF-ANY-LENGTH")
class HasCookiesOfAnyLength(Policy):
    """The first one is long, those behind it are short."""

    lengths: ClassVar = itertools.chain([40], itertools.cycle([1, 2, 3]))

    def cookie(self, rng: Dice) -> bytes:
        return rng.randbytes(next(self.lengths))


@mutant("HAS-SMALL-BATCHES", hears=Frame)
def drops_what_is_longer_than_it_agreed_to(message: Frame, _: Memory) -> Bent:
    """With ``--batch-size 300``."""
    return message.original if len(message.original) <= 300 else None


@mutant("CUTS-EVERYTHING")
class CutsEverything(Policy):
    """What it says leaves in FRAGMENTs, of a byte each where batches are large."""

    def room(self, batch_size: int) -> int:
        return 1 if batch_size > 1024 else 16


@mutant("REFUSES-EMPTY-FRAGMENTS", hears=Fragment)
def ends_the_session_at_a_fragment_without_bytes(message: Fragment, _: Memory) -> Bent:
    return message if message.data else NO_MESSAGE


@mutant("PASSES-OVER-EMPTY-UNITS")
class PassesOverEmptyUnits(Policy):
    """A unit without a message is nothing, in a handshake too."""

    def takes_empty_units(self) -> bool:
        return True


@mutant("ADDS-EXTENSIONS", of=(Push, Request))
def adds_an_optional_extension_to_every_body(message: Push | Request, _: Memory) -> Bent:
    body = message.body
    body.extensions = [UnknownExtension(ext_id=0xD, M=0, ENC=0), *(body.extensions or [])]
    body.Z = None
    return message


@mutant("ADDS-EXTENSIONS-NOW-AND-THEN", of=Init)
def adds_an_optional_extension_to_every_other_answer(message: Init, _: Memory) -> Bent:
    unknown = [UnknownExtension(ext_id=0xD, M=0, ENC=0)] if next(EVERY_OTHER) else []
    message.extensions = [*unknown, *(message.extensions or [])[:: 1 if unknown else -1]]
    message.Z = None
    return message


@mutant("SPEAKS-IN-ALIASES", of=(Push, Request, Response, Declare))
def gives_each_key_a_number_before_it_says_it(message: Message, memory: Memory) -> Bent:
    numbers = memory.setdefault("numbers", {})
    named = message.body if isinstance(message, Declare) else message
    key = named.fields.get("key_suffix")
    if not key or named.fields.get("key_scope"):
        return message
    known = key in numbers
    number = numbers.setdefault(key, len(numbers) + 1)
    named.M, named.N, named.key_scope, named.key_suffix = 1, None, number, None
    alias = Declare(body=DeclareKeyExpr(key_id=number, key_suffix=key))
    return [message] if known else [alias, message]


@mutant("WRITES-LONG-NUMBERS", of=(Request, Response, ResponseFinal))
def writes_ids_in_more_bytes_than_they_need(message: Request | Response | ResponseFinal, _: Memory) -> Bent:
    message.request_id = WideInt(message.request_id, 6)
    return message


@mutant("THINKS", of=(Init, Open))
def thinks_before_each_answer_of_a_handshake(message: Init | Open, _: Memory) -> Bent:
    time.sleep(0.3)
    return message


if __name__ == "__main__":
    sys.exit(main())

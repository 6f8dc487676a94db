"""Says yes to everything. It has the shapes of the messages right, and nothing behind them."""

from __future__ import annotations

import random

from scapy_layers.batch import contents
from scapy_layers.codes import InterestMode, Kind, WhatAmI
from scapy_layers.declarations import DeclareFinal
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Request, ResponseFinal
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Frame, Init, Open

ZID = bytes(range(1, 17))
"""Its ZenohID, on every link."""

MOST_BATCH = 0xFFFF


class Yes:
    """One link of something that says yes.

    Args:
        rng: Draws the cookie.
    """

    def __init__(self, rng: random.Random) -> None:
        self._cookie = rng.randbytes(8)
        self._sn = 0

    def answer(self, batch: bytes) -> list[bytes]:
        """Returns the batches that answer a batch."""
        said = [self._yes(message) for message in contents(batch).messages]
        return [answer for answer in said if answer and len(answer) <= MOST_BATCH]

    def _yes(self, message: Message) -> bytes:
        """Returns the answer to a message; to one that is wrong, the message itself."""
        if message.errors:
            return bytes(message.original)
        match message:
            case Init():
                fields = {"A": 1, "version": 9, "zid_len": None, "zid": ZID, "whatami": WhatAmI.ROUTER}
                return _changed(message, **fields, cookie=self._cookie)
            case Open():
                self._sn = int(message.initial_sn)
                return _changed(message, A=1)
            case Frame():
                inner = [answer for inside in message.messages for answer in _agreed(inside)]
                return self._framed(inner) if inner else b""
            case _:
                return bytes(message.original)

    def _framed(self, messages: list[Message]) -> bytes:
        frame = Frame(R=1, sn=self._sn, messages=messages)
        self._sn += 1
        return bytes(frame)


def _changed(message: Message, **fields: object) -> bytes:
    answer = message.copy()
    for name, value in fields.items():
        setattr(answer, name, value)
    return bytes(answer)


def _agreed(message: Message) -> list[Message]:
    """Returns what says yes to a network message: its end where it has one, otherwise itself."""
    match message:
        case Request():
            return [ResponseFinal(request_id=message.request_id)]
        case Interest() if int(message.mode) in {InterestMode.CURRENT, InterestMode.CURRENT_FUTURE}:
            return [Declare(interest_id=message.interest_id, body=DeclareFinal())]
        case Interest():
            return []
        case _:
            return [message]


def hello(datagram: bytes) -> bytes:
    """Returns the HELLO that says yes to a SCOUT, whatever it asks; nothing to anything else."""
    asked = contents(datagram, Kind.SCOUTING).messages
    return bytes(Hello(zid=ZID, whatami=WhatAmI.ROUTER)) if asked and isinstance(asked[0], Scout) else b""

"""Lies about values that only a link has: cookie, ZenohID, sequence number, size of the batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fuzz.rendering import SIZE, live_lies
from scapy_layers.derive.requests import Leaf, Length, leaves, request_of
from scapy_layers.network import ResponseFinal
from scapy_layers.primitives import Reader
from scapy_layers.transport import Frame, Init, Open

_FIRST = re.compile(r"first (\d+)")


class _Lies(dict[str, Callable[[Any], bytes]]):
    """Lies by words; ``first N`` is made when it is asked for."""

    def __missing__(self, words: str) -> Callable[[Any], bytes]:
        found = _FIRST.fullmatch(words)
        if not found:
            raise KeyError(f"nothing is known that is called {words!r}")
        size = int(found[1])
        return lambda value: bytes(value[:size])


def _number(make: Callable[[Any], bytes]) -> Callable[[bytes], bytes]:
    return lambda wire: make(Reader(wire).vle())


def _content(make: Callable[[Any], bytes]) -> Callable[[bytes], bytes]:
    def of_counted(wire: bytes) -> bytes:
        size = len(wire)
        for width in range(1, 4):
            if size > width - 1 and Reader(wire[:width]).vle() == size - width:
                return make(wire[width:])
        return make(wire)

    return of_counted


_SAMPLES: dict[
    str, tuple[Callable[[], Any], str, Callable[[Callable[[Any], bytes]], Callable[[bytes], bytes]]]
] = {
    "cookie": (lambda: Open(cookie=b"c" * 16), "OPEN.cookie", _content),
    "zid": (lambda: Init(zid=bytes(range(1, 17))), "INIT.zid", lambda make: make),
    "sn": (lambda: Frame(sn=1 << 20), "FRAME.sn", _number),
    "sn_be": (lambda: Frame(sn=1 << 20), "FRAME.sn", _number),
    "rid": (lambda: ResponseFinal(request_id=1 << 20), "RESPONSE_FINAL.request_id", _number),
}


def lies_about_live(name: str) -> Mapping[str, Callable[[Any], bytes]]:
    """Returns what can be done to a value, by words; functions of its wire bytes (of a size: of the number).

    Raises:
        KeyError: No value is called like that.
    """
    if name == SIZE:
        return _Lies(_of(request_of("sample", Frame(sn=1 << 20)), "batch.length"))
    make, path, adapt = _SAMPLES[name]
    lies = _of(request_of("sample", make()), path)
    return _Lies({words: adapt(lie) for words, lie in lies.items()})


def _of(request: Any, path: str) -> dict[str, Callable[[Any], bytes]]:
    return live_lies(next(_at(leaves(request), path)))


def _at(elements: Iterator[Any], path: str) -> Iterator[Leaf | Length]:
    return (element for element in elements if isinstance(element, Leaf) and element.place.path == path)

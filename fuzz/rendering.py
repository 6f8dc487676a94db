"""The bytes of a request under lies, many times faster than boofuzz renders it, and the same.

The true bytes of every element are made once; a lie renders again only what stands around it. What is known
only when a case runs stays a mark in the bytes, which ``split`` finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from boofuzz import Fuzzable, ProtocolSessionReference, Request

from scapy_layers import shape
from scapy_layers.derive.requests import Block, Carrier, Conditional, Leaf, Length, Lie

MARK = b"\xf5\x9d\xfezenoh-harness live "
"""How the mark of a lie about a live value begins; its name, ``|``, words and ``END`` follow."""

END = b"\xf5\x9d\xff\x00"

CUT = 1
"""Bytes of a live value that have to be left to see that it was cut."""

SIZE = "size"
"""Name of the length of a whole batch."""


class _Node:
    """An element, with what boofuzz works out anew each time it is asked.

    Attributes:
        element: The element.
        name: Its qualified name.
        block: It has elements inside.
        children: Those.
        counted: Of a length: what it counts.
        needs: Of conditional elements: carrier, name of the bits, condition.
        true: Its bytes when nobody lies.
        mark: Of a live value: its name.
    """

    __slots__ = ("block", "children", "counted", "element", "mark", "name", "needs", "true")

    def __init__(self, element: Fuzzable) -> None:
        self.element = element
        self.name = str(element.qualified_name)
        self.block = isinstance(element, Block)
        self.children: list[_Node] = []
        self.counted: _Node | None = None
        self.needs: list[tuple[str, Carrier, shape.Condition]] = []
        self.true = b""
        value = element._default_value  # noqa: SLF001  (boofuzz resolves it by session variables only)
        self.mark = str(value.name) if isinstance(value, ProtocolSessionReference) else ""


class Rendering:
    """Renders one request.

    Args:
        request: As ``requests.request_of`` makes it.
        marks: Stand-ins for live values, as they stand on the wire, by the name of the value.

    Attributes:
        marks: Those of them that the request needs.
    """

    def __init__(self, request: Request, marks: Mapping[str, bytes]) -> None:
        stack: list[Fuzzable] = list(request.stack)
        self._prefix = str(stack[0].qualified_name) if isinstance(stack[0], Length) else ""
        self._nodes: dict[str, _Node] = {}
        self._around: dict[str, frozenset[str]] = {}
        self._stack = [self._read(element, frozenset()) for element in (stack[1:] if self._prefix else stack)]
        needed = {node.mark for node in self._nodes.values() if node.mark}
        self.marks = {name: mark for name, mark in marks.items() if name in needed}
        self._depend()
        everything = frozenset(self._nodes)
        for node in self._stack:
            self._render(node, {}, everything)

    def render(self, lies: Mapping[str, Any]) -> tuple[bytes, Lie | None]:
        """Returns the bytes behind the prefix, and the lie about the prefix.

        Args:
            lies: By the qualified name of the element, boofuzz mutations or lies.
        """
        plain = {name: getattr(lie, "value", lie) for name, lie in lies.items()}
        touched: frozenset[str] = frozenset()
        for name in plain:
            touched |= self._around.get(name, frozenset())
        return self._joined(self._stack, plain, touched), plain.get(self._prefix)

    def _read(self, element: Fuzzable, above: frozenset[str]) -> _Node:
        node = _Node(element)
        self._nodes[node.name] = node
        self._around[node.name] = around = above | {node.name}
        if isinstance(element, Block):
            node.children = [self._read(child, around) for child in element.stack]
        return node

    def _depend(self) -> None:
        """Notes what depends on an element without being around it: lengths and conditional fields."""
        for node in self._nodes.values():
            if isinstance(node.element, Length):
                node.counted = self._nodes[str(node.element._of.qualified_name)]  # noqa: SLF001
                for inside in _all([node.counted]):
                    self._around[inside.name] |= {node.name}
        for node in self._nodes.values():
            if isinstance(node.element, Conditional):
                for carrier, condition in node.element._conditions:  # noqa: SLF001
                    name = str(carrier.qualified_name)
                    node.needs.append((name, carrier, condition))
                    self._around[name] |= self._around[node.name]

    def _joined(self, nodes: Iterable[_Node], lies: Mapping[str, Any], touched: frozenset[str]) -> bytes:
        # Most of them are not touched: for those nothing is called.
        return b"".join(
            [node.true if node.name not in touched else self._render(node, lies, touched) for node in nodes]
        )

    def _render(self, node: _Node, lies: Mapping[str, Any], touched: frozenset[str]) -> bytes:
        if node.name not in touched:
            return node.true
        data = self._anew(node, lies, touched)
        if not lies:
            node.true = data
        return data

    def _anew(self, node: _Node, lies: Mapping[str, Any], touched: frozenset[str]) -> bytes:
        lie = lies.get(node.name)
        element = node.element
        if node.block:
            data = self._joined(node.children, lies, touched)
            if node.needs and not _shown(node, lies):
                return b""
            return bytes(lie.make(data)) if lie is not None else data
        if node.counted is not None:
            size = len(self._render(node.counted, lies, touched))
            return bytes(lie.make(size)) if lie is not None else bytes(element._write(size))  # noqa: SLF001
        if node.mark:
            return self.marks[node.mark] if lie is None else MARK + f"{node.mark}|{lie.words}".encode() + END
        true = element._default_value  # noqa: SLF001
        return bytes(lie.make(true)) if lie is not None else bytes(element._write(true))  # noqa: SLF001


def _shown(node: _Node, lies: Mapping[str, Any]) -> bool:
    """Tells whether conditional elements are there."""
    for name, carrier, condition in node.needs:
        lie = lies.get(name)
        value = lie.carrier if lie is not None and getattr(lie, "follow", False) else carrier.value
        bits = carrier.bits[condition.field]
        if not condition.holds(value >> bits.shift & (1 << bits.size) - 1):
            return False
    return True


def _all(nodes: Iterable[_Node]) -> Iterator[_Node]:
    for node in nodes:
        yield node
        yield from _all(node.children)


def split(data: bytes, marks: Mapping[str, bytes]) -> list[bytes | str]:
    """Returns bytes and names of live values in turns.

    A mark that is cut at the end of the data becomes ``name|first N``: the first N bytes of the value.
    """
    pattern, names, starts = _pattern(tuple(marks.items()))
    pieces: list[bytes | str] = []
    there = [(name, mark) for name, mark in marks.items() if mark in data]
    if len(there) > 1 or MARK in data:
        at = 0
        for found in pattern.finditer(data):
            if found.start() > at:
                pieces.append(data[at : found.start()])
            lie = found.group(1)
            pieces.append(lie.decode() if lie is not None else names[found.group()])
            at = found.end()
        rest = data[at:]
    elif there:
        # Nearly always: one value, which may come again and again.
        ((name, mark),) = there
        *parts, rest = data.split(mark)
        for part in parts:
            pieces += [part, name] if part else [name]
    else:
        rest = data
    cut = starts.search(rest, max(0, len(rest) - LONGEST_MARK)) if rest else None
    if cut is not None:
        for name, mark in marks.items():
            left = rest[cut.start() :]
            if mark.startswith(left):
                return [*pieces, *([rest[: cut.start()]] if cut.start() else []), f"{name}|first {len(left)}"]
    if rest:
        pieces.append(rest)
    return pieces


LONGEST_MARK = 256
"""No mark is longer."""


@lru_cache(maxsize=8)
def _pattern(
    marks: tuple[tuple[str, bytes], ...],
) -> tuple[re.Pattern[bytes], dict[bytes, str], re.Pattern[bytes]]:
    """Returns what finds marks and lies about live values, the names of marks, and what finds where one is cut."""
    lie = re.escape(MARK) + b"(.*?)" + re.escape(END)
    whole = b"|".join([lie, *(re.escape(mark) for _, mark in marks)])
    starts = b"|".join(re.escape(mark[:CUT]) for _, mark in marks) or b"(?!)"
    return (
        re.compile(whole, re.DOTALL),
        {mark: name for name, mark in marks},
        re.compile(starts, re.DOTALL),
    )


def live_lies(leaf: Leaf) -> dict[str, Callable[[Any], bytes]]:
    """Returns the lies of an element by their words."""
    return {lie.words: lie.make for lie in leaf.lies}

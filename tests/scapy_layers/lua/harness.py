"""zenoh.lua under every Lua there is: a stub of Wireshark's API takes what it adds to the tree."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STUB = Path(__file__).parent / "stub.lua"
ZENOH = Path(__file__).parents[3] / "scapy_layers" / "zenoh.lua"

VERSIONS = ("lua51", "lua52", "lua53", "lua54")
"""Those that Wireshark is built with."""

TCP, UDP = 2, 3


@dataclass
class Item:
    """One item of the tree."""

    name: str
    value: int | bytes | float | None
    start: int | None
    size: int | None
    text: str
    generated: bool
    experts: list[tuple[str, str]]
    children: list[Item] = field(default_factory=list)

    def walk(self) -> Iterator[Item]:
        """Yields the item and all below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, name: str) -> list[Item]:
        """Returns all items of a name, in order."""
        return [item for item in self.walk() if item.name == name]


class Wireshark:
    """zenoh.lua, loaded."""

    def __init__(self, version: str, source: Path = ZENOH, before: bytes = b"") -> None:
        module: Any = importlib.import_module(f"lupa.{version}")
        self.lua = module.LuaRuntime(encoding=None, unpack_returned_tuples=True, register_eval=False)
        self.stub = self.lua.execute(STUB.read_bytes())
        self.lua.execute(before)
        self._module = module
        self.load(source)
        # What Wireshark keeps in C is in Lua here, so that collecting at once, as zenoh.lua asks, would take most of the time.
        self.lua.execute(b"collectgarbage('setpause', 200) collectgarbage('setstepmul', 200)")
        self.number = 0

    def load(self, source: Path) -> None:
        """Loads a script."""
        self.lua.execute(source.read_bytes())

    @property
    def proto(self) -> Any:
        """The protocol."""
        return self.stub[b"protos"][b"zenoh"]

    def reference(self, *names: str) -> None:
        """Says which fields somebody asks for; until then it is all of them."""
        self.stub[b"referenced"] = self.lua.table_from({name.encode(): True for name in names})

    def dissect(
        self,
        data: bytes,
        *,
        port_type: int = TCP,
        sport: int = 50000,
        dport: int = 7447,
        visited: bool = False,
        stream: int = 0,
    ) -> tuple[Item, Any]:
        """Dissects what one packet carries; returns the tree and the packet."""
        if not visited:
            self.number += 1
        if self.number == 1 and not visited:
            self.proto[b"init"]()
        values = self.stub[b"values"]
        values[b"tcp.stream"] = stream if port_type == TCP else None
        values[b"udp.stream"] = stream if port_type == UDP else None
        packet = self.stub[b"new_packet"](
            self.number, port_type, b"10.0.0.1", sport, b"10.0.0.2", dport, visited
        )
        tree = self.stub[b"new_tree"]()
        self.proto[b"dissector"](self.stub[b"new_tvb"](data), packet, tree)
        return self._item(tree), packet

    def _item(self, item: Any) -> Item:
        value = item[b"value"]
        if value is not None and not isinstance(value, bytes | int | float | bool):
            low, high = self.stub[b"halves"](value)
            value = int(low) + (int(high) << 32)
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        return Item(
            (item[b"name"] or b"").decode(),
            None if value is False else value,
            None if item[b"from"] is False else int(item[b"from"]),
            None if item[b"size"] is False else int(item[b"size"]),
            (item[b"text"] or b"").decode("utf-8", "replace"),
            bool(item[b"generated"]),
            [(one[1].decode(), one[2].decode("utf-8", "replace")) for one in item[b"experts"].values()],
            [self._item(child) for child in item[b"children"].values()],
        )

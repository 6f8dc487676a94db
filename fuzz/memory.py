"""Memory that is not needed any more goes back to the system."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


def give_back() -> None:
    """Gives back what was freed, which the C library keeps for later; does nothing where it has no way to.

    What is tried while a finding is looked into may be megabytes, many times over.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)

"""Times as people type them."""

import argparse
import math

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def seconds(text: str) -> float:
    """Reads ``100ms``, ``1s``, ``5m``, ``1h`` or a number of seconds.

    Raises:
        ArgumentTypeError: It is none of these, or less than a millisecond.
    """
    number = text.rstrip("smh")
    try:
        found = float(number) * _UNITS[text[len(number) :]]
    except (KeyError, ValueError):
        found = math.nan
    if not 1e-3 <= found <= 1e9:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time of at least 1ms, such as 100ms, 1s, 5m or 1h"
        )
    return found

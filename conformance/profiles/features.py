"""Parts of the protocol that a node may do without, and the requirements that need them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """A part of the protocol.

    Attributes:
        words: What it is: "the node has no ...".
        requirements: Ids or areas that no node can show without it.
    """

    words: str
    requirements: tuple[str, ...]

    def shown_by(self, ids: tuple[str, ...]) -> bool:
        """Tells whether one of the requirements needs it."""
        return any(
            name == needed or name.startswith(f"{needed}-") for name in ids for needed in self.requirements
        )


def _numbers(area: str, *numbers: str) -> tuple[str, ...]:
    return tuple(f"ZN-{area}-{number}" for number in numbers)


FEATURES = {
    "scouting": Feature("answer to SCOUT", ("ZN-SCT", "ZN-HLO")),
    "multicast": Feature("multicast transport", ("ZN-JOIN", *_numbers("KA", "107"))),
    "routing": Feature(
        "routing between sessions",
        (
            *_numbers("RTE", "001", "002", "003", "004", "005", "006", "007", "008", "009", "010"),
            *_numbers("RTE", "011", "012", "013", "014", "015", "016", "017", "018", "019", "020"),
            *_numbers("RTE", "021", "025", "026", "027"),
            *_numbers("CLS", "104"),
            *_numbers("KA", "105"),
            *_numbers("EXT", "105"),
        ),
    ),
    "queries": Feature("end of a query that nothing matches", _numbers("FIN", "005")),
    "interests": Feature("answer to INTEREST", ("ZN-INT", *_numbers("RTE", "022", "023", "024"))),
    "tokens": Feature("liveliness tokens", _numbers("DCL", "106")),
    "qos": Feature(
        "priority lanes",
        (
            *_numbers("INIT", "032", "033", "034", "049"),
            *_numbers("OPEN", "018"),
            *_numbers("FRM", "007", "008"),
            *_numbers("FRG", "104"),
            *_numbers("OAM", "004"),
        ),
    ),
    "patch": Feature("patch version", (*_numbers("INIT", "040", "044"), *_numbers("FRG", "005"))),
    "lowlatency": Feature(
        "low-latency transport",
        (*_numbers("INIT", "038", "050", "051"), *_numbers("OPEN", "016", "022"), *_numbers("NET", "002")),
    ),
    "compression": Feature("compression", (*_numbers("INIT", "039"), *_numbers("OPEN", "023"))),
    "multilink": Feature(
        "multilink", (*_numbers("INIT", "037"), *_numbers("OPEN", "021"), *_numbers("KA", "106"))
    ),
    "authentication": Feature("authentication", (*_numbers("INIT", "004", "036"), *_numbers("OPEN", "020"))),
    "fragments": Feature("fragmentation", ("ZN-FRG",)),
    "timestamps": Feature("timestamps of messages", _numbers("NET", "013")),
}
"""By name, as profiles write it."""

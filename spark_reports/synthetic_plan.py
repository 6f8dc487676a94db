"""What is planted in synthetic runs: nodes with their releases, how each of their checks behaves, what breaks when.

``synthetic`` makes runs of it, and the truth about them.
"""

import dataclasses
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spark_reports import rows

LAB = "Linux 6.8 x86_64, 8-core lab machine, 8 cores, Python 3.11"
BOARD = "Linux 6.1 aarch64, development board, 4 cores, Python 3.11"
OTHER_LAB = "Linux 6.12 x86_64, 16-core lab machine, 16 cores, Python 3.11"

TCP = "profile=router strict-should=no time-scale=1 transport=tcp"
TLS = "profile=router strict-should=no time-scale=1 transport=tls"

REFERENCE = "zenoh-harness-refnode"

# Checks -----------------------------------------------------------------------------------------------

Behaviour = Callable[[int], float | str | None]
"""Takes the age of a release (0 the newest, 1 the one before ...); gives how often a check fails on it, or the outcome
that it always has there, or None where it is not run."""

BEHAVIOUR: Mapping[str, Behaviour] = {
    "steady": lambda _: 0.0,
    "broke": lambda age: 1.0 if age == 0 else 0.0,
    "broke often": lambda age: 0.75 if age == 0 else 0.08,
    "mended": lambda age: 0.0 if age == 0 else 1.0,
    "broke long ago": lambda age: 1.0 if age <= 2 else 0.0,
    "always fails": lambda _: 1.0,
    "now and then": lambda _: 0.35,
    "hardly ever": lambda _: 0.06,
    "never applies": lambda _: "n/a",
    "given up": lambda age: None if age == 0 else 0.0,
    "added": lambda age: 0.0 if age == 0 else None,
    "no longer applies": lambda age: "n/a" if age == 0 else 0.0,
    "known deviation": lambda _: "deviation",
    "met at last": lambda age: rows.STALE if age == 0 else "deviation",
    "advice broken": lambda _: "warning",
}

REASONS = {
    "n/a": "the profile cannot show it",
    "inconclusive": "the node did not answer the canary",
    "deviation": "recorded in deviations.toml",
    rows.STALE: rows.STALE,
}

TRIED_AGAIN = 0.5
"""Share of the failures of a flaky check after which it is tried again, and passes."""

SOMETIMES_INCONCLUSIVE = 0.02
"""Share of verdicts that say nothing, because the harness or the machine was not well."""

_PLAN: Mapping[str, int] = {
    "broke": 4,
    "broke often": 2,
    "mended": 3,
    "broke long ago": 2,
    "always fails": 2,
    "now and then": 6,
    "hardly ever": 4,
    "never applies": 3,
    "given up": 2,
    "added": 2,
    "no longer applies": 2,
    "known deviation": 2,
    "met at last": 2,
    "advice broken": 2,
}
"""How many checks of a node behave in each way that is not steady."""

AREAS = ("SCT", "INIT", "OPEN", "FRM", "FRG", "KAL", "DCL", "PSH", "REQ", "CLS")
_SUBJECTS = (
    "reserved_bit",
    "cookie",
    "lease",
    "batch_size",
    "initial_sn",
    "unknown_extension",
    "resolution",
    "zid",
    "keyexpr",
    "encoding",
    "timestamp",
    "final",
)
_RULES = ("is_answered", "is_refused", "is_ignored", "comes_back", "closes_the_link", "keeps_its_order")


@dataclass(frozen=True, slots=True)
class Check:
    """A test, and how it behaves."""

    test: str
    requirement: str
    level: str
    behaviour: str


def _checks(node: str, steady: int, plan: Mapping[str, int]) -> tuple[Check, ...]:
    """Returns the checks of a node; the word in brackets keeps their names apart from those of another node."""
    ways = [name for name, count in plan.items() for _ in range(count)] + ["steady"] * steady
    # The behaviours are spread over the areas, as they would be.
    random.Random(f"checks of {node}").shuffle(ways)
    result = []
    for number, way in enumerate(ways):
        area = AREAS[number % len(AREAS)]
        subject = _SUBJECTS[number // len(AREAS) % len(_SUBJECTS)]
        rule = _RULES[(number * 7 + number // 10) % len(_RULES)]
        level = "SHOULD" if way == "advice broken" or (way == "steady" and number % 5 == 0) else "MUST"
        test = f"suite/test_{area.lower()}.py::test_{subject}_{rule}[{node}-{number}]"
        result.append(Check(test, f"ZN-{area}-{100 + number}", level, way))
    return tuple(result)


# Fuzzing ----------------------------------------------------------------------------------------------

CAMPAIGNS: Mapping[str, tuple[str, ...]] = {
    "handshake": ("INIT", "OPEN"),
    "declarations": ("DECLARE", "INTEREST"),
    "data": ("PUSH", "REQUEST"),
}
"""The campaigns and the messages that they lie about."""

STATE = {"INIT": "connected", "OPEN": "init_acked"}

VERDICTS = {"accepted": 45, "closed": 30, "refused": 15, "silent": 9, "inconclusive": 1}
"""How cases end that meet nothing, and how often of a hundred."""

CASES = 60
"""Cases of a campaign in a run."""

MANY = 50
"""A long run plays so many times as many: most of the cases of the store are in it."""

_HOSTILE = "it said </script><script>alert(1)</script> \u202e\x1b[31m"
"""What a node may say of itself; it must do nothing to whoever reads it."""

HITS = 0.7
"""How likely a run that can meet a bucket meets it."""

BUCKET_IN: Mapping[str, Callable[[int, int], bool]] = {
    "new": lambda age, _: age == 0,
    "known": lambda _, __: True,
    "gone": lambda age, _: age > 0,
    "reopened": lambda age, oldest: age == 0 or age >= oldest - 1,
}
"""By status of a bucket: whether releases of an age have it, given the age of the oldest."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A fault that campaigns meet."""

    name: str
    status: str
    campaign: str
    message: str
    detail: str


def _buckets(node: str) -> tuple[Bucket, ...]:
    plan = ("new", "new", "known", "known", "known", "gone", "gone", "reopened")
    harms = ("crash", "hang", "silent", "leak")
    places = ("read_vle", "take_cookie", "route", "reassemble", "declare", "reply", "keep_alive", "close")
    result = []
    for number, status in enumerate(plan):
        campaign = list(CAMPAIGNS)[number % len(CAMPAIGNS)]
        message = CAMPAIGNS[campaign][number % 2]
        name = f"{harms[number % 4]} {node}::{places[number]} {message}"
        detail = "the process ended with signal 6" if number else _HOSTILE
        result.append(Bucket(name, status, campaign, message, detail))
    return tuple(result)


# Measured values --------------------------------------------------------------------------------------

REPLIES: Mapping[str, tuple[str, float]] = {
    "INIT": ("INIT", 400.0),
    "OPEN": ("OPEN", 900.0),
    "FRAME REQUEST": ("FRAME RESPONSE", 1_500.0),
}
"""What answers a stimulus, and after how many microseconds, by and large."""

REPLIES_PER_RUN = 24

BENCHMARKS: Mapping[str, tuple[str, str, str, float]] = {
    "dissect push": ("rate", "messages/s", "higher", 52_000.0),
    "open a session": ("seconds", "us", "lower", 850.0),
    "reference node forwards": ("rate", "messages/s", "higher", 18_000.0),
    "decode columns": ("rate", "messages/s", "higher", 1_600_000.0),
}
"""What benchmarks measure: metric, unit, which way is better, the value by and large."""

SAMPLES = 5
RATE = 250.0
"""Cases per second of a campaign."""

BUSY = 0.04
"""Share of runs during which the machine was busy with something else: all times grow by half."""


# Nodes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One node, environment and configuration through its releases: what may be compared.

    Attributes:
        versions: Oldest first.
        share: Of all runs.
        factor: By name of a measured value: what it is multiplied with in the newest release.
        lost_pair: A state and message that campaigns no longer try.
    """

    name: str
    node: str
    impl: str
    whatami: str
    environment: str
    configuration: str
    transport: str
    versions: tuple[str, ...]
    share: float
    checks: tuple[Check, ...]
    buckets: tuple[Bucket, ...] = ()
    factor: Mapping[str, float] = field(default_factory=dict)
    lost_pair: tuple[str, str] = ("", "")
    platform: str = "Linux x86_64"


RELEASES = ("1.5.1", "1.6.2", "1.7.0", "1.8.0", "1.9.0", "1.10.0")
"""Oldest first."""

ROUTER_CHECKS = _checks("router", 40, _PLAN)
_ON_TLS = tuple(
    dataclasses.replace(check, behaviour="broke" if at < 2 else "steady")
    for at, check in enumerate(check for check in ROUTER_CHECKS if check.behaviour in {"steady", "mended"})
)

LINES = (
    Line(
        name="router",
        node="pypi",
        impl="eclipse-zenoh",
        whatami="router",
        environment=LAB,
        configuration=TCP,
        transport="tcp",
        versions=RELEASES,
        share=0.42,
        checks=ROUTER_CHECKS,
        buckets=_buckets("router"),
        factor={"OPEN": 1.4, "handshake": 0.75, "dissect push": 0.85, "decode columns": 0.98},
        lost_pair=("open", "INTEREST"),
    ),
    # The same tests over another transport: what broke here is fine there, and the other way round.
    Line(
        name="router over tls",
        node="pypi",
        impl="eclipse-zenoh",
        whatami="router",
        environment=LAB,
        configuration=TLS,
        transport="tls",
        versions=RELEASES,
        share=0.33,
        checks=_ON_TLS,
        factor={"open a session": 0.7},
    ),
    Line(
        name="client",
        node="cmd:pico",
        impl="zenoh-pico",
        whatami="client",
        environment=BOARD,
        configuration=TCP.replace("router", "client"),
        transport="tcp",
        versions=RELEASES[-4:],
        share=0.25,
        checks=_checks("client", 25, {name: 1 for name in _PLAN if name != "broke often"}),
        buckets=_buckets("client"),
        factor={"data": 1.3},
        platform="Linux aarch64",
    ),
)

ALONE = (
    ("another machine", OTHER_LAB, TCP),
    ("another time scale", LAB, TCP.replace("time-scale=1", "time-scale=3")),
    ("another profile", OTHER_LAB, TCP.replace("profile=router", "profile=peer")),
)
"""Single runs with which nothing may be compared, because their machine or their options are others."""

MUTANTS = 12
MUTANTS_ALIVE = 3

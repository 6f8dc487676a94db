"""The options of a run: added to pytest, read once, checked before anything starts."""

from __future__ import annotations

import random
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.config import PROTOCOLS, Credentials, RunConfig
from conformance.errors import UsageError
from conformance.page.proof import read_proof
from conformance.profiles import Profile, load_profile
from conformance.requirements import LEVELS, requirements
from spark_reports.rows import ALL, new_run_id

CAPTURES_KEPT = ("all", "failed", "none")
"""Of which tests captures are kept; rows are always written."""

SLOWEST = 1000.0
"""Largest factor of all times: nobody waits a quarter of an hour for an answer."""

MOST_SEED = (1 << 63) - 1
"""What a column of a report holds."""

_settings_key = pytest.StashKey["Settings"]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a run was asked to do.

    Attributes:
        config: What nodes and tests have to know.
        profile: What the node is said to support.
        asked: The user named the transports, so that one that cannot be had is shown.
        captures: One of CAPTURES_KEPT.
        allow_destructive: Tests that may harm a node may meet one that is not ours.
        deviations: File of recorded deviations; None for those that come with the suite.
        update_deviations: Propose deviations for what failed.
        proof: What a campaign of mutants found, to be shown on the page.
        narrowed: The user left tests out.
        partial: The user asked for certain tests or requirements only.
        selecting: The words that left tests out; empty if none did.
    """

    config: RunConfig
    profile: Profile
    asked: bool
    captures: str
    allow_destructive: bool
    deviations: Path | None
    update_deviations: bool
    proof: Path | None
    narrowed: bool
    partial: bool
    selecting: str

    def selection(self, *, all_files: bool) -> str:
        """Returns which tests were asked for, for the row of the run."""
        return self.selecting or (ALL if all_files and not self.narrowed else "some files")

    @property
    def judging(self) -> dict[str, object]:
        """Options that change what is judged, for the row of the run."""
        config = self.config
        return {
            "transport": ",".join(config.transports),
            "time-scale": f"{config.time_scale:g}" if config.time_scale != 1 else None,
            "strict-should": config.strict_should,
            # The version in it is that of the node: another one is what is compared.
            "profile": Path(config.profile).name.partition(":")[0],
            "allow-destructive": self.allow_destructive and not self.profile.destructive,
            "trust-node": config.trust_node,
            "user": config.user is not None,
            "deviations": self.deviations.name if self.deviations else None,
        }


def add_options(parser: pytest.Parser) -> None:
    """Adds the options, all in one group."""
    group = parser.getgroup("zenoh", "Zenoh conformance")
    add = group.addoption
    add(
        "--node",
        default="pypi",
        metavar="NODE",
        help="node under test: locator of a running node (tcp/127.0.0.1:7447), pypi[:VERSION] to start "
        "eclipse-zenoh, cmd:'COMMAND {locator}' to start any other, ref[:MUTANT], null:KIND (default: pypi)",
    )
    add(
        "--profile",
        default="",
        metavar="PROFILE",
        help="describes a node that you started yourself: the name of a shipped profile with a version "
        "(eclipse-zenoh:1.10.2), or a TOML file; sets what the node cannot show and which recorded deviations apply",
    )
    add(
        "--transports",
        default=None,
        metavar="NAMES",
        help=f"transports to use, comma-separated: {', '.join(PROTOCOLS)}; or all that the node offers: all "
        "(default: tcp, or that of the locator)",
    )
    add(
        "--req",
        action="append",
        default=[],
        metavar="ID",
        help="run only tests of this requirement or area: ZN-INIT-045, ZN-INIT; may be repeated",
    )
    add(
        "--level",
        action="append",
        default=[],
        metavar="LEVEL",
        type=str.upper,
        help=f"run only tests of this level ({', '.join(LEVELS)}); may be repeated",
    )
    add(
        "--list-reqs",
        action="store_true",
        help="list requirements (filtered by --req and --level) with the tests that cover them, and exit",
    )
    add("--strict-should", action="store_true", help="treat a broken SHOULD as a fail, not a warning")
    add(
        "--allow-destructive",
        action="store_true",
        help="also run tests that may harm the node on a node that the suite did not start",
    )
    add(
        "--time-scale",
        type=float,
        default=1.0,
        metavar="X",
        help="multiply all waiting times, for slow nodes (default: 1)",
    )
    add(
        "--seed",
        type=int,
        default=None,
        metavar="N",
        help="seed of all random choices (default: a new one, shown)",
    )
    add(
        "--run-dir",
        default=None,
        metavar="DIR",
        help="folder for rows, captures and page (default: runs/<run-id>)",
    )
    add(
        "--captures",
        choices=CAPTURES_KEPT,
        default="all",
        help="keep captures of all tests, of those that did not pass, or of none (default: all)",
    )
    add(
        "--deviations",
        default=None,
        metavar="FILE",
        help="file of recorded deviations (default: the one shipped with the suite)",
    )
    add(
        "--update-deviations",
        action="store_true",
        help="write proposed deviations for failures next to the deviations file, which itself is never changed",
    )
    add(
        "--user",
        default=None,
        metavar="NAME:PASSWORD",
        help="user of a node that asks for one; a node started from pypi or ref is made to. NAME alone takes the "
        "password from the variable ZENOH_PASSWORD. It is written nowhere",
    )
    add("--proof", default=None, metavar="FILE", help="proof.json of a mutant campaign, to show on the page")
    add(
        "--i-may-test-this-node",
        action="store_true",
        help="allow a node that is not on this machine's loopback",
    )
    add(
        "--trust-node",
        action="store_true",
        help="do not check the node's health between tests; only for testing the suite itself",
    )


def settings_of(config: pytest.Config) -> Settings:
    """Returns the options, checked; touches nothing on disk.

    Raises:
        UsageError: An option makes no sense.
    """
    if _settings_key not in config.stash:
        config.stash[_settings_key] = _read(config)
    return config.stash[_settings_key]


def check_options(config: pytest.Config) -> None:
    """Checks what can be checked before tests are known.

    Raises:
        UsageError: An option makes no sense.
    """
    option = config.getoption
    if option("--seed") is not None and not 0 <= option("--seed") <= MOST_SEED:
        raise UsageError(f"--seed must be a number from 0 to {MOST_SEED}")
    if not 0 < option("--time-scale") <= SLOWEST:
        raise UsageError(f"--time-scale must be more than 0 and at most {SLOWEST:g}")
    for name in wanted_requirements(config):
        if not any(known == name or known.startswith(f"{name}-") for known in requirements()):
            raise UsageError(f"--req {name}: no such requirement or area; --list-reqs shows all")
    for level in option("--level"):
        if level not in LEVELS:
            raise UsageError(f"--level {level}: must be one of {', '.join(LEVELS)}")
    wanted_transports(config)
    _check_files(config)


def _check_files(config: pytest.Config) -> None:
    option = config.getoption
    for name, what in (("--run-dir", "folder"), ("--deviations", "file"), ("--proof", "file")):
        # A variable that is not set, most likely: not the default behind the user's back.
        if option(name) == "":
            raise UsageError(f"{name}: is empty; name a {what}")
    for name in ("--deviations", "--proof"):
        path = config.invocation_params.dir / (option(name) or "")
        begun = name == "--deviations" and option("--update-deviations") and not path.exists()
        if option(name) and not path.is_file() and not begun:
            raise UsageError(f"{name} {option(name)}: no such file")
    if option("--proof"):
        # Not at the end, when the page of a long run is to be written.
        read_proof(config.invocation_params.dir / option("--proof"))


def wanted_requirements(config: pytest.Config) -> list[str]:
    """Returns the ids and areas that --req names."""
    return [name.upper() for name in config.getoption("--req")]


def is_worker(config: pytest.Config) -> bool:
    """Tells whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def _read(config: pytest.Config) -> Settings:
    check_options(config)
    option = config.getoption
    here = config.invocation_params.dir
    shared = getattr(config, "workerinput", {}).get("zenoh")
    if shared:  # folder and seed come from the controller
        run_dir, seed = Path(shared["run_dir"]), shared["seed"]
    else:
        base = config.rootpath if config.inipath else here
        wanted = option("--run-dir")
        run_dir = here / wanted if wanted else base / "runs" / new_run_id()
        seed = option("--seed") if option("--seed") is not None else random.SystemRandom().randrange(1 << 32)
    profile = _profile(config)
    partial = bool(
        option("keyword")
        or option("--req")
        or option("--level")
        or _by_the_last_run(config)
        or any(map(_is_of_file, config.args))
    )
    return Settings(
        config=RunConfig(
            node=option("--node"),
            run_dir=run_dir,
            run_id=run_dir.resolve().name,
            seed=seed,
            time_scale=option("--time-scale") * profile.time_scale,
            strict_should=option("--strict-should"),
            profile=option("--profile"),
            may_test=option("--i-may-test-this-node"),
            transports=wanted_transports(config),
            trust_node=option("--trust-node"),
            user=None if option("--user") is None else Credentials.parse(option("--user")),
        ),
        profile=profile,
        asked=option("--transports") not in {None, "all"},
        captures=option("--captures"),
        allow_destructive=option("--allow-destructive") or profile.destructive,
        deviations=here / option("--deviations") if option("--deviations") else None,
        update_deviations=option("--update-deviations"),
        proof=here / option("--proof") if option("--proof") else None,
        narrowed=partial
        or bool(option("markexpr") or option("deselect") or option("ignore") or option("ignore_glob")),
        partial=partial,
        selecting=_selecting(config),
    )


def _selecting(config: pytest.Config) -> str:
    """Returns what the user typed to leave tests out; of paths the end, which says it on any machine."""
    option = config.getoption
    words = []
    for name, values in (
        ("--req", wanted_requirements(config)),
        ("--level", option("--level")),
        ("-k", [option("keyword")]),
        ("-m", [option("markexpr")]),
        ("--deselect", option("deselect") or []),
        ("--ignore", option("ignore") or []),
        ("--ignore-glob", option("ignore_glob") or []),
    ):
        for value in filter(None, values):
            words += [name, _end(value) if name in _PATHS else value]
    words += _by_the_last_run(config)
    words += [_end(word) for word in config.args if _is_of_file(word)]
    return shlex.join(words)


def _by_the_last_run(config: pytest.Config) -> list[str]:
    """Returns the options that leave out tests by what became of them in the last run."""
    # Without the cache of pytest, nobody knows them.
    named = {"--lf": "lf", "--sw": "stepwise"}
    return [word for word, name in named.items() if getattr(config.option, name, False)]


_PATHS = ("--deselect", "--ignore", "--ignore-glob")


def _is_of_file(word: str) -> bool:
    return "::" in word or word.endswith(".py")


def _end(path: str) -> str:
    name, colons, test = path.partition("::")
    return f"{name.rstrip('/').rpartition('/')[2]}{colons}{test}"


def _profile(config: pytest.Config) -> Profile:
    """Returns what the node is said to support; a release that we start ourselves is known.

    Raises:
        UsageError: There is no such profile.
    """
    way, _, version = config.getoption("--node").partition(":")
    if way == "pypi" and not config.getoption("--profile"):
        return load_profile("eclipse-zenoh", version)
    return load_profile(config.getoption("--profile"))


def wanted_transports(config: pytest.Config) -> tuple[str, ...]:
    """Returns what links shall be made of, in the order of PROTOCOLS.

    Raises:
        UsageError: There is no such transport.
    """
    text = config.getoption("--transports")
    if text is None:
        # A locator says it; where it does not, the node is one of ours or will be refused.
        own = config.getoption("--node").partition("/")[0]
        return (own,) if own in PROTOCOLS else ("tcp",)
    if text == "all":
        return PROTOCOLS
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PROTOCOLS:
            raise UsageError(
                f"--transports {text}: {name or 'nothing'} is not one of {', '.join(PROTOCOLS)} (or all)"
            )
    return tuple(name for name in PROTOCOLS if name in names)

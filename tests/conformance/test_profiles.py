"""What a foreign node supports: files, and what they take out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.config import PROTOCOLS
from conformance.errors import UsageError
from conformance.profiles import GENERAL, Exclusion, Profile, load_profile, read_profile, shipped
from conformance.profiles.features import FEATURES
from conformance.profiles.versions import covers
from conformance.requirements import requirements

TEST = "suite/test_init.py::test_x[0x08]"


def read(text: str) -> Profile:
    return read_profile(text, "mine", "mine.toml")


def test_node_of_which_nothing_is_known_is_asked_everything() -> None:
    assert load_profile("") == GENERAL
    assert load_profile("", "1.2.3").version == "1.2.3"
    assert all(GENERAL.why_not(TEST, (name,)) == "" for name in requirements())


def test_profiles_for_two_implementations_are_shipped() -> None:
    assert set(shipped()) == {"eclipse-zenoh", "zenoh-pico"}
    real, pico = load_profile("eclipse-zenoh:1.2.1"), load_profile("zenoh-pico")
    assert (real.impl, real.version, real.transports) == ("eclipse-zenoh", "1.2.1", PROTOCOLS)
    assert load_profile("eclipse-zenoh", "1.3.4").version == "1.3.4"
    assert load_profile("eclipse-zenoh:1.2.1", "1.3.4").version == "1.2.1"
    assert (pico.roles, pico.transports, pico.scouting) == (("peer",), ("tcp",), "none")
    assert "no routing between sessions" in pico.why_not(TEST, ("ZN-RTE-011",))
    assert "no answer to SCOUT" in pico.why_not(TEST, ("ZN-INIT-009", "ZN-SCT-005"))
    assert "cookie is empty" in pico.why_not(TEST, ("ZN-INIT-031",))
    assert pico.why_not(TEST, ("ZN-INIT-045",)) == ""


@pytest.mark.parametrize("name", shipped())
def test_minimum_of_a_shipped_profile_is_asked_for(name: str) -> None:
    assert load_profile(name).minimum >= 100


def test_features_name_requirements_that_there_are() -> None:
    for feature in FEATURES.values():
        for wanted in feature.requirements:
            assert any(name == wanted or name.startswith(f"{wanted}-") for name in requirements()), wanted


def test_feature_that_is_not_there_takes_out_what_needs_it() -> None:
    some = read('impl = "x"\nfeatures = ["routing"]')
    assert some.why_not(TEST, ("ZN-RTE-011",)) == ""
    assert some.why_not(TEST, ("ZN-JOIN-001",)) == "profile mine: the node has no multicast transport"
    assert read('impl = "x"').why_not(TEST, ("ZN-JOIN-001",)) == ""


def test_exclusion_names_requirements_areas_or_tests() -> None:
    some = read(
        'impl = "x"\n[[excluded]]\nrequirements = ["ZN-KA", "ZN-FRM-001"]\nreason = "because"\n'
        '[[excluded]]\ntests = ["test_init.py::test_x[0x08]", "suite/test_open.py*"]\nreason = "so"\n'
    )
    assert some.why_not("suite/a", ("ZN-KA-101",)) == "profile mine: because"
    assert some.why_not("suite/a", ("ZN-FRM-001", "ZN-FRM-002")) == "profile mine: because"
    assert some.why_not("suite/a", ("ZN-FRM-002",)) == ""
    assert some.why_not(TEST, ("ZN-FRM-002",)) == "profile mine: so"
    assert some.why_not("suite/test_init.py::test_x[0x09]", ()) == ""
    assert some.why_not("suite/test_open.py::test_y", ()) == "profile mine: so"


def test_exclusion_may_hold_for_some_releases() -> None:
    some = Exclusion(requirements=("ZN-KA",), reason="r", versions="1.0.0-1.5.1, 1.7.2")
    assert [
        version
        for version in ("1.0.0", "1.5.1", "1.6.2", "1.7.2", "unknown")
        if some.holds("", ("ZN-KA-101",), version)
    ] == [
        "1.0.0",
        "1.5.1",
        "1.7.2",
    ]


def test_ranges_of_releases() -> None:
    assert covers("1.10.2", "1.10.2")
    assert covers("1.9-1.10", "1.9.5")
    assert covers("1.9-1.10", "v1.9.5")
    assert not covers("1.9.0", "1.10.0")
    for bad in ("", "x", "1.2-", "2.0-1.0", "1.0;1.1"):
        with pytest.raises(ValueError, match=r"release|begins"):
            covers(bad, "1.0.0")


ALL = """
impl = "mine"
version = "0.9"
roles = ["peer"]
transports = ["tcp", "ws"]
scouting = "udp/224.0.0.224:7446#iface=lo"
fence = "interest"
minimum = 12
destructive = true
time_scale = 2
"""


def test_all_keys_are_read(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(ALL)
    made = load_profile(str(path))
    assert made == Profile(
        name="own",
        impl="mine",
        version="0.9",
        roles=("peer",),
        transports=("tcp", "ws"),
        scouting="udp/224.0.0.224:7446#iface=lo",
        fence="interest",
        minimum=12,
        destructive=True,
        time_scale=2.0,
    )


BAD = {
    'name = "x"': "mine.toml: name: no such key; the keys are impl, version",
    "impl = 1": "mine.toml: impl: must be a text",
    'impl = ""': "mine.toml: impl: must be a text",
    'version = "1"': "mine.toml: impl is missing",
    'impl = "x"\nroles = []': "mine.toml: roles: give at least one of router",
    'impl = "x"\nroles = "peer"': "mine.toml: roles: must be a list of texts",
    'impl = "x"\nroles = ["boss"]': "mine.toml: roles: 'boss' is not one of router, peer, client",
    'impl = "x"\ntransports = ["quic"]': "mine.toml: transports: 'quic' is not one of tcp",
    'impl = "x"\nfeatures = ["magic"]': "mine.toml: features: 'magic' is not one of scouting",
    'impl = "x"\nfeatures = [["qos"]]': "mine.toml: features: must be a list of texts",
    'impl = "x"\nminimum = 0': "mine.toml: minimum: must be a number of at least 1",
    'impl = "x"\nminimum = true': "mine.toml: minimum: must be a number of at least 1",
    'impl = "x"\nminimum = 1.5': "mine.toml: minimum: must be a number of at least 1",
    'impl = "x"\ntime_scale = 0': "mine.toml: time_scale: must be a number above 0",
    'impl = "x"\ntime_scale = nan': "mine.toml: time_scale: must be a number above 0",
    'impl = "x"\ntime_scale = inf': "mine.toml: time_scale: must be a number above 0",
    'impl = "x"\ndestructive = 1': "mine.toml: destructive: must be true or false",
    'impl = "x"\nfence = "wall"': "mine.toml: fence: 'wall' is not one of query, interest, none",
    'impl = "x"\nfence = ["none"]': "mine.toml: fence: ['none'] is not one of query",
    'impl = "x"\nscouting = "tcp/127.0.0.1:1"': "mine.toml: scouting: SCOUT uses udp",
    'impl = "x"\nscouting = "nowhere"': "mine.toml: scouting: 'nowhere' is not a locator",
    'impl = "x"\nscouting = ["none"]': "mine.toml: scouting: must be a text",
    'impl = "x"\nexcluded = 1': "mine.toml: excluded: must be tables",
    'impl = "x"\n[excluded]\nreason = "r"': "mine.toml: excluded: must be tables",
    'impl = "x"\n[[excluded]]\nrequirements = ["ZN-KA"]': "mine.toml: excluded, number 1: reason is missing",
    'impl = "x"\n[[excluded]]\nreason = "r"': "mine.toml: excluded, number 1: give requirements or tests",
    'impl = "x"\n[[excluded]]\nreason = "r"\ntest = []': "excluded, number 1: test: no such key; the keys are requirements",
    'impl = "x"\n[[excluded]]\nreason = "r"\nrequirements = ["ZN-K"]': "ZN-K is not a requirement or area",
    'impl = "x"\n[[excluded]]\nreason = "r"\ntests = ["a"]\nversions = "new"': "versions: 'new' is not a release",
    "impl = ": "mine.toml: not a TOML file: ",
}


@pytest.mark.parametrize("text", BAD)
def test_file_that_is_no_profile_is_one_line_with_file_and_key(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(BAD[text])) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_profile_that_there_is_not_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="no such profile; give a TOML file, or one of eclipse-zenoh, zenoh-pico"
    ):
        load_profile("zenon")
    with pytest.raises(UsageError, match="eclipse-zenoh:new: 'new' is no version; write one like"):
        load_profile("eclipse-zenoh:new")
    assert load_profile("eclipse-zenoh:0a1b2c3d").version == "0a1b2c3d"
    with pytest.raises(UsageError, match=r"gone\.toml: cannot be read \(No such file"):
        load_profile(str(tmp_path / "gone.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"cannot be read \(not a text file\)"):
        load_profile(str(tmp_path / "binary.toml"))

"""What goes wrong now and then is seen where scripts are tried for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.lab import Lab
from fuzz.oracles import Harm
from fuzz.oracles.canary import LOOKS, RARE_LOOKS
from fuzz.oracles.trouble import Wrong
from fuzz.regression import fails_on
from tests.fuzz.planted import FAULTS, command


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    config = RunConfig(node=command("speck"), run_dir=tmp_path, run_id="planted", seed=1)
    return Lab(config, node_of(config), seats=1)


def test_one_of_many_is_not_missed_where_it_is_looked_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    # Enough for all of them, however long each takes.
    monkeypatch.setattr("fuzz.oracles.canary.RARE_SECONDS", 600.0)
    script = FAULTS["speck"].trigger
    with lab:
        # A look as it is taken elsewhere misses it.
        assert lab.play(script).objection is None
        lab.rest()
        with lab.waiting_for(Harm.DISTURBED, Wrong.CHANGED):
            tried = lab.play(script)
            walked = lab.walk([script], lambda one: one.harm is Harm.DISTURBED, float("inf"))
        assert tried.objection is not None
        assert (tried.objection.harm, tried.objection.place) == (Harm.DISTURBED, Wrong.CHANGED)
        assert walked is not None
        assert not lab.rare
    assert LOOKS < 50 < RARE_LOOKS
    assert fails_on(command("speck"), "disturbed", tried)
    assert fails_on(command(), "disturbed", tried) is False

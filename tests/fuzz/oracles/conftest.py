"""What tests of several oracles need."""

import pytest

from fuzz.oracles.canary import Canary
from tests.fuzz.oracles.router import LONG


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sessions of the canary are answered is waited for as long as it takes."""
    monkeypatch.setattr(Canary, "first_share", LONG)

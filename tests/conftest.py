"""Hypothesis for our tests: no deadline, because a busy machine is no finding."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")

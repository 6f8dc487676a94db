"""The reference node: links, one session machine a link, a router, scouting. ``python -m conformance.refnode``."""

"""The proof that each test can fail: every mutant of the reference node against the tests of what it breaks.

``python -m conformance.proof``.
"""

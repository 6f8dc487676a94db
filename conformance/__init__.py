"""The conformance suite: a tester, expectations, ways to obtain a node, and the tests themselves."""

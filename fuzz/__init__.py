"""Campaigns: boofuzz sessions against a node, judged by oracles, recorded as rows and captures."""

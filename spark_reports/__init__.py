"""Rows in, reports out: what conformance runs and fuzz campaigns recorded, aggregated with Spark."""

"""Captures as Spark tables, and their report."""

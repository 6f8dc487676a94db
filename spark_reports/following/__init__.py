"""Runs that are still being written."""

"""Readers of the shapes: each turns the one description of the wire into something else."""

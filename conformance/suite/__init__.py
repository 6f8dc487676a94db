"""The tests: one file per area of the requirements. Pointed at a node with ``--node``."""

"""Measurements: each module is one command, and keeps its last results in ``results/``."""

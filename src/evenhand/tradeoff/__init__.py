"""Accuracy against fairness over all tolerances."""

"""Fairness requirements and how they are measured: groups, rates, notions."""

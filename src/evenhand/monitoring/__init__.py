"""Monitoring: decisions counted batch by batch, with alarms that are valid whenever one looks."""

"""The command line, for people who have files and not notebooks."""

from evenhand.cli.commands import app
from evenhand.cli.running import FAILED, UNDECIDED, VIOLATED, main

__all__ = ["FAILED", "UNDECIDED", "VIOLATED", "app", "main"]

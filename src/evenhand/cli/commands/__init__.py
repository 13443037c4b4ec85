"""The commands of the command line, one module each."""

from __future__ import annotations

from cyclopts import App

from evenhand.cli.commands.alternatives import alternatives
from evenhand.cli.commands.audit import audit
from evenhand.cli.commands.demo import demo
from evenhand.cli.commands.fit import fit
from evenhand.cli.commands.frontier import frontier
from evenhand.cli.commands.monitor import monitor
from evenhand.cli.commands.predict import predict
from evenhand.cli.commands.verify import verify
from evenhand.cli.config import fill_from_file

__all__ = ["app"]

app = App(
    name="evenhand",
    help="Fair binary classification with one or many sensitive features.",
    config=[fill_from_file],
)
for command in (audit, alternatives, frontier, fit, predict, verify, monitor, demo):
    app.command(command)

"""``evenhand demo``: an example on bundled data."""

from __future__ import annotations

from pathlib import Path

from evenhand.cli.options import Flag
from evenhand.cli.output import check_paths


def demo(*, out: Path | None = None, force: Flag = False) -> int:
    """Run an example on bundled census data, offline: audit, fair models, proofs, prices, report.

    Parameters
    ----------
    out
        HTML file for the report; by default evenhand-demo.html, which is overwritten if it exists.
    force
        Overwrite the file of --out if it exists.
    """
    page = out or Path("evenhand-demo.html")
    check_paths([], [page], force=force or out is None)
    from evenhand.cli.demonstration import run  # noqa: PLC0415  (start-up time, and an optional package)

    run(page)
    return 0

"""Every experiment of the paper, and the peers in the same run.

Run: ``python -m benchmarks.paper`` (about three hours on two cores), then read ``docs/reproduction.md``,
which is written from the results, with the full tables in ``docs/reproduction/``. ``--tables``,
``--methods``, ``--notions``, ``--measures``, ``--settings`` and ``--splits`` choose a part. What a method
does on a split is kept as soon as it is measured, so that an interrupted run goes on where it was; what was
measured with other settings is measured anew, and with ``--fresh`` everything that is chosen, as after a
change of the library. ``--write`` only writes the pages.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before the libraries start their threads

import argparse
from pathlib import Path

from benchmarks.paper.ablations import ABLATIONS
from benchmarks.paper.asked import NOTIONS
from benchmarks.paper.kept import CELLS, Kept
from benchmarks.paper.methods import METHODS
from benchmarks.paper.page import DOCS, write_page
from benchmarks.paper.plan import Choice, planned, run
from benchmarks.paper.tables import TABLES


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument(
        "--methods", nargs="+", choices=[*METHODS, *ABLATIONS], default=[*METHODS, *ABLATIONS]
    )
    parser.add_argument("--notions", nargs="+", choices=NOTIONS, default=list(NOTIONS))
    parser.add_argument(
        "--measures", nargs="+", choices=["difference", "ratio"], default=["difference", "ratio"]
    )
    parser.add_argument("--settings", nargs="+", choices=["blind", "aware"], default=["blind", "aware"])
    parser.add_argument("--splits", type=int, default=10, help="at most; some tables have fewer")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--into", type=Path, help="folder for cells and pages, not the repository's")
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept, of what is chosen")
    parser.add_argument("--write", action="store_true", help="only write the pages, from what is kept")
    chosen = parser.parse_args(arguments)
    kept = Kept.read(chosen.into / CELLS.name if chosen.into else CELLS)
    if not chosen.write:
        choice = Choice(
            tuple(chosen.tables),
            tuple(chosen.methods),
            tuple(chosen.notions),
            tuple(chosen.measures),
            tuple(chosen.settings),
            chosen.splits,
            chosen.fresh,
        )
        run(planned(choice, kept), kept, jobs=chosen.jobs)
    write_page(kept, chosen.into or DOCS)


if __name__ == "__main__":
    main()

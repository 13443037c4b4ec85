"""``evenhand frontier``: what fairness costs in accuracy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import evenhand as eh
from evenhand.cli.messages import in_options
from evenhand.cli.options import Flag, Integer, Learning, Required, RunOptions
from evenhand.cli.output import check_paths, print_note, print_result
from evenhand.display.progress import waiting
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.tradeoff.frontier import Frontier


def frontier(
    table: Path,
    *,
    learning: Learning,
    required: Required = Required(),
    over: str | None = None,
    by_ratio: Flag = False,
    tolerances: Integer | None = None,
    out: Path | None = None,
    run: RunOptions = RunOptions(),
) -> int:
    """Show what fairness costs in accuracy, over a range of tolerances or of a bound.

    Bounds hold at every tolerance. With --over, one of them varies instead, and --difference or --ratio stays
    fixed.

    Parameters
    ----------
    table
        CSV or Parquet file to learn from.
    over
        Vary a bound instead: "capacity", or the rate of a floor or ceiling.
    by_ratio
        Compare groups by ratio instead of difference.
    tolerances
        Number of tolerances; by default 25, or 8 if each needs a training.
    out
        HTML file for the report, with a slider over the tolerance.
    """
    import polars as pl  # noqa: PLC0415  (start-up time)

    from evenhand.cli.required import in_file, requirement  # noqa: PLC0415

    if over is None:
        if required.difference is not None or required.ratio is not None:
            raise InputError(
                "the tolerance varies here, so --difference and --ratio have no value: pass --by-ratio to "
                "compare by ratio, or fix the tolerance with --over."
            )
        required = replace(required, ratio=0.8) if by_ratio else replace(required, difference=0.1)
    elif by_ratio:
        raise InputError("--by-ratio is about tolerances, which do not vary with --over: pass --ratio.")
    elif out is not None:
        raise InputError("the page of --out has a slider over the tolerance: leave out --out, or --over.")
    constraint = requirement(required, table)
    if constraint is None:
        raise InputError(f"--over {over} needs that bound: pass --capacity, --floor or --ceiling too.")
    if tolerances is not None and tolerances < 2:
        raise InputError(f"--tolerances must be at least 2, got {tolerances}.")
    check_paths([table, learning.test, run.config], [out], force=run.force)
    constraint, file = in_file(required, learning, table)
    with in_options():
        train, test = (file.part(pl.concat(part.batches())) for part in file.parts())
        for note in file.notes():
            print_note(f"evenhand: {note}")
        models = {
            name: file.classifier(constraint=constraint, aware=used, missing=required.missing)
            for name, used in [("blind", False), ("aware", file.usable)]
            if name == "blind" or used
        }
        curves = eh.frontier(
            models,
            train.X,
            train.y,
            test=(test.X, test.y),
            tolerances=tolerances,
            over=over,
            verbose=True,
        )
    print_result(json.dumps(curves.to_dict(), indent=1) if run.as_json else curves)
    if out is not None:
        with waiting("writing the report"):
            _write_report(out, curves, title=f"What fairness costs: {table.name}")
        print_note(f"Report: {out}")
    return 0


def _write_report(path: Path, curves: Frontier, *, title: str) -> None:
    """Write the report, with tables for the middle tolerance of the first curve."""
    from evenhand.auditing.audit import audit_of  # noqa: PLC0415  (start-up time)

    first = curves.curve(curves.points[0].curve)
    middle = first[len(first) // 2]
    eh.write_report(
        path,
        audit_of(middle.counted),
        frontier=curves,
        title=title,
        data=f"tables: the {middle.curve} classifier of tolerance {middle.tolerance:.3g}",
    )

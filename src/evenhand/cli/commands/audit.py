"""``evenhand audit``: how decisions treat groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import evenhand as eh
from evenhand.cli.exit_codes import exit_code, requested
from evenhand.cli.junit import write_junit
from evenhand.cli.messages import audit_parameters, in_options
from evenhand.cli.options import (
    BiasAudit,
    Bounds,
    Comparison,
    Gate,
    Names,
    RunOptions,
    Tolerance,
    column_names,
    columns_in,
    control_names,
)
from evenhand.cli.output import print_note, print_result
from evenhand.cli.paths import check_paths
from evenhand.cli.required import requirement
from evenhand.cli.table_rows import as_value, default_positive, distinct_values, scan_rows
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit

__all__ = ["audit"]


def audit(
    table: Path,
    *,
    prediction: str,
    sensitive: Names,
    label: str | None = None,
    weight: str | None = None,
    before: str | None = None,
    positive: str | None = None,
    compared: Comparison = Comparison(),
    tolerance: Tolerance = Tolerance(),
    bounds: Bounds = Bounds(),
    confidence: float = 0.95,
    min_count: int = 0,
    threshold: float | Literal["median"] | None = None,
    tables: BiasAudit = BiasAudit(),
    gate: Gate = Gate(),
    report: Path | None = None,
    run: RunOptions = RunOptions(),
) -> int:
    """Show how predictions treat groups, with confidence intervals and verdicts.

    Exit code: 0 if every tolerance and bound is satisfied or none is set, 3 if one is violated, 4 if the
    evidence is insufficient (0 with --fail-on violated), 2 if something is wrong with the call.

    Parameters
    ----------
    table
        CSV or Parquet file.
    prediction
        Column of decisions: labels, probabilities of a positive decision, or scores with --threshold.
    sensitive
        Columns of sensitive features, separated by commas or by repeating the option.
    label
        Column of true labels. Without it only selection rates are compared.
    weight
        Column of sample weights.
    before
        Column of earlier decisions to compare with.
    positive
        The positive label; by default the one that sorts last.
    confidence
        Confidence of the intervals.
    min_count
        Suppress smaller counts, and whatever would reveal them.
    threshold
        Predictions are scores, and the decision is positive from this score on; for example 0.5. With median,
        people above the median of all count as selected: the scoring rate of Local Law 144.
    report
        HTML file for the report.
    """
    from evenhand.cli.table_files import reading  # noqa: PLC0415  (start-up time)
    from evenhand.data.checks import check_fraction  # noqa: PLC0415

    constraint = requirement(compared, tolerance, bounds, table)
    if bounds.no_worse and before is None:
        raise InputError("--no-worse compares with earlier decisions: pass their column as --before.")
    check_fraction("--confidence", confidence)
    if min_count < 0:
        raise InputError(f"--min-count should be 0 or more, but is {min_count}.")
    gate.check(constraint)
    tables.check()
    check_paths([table, run.config], [report, tables.csv, gate.junit], force=run.force)
    features = column_names(sensitive, columns_in(table))
    controls = [name for name in control_names(compared, table) if name not in features]
    optional = [name for name in (label, weight, before, *controls) if name is not None]
    with reading(table):
        rows = scan_rows(table, [prediction, *optional, *features], [*features, *controls])
        pos_label = None
        if positive is not None:
            pos_label = as_value(distinct_values(rows, label or prediction), positive)
        elif label is None and threshold is None:
            pos_label = default_positive(rows, prediction)
        with in_options(audit_parameters(label=label, prediction=prediction, before=before)):
            found = eh.audit(
                label,
                prediction,
                features,
                data=rows,
                control_features=controls or None,
                constraint=constraint,
                before=before,
                sample_weight=weight,
                pos_label=pos_label,
                confidence=confidence,
                missing=compared.missing_policy,
                min_count=min_count,
                threshold=threshold,
            )
            ratios = None
            if tables.format == "ll144":
                ratios = found.impact_ratios(date=tables.data_date, source=tables.data_source)
    _print(found, ratios, as_json=run.as_json)
    if ratios is not None and tables.csv is not None:
        ratios.to_csv(tables.csv)
        print_note(f"CSV: {tables.csv}")
    if report is not None:
        found.to_html(report, title=f"Audit of {table.name}", impact_ratios=ratios)
        print_note(f"Report: {report}")
    if gate.junit is not None:
        write_junit(gate.junit, found, name=table.name, fail_on=gate.fails_on)
        print_note(f"JUnit: {gate.junit}")
    return exit_code(found, fail_on=gate.fails_on)


def _print(found: Audit, ratios: Any, *, as_json: bool) -> None:
    """The audit, or the tables of Local Law 144 with the verdicts beside them."""
    shown = found if ratios is None else ratios
    print_result(json.dumps(shown.to_dict(), indent=1) if as_json else shown)
    if ratios is not None:
        from evenhand.auditing.audit_text import asks, estimate  # noqa: PLC0415  (start-up time)

        for one in requested(found):
            print_note(f"{asks(one)}: {estimate(one.value, one.low, one.high)}, {one.verdict}")

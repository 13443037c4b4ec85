"""``evenhand audit``: how decisions treat groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import evenhand as eh
from evenhand.cli.exit_codes import exit_code, requested
from evenhand.cli.messages import audit_parameters, in_options
from evenhand.cli.options import Bands, BiasAudit, Gate, Integer, Names, Required, RunOptions
from evenhand.cli.output import check_paths, print_note, print_result
from evenhand.display.progress import waiting
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit


def audit(
    table: Path,
    *,
    sensitive: Names,
    bands: Bands = (),
    prediction: str | None = None,
    score: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    before: str | None = None,
    positive: str | None = None,
    required: Required = Required(),
    confidence: float = 0.95,
    min_count: Integer = 0,
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
    sensitive
        Columns of sensitive features, separated by commas or by repeating the option.
    bands
        Bands of a sensitive feature of numbers, by where they begin: age=25,45,65 for "under 25", "25 to 44",
        "45 to 64" and "65 and over"; may be repeated.
    prediction
        Column of decisions: labels, probabilities of a positive decision, or scores with --threshold.
    score
        Column of scores, probabilities or prices whose level, ranking and cut-offs are compared, with or
        without --prediction.
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
        Predictions are scores; the decision is positive at this score or above, such as 0.5. With median,
        people above the median of all count as selected: the scoring rate of Local Law 144.
    report
        HTML file for the report.
    """
    from evenhand.cli.junit import write_junit  # noqa: PLC0415  (start-up time)
    from evenhand.cli.required import read_groups, requirement  # noqa: PLC0415
    from evenhand.cli.table_files import reading  # noqa: PLC0415
    from evenhand.cli.table_rows import positive_label  # noqa: PLC0415

    constraint = requirement(required, table)
    if required.no_worse and before is None:
        raise InputError("--no-worse compares with earlier decisions: pass their column as --before.")
    if prediction is None:
        wanted = (before, weight, threshold, report, tables.csv, gate.junit, constraint, min_count or None)
        if score is None or tables.format != "text" or any(one is not None for one in wanted):
            raise InputError("pass the column of decisions as --prediction; --score alone has no decisions.")
    gate.check(constraint, tested=bool(required.reference))
    tables.check()
    check_paths([table, run.config], [report, tables.csv, gate.junit], force=run.force)
    words = audit_parameters(label=label, prediction=prediction, before=before)
    with reading(table), in_options(words):
        columns = [prediction, score, label, weight, before]
        given = read_groups(table, sensitive, bands, required, columns)
        features, rows = given.features, given.rows
        if required.against != "groups":  # there, the reference is that of the significance tests alone
            constraint = requirement(required, table, given.reference)
        decided = None if threshold is not None else prediction
        pos_label = positive_label(rows, positive, label, decided)
        settings: dict[str, Any] = {
            "reference": given.reference,
            "confidence": confidence,
            "missing": required.missing,
        }
        more: dict[str, Any] = {}
        if score is not None:
            known = None if label is None else pos_label
            with in_options({"scores": "--score"}):
                more["scores"] = eh.audit_scores(
                    label, score, features, data=rows, pos_label=known, **settings
                )
        if prediction is None:
            _print(None, None, more, as_json=run.as_json)
            return 0
        with waiting("counting rows"):
            found = eh.audit(
                label,
                prediction,
                features,
                data=rows,
                control_features=given.controls or None,
                constraint=constraint,
                before=before,
                sample_weight=weight,
                pos_label=pos_label,
                min_count=min_count,
                threshold=threshold,
                **settings,
            )
            if given.reference is not None:
                more = {"significance": found.significance(), **more}
            ratios = None
            if tables.format == "ll144":
                ratios = found.impact_ratios(date=tables.data_date, source=tables.data_source)
    _print(found, ratios, more, as_json=run.as_json)
    if ratios is not None and tables.csv is not None:
        ratios.to_csv(tables.csv)
        print_note(f"CSV: {tables.csv}")
    if report is not None:
        with waiting("writing the report"):
            eh.write_report(report, found, title=f"Audit of {table.name}", impact_ratios=ratios)
        print_note(f"Report: {report}")
    if gate.junit is not None:
        write_junit(gate.junit, found, name=table.name, fail_on=gate.fails_on, tests=more.get("significance"))
        print_note(f"JUnit: {gate.junit}")
    return exit_code(found, fail_on=gate.fails_on)


def _print(found: Audit | None, ratios: Any, more: dict[str, Any], *, as_json: bool) -> None:
    """The audit, or the tables of Local Law 144 with the verdicts beside them; then what else was asked."""
    shown = found if ratios is None else ratios
    if as_json:
        parts = {name: part.to_dict() for name, part in more.items()}
        print_result(json.dumps(({} if shown is None else shown.to_dict()) | parts, indent=1))
    else:
        print_result("\n\n".join(str(part) for part in (shown, *more.values()) if part is not None))
    if found is not None and ratios is not None:
        for one in requested(found):
            print_note(str(one))

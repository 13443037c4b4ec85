"""``evenhand fit``: a fair classifier, tested on held-out rows and saved."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evenhand as eh
from evenhand.cli.exit_codes import exit_code
from evenhand.cli.messages import in_options
from evenhand.cli.options import (
    Aware,
    Bounds,
    Comparison,
    Learning,
    RunOptions,
    Tolerance,
    column_names,
    columns_in,
    read_aware,
    requirement,
    with_nearest_options,
)
from evenhand.cli.output import print_note, print_result, visible
from evenhand.cli.paths import check_paths
from evenhand.cli.rows import source_of
from evenhand.exceptions import InfeasibleError, InputError

if TYPE_CHECKING:
    from evenhand.inference.guarantee import Promise
    from evenhand.model_files.recertify import Claim

__all__ = ["fit"]


def fit(
    table: Path,
    *,
    learning: Learning,
    out: Path,
    aware: Aware = None,
    compared: Comparison = Comparison(),
    tolerance: Tolerance = Tolerance(),
    bounds: Bounds = Bounds(),
    confidence: float | None = None,
    report: Path | None = None,
    run: RunOptions = RunOptions(),
) -> int:
    """Fit a fair classifier, audit it on held-out rows, and save it.

    Exit code: that of an audit of the test rows; also 4 if the reserved rows do not support the promise of
    --confidence. The model is saved in any case.

    Parameters
    ----------
    table
        CSV or Parquet file to learn from. Categories and missing values need no preprocessing.
    out
        File for the model.
    aware
        Let decisions use the sensitive features, or those that are named.
    confidence
        Promise that the requirement holds on new data, with this confidence.
    report
        HTML file for the report.
    """
    from evenhand.inputs.checks import check_fraction  # noqa: PLC0415  (start-up time)

    constraint = requirement(compared, tolerance, bounds)
    if constraint is None:
        raise InputError(
            "no tolerance: pass --difference or --ratio, or a bound such as --capacity 0.2 or --floor "
            "'true-positive rate=0.6'."
        )
    if confidence is not None:
        check_fraction("--confidence", confidence)
    check_paths([table, learning.test], [out, report], force=run.force)
    learning.check(table)
    aware_features = read_aware(aware, column_names(learning.sensitive, columns_in(table)))
    share = None if learning.test else learning.share
    source = source_of(table, learning.target, share, learning.left_out(table), learning.id)
    with in_options():
        train, test = learning.parts(table)
        for note in learning.notes(table, train.X):
            print_note(f"evenhand: {note}")
        classifier = learning.classifier(
            train.X,
            train.y,
            constraint=constraint,
            aware=aware_features,
            confidence=confidence,
            missing=compared.missing_policy,
        )
        try:
            model = classifier.fit(train.X, train.y)
        except InfeasibleError as error:
            raise with_nearest_options(error, constraint) from error
        decisions = model.predict(test.X, ids=test.ids)
        found = eh.audit(
            test.y,
            decisions,
            test.X.select(model.sensitive_features),
            constraint=constraint,
            pos_label=model.pos_label_,
            missing=compared.missing_policy,
            min_size=math.ceil(learning.min_group_size * len(test.y) / len(train.y)),
        )
    eh.save(model, out, overwrite=run.force, source=source)
    _print(model, found, decisions, out=out, as_json=run.as_json)
    if report is not None:
        with in_options():
            eh.write_report(report, found, model=model, test=(test.X, test.y), title=f"Model of {table.name}")
        print_note(f"Report: {report}")
    return exit_code(found, model.promise_)


def _print(model: Any, found: eh.Audit, decisions: Any, *, out: Path, as_json: bool) -> None:
    from evenhand.model_files.recertify import claimed  # noqa: PLC0415  (start-up time)

    proof, promise = claimed(model), model.promise_
    constant = bool((decisions == decisions[0]).all())
    if as_json:
        print_result(json.dumps(_as_dict(proof, promise, found, constant=constant), indent=1))
        return
    print_result(f"{found}\n")
    print_result(visible(f"proof: {proof}."))
    print_result(promise or "No guarantee for new data; pass --confidence 0.95.")
    if constant:
        print_result(visible(f"constant: this model decides {decisions[0]!s} for every test row."))
    note = "" if promise is None or promise.holds else ", saved although its promise does not hold"
    print_result(visible(f"model: {out}{note}"))


def _as_dict(proof: Claim, promise: Promise | None, found: eh.Audit, *, constant: bool) -> dict[str, Any]:
    return {
        "proof": {
            "text": str(proof),
            "requirement": repr(proof.requirement),
            "asked": repr(proof.asked),
            "risk": proof.risk,
            "bound": proof.bound,
            "violation": proof.violation,
        },
        "promise": None if promise is None else {"holds": promise.holds, "text": str(promise)},
        "constant": constant,
        "audit": found.to_dict(),
    }

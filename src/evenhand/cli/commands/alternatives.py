"""``evenhand alternatives``: a search for less discriminatory alternatives to a model."""

from __future__ import annotations

import json
from pathlib import Path

import evenhand as eh
from evenhand.cli.estimators import EstimatorName, estimator_for
from evenhand.cli.messages import in_options
from evenhand.cli.options import Bands, Names, Required, RunOptions
from evenhand.cli.output import check_paths, print_note, print_result
from evenhand.exceptions import InputError


def alternatives(
    table: Path,
    *,
    target: str,
    sensitive: Names,
    bands: Bands = (),
    prediction: str | None = None,
    score: str | None = None,
    approval_rate: float | None = None,
    reference: Names = (),
    positive: str | None = None,
    drop: Names = (),
    estimator: EstimatorName = "trees",
    margin: float = 0.005,
    confidence: float = 0.95,
    folder: Path | None = None,
    out: Path | None = None,
    run: RunOptions = RunOptions(),
) -> int:
    """Search for less discriminatory alternatives to a model, and bound what any could reach.

    Parameters
    ----------
    table
        CSV or Parquet file with rows that the model was not trained on.
    target
        Column of outcomes.
    sensitive
        Columns of sensitive features; new models do not see them.
    bands
        Bands of a sensitive feature of numbers, by where they begin: age=25,45,65 for "under 25", "25 to 44",
        "45 to 64" and "65 and over"; may be repeated.
    prediction
        Column of the model's decisions.
    score
        Column of its scores, with --approval-rate; pass one of the two.
    approval_rate
        The share that is selected; by default that of --prediction.
    reference
        The group to compare with, such as race=White,sex=Male; by default the one with the highest rate.
    positive
        The positive label; by default the one that sorts last.
    drop
        Columns that new models do not see.
    estimator
        What is trained: boosted trees or logistic regression.
    margin
        By how much a comparable model may be less accurate.
    confidence
        Confidence of the intervals.
    folder
        Folder for scores of trained models: an interrupted search goes on from there.
    out
        HTML file for the page.
    """
    from evenhand.cli.required import read_groups  # noqa: PLC0415  (start-up time)
    from evenhand.cli.table_rows import as_value, column_names  # noqa: PLC0415

    if (prediction is None) == (score is None):
        raise InputError("pass the model's decisions as --prediction, or its scores as --score.")
    check_paths([table, run.config], [out], force=run.force)
    given = read_groups(table, sensitive, bands, Required(reference=reference))
    features, rows = given.features, given.rows.collect()
    left_out = column_names(drop, rows.columns, "--drop") if drop else []
    own = prediction or score or ""
    X = rows.drop(target, *features, *{own, *left_out} - {target, *features})
    words = {"approval_rate": "--approval-rate", "sensitive_features": "--sensitive", "y": "--target"}
    with in_options(words):
        found = eh.alternatives(
            rows[own].to_numpy(),
            X,
            rows[target],
            sensitive_features=rows.select(features),
            reference=given.reference,
            margin=margin,
            approval_rate=approval_rate,
            estimator=estimator_for(estimator, X) or eh.TabularClassifier(),
            confidence=confidence,
            pos_label=None if positive is None else as_value(rows[target], positive),
            folder=folder,
            verbose=True,
        )
    print_result(json.dumps(found.to_dict(), indent=1) if run.as_json else found)
    if out is not None:
        found.to_html(out)
        print_note(f"Page: {out}")
    return 0

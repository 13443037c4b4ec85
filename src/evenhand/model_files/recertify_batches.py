"""The certificate of a model that was fitted in batches, recomputed from the table."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.base import clone

from evenhand.estimators.all_rows import learn_in_batches
from evenhand.estimators.large_table import (
    draw_sample,
    file_for_posteriors,
    read_large_table,
    score_rows,
)
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.estimators.rule_making import further_rows, make_rule_of_batches
from evenhand.exceptions import EvenhandWarning
from evenhand.inputs.batched_table import BatchedTable
from evenhand.model_files.recertify import Proof, compare, conclude, other_columns
from evenhand.optimum.rows import read_rows

__all__ = ["prove_in_batches"]


def prove_in_batches(
    model: FairPostprocessor, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> Proof:
    """Count, draw, learn and score again, recompute the certificate from the scores, and compare.

    Parameters
    ----------
    model : FairPostprocessor
        Fitted in batches; not changed.
    X : polars.LazyFrame or pyarrow.dataset.Dataset
    y, sensitive_features, sample_weight
        As passed to ``fit``.

    Returns
    -------
    Proof
    """
    table = BatchedTable.of(X)
    target = table.require(y, "the label")
    others = [target, *([] if sample_weight is None else [table.require(sample_weight, "sample weights")])]
    different = other_columns(model, [name for name in table.names if name not in others])
    if different is not None:
        words = f"not confirmed: these are not the rows of the fit: {different}."
        return Proof(False, words, model.certificate_)
    table = table.select([*model.feature_names_in_.tolist(), *others])
    again = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)  # shown by fit
        large = read_large_table(again, table, y, sensitive_features, sample_weight)
        different = model.fitted_to_.difference(large.fingerprint())
        if different is not None:
            return Proof(False, f"not confirmed: {different}.", model.certificate_)
        sample = draw_sample(again, large, model.seed_)
        with file_for_posteriors(again, large, sample, None) as file:
            learned = learn_in_batches(again, large, sample, model.seed_)
            posteriors = learned.posteriors
            score_rows(again, large, sample, posteriors, file, score=learned.score)
            oracle, _ = read_rows(file.partitions(), None)
            further = further_rows(oracle, posteriors) if learned.score is None else None
            found, problems = compare(
                model,
                sample.data.examples.take(posteriors.rows),
                posteriors,
                parts=lambda: map(file.read, range(file.n_parts)),
                randomised=lambda rule: make_rule_of_batches(rule, posteriors, further, model.seed_),
            )
    return conclude(model, found, problems, large.n_rows)

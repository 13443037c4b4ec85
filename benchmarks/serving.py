"""What a fit and an answer cost: one row at a time and in batches, against a plain model and peers.

All methods have the same learner inside and see the same rows of Adult in columns of 0 and 1, because the
peers take no tables; the plain model and ours also take the table as it is. One thread, processor time.

Run: ``python -m benchmarks.serving``; about ten minutes.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from threadpoolctl import threadpool_limits

import evenhand as eh
from benchmarks.acs import load_acs
from benchmarks.record import write

ACS = Path(os.environ.get("EVENHAND_DATA", Path(__file__).parents[2] / "shared" / "data"))
LEARN, ANSWERS, BATCHES = 8_000, 1_000, (100_000, 1_000_000)
TOLERANCE = 0.03


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def latencies(decide: Callable[[Any], Any], rows: list[Any]) -> tuple[float, float]:
    """Median and 99th percentile of the milliseconds that one row takes."""
    decide(rows[0])
    times = [1e3 * cpu(lambda row=row: decide(row))[0] for row in rows]  # type: ignore[misc]
    return float(np.median(times)), float(np.quantile(times, 0.99))


def repeated(table: Any, count: int) -> Any:
    """Rows of a table or matrix over and over, up to a count."""
    return table[np.arange(count) % len(table)]


def measured(
    name: str, fit: float, decide: Callable[[Any], Any], new: Any, answers: int = ANSWERS
) -> dict[str, float]:
    """Fit, one row, a batch."""
    rows = [new[k : k + 1] for k in range(answers)]
    middle, slow = latencies(decide, rows)
    found = {
        f"{name}: fit, s": fit,
        f"{name}: one row, median ms": middle,
        f"{name}: one row, 99th percentile ms": slow,
    }
    for size in BATCHES:
        batch = repeated(new, size)
        found[f"{name}: {size:,} rows, s"] = cpu(lambda batch=batch: decide(batch))[0]  # type: ignore[misc]
    return found


def ours(name: str, X: Any, y: Any, new: Any, **settings: Any) -> dict[str, float]:
    """A FairPostprocessor, with the size of its file and of its pickle."""
    fair = eh.FairPostprocessor(constraint=eh.DemographicParity(difference=TOLERANCE), **settings)
    seconds, _ = cpu(lambda: fair.fit(X, y))
    found = measured(name, seconds, fair.predict, new)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.eh"
        eh.save(fair, path)
        found[f"{name}: file, MB"] = path.stat().st_size / 2**20
    found[f"{name}: pickled model, MB"] = len(pickle.dumps(fair)) / 2**20
    return found


def with_table(name: str, X: Any, y: Any, new: Any, sensitive: list[str]) -> dict[str, float]:
    """The plain model and ours, on a table as it is."""
    seconds, plain = cpu(lambda: eh.TabularClassifier().fit(X.drop(sensitive), y))
    found = measured(f"{name}, plain", seconds, plain.predict, new.drop(sensitive))
    for way, aware in {"blind": False, "aware": True}.items():
        found |= ours(f"{name}, {way}", X, y, new, sensitive_features=sensitive, aware=aware)
    settings = {"sensitive_features": sensitive, "posteriors": eh.CrossFit(average=False)}
    return found | ours(f"{name}, blind with average=False", X, y, new, **settings)


def peers(
    X: np.ndarray, y: np.ndarray, codes: np.ndarray, new: np.ndarray, new_codes: np.ndarray
) -> dict[str, float]:
    """The plain model, ours and fairlearn's, in columns of 0 and 1."""
    seconds, plain = cpu(lambda: eh.TabularClassifier().fit(X, y))
    found = measured("columns of 0 and 1, plain", seconds, plain.predict, new)
    both, new_both = np.column_stack([codes, X]), np.column_stack([new_codes, new])
    for way, aware in {"blind": False, "aware": True}.items():
        found |= ours(f"columns of 0 and 1, {way}", both, y, new_both, sensitive_features=0, aware=aware)
    threshold = ThresholdOptimizer(
        estimator=eh.TabularClassifier(), constraints="demographic_parity", predict_method="predict_proba"
    )
    seconds, _ = cpu(lambda: threshold.fit(X, y, sensitive_features=codes))

    def by_threshold(rows: np.ndarray) -> Any:
        return threshold.predict(rows[:, 1:], sensitive_features=rows[:, 0], random_state=0)

    found |= measured("ThresholdOptimizer (aware)", seconds, by_threshold, new_both, answers=200)
    gradient = ExponentiatedGradient(
        eh.TabularClassifier(), DemographicParity(difference_bound=TOLERANCE), max_iter=15
    )
    seconds, _ = cpu(lambda: gradient.fit(X, y, sensitive_features=codes))

    def by_gradient(rows: np.ndarray) -> Any:
        return gradient.predict(rows, random_state=0)

    return found | measured("ExponentiatedGradient (blind)", seconds, by_gradient, new, answers=200)


def ratios(found: dict[str, float]) -> dict[str, float]:
    """Each figure of a method over that of the plain model on the same columns."""
    out = {}
    for key, value in found.items():
        method, _, figure = key.partition(": ")
        table = "columns of 0 and 1" if method.startswith(("Thresh", "Expon")) else method.rpartition(", ")[0]
        plain = found.get(f"{table}, plain: {figure}")
        if plain and not method.endswith("plain"):
            out[f"{method}: {figure.removesuffix(', s').removesuffix(' ms')} over plain"] = value / plain
    return out


Rows = tuple[Any, Any, Any, list[str]]


def adult_rows() -> Rows:
    """Rows of Adult to learn from, their labels, other rows, and the sensitive features."""
    adult = eh.datasets.load_adult()
    X, y = adult.features.hstack(adult.sensitive), np.asarray(adult.label)
    return X[:LEARN], y[:LEARN], X[LEARN:], ["sex", "race"]


def income_rows() -> Rows | None:
    """The same of ACS income, ten groups; None, with a line that says so, where the data are not there."""
    if not (ACS / "acs_income_14states_2018.parquet").exists():
        print(f"The ACS data are not there ({ACS.name}/): ten groups were not measured.")
        return None
    income = load_acs("income", folder=ACS, sensitive=("RAC1P", "SEX"))
    kept = np.isin(income.sensitive["RAC1P"].to_numpy(), [1, 2, 6, 8, 9])
    table = income.features.hstack(income.sensitive).filter(kept)
    labels, order = np.asarray(income.label)[kept], np.random.default_rng(0).permutation(int(kept.sum()))
    table, labels = table[order[: 2 * LEARN]], labels[order[: 2 * LEARN]]
    return table[:LEARN], labels[:LEARN], table[LEARN:], ["RAC1P", "SEX"]


def main() -> None:
    X, y, new, sensitive = adult_rows()
    eh.TabularClassifier(max_iter=2).fit(X[:500], y[:500])  # what is loaded once is not counted
    found = with_table("Adult, 4 groups", X, y, new, sensitive)
    adult = eh.datasets.load_adult()
    matrix, _ = adult.one_hot()
    codes = np.unique((adult.sensitive["sex"] + adult.sensitive["race"]).to_numpy(), return_inverse=True)[1]
    labels = np.unique(np.asarray(adult.label), return_inverse=True)[1]
    found |= peers(matrix[:LEARN], labels[:LEARN], codes[:LEARN], matrix[LEARN:], codes[LEARN:])
    income = income_rows()
    if income is not None:
        found |= with_table("ACS income, 10 groups", *income)
    write("serving", found | ratios(found), ["evenhand", "fairlearn", "numpy", "scikit-learn"])


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()

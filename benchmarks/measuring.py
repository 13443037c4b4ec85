"""What it costs to import the package, and to measure every notion and to audit on ten million rows.

Run: ``python -m benchmarks.measuring``
"""

from __future__ import annotations

import numpy as np
import polars as pl
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
from sklearn.metrics import zero_one_loss

import evenhand as eh
from benchmarks.record import fresh_process_seconds, peak_bytes, seconds, write
from evenhand.requirements.notions import NOTIONS


def people(n: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Labels, predictions and two sensitive features with 4 x 5 = 20 groups."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    return y, rng.integers(0, 2, n), {"a": rng.integers(0, 4, n), "b": rng.integers(0, 5, n)}


def measure_all(y: np.ndarray, predicted: np.ndarray, sensitive: object) -> None:
    """Every notion, both measures, both group modes."""
    counted = eh.cell_rates(y, predicted, sensitive)
    for kind in NOTIONS:
        for mode in ("intersectional", "independent"):
            for found in kind(difference=0.1, groups=mode).measure(counted):
                found.difference, found.ratio  # noqa: B018


def fairlearn_frame(y: np.ndarray, predicted: np.ndarray, sensitive: object) -> None:
    metrics = {
        "selection": selection_rate,
        "tpr": true_positive_rate,
        "fpr": false_positive_rate,
        "error": zero_one_loss,
    }
    MetricFrame(metrics=metrics, y_true=y, y_pred=predicted, sensitive_features=sensitive).by_group  # noqa: B018


def main() -> None:
    bare, with_numpy = fresh_process_seconds("pass"), fresh_process_seconds("import numpy")
    package = fresh_process_seconds("import numpy, evenhand")
    notions = fresh_process_seconds("import numpy, evenhand as eh; eh.DemographicParity, eh.cell_rates")

    y, predicted, sensitive = people(10_000_000)
    large = seconds(lambda: measure_all(y, predicted, sensitive))
    audited = seconds(lambda: eh.audit(y, predicted, sensitive))
    weights = np.random.default_rng(1).random(len(y))
    compared = seconds(lambda: eh.audit(y, predicted, sensitive, before=y, sample_weight=weights))
    memory = peak_bytes(lambda: measure_all(y, predicted, sensitive))
    words = pl.DataFrame(sensitive).select(pl.all().cast(pl.String) + "-level")
    strings = seconds(lambda: measure_all(y, predicted, words))
    pandas_words = words.to_pandas()
    pandas_strings = seconds(lambda: measure_all(y, predicted, pandas_words))

    y, predicted, sensitive = people(1_000_000)
    ours = seconds(lambda: measure_all(y, predicted, sensitive))
    theirs = seconds(lambda: fairlearn_frame(y, predicted, sensitive), repeats=1)

    write(
        "measuring",
        {
            "import numpy alone, s": with_numpy - bare,
            "import evenhand above numpy, s": package - with_numpy,
            "import notions and rates above numpy, s": notions - with_numpy,
            "all notions, 10^7 rows x 20 groups, integer columns, s": large,
            "peak memory, columns of 8 bytes and that length": memory / 8e7,
            "all notions, 10^7 rows x 20 groups, polars strings, s": strings,
            "all notions, 10^7 rows x 20 groups, pandas strings, s": pandas_strings,
            "audit of the same integer columns over measuring them": audited / large,
            "audit with weights and earlier predictions over measuring": compared / large,
            "all notions, 10^6 rows x 20 groups, s": ours,
            "fairlearn MetricFrame, 4 rates, same rows, s": theirs,
            "fairlearn over evenhand": theirs / ours,
        },
        ["evenhand", "numpy", "narwhals", "polars", "pandas", "fairlearn", "scikit-learn"],
    )


if __name__ == "__main__":
    main()

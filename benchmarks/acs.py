"""Three prediction tasks on the American Community Survey, read from a folder.

It holds ``acs_<task>*.parquet``, with a column ``label``, or the survey's person files ``psam_p*.csv``, as
folktables stores them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl

from evenhand.datasets.bundled import Dataset

Task = Literal["income", "publiccoverage", "employment"]
# Features of each task as Ding et al. (2021) define them, without the sensitive RAC1P and SEX.
_FEATURES = {
    "income": "AGEP COW SCHL MAR OCCP POBP RELP WKHP",
    "publiccoverage": "AGEP SCHL MAR DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM PINCP ESR ST FER",
    "employment": "AGEP SCHL MAR RELP DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM",
}
_QUESTION = {
    "income": "income above 50,000 dollars",
    "publiccoverage": "covered by public health insurance",
    "employment": "employed",
}


def load_acs(task: Task, *, folder: Path, sensitive: tuple[str, ...] = ("RAC1P", "SEX")) -> Dataset:
    """A task of Ding et al. (2021), with labels 0 and 1; missing values are kept.

    RAC1P is race (9 codes), SEX has 2 codes.
    """
    tables = sorted(folder.glob(f"acs_{task}*.parquet"))
    surveys = sorted(folder.rglob("psam_p*.csv"))
    if not tables and not surveys:
        raise FileNotFoundError(f"{str(folder)!r} holds neither acs_{task}*.parquet nor psam_p*.csv.")
    if tables:
        table = pl.read_parquet(tables[0])
    else:
        table = pl.concat([_read_survey(path, task) for path in surveys], how="diagonal_relaxed")
    return Dataset.from_polars(
        table,
        name=f"acs {task}",
        label="label",
        sensitive=list(sensitive),
        features=[name for name in _FEATURES[task].split() if name not in sensitive],
        description=(
            f"American Community Survey, {_QUESTION[task]} (Ding et al. 2021). "
            "United States Census Bureau, public domain."
        ),
        backend="polars",
    )


def _read_survey(path: Path, task: str) -> pl.DataFrame:
    """The rows and columns of a task in a person file of the survey, with its label."""
    col = pl.col
    rows = {
        "income": (col("AGEP") > 16) & (col("PINCP") > 100) & (col("WKHP") > 0) & (col("PWGTP") >= 1),
        "publiccoverage": (col("AGEP") < 65) & (col("PINCP") <= 30_000),
        "employment": pl.lit(value=True),
    }
    label = {
        "income": col("PINCP") > 50_000,
        "publiccoverage": col("PUBCOV") == 1,
        "employment": col("ESR") == 1,
    }
    keep = [*_FEATURES[task].split(), "RAC1P", "SEX", "HISP", "DIS"]
    survey = pl.scan_csv(path, infer_schema_length=None).filter(rows[task])
    return survey.select(
        *dict.fromkeys(keep), label[task].fill_null(value=False).cast(pl.Int8).alias("label")
    ).collect()

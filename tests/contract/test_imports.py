"""The public names are there, and loading them costs little."""

import subprocess
import sys

import pytest

import evenhand as eh


def modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running `code`."""
    script = f"import sys; {code}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    loaded = modules_after("import evenhand")
    assert not loaded & {"numpy", "scipy", "sklearn", "pandas", "polars", "pyarrow", "narwhals", "altair"}


def test_notions_need_neither_scikit_learn_nor_a_table_library():
    loaded = modules_after("import evenhand as eh; eh.DemographicParity(difference=0.1); eh.cell_rates")
    assert not loaded & {"scipy", "sklearn", "pandas", "polars", "pyarrow", "altair"}


@pytest.mark.parametrize("name", eh.__all__)
def test_every_public_name_is_there(name):
    assert getattr(eh, name) is not None
    assert name in dir(eh)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'DemographicParty'"):
        eh.DemographicParty  # noqa: B018

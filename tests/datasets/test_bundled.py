import sys

import narwhals.stable.v2 as nw
import numpy as np
import pytest

from evenhand.datasets import load_adult, load_compas
from evenhand.exceptions import InputError, MissingExtraError
from evenhand.groups.groups import Groups

# Shape and number of groups of each data set, from the paper's table of data sets.
PAPER = [
    (load_adult, "single", {"sensitive": True}, (48842, 108), 2),
    (load_compas, "single", {}, (5278, 7), 2),
    (load_adult, "multiple", {"sensitive": True, "drop_first": True}, (15507, 94), 4),
    (load_compas, "multiple", {}, (5278, 7), 4),
]


@pytest.mark.parametrize(("load", "variant", "encoding", "shape", "n_groups"), PAPER)
def test_rows_columns_and_groups_are_those_of_the_paper(load, variant, encoding, shape, n_groups):
    data = load(variant)
    matrix, names = data.one_hot(**encoding)
    assert matrix.shape == shape
    assert len(set(names)) == shape[1]
    assert np.isfinite(matrix).all()
    assert len(Groups.fit(data.sensitive)[0]) == n_groups


@pytest.mark.parametrize("load", [load_adult, load_compas])
@pytest.mark.parametrize("backend", ["polars", "pandas", "pyarrow"])
def test_every_table_library_gets_the_same_data(load, backend):
    data, reference = load(backend=backend), load()
    assert nw.from_native(data.features, eager_only=True).implementation.value == backend
    assert np.array_equal(data.one_hot(sensitive=True)[0], reference.one_hot(sensitive=True)[0])
    labels = nw.from_native(data.label, series_only=True).to_list()
    assert labels == reference.label.to_list()


@pytest.mark.parametrize("load", [load_adult, load_compas])
@pytest.mark.parametrize("variant", ["single", "multiple", "all"])
def test_sensitive_columns_and_label_are_not_features(load, variant):
    data = load(variant)
    assert not set(data.sensitive.columns) & set(data.features.columns)
    assert data.label.name not in data.features.columns
    assert len(data) == len(data.features) == len(data.sensitive)


def test_shares_of_positives_are_those_of_the_source():
    assert (load_adult("all").label == ">50K").mean() == pytest.approx(0.2393, abs=1e-4)
    assert (load_compas("all").label == 1).mean() == pytest.approx(3251 / 7214)


def test_the_description_states_source_or_licence():
    assert "CC BY 4.0" in load_adult().description
    assert "ProPublica" in load_compas().description


@pytest.mark.parametrize("load", [load_adult, load_compas])
def test_an_unknown_variant_or_backend_is_refused(load):
    with pytest.raises(InputError, match="variant must be"):
        load("double")
    with pytest.raises(InputError, match="backend must be"):
        load(backend="numpy")


def test_without_polars_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'evenhand\[datasets\]'"):
        load_adult()


def test_a_table_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="needs the package pandas"):
        load_compas(backend="pandas")

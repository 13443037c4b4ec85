import sys

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest

from evenhand.datasets import load_acs, load_adult, load_compas
from evenhand.exceptions import InputError, MissingExtraError
from evenhand.groups import Groups

# Rows, columns and number of groups of each data set, as in the paper's table of data sets.
PAPER = [
    (load_adult, "single", {"sensitive": True}, (48842, 108), 2),
    (load_compas, "single", {}, (5278, 7), 2),
    (load_adult, "multiple", {"sensitive": True, "drop_first": True}, (15507, 94), 4),
    (load_compas, "multiple", {}, (5278, 7), 4),
]


@pytest.mark.parametrize(("load", "variant", "encoding", "shape", "n_groups"), PAPER)
def test_rows_columns_and_groups_are_the_papers(load, variant, encoding, shape, n_groups):
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
    assert data.weight is None
    assert len(data) == len(data.features) == len(data.sensitive)


def test_shares_of_positives_are_those_of_the_sources():
    assert (load_adult("all").label == ">50K").mean() == pytest.approx(0.2393, abs=1e-4)
    assert (load_compas("all").label == 1).mean() == pytest.approx(3251 / 7214)


def test_the_description_gives_source_and_licence():
    assert "CC BY 4.0" in load_adult().description
    assert "ProPublica" in load_compas().description


@pytest.mark.parametrize("load", [load_adult, load_compas])
def test_an_unknown_variant_or_backend_is_refused(load):
    with pytest.raises(InputError, match="variant should be"):
        load("double")
    with pytest.raises(InputError, match="backend should be"):
        load(backend="numpy")


def test_without_polars_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'evenhand\[datasets\]'"):
        load_adult()


ACS_ROWS = {"income": 90_636, "publiccoverage": 59_317, "employment": 173_916}


@pytest.mark.parametrize("task", ACS_ROWS)
def test_acs_tasks_are_read_from_a_folder(acs_folder, task, monkeypatch):
    monkeypatch.setenv("EVENHAND_DATA", str(acs_folder))
    data = load_acs(task)
    assert len(data) == ACS_ROWS[task]
    assert len(Groups.fit(data.sensitive)[0].levels("RAC1P")) == 9
    assert not {"PINCP" if task == "income" else "label", "PUBCOV", "HISP", "PWGTP", "STATE"} & set(
        data.features.columns
    )
    assert data.weight.min() >= 1
    assert data.label.n_unique() == 2


def test_acs_tasks_are_made_from_the_surveys_own_files(tmp_path):
    """Columns of one person file, in the layout that folktables downloads to."""
    rng = np.random.default_rng(0)
    names = (
        "AGEP COW SCHL MAR OCCP POBP RELP WKHP SEX RAC1P PINCP HISP ST PWGTP DIS ESP CIT MIG MIL ANC "
        "NATIVITY DEAR DEYE DREM ESR FER PUBCOV"
    )
    survey = pl.DataFrame({name: rng.integers(1, 10, 50) for name in names.split()}).with_columns(
        AGEP=pl.Series(rng.integers(0, 90, 50)), PINCP=pl.Series(rng.choice([50, 20_000, 60_000], 50))
    )
    folder = tmp_path / "2018" / "1-Year"
    folder.mkdir(parents=True)
    survey.write_csv(folder / "psam_p10.csv")

    income = load_acs("income", folder=tmp_path)
    kept = survey.filter((pl.col("AGEP") > 16) & (pl.col("PINCP") > 100))
    assert income.label.to_list() == (kept["PINCP"] > 50_000).cast(int).to_list()
    coverage = load_acs("publiccoverage", folder=tmp_path)
    assert len(coverage) == len(survey.filter((pl.col("AGEP") < 65) & (pl.col("PINCP") <= 30_000)))
    employment = load_acs("employment", folder=tmp_path, sensitive=("RAC1P", "SEX", "DIS"))
    assert employment.label.sum() == (survey["ESR"] == 1).sum()
    assert "DIS" not in employment.features.columns


def test_acs_errors_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    with pytest.raises(InputError, match="pass folder=, or set EVENHAND_DATA"):
        load_acs("income")
    with pytest.raises(InputError, match=r"neither acs_income\*.parquet nor psam_p\*.csv"):
        load_acs("income", folder=tmp_path)
    with pytest.raises(InputError, match="task should be one of"):
        load_acs("travel", folder=tmp_path)
    pl.DataFrame({"SEX": [1], "label": [1]}).write_parquet(tmp_path / "acs_income.parquet")
    with pytest.raises(InputError, match="no column 'RAC1P' in the ACS data; there are SEX, label"):
        load_acs("income", folder=tmp_path)


def test_acs_files_that_do_not_fit_are_refused(tmp_path):
    columns = "AGEP COW SCHL MAR OCCP POBP RELP WKHP SEX RAC1P PWGTP label"
    table = pl.DataFrame({name: [1, 2] for name in columns.split()})
    table.write_parquet(tmp_path / "acs_income_a.parquet")
    for sensitive in ((), ("label",)):
        with pytest.raises(InputError, match="one column or more, not the label"):
            load_acs("income", folder=tmp_path, sensitive=sensitive)
    table.write_parquet(tmp_path / "acs_income_b.parquet")
    with pytest.raises(InputError, match="holds several surveys"):
        load_acs("income", folder=tmp_path)
    (tmp_path / "acs_employment.parquet").write_text("no parquet")
    with pytest.raises(InputError, match="cannot be read"):
        load_acs("employment", folder=tmp_path)


def test_a_table_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="needs the package pandas"):
        load_compas(backend="pandas")

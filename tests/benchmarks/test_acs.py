"""The tasks on the American Community Survey are those of folktables."""

import numpy as np
import polars as pl
import pytest
from benchmarks.acs import load_acs

from evenhand.groups.groups import Groups

ACS_ROWS = {"income": 90_636, "publiccoverage": 59_317, "employment": 173_916}


@pytest.mark.parametrize("task", ACS_ROWS)
def test_acs_tasks_are_read_from_a_folder(acs_folder, task):
    data = load_acs(task, folder=acs_folder)
    assert len(data) == ACS_ROWS[task]
    assert len(Groups.fit(data.sensitive)[0].levels("RAC1P")) == 9
    assert not {"PINCP" if task == "income" else "label", "PUBCOV", "HISP", "PWGTP", "STATE"} & set(
        data.features.columns
    )
    assert data.label.n_unique() == 2


def test_acs_tasks_are_read_from_survey_files(tmp_path):
    """A person file in the folder layout of folktables."""
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


def test_a_folder_without_data_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"neither acs_income\*.parquet nor psam_p\*.csv"):
        load_acs("income", folder=tmp_path)

"""``evenhand predict``."""

import polars as pl
import pytest
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import UNDECIDED


@pytest.mark.parametrize("method", ["post", "in"])
@pytest.mark.parametrize("aware", [[], ["--aware"]], ids=["blind", "aware"])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_fit_verify_and_predict_from_files(loans, capsys, tmp_path, method, aware):
    model, out = tmp_path / "m.eh", tmp_path / "d.csv"
    call = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.4"]
    code, text, _ = run(capsys, *call, "--method", method, *aware, "--out", model)
    assert code in (0, UNDECIDED)
    assert "that satisfies DemographicParity(difference=0.4)" in text
    assert "has a risk (half the error) below" in text
    assert ("this one has" in text) == (method == "post")
    code, text, _ = run(capsys, "verify", model)
    assert code == 0
    assert "complete and unaltered" in text
    predict = ["predict", model, loans / "new.csv", "--out", out]
    code, text, _ = run(capsys, *predict, "--rows", "120")
    assert (code, text) == (0, f"500 rows decided: {out}\n")
    decided = pl.read_csv(out)
    assert decided["id"].to_list() == list(range(1000, 1500))
    assert set(decided["decision"]) <= {"yes", "no"}
    assert decided["job"].drop_nulls().str.starts_with("'=").any()
    new, loaded = pl.read_csv(loans / "new.csv"), eh.load(model)
    features = new.select([name for name in loaded.feature_names_in_ if name in new.columns])
    assert (decided["decision"].to_numpy() == loaded.predict(features)).all()
    assert "use --force" in refused(capsys, *predict)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_without_rows_gets_no_decisions(loans, fitted, capsys, tmp_path, suffix):
    out = tmp_path / f"d.{suffix}"
    getattr(pl.read_csv(loans / "new.csv").head(0), f"write_{suffix}")(tmp_path / f"new.{suffix}")
    code, text, _ = run(capsys, "predict", fitted, tmp_path / f"new.{suffix}", "--out", out)
    assert (code, text) == (0, f"0 rows decided: {out}\n")
    decided = getattr(pl, f"read_{suffix}")(out)
    assert decided.columns == ["id", "sex", "income", "job", "decision", "probability"]
    assert decided.height == 0
    if suffix == "parquet":
        assert decided.schema["decision"] == pl.String
        assert decided.schema["income"] == pl.Float64


def test_probabilities_are_of_the_positive_label_even_if_it_sorts_first(loans, capsys, tmp_path):
    table, model, out = pl.read_csv(loans / "train.csv"), tmp_path / "m.eh", tmp_path / "d.csv"
    call = ["fit", loans / "train.csv", "--target", "paid", "--sensitive", "sex", "--difference", "0.4"]
    run(capsys, *call, "--positive", "no", "--aware", "--estimator", "logistic", "--out", model)
    table.drop("paid").write_csv(tmp_path / "same.csv")
    run(capsys, "predict", model, tmp_path / "same.csv", "--out", out)
    decided, loaded = pl.read_csv(out), eh.load(model)
    assert (loaded.classes_.tolist(), loaded.pos_label_) == (["no", "yes"], "no")
    sure = decided.filter(pl.col("probability").is_in([0.0, 1.0]))
    assert ((sure["probability"] == 1) == (sure["decision"] == "no")).all()
    assert (decided["decision"] == table["paid"]).mean() > 0.6
    code, text, _ = run(capsys, "verify", model, "--data", loans / "train.csv")
    assert (code, "proven on" in text) == (0, True)

"""``evenhand predict``."""

import numpy as np
import polars as pl
import pytest
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.exit_codes import UNDECIDED
from evenhand.cli.main import main


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
    assert ("that trained this classifier" in text) == (method == "in")
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
    assert decided.columns == [
        "id",
        "sex",
        "income",
        "job",
        "decision",
        "label_probability",
        "decision_probability",
    ]
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
    assert decided["decision_probability"].is_null().mean() > 0.9
    risk = loaded.predict_label_proba(table.select(loaded.feature_names_in_))
    np.testing.assert_allclose(decided["label_probability"], risk)
    unpaid = table["paid"].to_numpy() == "no"
    assert risk[unpaid].mean() > risk[~unpaid].mean() + 0.1
    assert (decided["decision"] == table["paid"]).mean() > 0.6
    code, text, _ = run(capsys, "verify", model, "--data", loans / "train.csv")
    assert (code, "proven on" in text) == (0, True)


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """Rows whose groups, codes and identifiers are written with and without leading zeros."""
    place = tmp_path_factory.mktemp("codes")
    rng = np.random.default_rng(0)
    n = 600
    group, x = rng.choice(["01", "1", "2"], n), rng.normal(size=n)
    paid = rng.random(n) < 1 / (1 + np.exp(-2 * x - (group == "1")))
    table = pl.DataFrame(
        {
            "who": [f"{k:05d}" for k in range(n)],
            "g": group,
            "zip": rng.choice(["00501", "501", "7"], n),
            "x": [f"{value:+.2f}" for value in x],
            "note": rng.choice(["a, b", ' "q"', "12345678901234567890123"], n),
            "paid": paid.astype(int),
        }
    )
    table.write_csv(place / "train.csv")
    table.filter(pl.col("g") != "01").head(50).drop("paid").write_csv(place / "new.csv")
    call = [
        "fit",
        place / "train.csv",
        "--target",
        "paid",
        "--sensitive",
        "g",
        "--difference",
        "0.1",
        "--aware",
    ]
    with pytest.raises(SystemExit):
        main([*map(str, call), "--drop", "who", "--estimator", "logistic", "--out", str(place / "m.eh")])
    return place


def test_groups_that_are_written_differently_stay_apart(codes, capsys, tmp_path):
    """Also where a file has only the codes without a zero."""
    loaded = eh.load(codes / "m.eh")
    assert loaded.groups_.levels("g") == ("01", "1", "2")
    _, text, _ = run(capsys, "audit", codes / "train.csv", "--prediction", "paid", "--sensitive", "g")
    assert "in 3 groups by g" in text
    out = tmp_path / "d.csv"
    assert run(capsys, "predict", codes / "m.eh", codes / "new.csv", "--out", out)[0] == 0
    code, text, _ = run(capsys, "verify", codes / "m.eh", "--data", codes / "train.csv")
    assert (code, "proven on" in text) == (0, True)


def test_a_code_that_the_fit_did_not_have_is_no_other_group(codes, loans, capsys, tmp_path):
    table = pl.read_csv(codes / "train.csv", infer_schema=False)
    table.filter(pl.col("g") != "01").write_csv(tmp_path / "train.csv")
    call = ["fit", tmp_path / "train.csv", "--target", "paid", "--sensitive", "g", "--difference", "0.1"]
    run(capsys, *call, "--aware", "--drop", "who", "--estimator", "logistic", "--out", tmp_path / "m.eh")
    assert eh.load(tmp_path / "m.eh").groups_.levels("g") == (1, 2)
    err = refused(capsys, "predict", tmp_path / "m.eh", codes / "train.csv", "--out", tmp_path / "d.csv")
    assert "g=01" in err


def test_columns_are_copied_as_they_are_written(codes, capsys, tmp_path):
    out = tmp_path / "d.csv"
    code, _, _ = run(capsys, "predict", codes / "m.eh", codes / "new.csv", "--out", out, "--rows", "7")
    assert code == 0
    before, after = ((path).read_text().splitlines() for path in (codes / "new.csv", out))
    assert len(before) == len(after) == 51
    assert after[0] == before[0] + ",decision,label_probability,decision_probability"
    assert all(new.startswith(f"{old},") for old, new in zip(before, after, strict=True))


def test_in_processing_knows_no_probability_of_the_label(codes, capsys, tmp_path):
    call = ["fit", codes / "train.csv", "--target", "paid", "--sensitive", "g", "--difference", "0.5"]
    call += ["--method", "in", "--drop", "who", "--estimator", "logistic", "--out", tmp_path / "m.eh"]
    run(capsys, *call)
    assert run(capsys, "predict", tmp_path / "m.eh", codes / "new.csv", "--out", tmp_path / "d.csv")[0] == 0
    decided = pl.read_csv(tmp_path / "d.csv")
    assert decided["label_probability"].is_null().all()
    assert decided["decision_probability"].is_null().all()
    assert set(decided["decision"]) == {0, 1}


@pytest.mark.parametrize("command", ["audit", "fit", "frontier", "predict", "verify"])
def test_every_command_refuses_a_row_with_too_many_fields(codes, capsys, tmp_path, command):
    """Also where the values that are used come before the one with a decimal comma."""
    lines = (codes / "train.csv").read_text().splitlines()
    lines[400] = lines[400].replace(".", ",", 1)
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(lines) + "\n")
    learn = [bad, "--target", "paid", "--sensitive", "g"]
    call = {
        "audit": [bad, "--prediction", "who", "--sensitive", "g"],
        "fit": [*learn, "--difference", "0.1", "--out", tmp_path / "m.eh"],
        "frontier": learn,
        "predict": [codes / "m.eh", bad, "--out", tmp_path / "d.csv"],
        "verify": [codes / "m.eh", "--data", bad],
    }[command]
    err = refused(capsys, command, *call)
    assert err.startswith("evenhand: line 401 of bad.csv has more fields than there are columns (6)")
    if command in ("fit", "frontier"):
        call[0], more = codes / "train.csv", ["--test", bad]
        assert "line 401 of bad.csv" in refused(capsys, command, *call, *more)

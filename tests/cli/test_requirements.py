"""Bounds, references and parity between groups as options."""

import json

import polars as pl
import pytest
from tests.cli.helpers import refused, run

import evenhand as eh
from evenhand.cli.options import Required
from evenhand.cli.required import requirement
from evenhand.exceptions import InputError

FIT = ["--target", "paid", "--sensitive", "sex", "--estimator", "logistic", "--drop", "id"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"capacity": 0.2}, eh.RateBound("selection rate", at_most=0.2)),
        ({"floor": ("true-positive rate=0.6",)}, eh.RateBound("true-positive rate", at_least=0.6)),
        (
            {"floor": ("precision=0.5", "selection rate = 0.1"), "ceiling": ("false-positive rate=0.1",)},
            eh.RateBound("precision", at_least=0.5)
            & eh.RateBound("selection rate", at_least=0.1)
            & eh.RateBound("false-positive rate", at_most=0.1),
        ),
        (
            {"floor": ("accuracy=0.8 in every group",)},
            eh.RateBound("accuracy", at_least=0.8, groups="intersectional"),
        ),
        ({"no_worse": ("selection rate",)}, eh.NoWorse("selection rate")),
    ],
    ids=str,
)
def test_options_are_a_requirement(options, expected):
    assert requirement(Required(**options)) == expected


def test_notions_and_bounds_are_joined():
    bounds = {"capacity": 0.2, "floor": ("precision=0.5 in every group",), "no_worse": ("error rate",)}
    found = requirement(Required(groups="independent", against="groups", ratio=0.8, **bounds))
    assert found == (
        eh.DemographicParity(ratio=0.8, groups="independent", against="groups")
        & eh.RateBound("selection rate", at_most=0.2)
        & eh.RateBound("precision", at_least=0.5, groups="independent")
        & eh.NoWorse("error rate", groups="independent")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 20.0}, "--capacity must be a share from 0 to 1, got 20"),
        ({"floor": ("precision",)}, "--floor must be a rate and a number from 0 to 1, such as"),
        ({"floor": ("precision=high",)}, "--floor must be a rate and a number"),
        ({"floor": ("precision=0.5 in any group",)}, "--floor must be a rate and a number"),
        ({"ceiling": ("precision=2",)}, "--ceiling must be a rate and a number from 0 to 1"),
        (
            {"floor": ("precison=0.5",)},
            "--floor: unknown rate 'precison'. Did you mean 'precision'?",
        ),
        ({"no_worse": ("precision",)}, "--no-worse: unknown rate 'precision'"),
    ],
    ids=str,
)
def test_what_is_no_bound_is_refused(options, message):
    with pytest.raises(InputError) as caught:
        requirement(Required(**options))
    assert message in str(caught.value)


def test_parity_between_groups_needs_a_tolerance():
    with pytest.raises(InputError, match="--against groups needs a tolerance: pass --difference or --ratio"):
        requirement(Required(against="groups"))


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_a_model_is_fitted_for_bounds(loans, capsys, tmp_path):
    call = ["fit", loans / "train.csv", *FIT, "--difference", "0.2", "--against", "groups"]
    bounds = ["--capacity", "0.4", "--floor", "precision=0.5", "--floor", "accuracy=0.3 in every group"]
    _, out, _ = run(capsys, *call, *bounds, "--json", "--out", tmp_path / "m.eh")
    asked = eh.load(tmp_path / "m.eh").constraint
    assert asked == (
        eh.DemographicParity(difference=0.2, against="groups")
        & eh.RateBound("selection rate", at_most=0.4)
        & eh.RateBound("precision", at_least=0.5)
        & eh.RateBound("accuracy", at_least=0.3, groups="intersectional")
    )
    assert json.loads(out)["proof"]["asked"] == repr(asked)


def test_a_conflict_says_what_would_work(loans, capsys, tmp_path):
    call = ["fit", loans / "train.csv", *FIT, "--capacity", "0.05", "--out", tmp_path / "m.eh"]
    said = refused(capsys, *call, "--floor", "true-positive rate=0.6")
    assert "these cannot hold together: selection rate: everybody; true-positive rate: everybody" in said
    assert "at_most=0." in said


def test_nothing_to_require_is_refused(loans, capsys, tmp_path):
    said = refused(capsys, "fit", loans / "train.csv", *FIT, "--out", tmp_path / "m.eh")
    assert "no tolerance: pass --difference or --ratio, or a bound such as --capacity 0.2" in said


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
@pytest.mark.parametrize("where", ["call", "file", "batches"])
def test_the_minimax_can_be_the_objective(loans, capsys, tmp_path, where):
    options = ["fit", loans / "train.csv", *FIT, "--difference", "1", "--json", "--out", tmp_path / "m.eh"]
    if where == "file":
        path = tmp_path / "run.toml"
        path.write_text('[fit]\nobjective = "minimax"\n')
        options += ["--config", path]
    else:
        options += ["--objective", "minimax", *(["--max-samples", "500"] if where == "batches" else [])]
    _, out, _ = run(capsys, *options)
    proof = json.loads(out)["proof"]
    assert proof["minimised"] == "largest risk of a group"
    assert "brings the largest risk of a group (half the error) below" in proof["text"]
    assert eh.load(tmp_path / "m.eh").objective == "minimax"


def test_what_does_not_go_with_the_minimax_is_refused(loans, capsys, tmp_path):
    call = ["fit", loans / "train.csv", *FIT, "--out", tmp_path / "m.eh", "--objective", "minimax"]
    assert "--difference 1 requires nothing more." in refused(capsys, *call)
    said = refused(capsys, *call, "--difference", "0.1", "--method", "in")
    assert "--objective and --margin need --method post." in said
    wrong = [*call[:-1], "minmax", "--difference", "0.1"]
    assert "minimax" in refused(capsys, *wrong)


def test_bounds_come_from_a_file(loans, capsys, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        f'[frontier]\ntable = "{loans / "train.csv"}"\ntarget = "paid"\nsensitive = ["sex"]\n'
        'estimator = "logistic"\ncapacity = 0.3\nfloor = ["precision=0.4"]\nover = "capacity"\n'
        "tolerances = 3\nratio = 0.5\n"
    )
    code, out, _ = run(capsys, "frontier", "--config", path)
    assert code == 0
    assert out.startswith(
        "DemographicParity(ratio=0.5) & RateBound('selection rate', at_most=0.3) & "
        "RateBound('precision', at_least=0.4)"
    )
    assert "What varies is the bound: selection rate, at most." in out


def test_bounds_hold_at_every_tolerance_of_a_frontier(loans, capsys):
    call = ["frontier", loans / "train.csv", *FIT, "--tolerances", "2", "--json", "--capacity", "0.3"]
    code, out, _ = run(capsys, *call)
    assert code == 0
    asked = "DemographicParity(difference=0.1) & RateBound('selection rate', at_most=0.3)"
    assert json.loads(out)["constraint"] == asked


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_no_group_is_worse_off_along_a_frontier(loans, capsys):
    call = [
        "frontier",
        loans / "train.csv",
        *FIT,
        "--tolerances",
        "2",
        "--json",
        "--no-worse",
        "selection rate",
    ]
    code, out, _ = run(capsys, *call)
    assert code == 0
    found = json.loads(out)
    assert found["constraint"] == "DemographicParity(difference=0.1) & NoWorse('selection rate')"
    assert len(found["points"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--difference", "0.1"], "the tolerance varies here, so --difference and --ratio have no value"),
        (["--over", "capacity"], "--over capacity needs that bound: pass --capacity, --floor or --ceiling"),
        (["--over", "capacity", "--capacity", "0.2", "--by-ratio"], "--by-ratio is about tolerances"),
        (["--over", "capacity", "--capacity", "0.2", "--out", "f.html"], "leave out --out, or --over"),
        (["--over", "precision", "--capacity", "0.2"], "over can be 'capacity' or 'selection rate'"),
    ],
    ids=str,
)
def test_a_wrong_frontier_is_one_sentence(loans, capsys, options, message):
    assert message in refused(capsys, "frontier", loans / "train.csv", *FIT, *options)


def test_an_audit_needs_earlier_decisions_for_no_worse(folder, capsys):
    call = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex"]
    said = refused(capsys, *call, "--no-worse", "selection rate")
    assert "--no-worse compares with earlier decisions: pass their column as --before" in said


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_groups_are_compared_given_a_column(loans, capsys, tmp_path):
    table = pl.read_csv(loans / "train.csv")
    banded = table.with_columns(band=pl.Series(["low", "high"] * table.height)[: table.height])
    banded.write_csv(tmp_path / "banded.csv")
    call = ["fit", tmp_path / "banded.csv", *FIT, "--difference", "0.2", "--given", "band"]
    _, out, _ = run(capsys, *call, "--out", tmp_path / "m.eh")
    assert eh.load(tmp_path / "m.eh").constraint == eh.DemographicParity(difference=0.2, given=["band"])
    assert "demographic parity, difference given band" in out
    assert "all together" in out
    audit = ["audit", tmp_path / "banded.csv", "--prediction", "paid", "--sensitive", "sex"]
    _, out, _ = run(capsys, *audit, "--given", "band")
    assert "within strata" in out
    assert "given band=" in out
    said = refused(capsys, *call[:-1], "bnd", "--out", tmp_path / "n.eh")
    assert "has no column 'bnd'. Did you mean 'band'?" in said
    said = refused(capsys, *audit, "--given", "bnd")
    assert "bnd" in said


def test_a_fit_refuses_control_features_that_nothing_uses(loans, capsys, tmp_path):
    call = ["fit", loans / "train.csv", *FIT, "--given", "job", "--capacity", "0.5"]
    said = refused(capsys, *call, "--out", tmp_path / "m.eh")
    assert "--given is about --difference and --ratio: pass one of them, or leave it out" in said


def test_a_named_reference_in_a_fit_a_frontier_and_an_audit(loans, folder, tmp_path, capsys):
    """The group that --reference names is what tolerances compare with."""
    learning = ["--target", "paid", "--sensitive", "sex", "--drop", "id", "--estimator", "logistic"]
    call = [loans / "train.csv", *learning, "--reference", "sex=M"]
    code, out, _ = run(capsys, "fit", *call, "--ratio", "0.8", "--out", tmp_path / "m.eh", "--json")
    assert code == 0
    assert json.loads(out)["proof"]["asked"] == "DemographicParity(ratio=0.8, against={'sex': 'M'})"
    assert eh.load(tmp_path / "m.eh").constraint.against == {"sex": "M"}
    code, out, _ = run(capsys, "frontier", *call, "--by-ratio", "--tolerances", "2", "--json")
    assert code == 0
    assert len(json.loads(out)["points"]) == 2
    audit = ["audit", folder / "p.csv", "--prediction", "apart", "--sensitive", "sex", "--ratio", "0.8"]
    _, out, _ = run(capsys, *audit, "--reference", "sex=F", "--json")
    assert json.loads(out)["comparisons"][0]["against"] == "named"
    unknown = ["fit", *call[:-1], "sex=X", "--ratio", "0.8", "--out", tmp_path / "n.eh"]
    assert "no row is in the reference group sex=X" in refused(capsys, *unknown)
    both = [*call, "--against", "groups", "--ratio", "0.9", "--out", tmp_path / "both.eh"]
    assert "pass --against groups or --reference, not both" in refused(capsys, "fit", *both)

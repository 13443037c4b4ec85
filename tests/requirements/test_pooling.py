"""Pooling of rare groups: no value of a single feature is lost, and pooled groups are reported."""

import json

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.exceptions import GroupError, PooledGroupsWarning, VacuousConstraintWarning
from evenhand.groups.groups import POOLED, Groups

POOLING = pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
PARITY = eh.DemographicParity(difference=0.02, groups="independent")


def people(n=6000, seed=0):
    """Race by income. Races C and D are 7 % of the rows each; all their combinations with income are rare.

    C is selected less often than the others and D more often, so pooled together they look average.
    """
    rng = np.random.default_rng(seed)
    race = rng.choice(["A", "B", "C", "D"], n, p=[0.55, 0.31, 0.07, 0.07])
    income = rng.choice(["low", "middle", "high"], n)
    income[(race == "B") & (income == "high") & (rng.random(n) < 0.8)] = "low"
    z = np.select([race == "C", race == "D"], [-1.0, 1.0], 0.0)
    X = np.column_stack([rng.normal(z), z + rng.normal(scale=0.5, size=n), rng.normal(size=n)])
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] - X[:, 2]))).astype(int)
    return X, y, {"race": race, "income": income}


def table(**rows):
    """Decisions and features, from the number of rows of each group and how many are selected."""
    features = {"race": [], "male": []}
    decided = []
    for name, (count, selected) in rows.items():
        features["race"] += [name[0]] * count
        features["male"] += [float(name[1])] * count
        decided += [1] * selected + [0] * (count - selected)
    return decided, features


@POOLING
def test_a_race_whose_combinations_are_pooled_is_still_compared():
    _, y, features = people()
    whole = eh.audit(None, y, features, constraint=PARITY)
    pooled = eh.audit(None, y, features, constraint=PARITY, min_size=250)
    assert str(whole["demographic parity"].group) == "race=C"
    assert pooled["demographic parity"] == whole["demographic parity"]
    single = [group for group in whole.groups if group.kind == "independent"]
    assert [group for group in pooled.groups if group.kind == "independent"] == single
    assert "race=(pooled), income=(pooled)" in [str(group.group) for group in pooled.groups]
    assert sum(group.kind == "intersectional" for group in pooled.groups) == 6


@POOLING
def test_the_four_fifths_rule_uses_all_rows_of_a_feature():
    """Women of races B and C and men of race C are pooled, but still count as women and men."""
    decided, features = table(
        A0=(1200, 600), A1=(1200, 600), B0=(270, 6), B1=(900, 450), C0=(270, 6), C1=(270, 180)
    )
    found = eh.audit(None, decided, features, min_size=300)
    [rule] = [part for part in found.comparisons if part.groups == "male"]
    assert rule.value == pytest.approx((612 / 1740) / (1230 / 2370))
    assert str(rule.group) == "male=0.0"
    assert rule.verdict == "violated"


@POOLING
def test_rare_values_of_a_feature_are_pooled_among_themselves():
    decided, features = table(A0=(50, 20), A1=(50, 20), B0=(4, 1), B1=(5, 1), C0=(3, 1), C1=(6, 1))
    found = eh.audit(None, decided, features, min_size=10)
    rows = {str(group.group): group.rows for group in found.groups}
    assert rows == {
        "": 118,
        "race=A": 100,
        "race=(pooled)": 18,
        "male=0.0": 57,
        "male=1.0": 61,
        "race=A, male=0.0": 50,
        "race=A, male=1.0": 50,
        "race=(pooled), male=(pooled)": 18,
    }


def test_pooled_groups_are_listed_in_every_output(tmp_path):
    decided, features = table(A0=(50, 20), A1=(50, 20), B0=(4, 1), B1=(5, 1), C0=(1, 1), C1=(6, 1))
    with pytest.warns(PooledGroupsWarning) as caught:
        found = eh.audit(None, decided, features, min_size=10)
    listed = [
        "4 combinations into race=(pooled), male=(pooled): race=B, male=0.0 (4 rows); "
        "race=B, male=1.0 (5 rows); race=C, male=0.0 (1 row); race=C, male=1.0 (6 rows).",
        "2 values into race=(pooled): race=B (9 rows); race=C (7 rows).",
    ]
    assert str(caught[0].message) == "groups of fewer than 10 rows are pooled. " + " ".join(listed)
    lines = str(found).splitlines()
    lines = lines[1 : lines.index("")]
    assert max(map(len, lines)) <= 100
    assert " ".join(line.strip() for line in lines) == " ".join(f"Pooled: {text}" for text in listed)
    first, second = json.loads(json.dumps(found.to_dict()))["pooled"]
    assert first["group"] == {"race": "(pooled)", "male": "(pooled)"}
    assert first["parts"][0] == [{"race": "B", "male": 0.0}, 4]
    assert second["parts"] == [[{"race": "B"}, 9], [{"race": "C"}, 7]]
    page = eh.write_report(tmp_path / "audit.html", found).read_text()
    assert all(text in page for text in listed)


@POOLING
def test_a_long_list_is_shortened():
    names = [f"v{k:02}" for k in range(20)]
    with pytest.warns(PooledGroupsWarning, match=r"g=v04 \(1 row\) and 15 more\.$"):
        Groups.fit({"g": [*names, *["w"] * 9]}, min_size=2)


@POOLING
def test_suppression_protects_pooled_combinations():
    """Race A has 50 men and 3 women: 53 and 50 together would reveal the 3, although they are pooled."""
    decided, features = table(A0=(3, 1), A1=(50, 20), B0=(60, 20), B1=(4, 1), C0=(70, 20), C1=(80, 30))
    found = eh.audit(None, decided, features, min_size=10, min_count=10)
    shown = {str(group.group) for group in found.groups if group.rows is not None}
    assert not {"race=A", "race=A, male=1.0"} <= shown
    assert not {"race=B", "race=B, male=0.0"} <= shown
    assert all(rows is None for pooled in found.to_dict()["pooled"] for _, rows in pooled["parts"])
    assert "(3 rows)" not in str(found)


@POOLING
def test_a_requirement_on_single_features_holds_for_a_race_whose_combinations_are_pooled():
    X, y, features = people()
    settings = {"cv": 2, "min_group_size": 250, "random_state": 0}
    fair = build(eh.FairPostprocessor, LogisticRegression(), PARITY, **settings)
    fair.fit(X, y, sensitive_features=features)
    assert "race=C" in [str(name.group) for name in fair.multipliers_]
    assert {key[0] for key in fair.groups_.pooled} == {"B", "C", "D"}
    X, y, features = people(30_000, seed=1)
    found = eh.audit(y, fair.predict_proba(X)[:, 1], features, constraint=PARITY)
    assert found["demographic parity"].value < 0.08  # 0.26 if races C and D were one group
    plain = eh.audit(y, LogisticRegression().fit(X, y).predict(X), features, constraint=PARITY)
    assert plain["demographic parity"].value > 0.2


@POOLING
def test_without_a_requirement_on_single_features_pooled_combinations_are_one_group_to_learn():
    X, y, features = people()
    fair = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.02),
        posteriors=eh.CrossFit(2),
        groups=eh.GroupPolicy(min_size=250),
    ).fit(X, y, sensitive_features=features)
    assert len(fair.groups_) == 6
    assert fair.groups_.keys[-1] == (POOLED, POOLED)
    with pytest.raises(GroupError, match="merged"):
        fair.groups_.members("independent")


@POOLING
def test_both_kinds_of_requirement_at_once():
    X, y, features = people()
    both = PARITY & eh.DemographicParity(difference=0.05)
    fair = eh.FairPostprocessor(
        LogisticRegression(), both, posteriors=eh.CrossFit(2), groups=eh.GroupPolicy(min_size=250)
    )
    fair.fit(X, y, sensitive_features=features)
    names = [str(name.group) for name in fair.multipliers_]
    assert len(names) == len(set(names)) == 7 + 6
    assert {"race=C", "race=(pooled), income=(pooled)"} <= set(names)


@POOLING
@pytest.mark.parametrize("aware", [True, ["race"]])
def test_pooled_groups_are_recognised_in_new_data(aware, tmp_path):
    X, y, features = people(2000)
    features["race"][:10] = "E"
    features["race"][10:20] = "F"
    fair = eh.FairPostprocessor(
        LogisticRegression(),
        PARITY,
        aware=aware,
        posteriors=eh.CrossFit(2),
        groups=eh.GroupPolicy(min_size=250),
    )
    fair.fit(X, y, sensitive_features=features)
    known = features if aware is True else {"race": features["race"]}
    path = tmp_path / "model.eh"
    eh.save(fair, path)
    found = eh.load(path).predict_proba(X, sensitive_features=known)
    assert np.array_equal(found, fair.predict_proba(X, sensitive_features=known))
    assert eh.load(path).groups_.pooled == fair.groups_.pooled


@POOLING
def test_new_values_are_pooled_with_the_rare_ones_of_their_feature():
    features = {"race": [*"AAAABBBBCD"], "sex": [*"FFMMFFMMFF"]}
    groups, _ = Groups.fit(features, min_size=2, unseen="pooled")
    assert groups.keys == (("A", "F"), ("A", "M"), ("B", "F"), ("B", "M"), (POOLED, "F"))
    new = {"race": [*"ZZCA"], "sex": [*"FMMX"]}
    assert groups.encode(new).tolist() == [4, -1, -1, -1]


@POOLING
def test_a_merged_group_takes_unseen_combinations_with_the_same_other_values():
    features = {"race": [*"AAAABBBBCD"], "sex": [*"FFMMFFMMFF"]}
    groups, _ = Groups.fit(features, min_size=2, unseen="pooled", single_features=False)
    assert groups.encode({"race": [*"ZZA"], "sex": [*"FMF"]}).tolist() == [4, -1, 0]


@POOLING
def test_a_single_pooled_group_causes_a_warning():
    decided, features = table(A0=(3, 1), A1=(4, 2))
    with pytest.warns(VacuousConstraintWarning, match=r"only one group, race=A, male=\(pooled\)"):
        found = eh.audit(None, decided, features, constraint=eh.DemographicParity(difference=0.1), min_size=9)
    assert found["demographic parity"].verdict == "insufficient evidence"


@POOLING
def test_a_frontier_of_merged_groups_says_that_single_features_are_not_shown():
    X, y, features = people(1500)
    fair = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.02),
        posteriors=eh.CrossFit(2),
        groups=eh.GroupPolicy(min_size=100),
    )
    curve = eh.frontier(fair, X, y, sensitive_features=features, tolerances=2)
    found = eh.auditing.audit.audit_of(curve.points[0].counted)
    assert "Single features are not shown" in str(found)
    assert {group.kind for group in found.groups} == {"everyone", "intersectional"}


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
@pytest.mark.parametrize("lazy", [False, True])
def test_a_bound_of_single_features_takes_a_smallest_group_size(lazy):
    rng = np.random.default_rng(0)
    a, b = np.array(["p", "q", "r"])[np.arange(400) % 3], np.array(["s", "t"])[np.arange(400) // 200]
    a[:8] = a[-8:] = "o"
    y = (rng.random(400) < 0.5).astype(int)
    table = pl.DataFrame({"x": rng.normal(size=400), "a": a, "b": b, "y": y})
    floor = eh.RateBound("selection rate", at_least=0.3, groups="independent")
    fair = eh.FairPostprocessor(
        LogisticRegression(),
        floor,
        sensitive_features=["a", "b"],
        posteriors=eh.CrossFit(2),
        groups=eh.GroupPolicy(min_size=20),
    )
    fair.fit(table.lazy(), "y") if lazy else fair.fit(table.drop("y"), table["y"])
    assert {str(name.group) for name in fair.multipliers_} >= {"a=p", "b=s"}
    assert fair.groups_.pooled

"""Small counts cannot be recovered from what is published."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.auditing.suppression import shareable
from evenhand.exceptions import InputError

PARITY = eh.DemographicParity(difference=0.05)


def can_be_derived(target, rows):
    """Whether a sum over cells is a linear combination of other such sums."""
    if not len(rows):
        return False
    rank = np.linalg.matrix_rank(rows.astype(float))
    return np.linalg.matrix_rank(np.vstack([rows, target]).astype(float)) == rank


def crossed(levels):
    """All rows, the values of each feature, and all combinations, as sums over the combinations."""
    cells = np.stack(np.meshgrid(*(np.arange(k) for k in levels), indexing="ij"), -1).reshape(-1, len(levels))
    rows, families = [np.ones(len(cells), bool)], []
    for place, size in enumerate(levels):
        families.append(np.arange(len(rows), len(rows) + size))
        rows += [cells[:, place] == value for value in range(size)]
    families.append(np.arange(len(rows), len(rows) + len(cells)))
    return np.vstack([*rows, np.eye(len(cells), dtype=bool)]), families


@given(st.data(), st.sampled_from([(3,), (2, 2), (2, 3), (4, 3), (2, 2, 2)]), st.integers(1, 2))
def test_small_counts_cannot_be_derived_by_adding_and_subtracting(data, levels, kinds):
    members, families = crossed(levels)
    n = members.shape[1]
    counts = data.draw(st.lists(st.integers(0, 30), min_size=n * kinds, max_size=n * kinds))
    counts = np.array(counts, float).reshape(n, kinds)
    shown = shareable(members, families, counts, 10, allowed=np.ones(len(members), bool))
    totals = members @ counts
    assert (totals[shown] >= 10).all()
    small = (totals < 10).any(axis=1)
    for group in members[small]:
        assert not can_be_derived(group, members[shown])
    single = members.sum(axis=1) == 1
    open_cells = members[shown & single].any(axis=0)
    for group in members[shown & ~single]:
        rest = group & ~open_cells
        assert not rest.any() or (rest @ counts >= 10).all()
    assert shown[0] != small[0]
    if not small.any():
        assert shown.all()


def test_no_more_is_hidden_than_necessary():
    members, families = crossed((2, 2))
    counts = np.array([[3.0], [20], [30], [40]])
    shown = shareable(members, families, counts, 10, allowed=np.ones(9, bool))
    # All single features are shown. One cell is small, and with any total each other cell would reveal it.
    assert shown.tolist() == [True] * 5 + [False] * 4


def test_groups_that_are_not_allowed_are_not_shown():
    members, families = crossed((3,))
    allowed = np.arange(7) != 2
    assert (
        shareable(members, families, np.full((3, 1), 50.0), 10, allowed=allowed).tolist() == allowed.tolist()
    )


def sample(n=1500, seed=0):
    """Labels, decisions and two features, some of whose combinations are rare."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M", "X"], n, p=[0.5, 0.49, 0.01])
    race = rng.choice(["A", "B", "C"], n, p=[0.7, 0.25, 0.05])
    y = rng.random(n) < 0.4
    return y.astype(int), (rng.random(n) < 0.3 + 0.3 * y).astype(int), {"sex": sex, "race": race}


def sums(found, quantity, mask):
    """The shown totals of a quantity, and the cells that each is a sum over."""
    members, values = [], []
    for group in found.groups:
        value = quantity(group)
        if value is not None:
            members.append(mask(group.group))
            values.append(value)
    return np.array(members), np.array(values)


@pytest.mark.parametrize("seed", range(4))
def test_small_counts_of_an_audit_stay_secret(seed):
    y, decided, features = sample(seed=seed)
    k = 10
    found = eh.audit(y, decided, features, min_count=k)
    names = sorted({(s, r) for s, r in zip(features["sex"], features["race"], strict=True)})

    def cells_of(group):
        wanted = dict(zip(group.features, group.values, strict=True))
        return [all({"sex": s, "race": r}[f] == v for f, v in wanted.items()) for s, r in names]

    counts = {
        "rows": np.ones(len(y)),
        "selected": decided,
        "true positives": decided * y,
        "false positives": decided * (1 - y),
        "misses": (1 - decided) * y,
    }

    def shown_value(group, what):
        if what == "rows":
            return group.rows
        if what == "selected":
            return group.selected
        return None if group.positives is None else 0.0

    for what, values in counts.items():
        truth = np.array([values[(features["sex"] == s) & (features["race"] == r)].sum() for s, r in names])
        members, _ = sums(found, lambda group, what=what: shown_value(group, what), cells_of)
        for place, count in enumerate(truth):
            if count < k:
                assert not can_be_derived(np.eye(len(names))[place], members), (what, names[place])


def test_suppressed_counts_are_marked_in_every_output():
    y, decided, features = sample()
    found = eh.audit(y, decided, features, min_count=10, constraint=PARITY)
    rare = next(group for group in found.groups if str(group.group) == "sex=X, race=C")
    assert (rare.rows, rare.positives, rare.selected, dict(rare.rates)) == (None, None, None, {})
    written = found.to_dict()
    assert None in {group["rows"] for group in written["groups"]}
    json.dumps(written, allow_nan=False)
    frame = found.to_frame(backend="pandas")
    hidden = frame[(frame["group"] == "sex=X, race=C") & (frame["quantity"] == "rows")]
    assert hidden["note"].tolist() == ["left out"]
    assert hidden["value"].isna().all()
    assert "sex=X, race=C" not in set(found.to_frame("distances", backend="pandas")["group"])
    lines = [line for line in str(found).splitlines() if line.startswith("sex=X, race=C")]
    assert lines[0].split()[2:] == ["left", "out", "left", "out", "left", "out", "left", "out"]
    assert "Counts below 10 are left out, as is everything that would reveal them." in str(found)


def test_a_group_that_is_hidden_to_protect_another_is_not_called_small(tmp_path):
    """Nor is the small one, from which the other would follow."""
    sex = ["F"] * 82 + ["M"] * 120 + ["X"] * 3
    found = eh.audit(None, [1, 0] * 102 + [1], {"sex": sex}, min_count=10)
    eh.write_report(tmp_path / "page.html", found)
    page = (tmp_path / "page.html").read_text("utf-8")
    frame = found.to_frame(backend="pandas")
    written = {tuple(group["group"].values()): group["rows"] for group in found.to_dict()["groups"]}
    for value in ("F", "X"):
        assert re.search(rf"\nsex={value} +left out +left out", str(found))
        assert re.search(rf"sex={value}</th><td[^>]*>left out</td>", page)
        rows = frame[(frame["sex"] == value) & (frame["quantity"] == "rows")]
        assert rows["note"].tolist() == ["left out"] * len(rows)
        assert written[value,] is None
    assert re.search(r"\nsex=M +120 ", str(found))
    for text in (str(found), page, frame.to_csv(), json.dumps(found.to_dict())):
        assert "<10" not in text.replace("&lt;", "<")


def test_shown_numbers_are_unchanged():
    y, decided, features = sample()
    plain = {group.group: group for group in eh.audit(y, decided, features).groups}
    for group in eh.audit(y, decided, features, min_count=10).groups:
        for name in ("rows", "positives", "selected"):
            assert getattr(group, name) in (None, getattr(plain[group.group], name))
        assert all(plain[group.group].rates[name] == rate for name, rate in group.rates.items())


def test_a_hidden_group_is_not_named_as_the_worst():
    sex = ["F"] * 500 + ["M"] * 500 + ["X"] * 5
    found = eh.audit(None, [1, 0] * 500 + [1] * 5, {"sex": sex}, min_count=10, constraint=PARITY)
    parity, rule = found.comparisons
    assert (parity.value, parity.group) == (0.5, None)
    assert parity.low == round(parity.low, 2)
    assert parity.high == round(parity.high, 2)
    assert rule.reference is None
    assert rule.distances == ()
    assert "(not shown)" in str(found)
    assert "sex=X" not in str(found).split("compared with everyone")[1]


def test_the_rate_of_a_hidden_named_group_does_not_follow_from_distances_to_it():
    sex = ["F"] * 500 + ["M"] * 500 + ["X"] * 5
    for measure in ({"ratio": 0.8}, {"difference": 0.1}):
        parity = eh.DemographicParity(**measure, against={"sex": "X"})
        found = eh.audit(None, [1, 0] * 500 + [1, 1, 1, 0, 0], {"sex": sex}, min_count=10, constraint=parity)
        assert found.comparisons[0].distances == ()
        assert found.comparisons[0].value == round(found.comparisons[0].value, 2)


def test_combinations_that_never_occur_look_like_small_ones():
    features = {"sex": ["F"] * 100 + ["M"] * 50, "age": ["o", "y"] * 50 + ["o"] * 50}
    found = eh.audit(None, [1, 0, 0, 1, 1] * 30, features, min_count=10)
    assert found.groups[-1].rows is None


@pytest.mark.parametrize(
    "settings",
    [
        {"before": [0, 1] * 50},
        {"constraint": PARITY & eh.RateBound("selection rate", at_most=0.5)},
        {"control_features": {"level": ["1", "2"] * 50}},
        {"constraint": eh.DemographicParity(difference=0.1, given=["sex"])},
    ],
    ids=["before", "bound", "strata", "given"],
)
def test_what_could_reveal_small_counts_is_refused(settings):
    with pytest.raises(InputError, match="min_count cannot suppress small counts of strata, of changes"):
        eh.audit(None, [1, 0] * 50, {"sex": ["F", "F", "M", "M"] * 25}, min_count=5, **settings)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_nothing_is_shown_if_all_counts_are_small(backend):
    found = eh.audit([1, 0, 1, 0], [1, 1, 0, 0], list("aabb"), min_count=10)
    assert all(group.rows is None for group in found.groups)
    assert str(found).startswith("Audit by sensitive_feature.")
    assert found.to_frame("distances", backend=backend).shape == (0, 9)


def test_large_counts_are_shown():
    y, decided, features = sample(20_000)
    del features["sex"]
    found = eh.audit(y, decided, features, min_count=10)
    assert None not in {group.positives for group in found.groups}


def test_an_audit_in_which_nothing_is_shown_has_a_page_without_a_chart():
    found = eh.audit([0, 1, 0, 1], [0, 1, 1, 0], {"sex": list("FFMM")}, min_count=50)
    assert not any(group.rates for group in found.groups)
    assert "<svg" not in found._repr_html_()

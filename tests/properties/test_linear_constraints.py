"""Linear constraints and measurements against direct counting, for any labels, groups and weights."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import evenhand as eh
from evenhand.requirements.notions import NOTIONS, Notion


@st.composite
def decisions(draw):
    """Labels, groups by two features, weights and decision probabilities of a few rows."""
    n = draw(st.integers(2, 40))
    y = draw(hnp.arrays(np.int8, n, elements=st.integers(0, 1)))
    assume(0 < y.sum() < n)
    sex = draw(hnp.arrays(np.int8, n, elements=st.integers(0, 1)))
    race = draw(hnp.arrays(np.int8, n, elements=st.integers(0, 2)))
    weight = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 3)))
    assume(weight[y == 1].sum() > 0)
    assume(weight[y == 0].sum() > 0)
    f = draw(hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 0.125, 0.5, 1.0])))
    return y, {"sex": sex, "race": race}, weight, f


tolerances = st.sampled_from([0.0, 0.01, 0.2, 0.8, 1.0])
modes = st.sampled_from(["intersectional", "independent"])
kinds = st.sampled_from(NOTIONS)


def direct(kind, y, f, weight):
    """The statistics of a set of rows, by the definition of the notion; None if undefined."""

    def mean(values, where):
        return (weight * values)[where].sum() / weight[where].sum() if weight[where].sum() else None

    everyone = np.full(len(y), True)
    tpr, fpr = mean(f, y == 1), mean(f, y == 0)
    wrong = np.where(y == 1, 1 - f, f)
    return {
        eh.DemographicParity: [mean(f, everyone)],
        eh.EqualOpportunity: [tpr],
        eh.PredictiveEquality: [fpr],
        eh.AccuracyParity: [mean(wrong, everyone)],
        eh.EqualizedOdds: [tpr, fpr],
    }[kind]


def masks(constraint: Notion, sensitive):
    """The rows of each group, in the order of the linear constraints."""
    sex, race = sensitive["sex"], sensitive["race"]
    if constraint.groups == "intersectional":
        pairs = sorted(set(zip(sex.tolist(), race.tolist(), strict=True)))
        return [(sex == s) & (race == r) for s, r in pairs]
    return [sex == s for s in np.unique(sex)] + [race == r for r in np.unique(race)]


@given(decisions(), kinds, modes, tolerances)
@pytest.mark.parametrize("measure", ["difference", "ratio"])
@pytest.mark.filterwarnings("ignore:there is only one group")
def test_constraints_and_measurements_equal_direct_counting(measure, sample, kind, mode, delta):
    y, sensitive, weight, f = sample
    constraint = kind(**{measure: delta}, groups=mode)
    counted = eh.cell_rates(y, f, sensitive, sample_weight=weight)
    linear = constraint.linear(counted.masses, counted.groups)
    overall = direct(kind, y, f, weight)
    groups = [direct(kind, y[own], f[own], weight[own]) for own in masks(constraint, sensitive)]

    expected, lo, hi = [], [], []
    for q, values in zip(overall, zip(*groups, strict=True), strict=True):
        defined = [value for value in values if value is not None]
        if measure == "difference":
            expected += [q - value for value in defined]
        else:
            expected += [delta * q - value for value in defined]
        lo += [-delta if measure == "difference" else delta - 1] * len(defined)
        hi += [delta if measure == "difference" else 0] * len(defined)
    assert linear.values(counted.rates) == pytest.approx(expected, abs=1e-12)
    assert linear.lo == pytest.approx(lo)
    assert linear.hi == pytest.approx(hi)
    assert len(linear.undefined) == sum(value is None for values in groups for value in values)

    for found, q, values in zip(constraint.measure(counted), overall, zip(*groups, strict=True), strict=True):
        assert found.overall == pytest.approx(q, abs=1e-12)
        assert found.values == pytest.approx(
            [np.nan if value is None else value for value in values], abs=1e-12, nan_ok=True
        )
        defined = [value for value in values if value is not None]
        assert found.difference == pytest.approx(max(abs(q - v) for v in defined), abs=1e-12)
        up = min((v / q for v in defined), default=1) if q > 0 else 1
        down = min(((1 - v) / (1 - q) for v in defined), default=1) if q < 1 - 1e-12 else 1
        assert found.ratio == pytest.approx(min(up, down), abs=1e-9)


@given(decisions(), kinds, modes, tolerances)
@pytest.mark.filterwarnings("ignore:there is only one group")
def test_what_is_measured_is_what_is_enforced(sample, kind, mode, delta):
    y, sensitive, weight, f = sample
    counted = eh.cell_rates(y, f, sensitive, sample_weight=weight)
    for measure in ("difference", "ratio"):
        constraint = kind(**{measure: delta}, groups=mode)
        broken = constraint.linear(counted.masses, counted.groups).violation(counted.rates) > 1e-9
        excess = max(found.excess for found in constraint.measure(counted))
        assert broken <= (excess > 1e-12)
        assert (excess > 1e-6) <= (
            constraint.linear(counted.masses, counted.groups).violation(counted.rates) > 1e-12
        )


@given(decisions(), kinds, modes)
@pytest.mark.filterwarnings("ignore:there is only one group")
def test_reversing_every_decision_changes_neither_measure(sample, kind, mode):
    y, sensitive, weight, f = sample
    forth = kind(difference=0, groups=mode).measure(eh.cell_rates(y, f, sensitive, sample_weight=weight))
    back = kind(difference=0, groups=mode).measure(eh.cell_rates(y, 1 - f, sensitive, sample_weight=weight))
    for one, other in zip(forth, back, strict=True):
        assert one.difference == pytest.approx(other.difference, abs=1e-12)
        assert one.ratio == pytest.approx(other.ratio, abs=1e-9)


@given(decisions(), kinds, modes, st.permutations([0, 1, 2]), st.booleans())
@pytest.mark.filterwarnings("ignore:there is only one group")
def test_renaming_and_reordering_groups_changes_nothing(sample, kind, mode, order, swap):
    y, sensitive, weight, f = sample
    names = np.array(["x", "y", "z"])[order]
    renamed = {"race": names[sensitive["race"]], "sex": np.where(sensitive["sex"] == swap, "m", "f")}
    before = kind(ratio=1, groups=mode).measure(eh.cell_rates(y, f, sensitive, sample_weight=weight))
    after = kind(ratio=1, groups=mode).measure(eh.cell_rates(y, f, renamed, sample_weight=weight))
    for one, other in zip(before, after, strict=True):
        assert one.overall == pytest.approx(other.overall, abs=1e-12)
        assert np.sort(one.values) == pytest.approx(np.sort(other.values), abs=1e-12, nan_ok=True)
        assert one.difference == pytest.approx(other.difference, abs=1e-12)
        assert one.ratio == pytest.approx(other.ratio, abs=1e-9)


@given(decisions())
def test_weight_two_is_the_same_as_a_row_twice(sample):
    y, sensitive, weight, f = sample
    weighted = eh.cell_rates(y, f, sensitive, sample_weight=weight)
    repeated = eh.cell_rates(
        np.repeat(y, weight),
        np.repeat(f, weight),
        {name: np.repeat(v, weight) for name, v in sensitive.items()},
    )
    seen = [weighted.groups.keys.index(key) for key in repeated.groups.keys]
    assert np.array_equal(weighted.mass[seen], repeated.mass)
    assert np.array_equal(weighted.selected[seen], repeated.selected)
    assert weighted.mass.sum() == repeated.mass.sum()

"""Groups compared with a named one: rows of the problem, measurement, fits, guarantees and audits."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups

GROUPS = Groups.product({"race": ["B", "W"], "sex": ["F", "M"]})
WHITE_MEN = {"race": "W", "sex": "M"}
NOTIONS = (eh.DemographicParity, eh.EqualOpportunity, eh.PredictiveEquality, eh.AccuracyParity)


def posteriors(n=60, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(8), size=n).reshape(n, 4, 2)
    p[:, 3] *= 3 * rng.random((n, 1))
    p[:, 0, 1] *= 0.4
    return p / p.sum(axis=(1, 2), keepdims=True)


def counted(rates, rows=20):
    """Decisions with these selection rates, without labels."""
    decided = [int(k < round(rate * rows)) for rate in rates.values() for k in range(rows)]
    return eh.cell_rates(None, decided, {"g": [name for name in rates for _ in range(rows)]})


def test_each_group_is_compared_with_the_named_one():
    rates = counted({"a": 0.5, "b": 0.2, "c": 0.6})
    [found] = eh.DemographicParity(difference=0.1, against={"g": "a"}).measure(rates)
    assert found.differences == pytest.approx([0.0, 0.3, 0.1])
    assert (found.value, str(found.worst), str(found.reference)) == (pytest.approx(0.3), "g=b", "g=a")
    [found] = eh.DemographicParity(ratio=0.8, against={"g": "a"}).measure(rates)
    assert found.ratios == pytest.approx([1.0, 0.4, 1.2])  # a rate above the reference is no violation
    assert found.excess == pytest.approx(0.4)


@pytest.mark.parametrize("kind", NOTIONS)
@pytest.mark.parametrize("measure", ["difference", "ratio"])
def test_the_optimum_is_that_of_a_linear_program(kind, measure):
    """A program on all rows, with constraints written from the definition."""
    p = posteriors()
    n, tolerance = len(p), 0.02 if measure == "difference" else 0.97
    constraint = kind(**{measure: tolerance}, against=WHITE_MEN)
    [statistic] = constraint.statistics
    mask, slope, intercept = (np.array(getattr(statistic, name)) for name in ("mask", "slope", "intercept"))
    total = (mask * p).sum(axis=2).sum(axis=0)
    coefficients = (mask * slope * p).sum(axis=2) / total  # q_g = coefficients[:, g] @ f + constant[g]
    constant = (mask * intercept * p).sum(axis=2).sum(axis=0) / total
    A, b = [], []
    for g in range(3):
        if measure == "difference":
            row = coefficients[:, 3] - coefficients[:, g]
            offset = constant[3] - constant[g]
            A += [row, -row]
            b += [tolerance - offset, tolerance + offset]
        else:
            A.append(tolerance * coefficients[:, 3] - coefficients[:, g])
            b.append(constant[g] - tolerance * constant[3])
    eta = p[:, :, 1].sum(axis=1)
    best = linprog(-(eta - 0.5) / n, A_ub=np.array(A), b_ub=b, bounds=(0, 1))
    found = eh.solve(p, constraint, groups=GROUPS)
    assert found.certificate.objective == pytest.approx(0.5 * eta.mean() + best.fun, abs=1e-7)
    assert found.certificate.gap < 1e-9


def test_single_features_have_references_of_their_own():
    constraint = eh.EqualOpportunity(ratio=0.95, groups="independent", against={"race": "W"})
    found = eh.solve(posteriors(), constraint, groups=GROUPS)
    names = [str(name.group) for name in found.linear_constraints.names]
    assert names == ["race=B"]  # sex has no reference
    [measured] = constraint.measure(found.rates)
    assert measured.ratio >= 0.95 - 1e-5


def people(n, seed):
    rng = np.random.default_rng(seed)
    race, sex = np.where(rng.random(n) < 0.3, "B", "W"), np.where(rng.random(n) < 0.5, "F", "M")
    X = rng.normal(size=(n, 3)) + 0.8 * (race == "W")[:, None]
    y = (X[:, 0] + 0.6 * (sex == "M") + rng.normal(size=n) > 0.5).astype(int)
    return X, y, {"race": race, "sex": sex}


X, Y, WHO = people(1500, 0)
NEW_X, NEW_Y, NEW_WHO = people(8000, 1)


@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
def test_a_saved_rule_keeps_the_impact_ratio_on_new_rows(aware, tmp_path):
    asked = eh.DemographicParity(ratio=0.9, against=WHITE_MEN)
    model = LogisticRegression()
    fair = eh.FairPostprocessor(model, asked, aware=aware).fit(X, Y, sensitive_features=WHO)
    plain = eh.FairPostprocessor(model, asked.relaxed(1), aware=aware).fit(X, Y, sensitive_features=WHO)
    eh.save(fair, tmp_path / "model.eh")
    again = eh.load(tmp_path / "model.eh")
    assert again.constraint == asked
    known = {"sensitive_features": NEW_WHO} if aware else {}
    before, after = (
        eh.audit(NEW_Y, one.predict(NEW_X, **known), NEW_WHO, constraint=asked) for one in (plain, again)
    )
    ratio = after["demographic parity"]
    assert str(ratio.reference) == "race=W, sex=M"
    assert before["demographic parity"].value < 0.75
    assert ratio.value > 0.8
    assert "combinations compared with a named one\ndemographic parity, ratio to race=W, sex=M" in str(after)
    proof = eh.verify(tmp_path / "model.eh", data=(X, Y), sensitive_features=WHO).proof
    assert proof.confirmed, proof.verdict
    assert again.forecast_.expected[0].asked == 0.9


def test_an_audit_has_intervals_that_hold_for_all_groups():
    asked = eh.DemographicParity(difference=0.02, against={"g": "a"})
    rows = {"a": 0.5, "b": 0.3, "c": 0.5}
    decided = [int(k < 400 * rate) for rate in rows.values() for k in range(400)]
    audit = eh.audit(None, decided, {"g": np.repeat(list(rows), 400)}, constraint=asked)
    found = audit["demographic parity"]
    assert (found.verdict, str(found.group), str(found.reference)) == ("violated", "g=b", "g=a")
    assert 0.1 < found.low < 0.2 < found.high < 0.3
    by_group = {str(one.group): (one.value, one.low, one.high) for one in found.distances}
    assert by_group["g=a"] == (0.0, 0.0, 0.0)
    assert by_group["g=b"][0] == pytest.approx(-0.2)


def test_a_guarantee_is_tested_against_the_named_group():
    asked = eh.DemographicParity(ratio=0.6, against=WHITE_MEN)
    fair = eh.FairPostprocessor(LogisticRegression(), asked, guarantee=0.9, aware=True)
    fair.fit(X, Y, sensitive_features=WHO)
    tests = {str(test.name.group): test.against for test in fair.guarantee_.tests}
    assert fair.guarantee_.ranks is None
    assert tests["race=B, sex=F"] == "race=W, sex=M"
    assert fair.guarantee_.holds
    rates = eh.cell_rates(NEW_Y, fair.predict(NEW_X, sensitive_features=NEW_WHO), NEW_WHO)
    assert asked.measure(rates)[0].value > 0.6


def test_strata_without_the_reference_have_nothing_to_compare():
    levels = GROUPS.within(Groups.product({"level": ["1", "2"]}))
    masses = np.full((8, 2), 0.1)
    masses[3] = 0.0  # no white man in level 1
    parity = eh.DemographicParity(difference=0.1, against=WHITE_MEN, given=["level"])
    linear = parity.linear(masses / masses.sum(), levels)
    assert {str(name.stratum) for name in linear.names} == {"level=2"}
    assert {str(name.stratum) for name in linear.undefined} == {"level=1"}


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ({"race": "X", "sex": "M"}, r"no row is in the reference group race=X, sex=M\. Did you mean"),
        (
            {"rce": "W", "sex": "M"},
            r"against names 'rce', which is no sensitive feature\. Did you mean 'race'",
        ),
        ({"race": "W"}, "name a value of 'sex' too"),
        ({}, "against names no group"),
        ("men", "against must be"),
    ],
)
def test_a_reference_that_is_not_there_is_an_error(against, message):
    with pytest.raises(InputError, match=message):
        eh.solve(posteriors(), eh.DemographicParity(ratio=0.9, against=against), groups=GROUPS)

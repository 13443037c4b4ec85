"""objective="minimax" where the optimum is known, and what it may not change."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.exceptions import CertificateError, InfeasibleError, InputError
from evenhand.optimum import minimax, two_stages

NOTHING = eh.DemographicParity(difference=1.0)
GROUPS = eh.Groups.product({"group": ["A", "B", "C"]})
# A and B look alike: 0.9 and 0.2 of them are positive. C is told apart by x, and 0.3 of it is positive.
BY_HAND = np.array(
    [
        [[0.05, 0.45], [0.4, 0.1], [0.0, 0.0]],
        [[0.05, 0.45], [0.4, 0.1], [0.0, 0.0]],
        [[0.0, 0.0], [0.0, 0.0], [0.7, 0.3]],
    ]
)


def worst(rows, constraint=NOTHING, **options):
    return eh.solve(rows, constraint, objective="minimax", **options)


def error_rates(found):
    mass, selected = found.rates.mass, found.rates.selected
    return (selected[:, 0] + mass[:, 1] - selected[:, 1]) / mass.sum(axis=1)


@pytest.fixture
def rows():
    return np.random.default_rng(0).dirichlet([0.5, 0.3, 0.6, 0.2, 0.2, 0.3], 500).reshape(-1, 3, 2)


def test_an_optimum_by_hand():
    """Errors of A are 0.9 - 0.8 f and of B 0.2 + 0.6 f: alike at f = 1/2. C is below, and gets its best."""
    found = worst(BY_HAND, groups=GROUPS)
    assert found.selection == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)
    assert error_rates(found) == pytest.approx([0.5, 0.5, 0.3], abs=1e-6)
    assert found.certificate.objective == pytest.approx(0.25, abs=1e-6)
    assert found.certificate.bound == pytest.approx(0.25, abs=1e-9)
    # The mixture of A and B in which f does not matter: 0.8 mu_A = 0.6 mu_B.
    assert list(found.group_weights) == list(GROUPS.names)
    assert list(found.group_weights.values()) == pytest.approx([3 / 7, 4 / 7, 0.0])
    assert found.rule.selection(BY_HAND) == pytest.approx(found.selection)


def test_a_price_by_hand():
    """Two thirds of the people are A or B, so that a capacity b makes the risk of A 0.45 - 0.6 b."""
    found = worst(BY_HAND, eh.RateBound("selection rate", at_most=0.2), groups=GROUPS)
    assert found.certificate.objective == pytest.approx(0.45 - 0.6 * 0.2)
    assert list(found.shadow_prices.values()) == pytest.approx([-0.6])
    assert list(found.group_weights.values()) == pytest.approx([1.0, 0.0, 0.0])
    tenfold = worst(BY_HAND, eh.RateBound("selection rate", at_most=0.2), groups=GROUPS, cost=(5.0, 5.0))
    assert tenfold.certificate.objective == pytest.approx(4.5 - 6 * 0.2)
    assert list(tenfold.shadow_prices.values()) == pytest.approx([-6.0])
    assert list(tenfold.group_weights.values()) == pytest.approx([1.0, 0.0, 0.0])


def test_costs_of_a_group_count_in_its_risk():
    """If errors in C cost ten times as much, C is the worst group, and A and B are decided for the risk."""
    costs = np.array([[0.5, 0.5], [0.5, 0.5], [5.0, 5.0]])
    found = worst(BY_HAND, groups=GROUPS, cost=costs)
    assert found.certificate.objective == pytest.approx(1.5)
    assert found.selection == pytest.approx([1.0, 1.0, 0.0])  # 0.55 of A and B together are positive
    assert list(found.group_weights.values()) == pytest.approx([0.0, 0.0, 1.0])


def test_perfect_decisions_have_weights_too():
    rows = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    found = worst(rows)
    assert found.certificate.objective == pytest.approx(0.0, abs=1e-6)
    assert sum(found.group_weights.values()) == pytest.approx(1.0)


def test_where_groups_are_known_and_nothing_ties_them_each_has_its_own_best_rule():
    rng = np.random.default_rng(1)
    scores = eh.GroupedScores(rng.random(400), rng.integers(0, 3, 400), 3)
    one, other = eh.solve(scores, NOTHING), worst(scores)
    assert other.selection == pytest.approx(one.selection)
    assert other.certificate.objective == pytest.approx(error_rates(one).max() / 2)


def test_the_minimax_gains_and_the_others_pay(rows):
    one, other = eh.solve(rows, NOTHING), worst(rows)
    assert error_rates(other).max() < error_rates(one).max() - 1e-3
    assert other.rates.risk() > one.rates.risk() + 1e-4


def test_a_requirement_holds(rows):
    fair = eh.DemographicParity(difference=0.01) & eh.RateBound("selection rate", at_most=0.3)
    found = worst(rows, fair)
    assert found.certificate.violation <= 1e-9
    assert all(one.excess <= 1e-8 for one in fair.measure(found.rates))
    assert found.certificate.objective > worst(rows).certificate.objective
    assert set(found.multipliers) == set(found.shadow_prices) == set(eh.solve(rows, fair).multipliers)


def test_a_group_without_mass_is_left_out():
    rows = np.concatenate([BY_HAND, np.zeros((3, 1, 2))], axis=1)
    groups = eh.Groups.product({"group": ["A", "B", "C", "nobody"]})
    found = worst(rows, eh.RateBound("selection rate", at_most=1.0), groups=groups)
    assert found.certificate.objective == pytest.approx(0.25, abs=1e-6)
    assert [str(name) for name in found.group_weights] == ["group=A", "group=B", "group=C"]


def test_the_reference_of_no_worse_is_the_rule_of_smallest_risk(rows):
    plain = eh.solve(rows, NOTHING).rates
    found = worst(rows, eh.NoWorse("selection rate")).rates
    assert (found.selected.sum(axis=1) >= plain.selected.sum(axis=1) - 1e-9).all()


def test_what_cannot_be_satisfied_is_said_as_ever(rows):
    impossible = eh.RateBound("selection rate", at_most=0.1) & eh.RateBound(
        "true-positive rate", at_least=0.9
    )
    with pytest.raises(InfeasibleError, match="true-positive rate") as error:
        worst(rows, impossible)
    assert error.value.nearest


def test_more_rows_than_a_linear_program_takes_at_once():
    rows = np.random.default_rng(2).dirichlet([0.5, 0.3, 0.6, 0.2], 30_000).reshape(-1, 2, 2)
    found = worst(rows, eh.EqualOpportunity(difference=0.02))
    assert found.certificate.gap <= 1e-6
    assert found.certificate.violation <= 1e-9
    assert found.rule.selection(rows) == pytest.approx(found.selection, abs=1e-9)


def test_the_rule_has_scores_of_the_usual_size(rows):
    """Multipliers of the second stage can be in the thousands; W is scaled, which changes no decision."""
    found = worst(rows, eh.EqualizedOdds(difference=0.02))
    of_groups = [value for name, value in found.rule_multipliers.items() if name.notion == "minimax"]
    assert min(of_groups) >= -1 - 1e-12
    assert max(of_groups) <= 1e-12
    assert sum(of_groups) >= -1 - 1e-12
    assert found.rule.selection(rows) == pytest.approx(found.selection, abs=1e-9)


def test_the_certificate_says_what_is_minimised(rows):
    found = worst(rows)
    assert repr(found.certificate).startswith("Certificate(largest risk of a group: objective=0.")
    assert "largest risk of a group" in repr(found)
    plain = eh.solve(rows, NOTHING)
    assert repr(plain.certificate).startswith("Certificate(objective=0.")
    assert plain.certificate.minimised == "risk"
    assert plain.group_weights is plain.rule_multipliers is None
    assert repr(found.group_weights).count("group=") == 3


@pytest.mark.parametrize("objective", ["worst", "minmax", None, 1, ["risk"]], ids=str)
def test_an_unknown_objective_names_the_choices(rows, objective):
    with pytest.raises(InputError, match="objective must be one of 'risk', 'minimax', got"):
        eh.solve(rows, NOTHING, objective=objective)


def test_what_cannot_be_proven_is_not_returned(rows, monkeypatch):
    monkeypatch.setattr(two_stages, "optimize", lambda *_, **__: None)
    with pytest.raises(CertificateError, match="no algorithm proved a solution"):
        worst(rows)


def test_a_second_stage_that_cannot_be_proven_is_not_returned(rows, monkeypatch):
    calls = []
    monkeypatch.setattr(minimax, "optimize", lambda *given: calls.append(given))
    with pytest.raises(CertificateError, match="no algorithm proved a solution"):
        worst(rows)
    assert len(calls) == 4  # with ever more slack


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.PooledGroupsWarning")
@pytest.mark.parametrize("mode", ["intersectional", "independent"])
def test_rare_groups_that_are_pooled_are_one_group(mode, tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    sensitive = {"sex": rng.choice(["F", "M"], n), "race": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])}
    X = rng.normal(size=(n, 2))
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.5).astype(int)
    fair = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=1.0, groups=mode),
        objective="minimax",
        posteriors=eh.CrossFit(2),
        groups=eh.GroupPolicy(min_size=60),
    ).fit(X, y, sensitive_features=sensitive)
    names = [str(name) for name in fair.group_weights_]
    assert len(names) == fair.groups_.size("intersectional") < 6
    assert sum("(pooled)" in name for name in names) == 1
    eh.save(fair, tmp_path / "pooled.eh")
    report = eh.verify(tmp_path / "pooled.eh", data=(X, y), sensitive_features=sensitive)
    assert report.proof.confirmed, report.proof.verdict

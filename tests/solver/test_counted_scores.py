import numpy as np
import pytest

from evenhand.solver.counted_scores import WHOLE, CountedScores, count_scores, merged
from evenhand.solver.grouped import GroupedRows


def counted(eta, weights, parts=1, few=20_000):
    """Scores of one group, counted in several parts."""
    asked = [(0, *WHOLE)]
    rows = [
        GroupedRows(own, np.zeros(len(own), int), 1, by)
        for own, by in zip(np.array_split(eta, parts), np.array_split(weights, parts), strict=True)
    ]
    [table] = merged([count_scores(part, asked, few) for part in rows], [1.0] * parts, asked)
    return CountedScores(table)


@pytest.fixture(params=[False, True], ids=["plain", "ties"])
def rows(request):
    rng = np.random.default_rng(1)
    eta = rng.random(2000)
    return np.round(eta, 1) if request.param else eta, rng.dirichlet(np.ones(2000))


@pytest.mark.parametrize("parts", [1, 3])
def test_the_best_threshold_selects_the_rows_with_positive_h(rows, parts):
    eta, weights = rows
    scores = counted(eta, weights, parts)
    for a, b in ((-0.5, 0.5), (0.4, -0.6), (-0.3, -0.2), (1.0, 1.0), (0.3, 0.2)):
        chosen = a * (1 - eta) + b * eta > 0
        expected = [weights[chosen] @ (1 - eta[chosen]), weights[chosen] @ eta[chosen]]
        found = scores.sums_between(scores.best_threshold(np.array([a, b])))
        assert found == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("parts", [1, 3])
def test_intervals_hold_what_the_scores_in_them_weigh(rows, parts):
    eta, weights = rows
    listed, in_intervals = counted(eta, weights, parts), counted(eta, weights, parts, few=0)
    assert listed.single.all()
    assert listed.low.tolist() == np.unique(eta).tolist()
    for low, high, weight, weight_eta in in_intervals.table.tolist():
        own = (eta >= low) & (eta < high)
        assert [weight, weight_eta] == pytest.approx([weights[own].sum(), weights[own] @ eta[own]], abs=1e-14)
    assert in_intervals.above[0] == pytest.approx(listed.above[0], abs=1e-14)


def test_many_copies_of_one_score_are_one_and_rows_without_weight_are_none():
    scores = counted(np.array([0.3] * 50 + [0.7]), np.array([0.02] * 50 + [0.0]), few=0)
    assert (scores.low.tolist(), scores.single.tolist()) == ([pytest.approx(0.3, abs=1e-3)], [False])
    scores = counted(np.full(50, 0.3), np.full(50, 0.02), few=0)
    assert (scores.low.tolist(), scores.single.tolist()) == ([0.3], [True])

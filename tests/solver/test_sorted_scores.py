import numpy as np
import pytest

from evenhand.solver.sorted_scores import SortedScores


@pytest.fixture(params=[False, True], ids=["plain", "ties"])
def rows(request):
    rng = np.random.default_rng(1)
    eta, codes = rng.random(2000), rng.integers(0, 3, 2000)
    return np.round(eta, 1) if request.param else eta, codes, rng.dirichlet(np.ones(2000))


def test_the_best_threshold_selects_the_rows_with_positive_h(rows):
    eta, codes, weights = rows
    scores = SortedScores(eta, codes, 3, weights)
    for v in (np.array([-0.5, 0.5, 0.4, -0.6, -0.3, -0.2]), np.array([1.0, 1.0, -1.0, -1.0, 0.3, 0.2])):
        for m in range(3):
            a, b = v[2 * m : 2 * m + 2]
            chosen = (codes == m) & (a * (1 - eta) + b * eta > 0)
            expected = [weights[chosen] @ (1 - eta[chosen]), weights[chosen] @ eta[chosen]]
            found = scores.sums_between(m, scores.best_threshold(m, v))
            assert found == pytest.approx(expected, abs=1e-15)


def test_a_position_moves_before_equal_scores():
    scores = SortedScores(np.array([0.5, 0.2, 0.5, 0.5, 0.9]), np.array([0, 0, 0, 1, 0]), 2, None)
    assert [scores.before_ties(0, position) for position in range(5)] == [0, 1, 1, 3, 4]
    assert scores.span(1) == (4, 5)
    assert scores.before_ties(1, 5) == 5

import numpy as np
import pytest

from evenhand.solver.certificate import certify
from evenhand.solver.dense import DenseRows
from evenhand.solver.oracle import Problem


def test_the_bound_holds_for_any_multipliers_and_any_feasible_selection():
    rng = np.random.default_rng(0)
    rows = DenseRows(rng.dirichlet(np.ones(4), 200), None)
    problem = Problem(
        np.tile([-0.4, 0.6], 2), rng.normal(size=(3, 4)), np.full(3, -0.2), np.full(3, 0.2), constant=0.3
    )
    for _ in range(200):
        selection = rng.random(200) * rng.random()
        multipliers = rng.normal(size=3)
        totals = rows.totals(problem.direction(multipliers), rows, selection)
        certificate = certify(problem, multipliers, totals)
        assert np.array_equal(totals.selection, selection)
        if certificate.violation == 0:
            assert certificate.bound <= certificate.objective + 1e-12
            assert certificate.gap == pytest.approx(certificate.objective - certificate.bound)

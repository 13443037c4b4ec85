"""The paper's coefficients a, b, c, in its own symbols, give the same linear constraints as ours.

R_m = sum_y { [factor * sum_m' a_m' b_m'^y rho_m'^y] - b_m^y rho_m^y + c_m^y }, factor 1 (MD) or delta (MR).
The constant of accuracy parity under MR is that of the appendix; the main table has the opposite sign.
"""

import numpy as np
import pytest

import evenhand as eh
from evenhand.groups.groups import Groups

M = 5


def coefficients(kind, pi, delta, measure):
    """a_m, b_m^y and c_m^y of the paper's table; pi[m, y] = P(S=m, Y=y)."""
    y = np.array([0, 1])
    P_S = pi.sum(axis=1)
    p_plus = pi[:, 1].sum()
    P_Y_given_S = pi / P_S[:, None]
    zero = np.zeros((M, 2))
    if kind is eh.DemographicParity:
        return P_S, P_Y_given_S, zero
    if kind is eh.EqualOpportunity:
        return pi[:, 1] / p_plus, np.tile(y, (M, 1)), zero
    if kind is eh.PredictiveEquality:
        return pi[:, 0] / (1 - p_plus), np.tile(1 - y, (M, 1)), zero
    factor = 1 if measure == "difference" else delta
    c = factor * (1 - y) * p_plus - y * P_Y_given_S[:, [1]]
    return P_S, (1 - 2 * y) * P_Y_given_S, c


KINDS = [eh.DemographicParity, eh.EqualOpportunity, eh.PredictiveEquality, eh.AccuracyParity]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("measure", ["difference", "ratio"])
@pytest.mark.parametrize("seed", range(5))
def test_our_constraints_are_those_of_the_paper(kind, measure, seed):
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.ones(2 * M)).reshape(M, 2)
    rho = rng.random((M, 2))
    delta = rng.random()
    a, b, c = coefficients(kind, pi, delta, measure)
    factor = 1 if measure == "difference" else delta
    R = np.array(
        [(factor * (a[:, None] * b * rho).sum(axis=0) - b[m] * rho[m] + c[m]).sum() for m in range(M)]
    )

    linear = kind(**{measure: delta}).linear(pi, Groups.product({"S": range(M)}))
    assert linear.values(rho) == pytest.approx(R, abs=1e-14)


def test_the_main_tables_sign_for_accuracy_parity_under_mr_would_be_wrong():
    """A perfect classifier has equal (zero) error rates, so it must satisfy MR at every tolerance."""
    pi = np.random.default_rng(0).dirichlet(np.ones(2 * M)).reshape(M, 2)
    perfect = np.tile([0.0, 1.0], (M, 1))
    linear = eh.AccuracyParity(ratio=0.9).linear(pi, Groups.product({"S": range(M)}))
    assert linear.violation(perfect) == pytest.approx(0, abs=1e-15)
    a, b, c = coefficients(eh.AccuracyParity, pi, 0.9, "ratio")
    with_slip = [
        (0.9 * (a[:, None] * b * perfect).sum(axis=0) - b[m] * perfect[m] - c[m]).sum() for m in range(M)
    ]
    assert max(np.abs(with_slip)) > 0.1

"""Decisions on another processor: the last bits of matrix products differ there and must not matter."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import evenhand as eh
from evenhand.optimum.rule import SAME_ATOM, Rule
from evenhand.solver.counted_scores import CountedScores, edge_between

MAKE = """
import sys, warnings, numpy as np, evenhand as eh
from sklearn.linear_model import LogisticRegression
warnings.simplefilter("ignore", eh.exceptions.ForecastWarning)
rng = np.random.default_rng(0)
# Discrete features, so that many rows share a posterior and some decisions are randomised.
X = rng.integers(0, 3, size=(3000, 4)).astype(float)
sex = np.where(rng.random(3000) < 0.3 + 0.2 * (X[:, 0] > 1), "F", "M")
y = (rng.random(3000) < 1 / (1 + np.exp(1 - X @ [0.6, 0.4, -0.5, 0.3] - 0.5 * (sex == "M")))).astype(int)
for aware in (False, True):
    odds = eh.EqualizedOdds(difference=0.02)
    fair = eh.FairPostprocessor(LogisticRegression(), odds, aware=aware, random_state=0)
    fair.fit(X, y, sensitive_features={"sex": sex})
    eh.save(fair, f"{sys.argv[1]}/{aware}.eh")
np.savez(f"{sys.argv[1]}/rows.npz", X=X, sex=sex)
"""

DECIDE = """
import sys, numpy as np, evenhand as eh
rows = np.load(f"{sys.argv[1]}/rows.npz")
X, groups = rows["X"], {"sex": rows["sex"]}
for aware in (False, True):
    fair = eh.load(f"{sys.argv[1]}/{aware}.eh")
    given = {"sensitive_features": groups} if aware else {}
    np.savez(
        f"{sys.argv[1]}/{sys.argv[2]}-{aware}.npz",
        decisions=fair.predict(X, **given),
        chances=fair.predict_proba(X, **given)[:, 1],
        H=fair.decision_function(X, **given),
    )
"""


def run_on(core, script, *arguments):
    """Run a script in a process that uses the matrix products of another processor."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": core, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    subprocess.run(command, env=environment, check=True)  # noqa: S603  (our own script)


@pytest.mark.slow
def test_a_model_file_decides_alike_on_another_processor(tmp_path):
    """Made with the kernels of one processor, used with these and with those of another."""
    run_on("Haswell", MAKE + DECIDE, str(tmp_path), "Haswell")
    run_on("Prescott", DECIDE, str(tmp_path), "Prescott")
    for aware in (False, True):
        here, there = (np.load(tmp_path / f"{core}-{aware}.npz") for core in ("Haswell", "Prescott"))
        assert ((here["chances"] > 0) & (here["chances"] < 1)).mean() > 0.01  # some are randomised
        np.testing.assert_array_equal(here["decisions"], there["decisions"])
        np.testing.assert_array_equal(here["chances"], there["chances"])
        np.testing.assert_allclose(here["H"], there["H"], rtol=0, atol=1e-11)


@pytest.mark.parametrize("shift", [0.0, 1e-12, -1e-12])
def test_an_atom_is_recognised_if_its_twelfth_digit_differs(shift):
    """An atom stands for many rows, all of which would change their decision."""
    atom = np.array([[0.25, 0.25], [0.25, 0.25]])
    rule = Rule(np.array([[-1.0, 1.0], [-2.0, 2.0]]), atoms=atom[None], chances=np.array([0.3]))
    assert rule.selection(atom[None]) == [0.3]
    rule = replace(rule, resolution=SAME_ATOM)
    moved = atom + shift * np.array([[1.0, 1.0], [-1.0, 0.0]])
    assert rule.selection(moved[None]) == [0.3]
    assert rule.selection(atom[None] + [[[1e-9, 1e-9], [0.0, 0.0]]]) == [0.0]  # another posterior


def test_no_threshold_lies_within_rounding_of_a_score():
    """Where H is 0 at a score itself, the threshold moves away from it."""
    rows = CountedScores(np.column_stack([[0.2, 0.5, 0.7]] * 2 + [np.full(3, 1 / 3)] * 2))
    for v in ([-0.5, 0.5], [-0.5 - 1e-16, 0.5], [-0.7, 0.3], [-0.2, 0.8]):
        for place, below, above in ((1, 0.2, 0.5), (2, 0.5, 0.7)):
            assert rows.gap(place) == (below, above)
            assert below + 1e-12 < edge_between(below, above, np.array(v)) < above - 1e-12


@pytest.mark.parametrize("notion", [eh.DemographicParity, eh.EqualizedOdds, eh.AccuracyParity])
def test_known_groups_are_decided_alike_if_the_last_digit_of_scores_differs(notion):
    """The rule of a solution, on its own scores with another twelfth digit."""
    rng = np.random.default_rng(1)
    eta, codes = np.round(rng.integers(0, 30, 2000) / 29 * 0.9 + 0.03, 12), rng.integers(0, 3, 2000)
    solution = eh.solve(eh.GroupedScores(eta, codes, 3), notion(difference=0.01))
    for shift in (1e-12, -1e-12):
        moved = eh.GroupedScores(eta + shift, codes, 3)
        np.testing.assert_array_equal(solution.rule.selection(moved), solution.selection)

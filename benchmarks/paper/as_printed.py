"""Both of the paper's algorithms exactly as printed, under demographic parity by mean difference.

They are those of :mod:`evenhand.paper`. As the appendix has it, half of the training rows fit all models,
xgboost with its defaults or logistic regression, without cross-fitting or calibration, and the other half
selects lambda from a grid over [-1, 1]^M: of those within the tolerance there, the most accurate. Multiples
of (P(S=1), ..., P(S=M)) added to lambda change nothing, so that a grid for two groups is a line of
classifiers. Models are fitted, and the grid is searched, once for all tolerances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xgboost import XGBClassifier

import evenhand as eh
from benchmarks.paper.asked import DIFFERENCES, Asked, judged
from benchmarks.paper.methods import Task
from benchmarks.paper.tables import Logistic
from evenhand.paper import Grid, PaperPostprocessor
from evenhand.paper.algorithms import Validation, corrections, plug_in, train
from evenhand.paper.multipliers import Bounds

__all__ = ["SETTINGS", "STAGES", "as_printed"]

STAGES = {2: ((1.0, 0.01),), 4: ((1.0, 0.1), (0.1, 0.02), (0.02, 0.01))}
"""Of the grid, by the number of groups: how far it goes on each side, and its step. The printed step is 0.01.
For four groups that would be 201^4 points; the box is searched by 0.1, which most printed multipliers are
multiples of, and then around the best of each tolerance."""
TRAINED = 40
"""Tolerances whose multipliers Algorithm 1 trains classifiers with."""
SCALES = (1.0, 0.5, 0.25)
"""Times these multipliers: posteriors of the rows that their model was fitted to are too sure."""
TOLERANCES = [*DIFFERENCES, 0.4]
COST = 0.5
SETTINGS = (STAGES, TRAINED, SCALES, TOLERANCES)
"""What the result depends on."""
DP = Asked("DP")


def as_printed(task: Task) -> Iterator[tuple[str, dict[str, Any]]]:
    """Both algorithms, and the model without a constraint, on one split."""
    # Lines 1 and 2, and what the R_m are on either half.
    train_rows, learner, groups = task.train, _learner(task), eh.Groups.fit(task.train.sensitive)[0]
    algorithm = PaperPostprocessor(learner, DP.at(0.1), aware=task.aware, cost=COST, random_state=task.seed)
    halves = algorithm.learn(train_rows.numbers, train_rows.y == 1, train_rows.codes.astype(np.intp))
    events, parity = halves.choosing.events, DP.at(0.1)
    linear = parity.linear(halves.masses, groups)
    there = parity.linear(events.mean(axis=0).reshape(-1, 2), groups)
    validation = Validation(events, there, COST)
    new = task.test.numbers_with_group if task.aware else task.test.numbers
    test = halves.model.rows(new, task.test.y == 1, task.test.codes.astype(np.intp))
    unit = corrections(test.cells, linear, halves.masses)

    # Algorithm 2, line 3.
    evaluate = algorithm.evaluate(halves, linear, validation)
    bounds = [_within(groups, tolerance) for tolerance in TOLERANCES]
    found = Grid(STAGES[len(groups)]).run(evaluate, bounds, linear.C)
    chosen = [found.multipliers[found.best(each)] for each in bounds]
    decisions = plug_in(test.eta, unit @ np.transpose(chosen), COST)
    yield "Algorithm 2", {"points": [_point(task, one) for one in decisions.T]}

    # Algorithm 1, lines 2 to 4.
    some = dict.fromkeys(found.best(_within(groups, t)) for t in np.linspace(0, 0.4, TRAINED))
    points = np.array([scale * found.multipliers[k] for k in some for scale in SCALES])
    Q = corrections(halves.fitted.cells, linear, halves.masses) @ points.T
    models = [train(learner, halves.fitted, one, COST) for one in Q.T]
    tried = validation(points, np.column_stack([model.choose(halves.choosing.X) for model in models]))
    best = [models[tried.best(each)] for each in bounds]
    told = {"points": [_point(task, model.choose(new)) for model in best], "fits": len(models)}
    yield "Algorithm 1", told
    yield "no constraint", {"points": [_point(task, test.eta > COST)]}


def _within(groups: eh.Groups, tolerance: float) -> Bounds:
    return np.full(len(groups), -tolerance), np.full(len(groups), tolerance)


def _learner(task: Task) -> Any:
    if task.table.learner == "logistic":
        return Logistic()
    return XGBClassifier(n_jobs=1)


def _point(task: Task, decisions: np.ndarray) -> tuple[float, float]:
    return DP.point(judged(task.test, decisions))

"""The trade-off between accuracy and fairness, measured on held-out rows.

Post-processing learns its posteriors once, and solves for every tolerance as `fit` would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from evenhand.data.checks import check_fraction
from evenhand.data.tables import library_of
from evenhand.display.progress import track
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.fair_training import train_fair
from evenhand.estimators.fit_rows import ScoredRows
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.learned_posteriors import LearnedPosteriors, learn_posteriors
from evenhand.estimators.margin import forecast
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.estimators.training_data import TrainingData, draw_seed, read_training_data
from evenhand.exceptions import InfeasibleError, InputError
from evenhand.groups.proxy import Proxy
from evenhand.optimum.problem import FairnessProblem
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.tradeoff.axis import Axis
from evenhand.tradeoff.frontier import Frontier, Point
from evenhand.tradeoff.held_out import HeldOutRows, Rows, split_rows

_POINTS = 25
_TRAININGS = 8
_SAME = 1e-5


def frontier(
    classifiers: FairClassifier | Mapping[str, FairClassifier],
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    test: Sequence[Any] | float = 0.3,
    tolerances: int | Sequence[float] | None = None,
    over: str | None = None,
    others: Mapping[str, Any] | None = None,
    confidence: float = 0.95,
    verbose: bool = False,
    random_state: int = 0,
) -> Frontier:
    """Curve of accuracy against fairness over all tolerances, on held-out rows.

    Parameters
    ----------
    classifiers : FairPostprocessor, FairInprocessor, or mapping of names to them
        Their requirements define the comparison; their tolerances are ignored, and bounds stay as they are.
        They are not changed: copies are fitted. Each becomes a curve of the same chart, such as blind and
        aware.
    X, y, sensitive_features
        As for ``fit``.
    test : (X, y), (X, y, sensitive_features) or float, default=0.3
        Held-out rows, or the random fraction of the rows that is held out.
    tolerances : int or sequence of float, default=None
        Which tolerances, or how many between parity and the disparity without a requirement; by default 25,
        or 8 if each needs a training. Each point is what ``fit`` finds. With `over`, values of the bound, or
        how many from the strictest that is possible to where it no longer binds.
    over : str, default=None
        Vary a bound of the requirement instead, by the name of its rate: ``over="true-positive rate"``, or
        ``over="capacity"`` for ``RateBound("selection rate", at_most=...)``. Tolerances and other bounds stay
        as they are. Prices are then those of the bound.
    others : mapping of names to classifiers or predictions, default=None
        To compare with: fitted classifiers, or predictions for the rows of `test` (labels or probabilities).
    confidence : float, default=0.95
        Of the intervals.
    verbose : bool, default=False
        Whether to show progress.
    random_state : int, default=0
        Seed of the split into training and held-out rows.

    Returns
    -------
    Frontier

    Examples
    --------
    >>> import evenhand as eh
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=3).sample(2000)
    >>> fair = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.1))
    >>> curve = eh.frontier(fair, data.X, data.y, sensitive_features=data.sensitive, tolerances=[0.0, 0.05])
    >>> [point.origin for point in curve.points]
    ['solved', 'solved']
    """
    given = dict(classifiers) if isinstance(classifiers, Mapping) else {"fair": classifiers}
    constraint = _check(given, tolerances, confidence, over)
    axis = Axis.of(constraint, over)
    sources = [sensitive_features, *(getattr(one, "sensitive_features", None) for one in given.values())]
    if any(isinstance(source, Proxy) for source in sources):
        raise InputError("a frontier is measured on known groups, not on a Proxy: fit and audit instead.")
    named: dict[str, FairClassifier] = {name: clone(classifier) for name, classifier in given.items()}
    learn, judge = split_rows(Rows(X, y, sensitive_features), test, random_state)
    if (
        others
        and not isinstance(test, Sequence)
        and any(not hasattr(value, "predict") for value in others.values())
    ):
        raise InputError("predictions in others= are for test rows: pass test=(X, y).")
    points: list[Point] = []
    for name, classifier in named.items():
        curve = _Curve.of(name, classifier, axis, (learn, judge), confidence)
        rows, slacks = curve.rows, curve.slacks(tolerances)
        points += (curve.trained if isinstance(classifier, FairInprocessor) else curve.solved)(
            slacks, verbose
        )
    compared = tuple(rows.other(name, value, judge) for name, value in (others or {}).items())
    library, label = library_of(X, y, sensitive_features), None if over is None else axis.label
    return Frontier(constraint, tuple(points), compared, confidence, rows.n_counted, library, label)


def _check(named: Mapping[str, Any], tolerances: Any, confidence: Any, over: Any) -> Constraint:
    """The shared requirement; invalid arguments are refused before any work."""
    for name, classifier in named.items():
        if not isinstance(classifier, FairPostprocessor | FairInprocessor):
            raise InputError(
                f"{name!r} must be a FairPostprocessor or a FairInprocessor, got {classifier!r}. Pass "
                "other classifiers in others=."
            )
        refused = {
            "has no constraint.": not isinstance(classifier.constraint, Constraint),
            "makes a guarantee, which is for one tolerance: leave out its confidence.": classifier.guarantee,
            f"has objective={classifier.objective!r}, but a frontier shows the accuracy of all: fit it at "
            "each tolerance instead.": classifier.objective != "risk",
        }
        for reason in (reason for reason, holds in refused.items() if holds):
            raise InputError(f"{name!r} {reason}")
    if not named:
        raise InputError("there are no classifiers: pass at least one.")
    kinds = {repr(Axis.of(classifier.constraint, over).at(0.5)) for classifier in named.values()}
    if len(kinds) > 1:
        raise InputError(f"the classifiers have different requirements: {' and '.join(sorted(kinds))}.")
    check_fraction("confidence", confidence)
    counted = isinstance(tolerances, Integral) and not isinstance(tolerances, bool) and int(tolerances) > 1
    listed = isinstance(tolerances, Sequence | np.ndarray) and len(tolerances) > 0
    if not (tolerances is None or counted or (listed and all(map(_is_share, tolerances)))):
        raise InputError(f"tolerances must be at least 2, or numbers from 0 to 1, got {tolerances!r}.")
    first: Constraint = next(iter(named.values())).constraint
    return first


def _is_share(value: Any) -> bool:
    return isinstance(value, Real) and 0 <= float(value) <= 1


def _disparity(constraint: Constraint, rates: CellRates) -> float:
    """Distance from parity, by the notion that is furthest from it."""
    found = [one for notion in constraint.notions for one in notion.measure(rates)]
    return max(one.difference if one.measure == "difference" else 1 - one.ratio for one in found)


@dataclass(frozen=True, eq=False)
class _Curve:
    """A classifier with the stages of `fit` that all tolerances share, and the rows that judge it."""

    name: str
    classifier: FairClassifier
    data: TrainingData
    learned: LearnedPosteriors
    seed: int
    rows: HeldOutRows

    @classmethod
    def of(
        cls, name: str, classifier: FairClassifier, axis: Axis, rows: Sequence[Rows], confidence: float
    ) -> _Curve:
        learn, judge = rows
        settings, seed = classifier.settings(), draw_seed(classifier.random_state)
        data = read_training_data(settings, learn.X, learn.y, learn.sensitive, None)
        learned = learn_posteriors(settings, data, seed=seed)
        held_out = HeldOutRows.read(classifier, data, judge, axis, confidence)
        return cls(name, classifier, data, learned, seed, held_out)

    def problem(self, slack: float) -> FairnessProblem:
        return self.learned.problem(self.rows.axis.at(slack), self.classifier.cost, self.data.compared)

    def slacks(self, tolerances: Any) -> list[float]:
        """Tolerances or bounds as slacks, tightest first."""
        axis = self.rows.axis
        if tolerances is not None and not isinstance(tolerances, Integral):
            return sorted(axis.number(float(value)) for value in tolerances)
        plain = self.problem(1.0).solve()
        if axis.bound is None:
            narrowest, widest = 0.0, _disparity(axis.constraint, plain.rates)
        else:
            narrowest, widest = self._strictest(), axis.number(axis.expected(plain.rates))
            widest = widest if widest > narrowest + _SAME else 1.0  # it binds nowhere
        count = int(tolerances or (_TRAININGS if isinstance(self.classifier, FairInprocessor) else _POINTS))
        return [float(slack) for slack in np.linspace(narrowest, max(widest, 1e-6), count)]

    def _strictest(self) -> float:
        """Slack of the strictest bound that can be satisfied; one with two numbers ends where they meet."""
        axis = self.rows.axis
        other = getattr(axis.bound, "at_least" if axis.side == "at_most" else "at_most")
        start = 0.0 if other is None else axis.number(other)
        try:
            self.problem(start).solve()
        except InfeasibleError as error:
            if axis.parameter not in error.nearest:
                raise
            return axis.number(error.nearest[axis.parameter])
        return start

    def _expected(self, rates: CellRates, slack: float) -> dict[str, float]:
        """Expected accuracy and disparity under the posteriors; empty if notions mix both measures."""
        found, constraint = {"expected_accuracy": 1 - 2 * rates.risk()}, self.rows.axis.constraint
        if self.rows.axis.bound is not None:
            return found | {"expected_rate": self.rows.axis.expected(rates)}
        if len({notion.compares_by for notion in constraint.notions}) > 1:
            return {}
        # If almost no one or everyone is selected, a ratio is a quotient of rounding errors.
        return found | {
            "expected_disparity": self.rows.axis.number(min(_disparity(constraint, rates), slack))
        }

    def _forecast(self, constraint: Constraint, rates: CellRates, by: Any) -> float:
        """The disparity that the test rows are likely to show, by the notion furthest from parity."""
        if self.rows.axis.bound is not None:
            return math.nan
        new = forecast(constraint, self.data, self.learned, rates, by).on(self.rows.n_counted)
        found = [one for one in new.expected if one.measure != "bound" and not math.isnan(one.value)]
        return max(found, key=lambda one: one.value if one.measure == "difference" else 1 - one.value).value

    def solved(self, slacks: list[float], verbose: bool) -> Iterator[Point]:
        rows, groups, access = self.rows, self.data.groups, self.data.access
        cells = self.learned.model.cells(rows.visible.X, access.allowed(groups, rows.visible.known))
        posteriors = access.posteriors(groups, cells, rows.codes % len(groups), rows.visible.strata)
        problem = self.problem(slacks[0])
        varying = rows.axis.varying(problem)
        for slack in track(iter(slacks), what=f"solving, {self.name}", total=len(slacks), verbose=verbose):
            problem = problem.under(rows.axis.at(slack))
            solution = problem.solve()
            rule = ScoredRows(self.learned).rule(solution, self.seed)
            prices = {row: abs(price) for row, price in solution.shadow_prices.items() if row in varying}
            proof, counted = solution.certificate, rows.count(rule.selection(posteriors))
            found = self._expected(solution.rates, slack)
            found["forecast"] = self._forecast(problem.constraint, solution.rates, solution.rule)
            found |= {"risk": proof.objective, "bound": proof.bound}
            yield rows.point(self.name, slack, counted, prices=prices, rule=rule, **found)

    def trained(self, slacks: list[float], verbose: bool) -> Iterator[Point]:
        rows = self.rows
        for slack in track(iter(slacks), what=f"training, {self.name}", total=len(slacks), verbose=verbose):
            asked: Any = (self.classifier, self.rows.axis.at(slack), self.data, self.learned)
            found = train_fair(*asked, seed=self.seed)
            expected = self._forecast(found.constraint, found.chosen.rates, found.selection)
            counted = rows.count(found.chosen.model.choose(rows.visible.X) == 1)
            yield rows.point(self.name, slack, counted, bound=found.certificate.bound, forecast=expected)

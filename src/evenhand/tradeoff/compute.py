"""The whole trade-off between accuracy and fairness, on rows that nothing was learned from.

Post-processing learns its posteriors once and solves for every tolerance that is listed, as a fit would. Of
many evenly spaced ones it solves for some, each from the one before, and mixes in between: a coin chooses
between the two neighbours. That is a classifier too: where groups are compared by difference it satisfies the
tolerance between theirs, its rates lie between theirs, and how far it is from the optimum is known, because
the smallest risk is convex in the tolerance. A point tells which of the two it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from evenhand.auditing.comparison import Comparison, compare
from evenhand.auditing.group_rates import Rate
from evenhand.auditing.tally import Tally, tally
from evenhand.display.progress import track
from evenhand.estimators.access import ModelInput
from evenhand.estimators.base import FairClassifier
from evenhand.estimators.fair_training import train_fair
from evenhand.estimators.inprocess import FairInprocessor
from evenhand.estimators.learned_posteriors import LearnedPosteriors, as_posteriors, learn_posteriors
from evenhand.estimators.postprocess import FairPostprocessor, choose_multipliers, make_rule
from evenhand.estimators.search import read_search
from evenhand.estimators.training_data import TrainingData, draw_seed, read_training_data
from evenhand.exceptions import InputError
from evenhand.fairness.groups import Groups
from evenhand.fairness.notions import AccuracyParity, Constraint
from evenhand.fairness.rates import CellRates, Decisions
from evenhand.inference.intervals import critical_value
from evenhand.inputs.checks import check_fraction
from evenhand.inputs.columns import named_columns
from evenhand.inputs.features import columns_of, take_rows
from evenhand.inputs.labels import check_rows, read_labels, read_selection
from evenhand.inputs.splits import random_split
from evenhand.inputs.tables import library_of
from evenhand.optimum.problem import FairnessProblem
from evenhand.tradeoff.frontier import Frontier, Point

__all__ = ["frontier"]

_POINTS = 50
_TRAININGS = 8
_MOST_SOLVED = 20
"""Up to so many evenly spaced tolerances are all solved for: a table shows them one by one."""
_EVERY = 5
"""Of more, every fifth is solved for: a curve shows no difference (docs/decisions.md)."""
[_ERROR] = AccuracyParity.statistics


def frontier(
    classifiers: FairClassifier | Mapping[str, FairClassifier],
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    test: Sequence[Any] | None = None,
    test_share: float = 0.3,
    tolerances: int | Sequence[float] | None = None,
    others: Mapping[str, Any] | None = None,
    confidence: float = 0.95,
    verbose: bool = False,
    random_state: int = 0,
) -> Frontier:
    """Find the whole curve of accuracy against fairness.

    Parameters
    ----------
    classifiers : FairPostprocessor, FairInprocessor, or mapping of names to them
        Their requirements say what is compared and how, and their tolerances are not looked at. They stay as
        they are, fitted or not: copies are fitted. Several give several curves on one chart, such as blind
        and aware.
    X, y, sensitive_features
        As for ``fit``.
    test : (X, y) or (X, y, sensitive_features), optional
        Rows to judge on. Otherwise a share of the rows is set aside for that.
    test_share : float
        That share.
    tolerances : int or sequence of float, optional
        How many, from parity to what no requirement would give, or which. By default 50, and 8 where each is
        a training. Listed ones, and up to 20, are all solved for: each point is what `fit` finds at that
        tolerance. Of more, compared by difference, every fifth is solved for and the others are mixtures of
        their neighbours, which the table, the text and the chart tell (``origin``); except beside a
        FairInprocessor, which is compared with solved points only.
    others : mapping of names to classifiers or predictions, optional
        To compare with: fitted classifiers that are given the test X, or decisions on the test rows, labels
        or probabilities, which need `test`.
    confidence : float
        Of the intervals.
    verbose : bool
        Whether to show progress. An interrupt ends it with the points that there are.
    random_state : int
        For the rows set aside.

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
    constraint = _check(given, tolerances, confidence)
    named: dict[str, FairClassifier] = {name: clone(classifier) for name, classifier in given.items()}
    many = _is_dense(tolerances)
    mixed = many and not any(isinstance(classifier, FairInprocessor) for classifier in named.values())
    learn, judge = _divided(_Data(X, y, sensitive_features), test, test_share, random_state)
    if others and test is None and any(not hasattr(value, "predict") for value in others.values()):
        raise InputError("predictions to compare with are about test rows: pass test=(X, y).")
    points: list[Point] = []
    solved, complete, rows = 0, True, None
    try:
        for name, classifier in named.items():
            learned = _Learned.by(classifier, learn)
            rows = _TestRows.read(classifier, learned.data, judge, constraint, confidence)
            chosen = _slacks(classifier, learned, constraint, tolerances)
            if isinstance(classifier, FairPostprocessor):
                own = _solved_curve(
                    name, classifier, learned, rows, chosen, warm=many, mixed=mixed, verbose=verbose
                )
                points += own
                solved += sum(point.origin == "solved" for point in own)
            elif isinstance(classifier, FairInprocessor):
                for point in _trained_curve(name, classifier, learned, rows, chosen, verbose=verbose):
                    points.append(point)
                    solved += 1
    except KeyboardInterrupt:
        if not points:
            raise
        complete = False
    if rows is None:
        raise InputError("there are no classifiers.")
    compared = tuple(rows.other(name, value, judge) for name, value in (others or {}).items())
    points.sort(key=lambda point: list(named).index(point.curve))
    return Frontier(
        constraint,
        tuple(points),
        compared,
        confidence,
        len(rows.codes),
        solved,
        complete,
        library_of(X, y, sensitive_features),
    )


@dataclass(frozen=True, eq=False)
class _Data:
    X: Any
    y: Any
    sensitive: Any


@dataclass(frozen=True, eq=False)
class _Learned:
    """The first two stages of `fit`, which all tolerances share."""

    data: TrainingData
    posteriors: LearnedPosteriors
    seed: int

    @classmethod
    def by(cls, classifier: FairClassifier, rows: _Data) -> _Learned:
        data = read_training_data(classifier, rows.X, rows.y, rows.sensitive, None)
        seed = draw_seed(classifier.random_state)
        return cls(data, learn_posteriors(classifier, data, seed=seed), seed)

    def problem(self, constraint: Constraint, cost: Any) -> FairnessProblem:
        return self.posteriors.problem(constraint, cost, self.data.groups)


@dataclass(frozen=True, eq=False)
class _TestRows:
    """The test rows, and what is asked of decisions on them."""

    constraint: Constraint
    confidence: float
    groups: Groups
    codes: NDArray[np.int32]
    positive: NDArray[np.bool_]
    classes: NDArray[Any]
    visible: ModelInput

    @classmethod
    def read(
        cls,
        classifier: FairClassifier,
        learned_from: TrainingData,
        rows: _Data,
        constraint: Constraint,
        confidence: float,
    ) -> _TestRows:
        groups, classes = learned_from.groups, learned_from.classes
        where = classifier.sensitive_features
        columns = (
            columns_of(rows.X, where)
            if where is not None
            else named_columns(rows.sensitive, what="sensitive_features", default_name="sensitive_feature")
        )
        check_rows({"X": rows.X, "y": rows.y, "sensitive_features": columns})
        positive = read_labels(rows.y, pos_label=classes[1]).positive
        codes = groups.encode(columns)
        shown = rows.sensitive if where is None and classifier.aware is not False else None
        visible = learned_from.access.read(classifier, rows.X, shown)
        return cls(constraint, confidence, groups, codes, positive, classes, visible)

    def count(self, selection: NDArray[Any]) -> Tally:
        return tally(Decisions(self.groups, self.codes, self.positive, selection, classes=self.classes))

    def point(self, curve: str, slack: float | None, counted: Tally, **more: Any) -> Point:
        asked = self.constraint if slack is None else self.constraint.with_slack(slack)
        found = [
            compare(notion, counted, self.confidence, judge=slack is not None) for notion in asked.notions
        ]
        worst = max(found, key=_distance)
        everyone = np.ones((1, len(self.groups)), np.bool_)
        error = counted.share(_ERROR, everyone).estimate(critical_value(self.confidence))
        accuracy = Rate(*(1 - float(limit[0]) for limit in (error.value, error.high, error.low)))
        tolerance = None if slack is None else asked.notions[0].tolerance
        return Point(curve, tolerance, counted, accuracy, worst, more.pop("prices", {}), **more)

    def other(self, name: str, value: Any, data: _Data) -> Point:
        given = value.predict(data.X) if hasattr(value, "predict") else value
        selection = read_selection(given, classes=self.classes, what=f"predictions of {name!r}")
        check_rows({"the test rows": self.codes, f"predictions of {name!r}": selection})
        return self.point(name, None, self.count(selection))


def _check(named: Mapping[str, Any], tolerances: Any, confidence: Any) -> Constraint:
    """Refuse what cannot be drawn, before any work."""
    for name, classifier in named.items():
        if not isinstance(classifier, FairPostprocessor | FairInprocessor):
            raise InputError(
                f"{name!r} should be a FairPostprocessor or a FairInprocessor, but is {classifier!r}. Others "
                "to compare with go into others=."
            )
        if not isinstance(classifier.constraint, Constraint):
            raise InputError(f"{name!r} has no constraint.")
        if classifier.confidence is not None:
            raise InputError(f"{name!r} makes a promise, which is about one tolerance: leave confidence out.")
    if not named:
        raise InputError("there are no classifiers.")
    kinds = {repr(classifier.constraint.with_slack(0.5)) for classifier in named.values()}
    if len(kinds) > 1:
        raise InputError(f"the classifiers have different requirements: {' and '.join(sorted(kinds))}.")
    check_fraction("confidence", confidence)
    if isinstance(tolerances, Integral) and not isinstance(tolerances, bool):
        if tolerances < 2:
            raise InputError(f"tolerances should be at least 2, but are {tolerances}.")
    elif tolerances is not None:
        values = np.asarray(tolerances, dtype=object)
        good = [isinstance(value, Real) and 0 <= float(value) <= 1 for value in values.ravel()]
        if values.ndim != 1 or not len(values) or not all(good):
            raise InputError(
                f"tolerances should be how many, or numbers from 0 to 1, but are {tolerances!r}."
            )
    first: Constraint = next(iter(named.values())).constraint
    return first


def _divided(data: _Data, test: Sequence[Any] | None, share: float, seed: int) -> tuple[_Data, _Data]:
    if test is not None:
        if not isinstance(test, tuple | list) or len(test) not in (2, 3):
            raise InputError("test should be (X, y) or (X, y, sensitive_features).")
        return data, _Data(test[0], test[1], test[2] if len(test) == 3 else None)
    X, y, sensitive = data.X, data.y, data.sensitive
    check_fraction("test_share", share)
    check_rows({"X": X, "y": y, "sensitive_features": sensitive})
    labels = np.asarray(y)
    learn, judge = (
        _Data(_taken(X, rows), labels[rows], _taken(sensitive, rows))
        for rows in random_split(len(labels), share, seed)
    )
    return learn, judge


def _taken(value: Any, rows: NDArray[np.intp]) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {name: _taken(column, rows) for name, column in value.items()}
    if isinstance(value, list | tuple):
        return [value[row] for row in rows]
    return take_rows(value, rows)


def _is_dense(tolerances: Any) -> bool:
    """Whether tolerances make a curve, rather than points that are asked for."""
    return tolerances is None or (isinstance(tolerances, Integral) and int(tolerances) > _MOST_SOLVED)


def _slacks(
    classifier: FairClassifier, learned: _Learned, constraint: Constraint, tolerances: Any
) -> list[float]:
    """Tolerances as distances from parity, the tightest first."""
    ratio = constraint.notions[0].compares_by == "ratio"
    if tolerances is not None and not isinstance(tolerances, Integral):
        return sorted(1 - float(value) if ratio else float(value) for value in tolerances)
    default = _POINTS if isinstance(classifier, FairPostprocessor) else _TRAININGS
    plain = learned.problem(constraint.with_slack(1.0), classifier.cost).solve(tol=classifier.tol)
    widest = _apart(constraint, plain.rates)
    return [float(slack) for slack in np.linspace(0.0, max(widest, 1e-6), int(tolerances or default))]


def _apart(constraint: Constraint, rates: CellRates) -> float:
    """How far groups are from parity, by the notion that is the furthest from it."""
    found = constraint.measure(rates)
    return max(one.difference if one.measure == "difference" else 1 - one.ratio for one in found)


def _expected(constraint: Constraint, rates: CellRates, slack: float) -> dict[str, float]:
    """What the posteriors expect of test rows; nothing if differences and ratios are asked for together."""
    measures = {notion.compares_by for notion in constraint.notions}
    if len(measures) > 1:
        return {}
    # Where nobody or everybody is selected, the quotient of what is left is one of rounding errors.
    apart, ratio = min(_apart(constraint, rates), slack), measures == {"ratio"}
    return {
        "expected_accuracy": 1 - 2 * rates.risk(),
        "expected_disparity": 1 - apart if ratio else apart,
    }


def _solved_curve(
    name: str,
    classifier: FairPostprocessor,
    learned: _Learned,
    rows: _TestRows,
    slacks: list[float],
    *,
    warm: bool,
    mixed: bool,
    verbose: bool,
) -> list[Point]:
    """Solve for the tolerances, from the loosest on, or for some of them, and mix in between.

    With `warm` each starts from the one before, which is faster. Without, each is the very solution of a fit:
    where several rules are optimal, a start decides between them.
    """
    groups, access, model = learned.data.groups, learned.data.access, learned.posteriors.model
    cells = model.cells(rows.visible.X, access.allowed(groups, rows.visible.known))
    known = access.knows(groups)
    posteriors = as_posteriors(cells, rows.codes, groups, known=known)
    # What a mixture is worth is known of optima, and of differences.
    mixed = mixed and read_search(classifier.search) is None
    mixed = mixed and all(notion.compares_by == "difference" for notion in rows.constraint.notions)
    last = len(slacks) - 1
    knots = sorted({*range(0, last, _EVERY if mixed else 1), last}, reverse=True)
    points: dict[int, Point] = {}
    problem, solution = learned.problem(rows.constraint, classifier.cost), None
    for k in track(iter(knots), what=f"solving, {name}", total=len(knots), verbose=verbose):
        problem = problem.under(rows.constraint.with_slack(slacks[k]))
        solution, _ = choose_multipliers(classifier, problem, start=solution if warm else None)
        rule = make_rule(solution, learned.posteriors, learned.seed)
        points[k] = rows.point(
            name,
            slacks[k],
            rows.count(rule.selection(posteriors)),
            prices={row: abs(price) for row, price in solution.shadow_prices.items()},
            risk=solution.certificate.objective,
            bound=solution.certificate.bound,
            **_expected(rows.constraint, solution.rates, slacks[k]),
            rules=(rule,),
            aware=known,
        )
    for k in range(len(slacks)):
        if k not in points:
            low = max(knot for knot in knots if knot < k)
            high = min(knot for knot in knots if knot > k)
            points[k] = _mixed(rows, slacks[k], (slacks[low], points[low]), (slacks[high], points[high]))
    return [points[k] for k in range(len(slacks))]


def _mixed(rows: _TestRows, slack: float, low: tuple[float, Point], high: tuple[float, Point]) -> Point:
    """Toss a coin between two neighbours."""
    (a, first), (b, second) = low, high
    share = (slack - a) / (b - a)

    def mean(x: Any, y: Any) -> Any:
        return (1 - share) * x + share * y

    one, two = first.counted, second.counted
    selected = mean(one.rates.selected, two.rates.selected)
    rates = CellRates(rows.groups, one.rates.mass, selected, classes=one.rates.classes)
    counted = replace(one, rates=rates, selected=mean(one.selected, two.selected))
    bounds = (
        first.bound - (slack - a) * sum(first.prices.values()),
        second.bound + (b - slack) * sum(second.prices.values()),
    )
    prices = {row: mean(price, second.prices.get(row, 0.0)) for row, price in first.prices.items()}
    risk = mean(first.risk, second.risk)
    expected = {
        name: mean(getattr(first, name), getattr(second, name))
        for name in ("expected_accuracy", "expected_disparity")
    }
    both = {**expected, "rules": (*first.rules, *second.rules), "aware": first.aware}
    return rows.point(first.curve, slack, counted, prices=prices, risk=risk, bound=max(bounds), **both)


def _trained_curve(
    name: str,
    classifier: FairInprocessor,
    learned: _Learned,
    rows: _TestRows,
    slacks: list[float],
    *,
    verbose: bool,
) -> Iterator[Point]:
    for slack in track(iter(slacks), what=f"training, {name}", total=len(slacks), verbose=verbose):
        asked = rows.constraint.with_slack(slack)
        trained = train_fair(classifier, asked, learned.data, learned.posteriors, seed=learned.seed)
        decided = trained.learner.choose(rows.visible.X) == 1
        yield rows.point(name, slack, rows.count(decided), bound=trained.certificate.bound)


def _distance(found: Comparison) -> float:
    """How far a comparison is from its tolerance."""
    value = found.value if found.measure == "difference" else 1 - found.value
    return -math.inf if math.isnan(value) else value

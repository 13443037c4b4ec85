"""What a curve of accuracy against fairness holds, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenhand.auditing.comparison import Comparison
from evenhand.auditing.group_rates import Finding, Rate, find
from evenhand.auditing.tally import Tally
from evenhand.charts.inline import inline_svg
from evenhand.display.notebook import MOST_ROWS, html_table
from evenhand.fairness.constraints import ConstraintName
from evenhand.fairness.notions import Constraint
from evenhand.inputs.tables import Library, make_table
from evenhand.optimum.rule import Rule

__all__ = ["Frontier", "Point", "chart_arguments"]

_BINDS = 1e-9
_HEADINGS = "tolerance  accuracy                 disparity                0.01 more buys"
_NUMBERS = (
    "tolerance",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "disparity",
    "disparity_low",
    "disparity_high",
    "expected_accuracy",
    "expected_disparity",
    "price",
    "risk",
    "gap",
)


@dataclass(frozen=True, eq=False)
class Point:
    """One classifier of a curve, as it does on the test rows.

    Attributes
    ----------
    curve : str
        The name of its curve.
    tolerance : float or None
        What it was made for, by difference or ratio; None for a classifier that came from elsewhere.
    counted : Tally
        Its decisions on the test rows, counted.
    accuracy : Rate
        With its interval.
    comparison : Comparison
        How far groups are apart by the notion that is the furthest from its tolerance, with interval and
        verdict.
    prices : dict
        By how much a unit of tolerance would lower the risk, by row of the requirement; 0 if none does.
    risk, bound : float
        As the posteriors have it: the risk, and one that no fair classifier goes below. NaN if unknown.
    expected_accuracy, expected_disparity : float
        As the posteriors have it: what the test rows are expected to show. NaN if unknown.
    rules : tuple of Rule
        The rule of a post-processed classifier, or the two that a coin chooses between.
    aware : bool
        Whether it knows the group.
    """

    curve: str
    tolerance: float | None
    counted: Tally
    accuracy: Rate
    comparison: Comparison
    prices: Mapping[ConstraintName, float]
    risk: float = math.nan
    bound: float = math.nan
    expected_accuracy: float = math.nan
    expected_disparity: float = math.nan
    rules: tuple[Rule, ...] = ()
    aware: bool = False

    def __repr__(self) -> str:
        made = "" if self.tolerance is None else f" at tolerance {self.tolerance:.4g}"
        found = f"accuracy {_told(self.accuracy)}, disparity {_told(self.comparison)}"
        return f"<Point of {self.curve!r}{made}: {found}>"

    @property
    def origin(self) -> Literal["solved", "mixture", "trained", "given"]:
        """How it was found.

        The optimum at its tolerance; a mixture of the solved neighbours, between which a coin chooses; a
        training; or given from elsewhere.
        """
        if self.tolerance is None:
            return "given"
        if not self.rules:
            return "trained"
        return "solved" if len(self.rules) == 1 else "mixture"

    @property
    def price(self) -> float:
        """What a hundredth of tolerance more would buy in accuracy, with equal costs of errors.

        NaN at exact parity: multipliers are not unique there, and their sum is no price.
        """
        return math.nan if self._exact else 0.02 * sum(self.prices.values())

    @property
    def _exact(self) -> bool:
        return self.tolerance == (0 if self.comparison.measure == "difference" else 1)

    def binding(self) -> tuple[ConstraintName, ...]:
        """Rows of the requirement that cost something, the dearest first."""
        dear = sorted(self.prices.items(), key=lambda item: -item[1])
        return tuple(name for name, price in dear if price > _BINDS)

    def groups(self, confidence: float = 0.95) -> tuple[Finding, ...]:
        """What it does to each group, with intervals."""
        return find(self.counted, confidence)


@dataclass(frozen=True, eq=False)
class Frontier:
    """Curves of accuracy against disparity, and points to compare them with.

    Attributes
    ----------
    constraint : Constraint
        The notions, whatever their tolerances.
    points : tuple of Point
        Curve by curve, from the tightest tolerance on.
    others : tuple of Point
        Classifiers that came from elsewhere.
    confidence : float
        Of the intervals.
    n_rows : int
        Test rows.
    n_solved : int
        Problems solved or classifiers searched for; the other points are mixtures.
    complete : bool
        False if it was interrupted.

    Examples
    --------
    >>> import evenhand as eh
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=3).sample(2000)
    >>> fair = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.1))
    >>> curve = eh.frontier(fair, data.X, data.y, sensitive_features=data.sensitive, tolerances=6)
    >>> bool(curve.points[0].accuracy.value < curve.points[-1].accuracy.value)
    True
    """

    constraint: Constraint
    points: tuple[Point, ...]
    others: tuple[Point, ...]
    confidence: float
    n_rows: int
    n_solved: int
    complete: bool = True
    library: Library | None = None

    @property
    def measure(self) -> Literal["difference", "ratio"]:
        """How groups are compared."""
        return self.points[0].comparison.measure

    @property
    def notions(self) -> str:
        """What is compared, in words; of several notions, the one that is furthest from its tolerance is."""
        return " or ".join(dict.fromkeys(notion.label for notion in self.constraint.notions))

    def curve(self, name: str) -> tuple[Point, ...]:
        """Give the points of one curve."""
        return tuple(point for point in self.points if point.curve == name)

    def records(self) -> list[dict[str, Any]]:
        """Give a plain record of each point; what is undefined is None."""
        found = []
        for point in (*self.points, *self.others):
            worst, gap = point.comparison, point.risk - point.bound
            row = {
                "curve": point.curve,
                "kind": "point" if point.origin == "given" else "curve",
                "origin": point.origin,
                "tolerance": point.tolerance,
                "accuracy": point.accuracy.value,
                "accuracy_low": point.accuracy.low,
                "accuracy_high": point.accuracy.high,
                "disparity": worst.value,
                "disparity_low": worst.low,
                "disparity_high": worst.high,
                "expected_accuracy": point.expected_accuracy,
                "expected_disparity": point.expected_disparity,
                "group": None if worst.group is None else str(worst.group),
                "verdict": worst.verdict,
                "price": point.price,
                "binding": "; ".join(map(str, point.binding())),
                "risk": point.risk,
                "gap": gap,
            }
            found.append({key: _known(value) for key, value in row.items()})
        return found

    def price_records(self) -> list[dict[str, Any]]:
        """Give what a hundredth of tolerance buys in accuracy, for each binding row of each point."""
        return [
            {
                "curve": point.curve,
                "tolerance": point.tolerance,
                "group": str(name.group),
                "notion": name.notion,
                "statistic": name.statistic,
                "price": 0.02 * price,
            }
            for point in self.points
            if not point._exact
            for name, price in point.prices.items()
            if price > _BINDS
        ]

    def to_frame(self, *, backend: Library | None = None) -> Any:
        """Give a table, one row per point.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            The library of the table. By default that of the data, otherwise pandas or polars.

        Returns
        -------
        table
        """
        return make_table(self.records(), numbers=_NUMBERS, library=backend or self.library)

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain values."""
        return {
            "constraint": repr(self.constraint),
            "measure": self.measure,
            "confidence": self.confidence,
            "rows": self.n_rows,
            "solved": self.n_solved,
            "complete": self.complete,
            "points": self.records(),
            "prices": self.price_records(),
        }

    def plot(self) -> Any:
        """Draw the curves. A notebook shows the chart as a picture, without a network.

        Returns
        -------
        altair.LayerChart
        """
        from evenhand.charts import frontier_chart  # noqa: PLC0415  (needs an extra)

        arguments = chart_arguments(self.records(), self.measure, self.notions)
        return frontier_chart(**arguments, confidence=self.confidence)

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(point.curve for point in (*self.points, *self.others)))
        told = f"{len(self.points):,} points" + ("" if self.complete else ", interrupted")
        return f"<Frontier of {self.constraint!r}: {told}; {names}; {self.n_rows:,} test rows>"

    def _repr_html_(self) -> str:
        headings = ["curve", "tolerance", "accuracy", "disparity", "verdict"]
        names = dict.fromkeys(point.curve for point in self.points)
        few = max(2, MOST_ROWS // (len(names) + 1))
        chosen = [point for name in names for point in _spread(self.curve(name), few)]
        rows = [
            (
                point.curve,
                "" if point.tolerance is None else f"{point.tolerance:.4g}",
                _told(point.accuracy),
                _told(point.comparison),
                point.comparison.verdict or "",
            )
            for point in (*chosen, *self.others)
        ]
        told = f"{self.constraint!r} on {self.n_rows:,} test rows; intervals: {self.confidence:.0%}."
        return html_table(headings, rows, caption=told) + inline_svg(self.plot)

    def __str__(self) -> str:
        lines = [f"{self.constraint!r} on {self.n_rows:,} test rows; intervals: {self.confidence:.0%}."]
        mixed = sum(point.origin == "mixture" for point in self.points)
        if mixed:
            lines.append(
                f"{mixed} of {len(self.points)} points are mixtures: a coin chooses between the two solved "
                "neighbours."
            )
        for name in dict.fromkeys(point.curve for point in self.points):
            own = self.curve(name)
            lines.append(f"\n{name}\n{_HEADINGS}")
            lines += [_line(point) for point in own[:: max(1, len(own) // 9)]]
        lines += [f"\n{point.curve}\n{_line(point)}" for point in self.others]
        return "\n".join(lines)


def chart_arguments(records: list[dict[str, Any]], measure: str, notion: str) -> dict[str, Any]:
    """Give what the chart takes, for which less disparity is fairer: of a ratio, 1 minus it."""
    if measure == "difference":
        return {"records": records, "x_title": f"mean difference, {notion}"}
    turned = [
        {
            **record,
            **{
                key: None if record[other] is None else 1 - record[other]
                for key, other in (
                    ("disparity", "disparity"),
                    ("disparity_low", "disparity_high"),
                    ("disparity_high", "disparity_low"),
                    ("expected_disparity", "expected_disparity"),
                )
            },
            "tolerance": None if record["tolerance"] is None else 1 - record["tolerance"],
        }
        for record in records
    ]
    return {"records": turned, "x_title": f"1 minus mean ratio, {notion}"}


def _told(rate: Rate | Comparison) -> str:
    return f"{rate.value:.4f} [{rate.low:.4f}, {rate.high:.4f}]"


def _spread(points: tuple[Point, ...], most: int) -> list[Point]:
    """A few points, evenly spread, both ends included."""
    places = {round(k * (len(points) - 1) / (most - 1)) for k in range(most)}
    return [points[k] for k in sorted(places)]


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _line(point: Point) -> str:
    tolerance = "" if point.tolerance is None else f"{point.tolerance:.4f}"
    accuracy, worst = point.accuracy, point.comparison
    return (
        f"{tolerance:<9}  {_told(accuracy)}  {_told(worst)}  {_price(point)} "
        f"{worst.verdict or ''}{' (mixture)' if point.origin == 'mixture' else ''}".rstrip()
    )


def _price(point: Point) -> str:
    return "-     " if math.isnan(point.price) else f"{point.price:.4f}"

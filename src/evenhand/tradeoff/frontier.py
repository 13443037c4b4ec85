"""Curves of accuracy against fairness: their points, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenhand.auditing.comparison import Comparison
from evenhand.auditing.figure_tables import Block, TablesWithNotes, plain
from evenhand.auditing.group_rates import Finding, Rate, find
from evenhand.auditing.tally import Tally
from evenhand.data.tables import Library, make_table
from evenhand.display.notebook import inline_svg
from evenhand.optimum.rule import Rule
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.requirement import Constraint

_BINDS = 1e-9
_UNKNOWN = Rate(math.nan, math.nan, math.nan)
_SHOWN = 10
"""Points of a curve that are printed."""
_NUMBERS = (
    *(f"{name}{end}" for name in ("accuracy", "disparity", "rate") for end in ("", "_low", "_high")),
    *("tolerance", "forecast", "expected_accuracy", "expected_disparity", "expected_rate"),
    *("price", "risk", "gap"),
)


@dataclass(frozen=True, eq=False)
class Point:
    """One classifier of a curve, measured on the test rows.

    Attributes
    ----------
    curve : str
        Name of the curve.
    tolerance : float or None
        The tolerance, by difference or ratio, or the bound that varies; None for a classifier from elsewhere.
    counted : Tally
        Counts of its decisions on the test rows.
    accuracy : Rate
        With its interval.
    comparison : Comparison or None
        The disparity by the notion that is furthest from parity, with interval and verdict; None if the
        requirement has bounds only.
    prices : dict
        Shadow prices: by how much a unit of what varies would lower the risk, by linear constraint.
    risk, bound : float
        Risk under the posteriors, and its lower bound for all fair classifiers. NaN if unknown.
    expected_accuracy, expected_disparity : float
        What the posteriors predict for the test rows. NaN if unknown.
    rule : Rule or None
        The rule of a post-processed classifier.
    rate : Rate or None
        The rate that is bounded, if a bound varies: of the group that has most of it, or least.
    expected_rate : float
        What the posteriors predict for it. NaN if unknown.
    forecast : float
        The disparity that as many new rows are likely to show; see
        :class:`evenhand.guarantee.forecast.Forecast`. NaN if unknown, or if a bound varies.
    """

    curve: str
    tolerance: float | None
    counted: Tally
    accuracy: Rate
    comparison: Comparison | None
    prices: Mapping[ConstraintName, float]
    risk: float = math.nan
    bound: float = math.nan
    expected_accuracy: float = math.nan
    expected_disparity: float = math.nan
    rule: Rule | None = None
    rate: Rate | None = None
    expected_rate: float = math.nan
    forecast: float = math.nan

    def __repr__(self) -> str:
        what = "tolerance" if self.rate is None else "bound"
        made = "" if self.tolerance is None else f" at {what} {self.tolerance:.4g}"
        found = f"accuracy {_with_interval(self.accuracy)}"
        found += f", disparity {_with_interval(self.comparison)}" if self.comparison else ""
        found += f", rate {_with_interval(self.rate)}" if self.rate else ""
        return f"<Point of {self.curve!r}{made}: {found}>"

    @property
    def origin(self) -> Literal["solved", "trained", "given"]:
        """How it was found: the optimum at its tolerance, a training, or a classifier from elsewhere."""
        if self.tolerance is None:
            return "given"
        return "trained" if self.rule is None else "solved"

    @property
    def measured(self) -> Rate | Comparison:
        """The number shown beside the accuracy: the rate of the bound that varies, or the disparity."""
        return self.rate or self.comparison or _UNKNOWN

    @property
    def price(self) -> float:
        """Accuracy gained by what is easier by 0.01, if both errors cost the same.

        Easier is more of a difference, and less of a ratio. NaN at exact parity and at a bound of 0 or 1,
        where the multipliers are not unique.
        """
        return math.nan if self._exact else 0.02 * sum(self.prices.values())

    @property
    def _exact(self) -> bool:
        if self.rate is not None or self.comparison is None:
            return self.tolerance in (0, 1)
        return self.tolerance == (0 if self.comparison.measure == "difference" else 1)

    def groups(self, confidence: float = 0.95) -> tuple[Finding, ...]:
        """Rates of each group, with intervals."""
        return find(self.counted, confidence)


@dataclass(frozen=True, eq=False)
class Frontier(TablesWithNotes):
    """Curves of accuracy against disparity, and points to compare them with.

    Attributes
    ----------
    constraint : Constraint
        The requirement; the number that varies is ignored.
    points : tuple of Point
        Curve by curve, tightest tolerance first.
    others : tuple of Point
        Classifiers from elsewhere, for comparison.
    confidence : float
        Of the intervals.
    n_rows : int
        Number of test rows.
    over : str or None
        The bound that varies, such as "selection rate, at most"; None if the tolerance does.

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
    library: Library | None = None
    over: str | None = None

    @property
    def measure(self) -> Literal["difference", "ratio", "bound"]:
        """How groups are compared; "bound" if a bound varies."""
        found = self.points[0].comparison
        if self.over is not None or found is None:
            return "bound"
        return "difference" if found.measure == "difference" else "ratio"

    @property
    def notions(self) -> str:
        """Names of the notions; each point shows the one that is furthest from parity."""
        return " or ".join(dict.fromkeys(notion.label for notion in self.constraint.notions))

    def curve(self, name: str) -> tuple[Point, ...]:
        """The points of one curve."""
        return tuple(point for point in self.points if point.curve == name)

    def records(self) -> list[dict[str, Any]]:
        """A plain record of each point; undefined values are None."""
        found = []
        for point in (*self.points, *self.others):
            worst = point.comparison
            row = {
                "curve": point.curve,
                "kind": "point" if point.origin == "given" else "curve",
                "origin": point.origin,
                "tolerance": point.tolerance,
                **_limits("accuracy", point.accuracy),
                "forecast": point.forecast,
                **_limits("disparity", worst or _UNKNOWN),
                "expected_accuracy": point.expected_accuracy,
                "expected_disparity": point.expected_disparity,
                "group": str(worst.group) if worst and worst.group else None,
                **{name: getattr(worst, name, None) for name in ("side", "verdict")},
                "price": point.price,
                "risk": point.risk,
                "gap": point.risk - point.bound,
            }
            if self.over is not None:
                row |= {"over": self.over, **_limits("rate", point.rate or _UNKNOWN)}
                row["expected_rate"] = point.expected_rate
            found.append(plain(row))
        return found

    def price_records(self) -> list[dict[str, Any]]:
        """Accuracy gained by what is easier by 0.01, for each linear constraint; 0 where it does not bind."""
        found = []
        for point in (point for point in self.points if not point._exact):
            where = {"curve": point.curve, "tolerance": point.tolerance}
            for name, price in point.prices.items():
                what = {"group": str(name.group), "notion": name.notion, "statistic": name.statistic}
                found.append({**where, **what, "price": 0.02 * price if price > _BINDS else 0.0})
        return found

    def to_frame(self, *, backend: Library | None = None) -> Any:
        """Table with one row per point.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            The library of the table. By default that of the data, otherwise pandas or polars.

        Returns
        -------
        table
        """
        return make_table(self.records(), numbers=_NUMBERS, library=backend or self.library)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "constraint": repr(self.constraint),
            "over": self.over or "tolerance",
            "measure": self.measure,
            "confidence": self.confidence,
            "rows": self.n_rows,
            "points": self.records(),
            "prices": self.price_records(),
        }

    def plot(self) -> Any:
        """Chart of the curves. A notebook shows it as a picture, without a network.

        Returns
        -------
        altair.LayerChart
        """
        from evenhand.charts import frontier_chart  # noqa: PLC0415  (needs an extra)

        shown = chart_arguments(self.records(), self.measure, self.over or self.notions)
        return frontier_chart(**shown, confidence=self.confidence)

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(point.curve for point in (*self.points, *self.others)))
        over = "" if self.over is None else f" over {self.over}"
        count = f"{len(self.points):,} points; {names}; {self.n_rows:,} test rows"
        return f"<Frontier of {self.constraint!r}{over}: {count}>"

    @property
    def _headline(self) -> str:  # type: ignore[override]
        return f"{self.constraint!r} on {self.n_rows:,} test rows; intervals: {self.confidence:.0%}."

    def notes(self) -> list[str]:
        """What varies, if it is a bound."""
        return [] if self.over is None else [f"What varies is the bound: {self.over}."]

    def blocks(self) -> Iterator[Block]:
        """The table as text: a few evenly spaced points of each curve, then other classifiers."""
        varied, measured = "tolerance", f"mean {self.measure}"
        if self.over is not None:
            varied, measured = "bound", self.over.split(",")[0]
        less = self.measure == "ratio" or (self.over or "").endswith("at least")
        gains = f"0.01 {'less' if less else 'more'} gains"
        names = dict.fromkeys(point.curve for point in self.points)
        shown = [point for name in names for point in _spread(self.curve(name), _SHOWN)]
        lines = [["curve", varied, "forecast", measured, "accuracy", gains, "verdict"]]
        for point in (*shown, *self.others):
            tolerance = "" if point.tolerance is None else f"{point.tolerance:.4f}"
            numbers = _with_interval(point.measured), _with_interval(point.accuracy), _or_dash(point.price)
            verdict = (point.comparison and point.comparison.verdict) or ""
            lines.append([point.curve, tolerance, _or_dash(point.forecast), *numbers, verdict])
        yield Block(lines)

    def _repr_html_(self) -> str:
        return super()._repr_html_() + inline_svg(self.plot)


def chart_arguments(
    records: list[dict[str, Any]], measure: Literal["difference", "ratio", "bound"], notion: str
) -> dict[str, Any]:
    """Arguments of `frontier_chart`.

    Where a bound varies, its rate takes the place of the disparity, and `notion` says which it is.
    """
    if measure != "bound":
        return {"records": records, "x_title": f"mean {measure}, {notion}", "measure": measure}
    names = {f"disparity{end}": f"rate{end}" for end in ("", "_low", "_high")}
    names["expected_disparity"] = "expected_rate"
    shown = [record | {key: record[rate] for key, rate in names.items()} for record in records]
    return {"records": shown, "x_title": notion, "measure": measure}


def _limits(name: str, rate: Rate | Comparison) -> dict[str, float]:
    """A number and its interval, for a record."""
    return {name: rate.value, f"{name}_low": rate.low, f"{name}_high": rate.high}


def _with_interval(rate: Rate | Comparison) -> str:
    return f"{rate.value:.4f} [{rate.low:.4f}, {rate.high:.4f}]"


def _spread(points: tuple[Point, ...], most: int) -> list[Point]:
    """A few evenly spaced points, including both ends."""
    places = {round(k * (len(points) - 1) / (most - 1)) for k in range(most)}
    return [points[k] for k in sorted(places)]


def _or_dash(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"

"""The whole story on the bundled Adult data: what a plain model does, what fairness costs, and the proof."""

from __future__ import annotations

from pathlib import Path

from evenhand.auditing.audit import audit
from evenhand.auditing.comparison import Comparison
from evenhand.auditing.group_rates import Rate
from evenhand.auditing.result import Audit
from evenhand.datasets import load_adult
from evenhand.display.text import show
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.exceptions import MissingExtraError
from evenhand.fairness.groups import GroupName
from evenhand.fairness.notions import DemographicParity
from evenhand.inputs.splits import random_split
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.report.page import write_report
from evenhand.solver.certificate import small
from evenhand.tradeoff.compute import frontier
from evenhand.tradeoff.frontier import Frontier, Point

try:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
except ImportError:
    raise MissingExtraError("rich", "demo") from None

__all__ = ["TOLERANCES", "run"]

TOLERANCES = (0.05, 0.02)

_SENSITIVE = ["race", "sex"]
_STEP = 0.002
"""Between the tolerances of the curve, which are all solved for."""


def run(page: Path) -> Frontier:
    """Learn, compare, print, and write the page.

    Parameters
    ----------
    page : Path
        Overwritten if it is there.

    Returns
    -------
    Frontier
        The curves that the tables are about.
    """
    console = Console(highlight=False)
    adult = load_adult()
    X, y = adult.features.hstack(adult.sensitive), adult.label
    learn, judge = random_split(len(y), 0.5, seed=0)
    people = X[judge].select(_SENSITIVE)
    console.print(
        f"[bold]Who earns more than 50,000 dollars?[/bold] {len(y):,} people of the 1994 census (Adult), in "
        "groups by race and sex. Half to learn from, half to judge on; intervals: 95%.\n"
    )

    plain = TabularClassifier().fit(adult.features[learn], y[learn]).predict(adult.features[judge])
    before = audit(y[judge], plain, people)
    console.print(_groups(before))
    worst = before["demographic parity"]
    console.print(f"Furthest from everyone, MD: {_interval(worst)}, {_who(worst.group)}.\n")

    fair = {name: _fair(TOLERANCES[0], aware=name == "aware") for name in ("blind", "aware")}
    curve = frontier(
        fair,
        X[learn],
        y[learn],
        test=(X[judge], y[judge]),
        tolerances=[k * _STEP for k in range(round(worst.value / _STEP) + 1)],
        others={"plain": plain},
        verbose=True,
    )
    points = [_at(curve, name, tolerance) for name in fair for tolerance in TOLERANCES]
    console.print(_comparison([*curve.others, *points]))
    console.print(
        "Blind models never see race or sex. The proof: given what was learned, no model within the "
        "tolerance has a risk (half the error) below the bound. On other people MD varies, most in small "
        "groups; confidence=0.95 promises it, or tells how many people that takes.\n"
    )
    console.print(_prices(points))
    console.print("A group that shows - has room: the tolerance for it costs nothing.\n")

    model = fair["blind"].fit(X[learn], y[learn])
    after = audit(y[judge], model.predict(X[judge]), people, constraint=model.constraint, before=plain)
    with console.status("drawing the page"):
        write_report(
            page,
            after,
            before=before,
            model=model,
            frontier=curve,
            test=(X[judge], y[judge]),
            title="Income decisions by race and sex",
            data=adult.description,
        )
    console.print(f"Everything as a page, with a slider over the tolerance: {page}", soft_wrap=True)
    return curve


def _fair(tolerance: float, *, aware: bool) -> FairPostprocessor:
    return FairPostprocessor(
        constraint=DemographicParity(difference=tolerance),
        sensitive_features=_SENSITIVE,
        aware=aware,
        verbose=True,
    )


def _at(curve: Frontier, name: str, tolerance: float) -> Point:
    return min(curve.curve(name), key=lambda point: abs((point.tolerance or 0.0) - tolerance))


def _groups(before: Audit) -> Table:
    table = _table("A plain model", "group", "people", "earn >50K", "are selected")
    for found in before.groups:
        if found.kind != "independent" and found.rows and found.positives is not None:
            share = found.positives / found.rows
            rate = _interval(found.rates["selection rate"])
            table.add_row(_who(found.group), f"{found.rows:,.0f}", f"{share:.3f}", rate)
    return table


def _comparison(points: list[Point]) -> Table:
    table = _table("Fair models", "", "accuracy", "MD on test rows", "risk", "bound", "gap")
    for point in points:
        proof: list[str] = []
        if point.tolerance is not None:
            proof = [f"{point.risk:.5f}", f"{point.bound:.5f}", small(point.risk - point.bound)]
        table.add_row(_name(point), _interval(point.accuracy), _interval(point.comparison), *proof)
    return table


def _prices(points: list[Point]) -> Table:
    """What a hundredth of tolerance more for one group would buy in accuracy, the dearest group first."""
    table = _table("Shadow prices: accuracy bought by 0.01 more tolerance", "group")
    for point in points:
        table.add_column(_name(point), justify="right")
    bought = {name.group: [0.02 * point.prices[name] for point in points] for name in points[0].prices}
    for group, prices in sorted(bought.items(), key=lambda item: -sum(item[1])):
        table.add_row(_who(group), *(f"{price:.4f}" if price > 5e-5 else "-" for price in prices))
    return table


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        collapse_padding=True,
        pad_edge=False,
    )
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _name(point: Point) -> str:
    return point.curve if point.tolerance is None else f"{point.curve} {point.tolerance:.2f}"


def _interval(rate: Rate | Comparison) -> str:
    return f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}]".replace("[", r"\[")


def _who(group: GroupName | None) -> str:
    return "everyone" if group is None or not group.values else " ".join(map(show, group.values))

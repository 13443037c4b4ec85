"""An example on the bundled Adult data: what a plain model does, what fairness costs, and the proof."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

import evenhand as eh
from evenhand.auditing.comparison import Comparison, estimate
from evenhand.auditing.group_rates import Rate
from evenhand.auditing.result import Audit
from evenhand.data.features import random_split
from evenhand.display.notebook import aligned
from evenhand.display.progress import waiting
from evenhand.display.text import show
from evenhand.groups.groups import GroupName
from evenhand.solver.certificate import small
from evenhand.tradeoff.frontier import Frontier, Point

TOLERANCES = (0.05, 0.02)

_SENSITIVE = ["race", "sex"]
_WIDTH = 80
_STEP = 0.002
"""Distance between the tolerances of the curve."""


def run(page: Path) -> Frontier:
    """Fit, compare and print models, and write the report.

    Parameters
    ----------
    page : Path
        Overwritten if it exists.

    Returns
    -------
    Frontier
        The curves behind the tables.
    """
    adult = eh.datasets.load_adult()
    X, y = adult.features.hstack(adult.sensitive), adult.label
    train, test = random_split(len(y), 0.5, seed=0)
    sensitive = X[test].select(_SENSITIVE)
    _say(
        f"Who earns more than 50,000 dollars? {len(y):,} people of the 1994 census (Adult), in "
        "groups by race and sex. Half to learn from, half to judge on; intervals: 95%."
    )

    plain = eh.TabularClassifier().fit(adult.features[train], y[train]).predict(adult.features[test])
    before = eh.audit(y[test], plain, sensitive)
    _show("A plain model", _groups(before))
    worst = before["demographic parity"]
    _say(f"Furthest from everyone, MD: {_interval(worst)}, {_who(worst.group)}.")

    parity = eh.DemographicParity(difference=TOLERANCES[0])
    fair = {
        name: eh.FairPostprocessor(
            constraint=parity, sensitive_features=_SENSITIVE, aware=name == "aware", verbose=True
        )
        for name in ("blind", "aware")
    }
    curve = eh.frontier(
        fair,
        X[train],
        y[train],
        test=(X[test], y[test]),
        tolerances=[k * _STEP for k in range(round(worst.value / _STEP) + 1)],
        others={"plain": plain},
        verbose=True,
    )
    points = [_at(curve, name, tolerance) for name in fair for tolerance in TOLERANCES]
    _show("Fair models", _comparison([*curve.others, *points]))
    _say(
        "Blind models never see race or sex. Forecast: the MD that as many other people were likely to show "
        "when the model was fitted. margin='forecast' brings it near what was asked for, and guarantee=0.95 "
        "makes the tolerance hold for them too, or fit says how many rows that takes. The proof: given the "
        "learned probabilities, no model within the tolerance has a risk (half the error) below the bound; "
        f"these exceed it by at most {small(max(point.risk - point.bound for point in points))}."
    )

    model = fair["blind"].fit(X[train], y[train])
    without = model.predict_unconstrained(X[test])
    after = eh.audit(y[test], model.predict(X[test]), sensitive, constraint=model.constraint, before=without)
    with waiting("drawing the page"):
        eh.write_report(
            page,
            after,
            before=before,
            model=model,
            frontier=curve,
            test=(X[test], y[test]),
            title="Income decisions by race and sex",
            data=adult.description,
        )
    _say(f"Everything as a page, with what each group's tolerance costs and a slider over it: {page}")
    return curve


def _at(curve: Frontier, name: str, tolerance: float) -> Point:
    return min(curve.curve(name), key=lambda point: abs((point.tolerance or 0.0) - tolerance))


def _groups(before: Audit) -> Iterator[list[str]]:
    yield ["group", "people", "earn >50K", "are selected"]
    for row in before.groups:
        if row.kind != "independent" and row.rows and row.positives is not None:
            share, rate = row.positives / row.rows, _interval(row.rates["selection rate"])
            yield [_who(row.group), f"{row.rows:,.0f}", f"{share:.3f}", rate]


def _comparison(points: list[Point]) -> Iterator[list[str]]:
    yield ["", "asked", "forecast", "measured MD", "accuracy", "bound"]
    for point in points:
        asked, proof = ["", ""], ""
        if point.tolerance is not None:
            asked, proof = [f"{point.tolerance:.2f}", f"{point.forecast:.3f}"], f"{point.bound:.5f}"
        yield [point.curve, *asked, _interval(point.measured), _interval(point.accuracy), proof]


def _say(text: str) -> None:
    print(fill(text, _WIDTH, break_long_words=False), flush=True)


def _show(title: str, table: Iterator[list[str]]) -> None:
    print("", title, *aligned(list(table)), sep="\n", flush=True)


def _interval(rate: Rate | Comparison) -> str:
    return estimate(rate.value, rate.low, rate.high)


def _who(group: GroupName | None) -> str:
    return "everyone" if group is None or not group.values else " ".join(map(show, group.values))

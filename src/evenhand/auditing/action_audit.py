"""Audit of decisions among several actions: one audit for each rate, with intervals that hold together.

Every rate of actions, among all rows or among those of some labels, is a share: of the rows that get an
action, or the right one. So it is audited like a selection rate, or like a true-positive rate; and the
intervals of all rates together have the stated confidence (Bonferroni).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand._atomic import written_at_once
from evenhand.auditing.comparison import Comparison, asks, compare, estimate, group_name, judged
from evenhand.auditing.group_rates import Finding, find
from evenhand.auditing.rate_bounds import compare_with_bound
from evenhand.auditing.tally import Tally, tally
from evenhand.data.columns import factorize
from evenhand.data.labels import MAX_CLASSES
from evenhand.data.tables import Library, library_of, make_table
from evenhand.display.notebook import html_table, inline_svg, text_table
from evenhand.exceptions import InputError
from evenhand.requirements.actions import Actions, ActionStatistic, Costs, on_actions
from evenhand.requirements.bounds import RateBound
from evenhand.requirements.notions import DemographicParity, EqualOpportunity, Notion
from evenhand.requirements.rates import read_rows
from evenhand.requirements.requirement import Constraint, Requirement

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ActionAudit:
    """Result of :func:`evenhand.audit` with ``actions=``. ``print`` shows it.

    Attributes
    ----------
    actions : tuple
        Their names.
    rates : dict
        For each action, the share of all rows and of each group that get it, with its interval.
    comparisons : tuple of Comparison
        For each part of the requirement, or parity of each action, the group that is furthest off. Intervals
        hold simultaneously for all groups, and for all rates of a notion.
    confidence : float
    library : {"pandas", "polars", "pyarrow"} or None
    """

    actions: tuple[Any, ...]
    rates: Mapping[Any, tuple[Finding, ...]]
    comparisons: tuple[Comparison, ...]
    confidence: float
    library: Library | None = None

    def _tables(self) -> Iterator[tuple[list[str], list[tuple[str, ...]]]]:
        groups = next(iter(self.rates.values()))
        by_group = [
            (
                group_name(group.group),
                f"{group.rows:,.0f}",
                *(_rate_text(self.rates[action][k]) for action in self.actions),
            )
            for k, group in enumerate(groups)
        ]
        yield ["group", "rows", *map(str, self.actions)], by_group
        yield (
            ["disparity", "rate", "value", "furthest group", "verdict"],
            [
                (
                    asks(found),
                    str(found.statistic),
                    estimate(found.value, found.low, found.high),
                    found.who,
                    found.verdict or "",
                )
                for found in self.comparisons
            ],
        )

    def __str__(self) -> str:
        return "\n\n".join(text_table(*part, most=len(part[1])) for part in self._tables())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        tables = (html_table(*part, most=None) for part in self._tables())
        return "".join(tables) + inline_svg(self.plot)

    def to_html(self, path: str | os.PathLike[str], *, title: str = "Audit") -> Path:
        """Write the tables and the chart as a page that needs no network.

        Parameters
        ----------
        path : path
        title : str, default="Audit"

        Returns
        -------
        Path
        """
        heading = html_table([title], [])
        page = f'<!doctype html><html lang="en"><meta charset="utf-8">{heading}{self._repr_html_()}</html>'
        with written_at_once(Path(path)) as unfinished:
            unfinished.write_text(page, "utf-8")
        return Path(path)

    def plot(self) -> Any:
        """Stacked chart of the share of each action in each group.

        Returns
        -------
        altair chart
        """
        from evenhand.charts import actions_chart  # noqa: PLC0415  (needs an extra)

        return actions_chart(
            {"group": group_name(one.group), "action": str(action), "share": one.rates[_SELECTED].value}
            for action, found in self.rates.items()
            for one in found
        )

    def to_frame(self, *, backend: Library | None = None) -> Any:
        """A table with one row per group and action.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None

        Returns
        -------
        table
            Columns ``group``, ``action``, ``rows``, ``rate``, ``low``, ``high``.
        """
        rows = [
            {
                "group": group_name(one.group),
                "action": str(action),
                "rows": one.rows,
                "rate": one.rates[_SELECTED].value,
                "low": one.rates[_SELECTED].low,
                "high": one.rates[_SELECTED].high,
            }
            for action, found in self.rates.items()
            for one in found
        ]
        return make_table(rows, numbers=("rows", "rate", "low", "high"), library=backend or self.library)


_SELECTED = "selection rate"


def _rate_text(found: Finding) -> str:
    rate = found.rates[_SELECTED]
    return estimate(rate.value, rate.low, rate.high)


def audit_actions(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    actions: Any,
    constraint: Constraint | None,
    confidence: float,
    **settings: Any,
) -> ActionAudit:
    """Audit of decisions among several actions; see :func:`evenhand.audit`.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, constraint, confidence
        See there.
    actions : Costs, or sequence of names
    **settings
        Of the reading of rows.

    Returns
    -------
    ActionAudit
    """
    among, labels = _read_labels(y_true, actions)
    taken = _numbers(y_pred, among.names, "y_pred", "actions")

    def counted(statistic: ActionStatistic) -> Tally:
        """Rows as if the rate were a selection rate; among some labels, a true-positive rate."""
        if labels is None and statistic.needs_labels:
            raise InputError("this requirement is about labels: pass y_true.")
        at = np.zeros(len(taken), np.intp) if labels is None else labels
        values = statistic.table[at, taken]
        if values.min() < 0 or values.max() > 1:
            raise InputError("values of actions must be between 0 and 1 to be audited.")
        truth = None if statistic.mask.all() else statistic.mask[at].astype(np.int64)
        rows = read_rows(truth, values, sensitive_features, **settings)
        return tally(rows)

    parity = on_actions(DemographicParity(difference=0.0), among)
    each = {
        action: counted(ActionStatistic(str(action), np.ones(len(among.labels)), table))
        for action, table in zip(among.names, _indicators(among), strict=True)
    }
    asked = parity if constraint is None else on_actions(constraint, among)
    return ActionAudit(
        among.names,
        {action: find(one, confidence) for action, one in each.items()},
        tuple(
            found
            for part in asked.requirements
            for found in _compared(part, counted, confidence, judge=constraint is not None)
        ),
        confidence,
        library_of(sensitive_features, y_pred, y_true),
    )


def _indicators(actions: Actions) -> Floats:
    """For each action, 1 where it is taken, whatever the label; shape (K, L, K)."""
    return np.repeat(np.eye(len(actions.names))[:, None], len(actions.labels), axis=1)


def _compared(part: Requirement, counted: Any, confidence: float, *, judge: bool) -> Iterator[Comparison]:
    """The comparison of each rate with its bound; of a notion, all of its rates together."""
    if isinstance(part, RateBound):
        statistic: Any = part.rate_statistic
        bound = RateBound(_SELECTED, at_least=part.at_least, at_most=part.at_most, groups=part.groups)
        for found in compare_with_bound(bound, counted(statistic), confidence):
            yield replace(found, notion=statistic.name, statistic=statistic.name)
        return
    notion: Any = part
    level, parts = 1 - (1 - confidence) / len(notion.statistics), []
    for statistic in notion.statistics:
        kind: type[Notion] = DemographicParity if statistic.mask.all() else EqualOpportunity
        tolerance = {"difference": notion.difference, "ratio": notion.ratio}
        own = kind(**tolerance, groups=notion.groups, against=notion.against)
        found = compare(own, counted(statistic), level, judge=judge)
        named = tuple(replace(one, statistic=statistic.name) for one in found.distances)
        parts.append(replace(found, notion=notion.label, statistic=statistic.name, distances=named))
    if not judge:
        yield from parts
        return
    limits = [(one.low, one.high) for one in parts]
    sign = 1 if notion.compares_by == "difference" else -1
    worst = max(parts, key=lambda one: -np.inf if np.isnan(one.value) else sign * one.value)
    low, high = (sign * max(sign * end for end in ends) for ends in zip(*limits, strict=True))
    yield replace(
        worst,
        low=low,
        high=high,
        verdict=judged(notion.compares_by, worst.tolerance, low, high),
        undefined=tuple(dict.fromkeys(name for one in parts for name in one.undefined)),
        distances=tuple(distance for one in parts for distance in one.distances),
    )


def _read_labels(y_true: Any, actions: Any) -> tuple[Actions, NDArray[np.intp] | None]:
    """The actions, and the number of each row's label; None if labels are not known."""
    if isinstance(actions, Costs):
        among = Actions.of(actions, actions.labels)
    elif isinstance(actions, str) or not isinstance(actions, Sequence | np.ndarray):
        raise InputError(f"actions must be Costs or a list of names, got {actions!r}.")
    else:
        among = Actions.of(0.5, tuple(actions))
    if y_true is None:
        return among, None
    return among, _numbers(y_true, among.labels, "y_true", "labels of Costs, or actions")


def _numbers(values: Any, names: Sequence[Any], what: str, which: str) -> NDArray[np.intp]:
    """The position of each value among names."""
    levels, codes = factorize(values, what=what, limit=MAX_CLASSES)
    unknown = [level for level in levels if level not in names]
    if unknown or (codes < 0).any():
        missing = "missing values" if not unknown else f"{unknown[0]!r}"
        raise InputError(f"{what} holds {missing}, which is not among the {which}: {list(names)!r}.")
    return np.array([names.index(level) for level in levels], np.intp)[codes]

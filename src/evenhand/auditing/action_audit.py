"""Audit of decisions among several actions: one audit for each rate, with intervals that hold together.

Every rate of actions, among all rows or among those of some labels, is a share: of the rows that get an
action, or the right one. So it is audited like a selection rate, or like a true-positive rate; and the
intervals of all rates together have the stated confidence (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.auditing.comparison import Comparison, compare, judged
from evenhand.auditing.group_rates import Terms, find, find_excluded
from evenhand.auditing.rate_bounds import compare_with_bound
from evenhand.auditing.result import Audit
from evenhand.auditing.tally import Tally, tally
from evenhand.data.checks import check_rows
from evenhand.data.tables import library_of
from evenhand.exceptions import InputError
from evenhand.requirements.action_rates import ActionRates, ActionStatistic
from evenhand.requirements.actions import on_actions, positions, read_decisions
from evenhand.requirements.bounds import NoWorse, RateBound
from evenhand.requirements.notions import DemographicParity, EqualOpportunity, Notion
from evenhand.requirements.rates import CellRates, read_rows
from evenhand.requirements.requirement import Constraint, Requirement

_SELECTED = "selection rate"


def audit_actions(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    actions: Any,
    constraint: Constraint | None,
    confidence: float,
    before: Any = None,
    **settings: Any,
) -> Audit:
    """Audit of decisions among several actions; see :func:`evenhand.audit`.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, constraint, confidence, before
        See there.
    actions : Costs, or sequence of names
    **settings
        Of the reading of rows.

    Returns
    -------
    Audit
        Its rates are those of the actions.
    """
    among, labels, taken = read_decisions(y_true, y_pred, actions)
    check_rows({"y_pred": y_pred, "before": before})
    earlier = None if before is None else positions(before, among.names, "before", "actions")

    def counted(statistic: ActionStatistic) -> Tally:
        """Rows as if the rate were a selection rate; among some labels, a true-positive rate."""
        if labels is None and statistic.needs_labels:
            raise InputError("this requirement is about labels: pass y_true.")
        at = np.zeros(len(taken), np.intp) if labels is None else labels
        values = statistic.table[at, taken]
        then = None if earlier is None else statistic.table[at, earlier]
        truth = None if statistic.mask.all() else statistic.mask[at].astype(np.int64)
        return tally(read_rows(truth, values, sensitive_features, before=then, **settings))

    names, every = tuple(map(str, among.names)), np.ones(len(among.labels))
    # Of each action, 1 where it is taken, whatever the label.
    tables = np.repeat(np.eye(len(names))[:, None], len(every), axis=1)
    each = [counted(ActionStatistic(name, every, table)) for name, table in zip(names, tables, strict=True)]
    found = [find(one, confidence) for one in each]
    rates = [[one.rates[_SELECTED] for one in of_group] for of_group in zip(*found, strict=True)]
    groups = tuple(
        replace(group, selected=None, rates=dict(zip(names, own, strict=True)), change=None)
        for group, own in zip(found[0], rates, strict=True)
    )
    asked = on_actions(DemographicParity(difference=0.0) if constraint is None else constraint, among)
    if asked.controls:
        raise InputError(
            "an audit of several actions takes no control features: audit each stratum separately."
        )
    comparisons = tuple(
        one
        for part in asked.requirements
        for one in _compared(part, counted, confidence, judge=constraint is not None)
    )
    terms = Terms.of(each[0], confidence, labelled=False, compared=False, randomised=False, actions=names)
    library, excluded = library_of(sensitive_features, y_pred, y_true), find_excluded(each[0])
    excluded = None if excluded is None else replace(excluded, selection_rate=None)
    return Audit(terms, groups, comparisons, library, excluded)


def _compared(part: Requirement, counted: Any, confidence: float, *, judge: bool) -> Iterator[Comparison]:
    """The comparison of each rate with its bound; of a notion, all of its rates together."""
    if isinstance(part, RateBound | NoWorse):
        statistic = part.rate_statistic
        for found in compare_with_bound(_of_selection(part), counted(statistic), confidence):
            yield replace(found, notion=part.label, statistic=statistic.name)
        return
    notion: Any = part
    level, parts = 1 - (1 - confidence) / len(notion.statistics), []
    for statistic in notion.statistics:
        kind: type[Notion] = DemographicParity if statistic.mask.all() else EqualOpportunity
        tolerance = {"difference": notion.difference, "ratio": notion.ratio}
        own = kind(**tolerance, groups=notion.groups, against=notion.against)
        found, name = compare(own, counted(statistic), level, judge=judge), statistic.name
        distances = tuple(replace(one, statistic=name) for one in found.distances)
        side = f"not {name}" if found.side == "refused" else name
        parts.append(replace(found, notion=notion.label, statistic=name, side=side, distances=distances))
    if not judge:
        yield from (replace(one, notion=f"{one.notion}, {one.statistic}", side=None) for one in parts)
        return
    sign = 1 if notion.compares_by == "difference" else -1
    worst = max(parts, key=lambda one: -np.inf if np.isnan(one.value) else sign * one.value)
    limits = zip(*((one.low, one.high) for one in parts), strict=True)
    low, high = (sign * max(sign * end for end in ends) for ends in limits)
    yield replace(
        worst,
        low=low,
        high=high,
        verdict=judged(notion.compares_by, worst.tolerance, low, high),
        undefined=tuple(dict.fromkeys(name for one in parts for name in one.undefined)),
        distances=tuple(distance for one in parts for distance in one.distances),
    )


def _of_selection(part: RateBound | NoWorse) -> RateBound | NoWorse:
    """A bound on a rate of actions, as one on the selection rate of rows that are counted for it."""
    if isinstance(part, RateBound):
        return RateBound(_SELECTED, at_least=part.at_least, at_most=part.at_most, groups=part.groups)
    than = part.than
    if isinstance(than, ActionRates):
        mass = np.stack([than.mass.sum(axis=1), np.zeros(len(than.mass))], axis=1)
        selected = (part.rate_statistic.table * than.selected).sum(axis=(1, 2))
        than = CellRates(than.groups, mass, np.stack([selected, mass[:, 1]], axis=1))
    return NoWorse(_SELECTED, than=than, groups=part.groups, margin=part.margin)

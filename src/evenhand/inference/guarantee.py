"""A promise that holds on new data: a requirement tested on reserved rows, which nothing was learned from.

Whether a group is within tolerance of the population is a question about two shares, that of the group and
that of all others, because q - q_g = (1 - pi)(q_r - q_g) with pi the group's part of the population. Each is
a binomial count on the reserved rows. The test is exact: its p-value is the largest probability, over all
pairs of shares that violate the tolerance, of counts at least as good as those observed.

A requirement is promised only if every group passes at the same level, so the number of groups needs no
correction. Classifiers are tested from the strictest on until the first failure, so their number needs none
either.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.special import ndtri

from evenhand.display.notebook import html_table
from evenhand.exceptions import InputError, PromiseWarning, warn_user
from evenhand.fairness.constraints import ConstraintName
from evenhand.fairness.notions import Notion
from evenhand.fairness.rates import CellRates
from evenhand.fairness.requirement import Constraint
from evenhand.fairness.statistic import Statistic
from evenhand.inference.noninferiority import ROUNDING, Count, p_value
from evenhand.inputs.checks import check_fraction

__all__ = ["GroupTest", "Promise", "check_promise", "promised", "run_tests", "warn_if_unpromised"]

T = TypeVar("T")

_POWER = 0.8
_MOST_SEARCHED = 5_000
_SHOWN = 5


@dataclass(frozen=True)
class GroupTest:
    """The test of one group on the reserved rows.

    Attributes
    ----------
    name : ConstraintName
        Notion, statistic and group.
    n, others : int
        Rows of the group and of all others that the statistic looks at.
    value, rest : float
        The statistic in the group and among all others.
    p_value : float
        Largest probability of counts at least as good as these if the tolerance is violated.
    passed : bool
    needed : int or None
        Approximate number of reserved rows of the group at which the test passes four times out of five, if
        the true statistics are as observed; a lower bound if they violate the tolerance. None if the test
        passed or the group has no rows.
    """

    name: ConstraintName
    n: int
    others: int
    value: float
    rest: float
    p_value: float
    passed: bool
    needed: int | None


@dataclass(frozen=True, eq=False)
class Promise:
    """What is promised about a classifier on new data, and the evidence for it.

    Attributes
    ----------
    holds : bool
        Whether the requirement is promised.
    confidence : float
        The probability of a wrong promise, over the draw of the data, is at most 1 minus this.
    constraint : Constraint
        The requirement.
    internal : Constraint
        The requirement that the classifier was fitted for; usually a stricter one.
    n_rows : int
        Number of reserved rows, which the tests use.
    n_selected : int
        Number of reserved rows that the classifier selects.
    tests : tuple of GroupTest
        One for each group and statistic.
    n_tested : int
        Number of classifiers tested, up to and including the first that failed.

    Examples
    --------
    >>> import evenhand as eh
    >>> adult = eh.datasets.load_adult()
    >>> X, _ = adult.one_hot()
    >>> from sklearn.linear_model import LogisticRegression
    >>> fair = eh.FairPostprocessor(
    ...     LogisticRegression(max_iter=1000), eh.DemographicParity(difference=0.1), confidence=0.95
    ... )
    >>> fair.fit(X / X.max(axis=0), adult.label, sensitive_features=adult.sensitive[["sex"]]).promise_.holds
    True
    """

    holds: bool
    confidence: float
    constraint: Constraint
    internal: Constraint
    n_rows: int
    n_selected: int
    tests: tuple[GroupTest, ...]
    n_tested: int

    @property
    def constant(self) -> bool:
        """Whether the classifier decides the same for all reserved rows."""
        return self.n_selected in (0, self.n_rows)

    @property
    def needed(self) -> dict[ConstraintName, int]:
        """Reserved rows needed in each group that did not pass; see :class:`GroupTest`."""
        return {test.name: test.needed for test in self.tests if test.needed is not None}

    def __repr__(self) -> str:
        passed = sum(test.passed for test in self.tests)
        return (
            f"<Promise {'holds' if self.holds else 'does not hold'}: {self.constraint!r}, confidence "
            f"{self.confidence:g}; {passed} of {len(self.tests)} tests passed on {self.n_rows:,} rows>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                test.name,
                f"{test.n:,}",
                f"{test.value:.4f}",
                f"{test.rest:.4f}",
                f"{test.p_value:.3g}",
                "yes" if test.passed else "no",
                "" if test.needed is None else f"{test.needed:,}",
            )
            for test in sorted(self.tests, key=lambda test: test.passed)
        ]
        headings = ["test", "rows", "group", "others", "p-value", "passed", "rows needed"]
        return f"<p>{html.escape(str(self))}</p>{html_table(headings, rows)}"

    def __str__(self) -> str:
        which = "every reserved row" if self.n_selected else "none of the reserved rows"
        constant = f" The classifier is constant: it selects {which}." if self.constant else ""
        if self.holds:
            return (
                f"{self.constraint!r} holds on new data from the same population with confidence "
                f"{self.confidence:g}. The classifier was fitted for {self.internal!r} and tested on "
                f"{self.n_rows:,} reserved rows.{constant}"
            )
        several = len({test.name.statistic for test in self.tests}) > 1
        failed = sorted((test for test in self.tests if not test.passed), key=lambda test: test.n)
        short = [
            f"{test.name.group}{f' ({test.name.statistic})' if several else ''} "
            + ("has none" if not test.n else f"has {test.n:,} and needs about {test.needed:,}")
            for test in failed[:_SHOWN]
        ]
        more = [f"and {len(failed) - _SHOWN} more have too few"] if len(failed) > _SHOWN else []
        return (
            f"{self.constraint!r} cannot be promised with confidence {self.confidence:g}: {self.n_rows:,} "
            f"reserved rows are not enough. Of these, {', '.join(short + more)}. The classifier returned is "
            f"the strictest one, fitted for {self.internal!r}.{constant}"
        )


def check_promise(constraint: Constraint, confidence: object, reserve: object) -> None:
    """Raise an InputError, before anything is fitted, if a requirement cannot be promised.

    Parameters
    ----------
    constraint : Constraint
    confidence : float
        Strictly between 0 and 1.
    reserve : float
        Share of the rows to reserve.
    """
    for name, value in (("confidence", confidence), ("reserve", reserve)):
        check_fraction(name, value)
    for notion in constraint.notions:
        if notion.tolerance == (0 if notion.compares_by == "difference" else 1):
            raise InputError(
                f"{notion!r} asks for exact parity, which no number of rows can promise: allow a tolerance."
            )
        for statistic in notion.statistics:
            if not _is_share(statistic):
                raise InputError(
                    f"the {statistic.name} of {notion.label} is not a share of rows, and only shares can be "
                    "promised."
                )


def _is_share(statistic: Statistic) -> bool:
    """Whether a statistic is a mean of zeros and ones over some of the rows."""
    ends = [
        (intercept, intercept + slope)
        for intercept, slope, mask in zip(statistic.intercept, statistic.slope, statistic.mask, strict=True)
        if mask
    ]
    return set(statistic.mask) <= {0, 1} and all(set(pair) <= {0, 1} for pair in ends)


def run_tests(constraint: Constraint, rates: CellRates, level: float) -> tuple[GroupTest, ...]:
    """Tests of a requirement, one for each group and statistic.

    Parameters
    ----------
    constraint : Constraint
    rates : CellRates
        Counts of deterministic decisions, without weights.
    level : float
        Largest accepted probability of a wrong pass.

    Returns
    -------
    tuple of GroupTest
        The requirement is passed if every `p_value` is at most `level`.
    """
    return tuple(
        test
        for notion in constraint.notions
        for statistic in notion.statistics
        for test in _statistic_tests(notion, statistic, rates, level)
    )


def _statistic_tests(
    notion: Notion, statistic: Statistic, rates: CellRates, level: float
) -> Iterator[GroupTest]:
    mask, intercept, slope = map(np.array, (statistic.mask, statistic.intercept, statistic.slope))
    hits = (mask * (intercept * rates.mass + slope * rates.selected)).sum(axis=1)
    rows = (mask * rates.mass).sum(axis=1)
    family = rates.groups.members(notion.groups)
    for name, members in zip(family.names, family.matrix, strict=True):
        own, others = ((round(float(who @ hits)), round(float(who @ rows))) for who in (members, 1 - members))
        p = p_value(own, others, tolerance=notion.tolerance, measure=notion.compares_by, level=level)
        yield GroupTest(
            ConstraintName(notion.label, statistic.name, name),
            own[1],
            others[1],
            own[0] / own[1] if own[1] else math.nan,
            others[0] / others[1] if others[1] else math.nan,
            p,
            p <= level,
            None if p <= level or not own[1] else _needed(own, others, notion, level),
        )


def _needed(own: Count, others: Count, notion: Notion, level: float) -> int:
    """Rows of a group at which the test would pass four times out of five, by the normal approximation.

    The test has to pass on both sides of the tolerance; all other groups grow in proportion.
    """
    (q, rest), part = (k / n for k, n in (own, others)), own[1] / (own[1] + others[1])
    overall, wide = part * q + (1 - part) * rest, notion.tolerance
    if notion.compares_by == "difference":
        margins, full = [wide - (1 - part) * (rest - q), wide - (1 - part) * (q - rest)], wide
    else:
        margins = [q - wide * overall, (1 - q) - wide * (1 - overall)]
        full = (1 - wide) * min(overall, 1 - overall)
    margin = min(margins) if min(margins) > 0 else max(full, ROUNDING)  # then it is a lower bound
    both = max(margins) < 2 * margin
    quantiles = ndtri(1 - level) + ndtri((1 + _POWER) / 2 if both else _POWER)
    smooth = [(k + 1) / (n + 2) for k, n in (own, others)]
    spread = [share * (1 - share) for share in smooth]
    variance = (1 - part) ** 2 * (spread[0] + spread[1] * own[1] / others[1])
    rough = max(own[1] + 1, math.ceil(variance * (quantiles / margin) ** 2))
    return rough if min(margins) <= 0 else max(rough, _passing(own, others, notion, level))


def _passing(own: Count, others: Count, notion: Notion, level: float) -> int:
    """Smallest number of rows of a group at which the test passes if all shares stay as observed.

    The normal approximation fails where nothing varies because all or none are selected. It is good beyond a
    few thousand rows, where the search ends.
    """

    def passes(n: int) -> bool:
        counts = [(round(k * n / own[1]), round(size * n / own[1])) for k, size in (own, others)]
        p = p_value(*counts, tolerance=notion.tolerance, measure=notion.compares_by, level=level)
        return p <= level

    low = high = own[1]
    while not passes(high):
        low, high = high, 2 * high
        if high > _MOST_SEARCHED:
            return low
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def promised(
    candidates: Iterable[tuple[Constraint, T, Sequence[CellRates]]], constraint: Constraint, confidence: float
) -> tuple[T, Promise]:
    """Test classifiers in order until one fails, and return the last that passed.

    Parameters
    ----------
    candidates : iterable of (Constraint, classifier, sequence of CellRates)
        From the strictest on: the requirement that each was fitted for, the classifier, and counts of its
        decisions on the reserved rows. There are several counts if decisions can be randomised in several
        ways; the promise then covers all of them. The iterable is not read beyond the first failure.
    constraint : Constraint
        The requirement to promise.
    confidence : float

    Returns
    -------
    classifier, Promise
        The first classifier if even that fails.
    """
    level = 1 - float(confidence)
    best: tuple[Constraint, T, CellRates, tuple[GroupTest, ...]] | None = None
    holds, tested = False, 0
    for internal, classifier, (rates, *again) in candidates:
        tests = run_tests(constraint, rates, level)
        for other in again:
            pairs = zip(tests, run_tests(constraint, other, level), strict=True)
            tests = tuple(max(pair, key=lambda test: test.p_value) for pair in pairs)
        passed = all(test.passed for test in tests)
        tested += 1
        if passed or best is None:
            best, holds = (internal, classifier, rates, tests), passed
        if not passed:
            break
    if best is None:
        raise ValueError("there are no classifiers to test.")
    internal, classifier, rates, tests = best
    n_rows, selected = (round(float(counts.sum())) for counts in (rates.mass, rates.selected))
    return classifier, Promise(holds, confidence, constraint, internal, n_rows, selected, tests, tested)


def warn_if_unpromised(promise: Promise) -> None:
    """Warn if a requirement could not be promised, with the number of rows needed."""
    if not promise.holds:
        warn_user(str(promise), PromiseWarning)

"""A guarantee for new data: a requirement tested on held-out rows, which nothing was learned from.

Whether a group is within tolerance of the population is a question about two shares, that of the group and
that of all others, because q - q_g = (1 - pi)(q_r - q_g) with pi the group's part of the population. Each is
a binomial count on the held-out rows. The p-value is the largest probability, at eleven points of the border
of what violates the tolerance, of counts at least as good as those observed (``noninferiority``). For two
groups it is an upper bound of that probability, and a bound is a question about one share, tested exactly.

Where groups are known and a threshold fixes the rate, ranks of the held-out rows take the place of tests; see
``ranks``.

A requirement is guaranteed only if every group passes at the same level, so the number of groups needs no
correction. Classifiers are tested from the strictest on until the first failure, so their number needs none
either. Where they come from is in ``margins``; what else is guaranteed of the first one if it fails, in
``attainable``.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from evenhand.display.notebook import html_table
from evenhand.exceptions import GuaranteeWarning, InputError, warn_user
from evenhand.guarantee.attainable import attainable, more_rows
from evenhand.guarantee.group_tests import GroupTest, run_tests
from evenhand.guarantee.ranks import Ranks
from evenhand.requirements.bounds import RateBound
from evenhand.requirements.constraints import ConstraintName
from evenhand.requirements.rates import CellRates
from evenhand.requirements.requirement import Constraint
from evenhand.requirements.statistic import SelectedShare, Statistic

T = TypeVar("T")
Candidate: TypeAlias = tuple[Constraint, T, Sequence[CellRates]]
"""The requirement that a classifier was fitted for, the classifier, and counts of its decisions."""

MOST_ROWS = 10**9
"""A larger number of rows is not realistic, and is not given."""


@dataclass(frozen=True, eq=False)
class GuaranteeResult:
    """What is guaranteed about a classifier on new data, and the evidence for it.

    Attributes
    ----------
    holds : bool
        Whether the requirement is guaranteed.
    confidence : float
        The probability of a wrong guarantee, over the draw of the data, is at most 1 minus this.
    constraint : Constraint
        The requirement.
    internal : Constraint
        The requirement that the classifier was fitted for; usually a stricter one.
    attainable : Constraint or None
        The strictest requirement that is guaranteed of the classifier returned: the one asked for if this
        holds, otherwise one that is less strict; None if there is none.
    n_total : int
        Number of rows in all.
    n_rows : int
        Number of held-out rows, which the tests use.
    n_selected : int
        Number of held-out rows that the classifier selects.
    tests : tuple of GroupTest
        One for each group and statistic.
    limiting : GroupTest or None
        The test that would have to pass for a stricter requirement; None if the guarantee holds.
    n_tested : int
        Number of classifiers tested, up to and including the first that failed; 0 if none was.
    ranks : Ranks or None
        Ranks of the held-out rows at which thresholds were set, if the guarantee rests on these. `p_value` of
        a test is then the probability that the group violates the requirement.

    Examples
    --------
    >>> import evenhand as eh
    >>> adult = eh.datasets.load_adult()
    >>> X, _ = adult.one_hot()
    >>> from sklearn.linear_model import LogisticRegression
    >>> fair = eh.FairPostprocessor(
    ...     LogisticRegression(max_iter=1000), eh.DemographicParity(difference=0.1), guarantee=0.95
    ... )
    >>> fair.fit(X / X.max(axis=0), adult.label, sensitive_features=adult.sensitive[["sex"]]).guarantee_.holds
    True
    """

    holds: bool
    confidence: float
    constraint: Constraint
    internal: Constraint
    attainable: Constraint | None
    n_total: int
    n_rows: int
    n_selected: int
    tests: tuple[GroupTest, ...]
    limiting: GroupTest | None
    n_tested: int
    ranks: Ranks | None = None

    @property
    def constant(self) -> bool:
        """Whether the classifier decides the same for all held-out rows."""
        return self.n_selected in (0, self.n_rows)

    @property
    def needed(self) -> int | None:
        """About how many rows in all the guarantee takes, at the same shares of groups and labels.

        By ranks it is steady; by tests it depends on the noise of these rows, and is often too low.

        None if it is already, or if this cannot be shown with a realistic number of rows: up to 10**9.
        """
        total = math.inf if self.holds else self.n_total * more_rows(self.constraint, self.attainable)
        return _two_digits(total) if total <= MOST_ROWS else None

    def to_dict(self) -> dict[str, Any]:
        """The guarantee as a dictionary for JSON; a number of rows that is not known has a reason."""
        return {
            "holds": self.holds,
            "text": str(self),
            "attainable": None if self.attainable is None else repr(self.attainable),
            "rows": self.n_total,
            "rows_needed": self.needed,
            "rows_needed_reason": None if self.holds or self.needed else self._no_number,
            "limiting": None if self.limiting is None else self.limiting.name.who,
        }

    def _repr_html_(self) -> str:
        rows = [
            (
                test.name,
                f"{test.n:,}",
                f"{test.value:.4f}",
                test.against if math.isnan(test.rest) else f"{test.against}: {test.rest:.4f}",
                f"{test.p_value:.3g}",
                "yes" if test.passed else "no",
            )
            for test in sorted(self.tests, key=lambda test: test.passed)
        ]
        headings = ["test", "rows", "group", "compared with", "p-value", "passed"]
        return f"<p>{html.escape(str(self))}</p>{html_table(headings, rows)}"

    def __repr__(self) -> str:
        which = "every held-out row" if self.n_selected else "none of the held-out rows"
        constant = f" The classifier is constant: it selects {which}." if self.constant else ""
        if self.holds:
            how = " and tested on" if self.ranks is None else "; its thresholds were set by the ranks of"
            return (
                f"{self.constraint!r} holds on new data from the same population with confidence "
                f"{self.confidence:g}. The classifier was fitted for {self.internal!r}{how} "
                f"{self.n_rows:,} held-out rows.{constant}"
            )
        found, limiting = self.attainable, self.limiting
        instead = "nothing weaker can" if found is None else f"{found!r} can ({100 * self.confidence:.4g} %)"
        needed = self.needed
        rows = f"; {self._no_number}" if needed is None else f", or about {needed:,} rows for what was asked"
        who = "" if limiting is None else f"; limiting: {limiting.name.who} ({limiting.n:,} held-out rows)"
        return (
            f"{self.constraint!r} cannot be guaranteed with these {self.n_total:,} rows; {instead}{rows}{who}"
            f". The classifier returned was fitted for {self.internal!r}.{constant}"
        )

    @property
    def _no_number(self) -> str:
        if self.limiting is None or not self.limiting.n:
            return "a group has no held-out rows"
        if self.ranks is not None and self.attainable is None:
            return f"too many of the {self.n_rows:,} held-out rows are tied at a threshold"
        return "what was asked cannot be shown with any realistic number of rows"  # up to 10**9


def _two_digits(number: float) -> int:
    """An estimate to two digits, rounded up."""
    unit: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit


def check_guarantee(constraint: Constraint) -> None:
    """Raise an InputError, before anything is fitted, if a requirement cannot be guaranteed.

    Parameters
    ----------
    constraint : Constraint
    """
    for notion in constraint.notions:
        if notion.tolerance == (0 if notion.compares_by == "difference" else 1):
            raise InputError(
                f"{notion!r} asks for exact parity, which no number of rows can guarantee: allow a tolerance."
            )
    for bound in constraint.bounds:
        if isinstance(bound, RateBound) and (bound.at_least == 1 or bound.at_most == 0):
            raise InputError(
                f"{bound!r} allows no exception, which no number of rows can guarantee: allow some."
            )
    rates = [(notion.label, statistic) for notion in constraint.notions for statistic in notion.statistics]
    for label, statistic in [*rates, *((bound.label, bound.rate_statistic) for bound in constraint.bounds)]:
        if not _is_share(statistic):
            raise InputError(
                f"the {statistic.name} of {label} is not a share of rows, and only shares can be guaranteed."
            )


def _is_share(statistic: Statistic | SelectedShare) -> bool:
    """Whether a statistic is a mean of zeros and ones over some of the rows."""
    counted = np.array(statistic.mask) > 0
    return set(statistic.mask) <= {0, 1} and bool(np.isin(statistic.outcomes[:, counted], (0, 1)).all())


def guaranteed(
    candidates: Iterable[Candidate[T]],
    constraint: Constraint,
    confidence: float,
    *,
    resolved: Constraint | None = None,
    all_rows: CellRates | None = None,
) -> tuple[T, GuaranteeResult]:
    """Test classifiers in order until one fails, and return the last that passed.

    Parameters
    ----------
    candidates : iterable of (Constraint, classifier, sequence of CellRates)
        From the strictest on: the requirement that each was fitted for, the classifier, and counts of its
        decisions on the held-out rows. There are several counts if decisions can be randomised in several
        ways; the guarantee then covers all of them. The iterable is not read beyond the first failure.
    constraint : Constraint
        The requirement to guarantee.
    confidence : float
    resolved : Constraint, default=None
        The same requirement with the rates that its references had in the fit, if it has any
        (``FairnessProblem.constraint``). These are numbers here.
    all_rows : CellRates, default=None
        Counts of the held-out rows and of those that classifiers are fitted to, of any decisions; see
        :func:`evenhand.guarantee.group_tests.run_tests`. They are taken to be the rows in all.

    Returns
    -------
    classifier, GuaranteeResult
        If even the first one fails, it is returned with the strictest requirement that it passes
        (:func:`evenhand.guarantee.attainable.attainable`).
    """
    level, asked = 1 - float(confidence), constraint if resolved is None else resolved
    best: tuple[Constraint, T, Sequence[CellRates], tuple[GroupTest, ...]] | None = None
    holds, tested = False, 0
    for internal, classifier, ways in candidates:
        tests = _tests_of_all_ways(asked, ways, level, all_rows)
        passed = all(test.passed for test in tests)
        tested += 1
        if passed or best is None:
            best, holds = (internal, classifier, ways, tests), passed
        if not passed:
            break
    if best is None:
        raise ValueError("there are no classifiers to test.")
    internal, classifier, ways, tests = best

    limiting = None if holds else _worst(tests)

    def passes(weaker: Constraint) -> bool:
        nonlocal limiting
        found = _tests_of_all_ways(weaker, ways, level, all_rows)
        passed = all(test.passed for test in found)
        limiting = limiting if passed else _worst(found)  # in the end, of the loosest that fails
        return passed

    found = constraint if holds else attainable(constraint, passes, resolved=resolved)
    total = round(float((ways[0] if all_rows is None else all_rows).mass.sum()))
    n_rows, selected = (round(float(counts.sum())) for counts in (ways[0].mass, ways[0].selected))
    return classifier, GuaranteeResult(
        holds, confidence, constraint, internal, found, total, n_rows, selected, tests, limiting, tested
    )


def _tests_of_all_ways(
    constraint: Constraint, ways: Sequence[CellRates], level: float, all_rows: CellRates | None
) -> tuple[GroupTest, ...]:
    """Tests of decisions that can be randomised in several ways: those with the largest p-values."""
    each = (run_tests(constraint, rates, level, all_rows=all_rows) for rates in ways)
    return tuple(max(ones, key=lambda test: test.p_value) for ones in zip(*each, strict=True))


def _worst(tests: Sequence[GroupTest]) -> GroupTest:
    """The test with the largest p-value; of several, that with the fewest rows."""
    return max(tests, key=lambda test: (test.p_value, -test.n))


def ranked_guarantee(
    classifier: tuple[Constraint, Ranks, CellRates],
    constraint: Constraint,
    confidence: float,
    *,
    chances: Sequence[tuple[ConstraintName, float]],
    resolved: Constraint,
    found: Constraint | None,
    total: int,
) -> GuaranteeResult:
    """The guarantee of a classifier with thresholds at ranks.

    Parameters
    ----------
    classifier : (Constraint, Ranks, CellRates)
        The requirement that it was fitted for, its ranks, and counts of its decisions on the held-out rows.
    constraint : Constraint
        The requirement to guarantee.
    confidence : float
    chances : sequence of (ConstraintName, float)
        The probability that each group violates the requirement.
    resolved : Constraint
        As of :func:`guaranteed`.
    found : Constraint or None
        The requirement that these ranks guarantee: this one, or a weaker one; None if no thresholds could be
        set at them.
    total : int
        Number of rows in all.

    Returns
    -------
    GuaranteeResult
    """
    internal, ranks, rates = classifier
    holds = found is constraint
    tests = tuple(
        replace(test, p_value=chance, passed=holds)
        for test, (_, chance) in zip(run_tests(resolved, rates, 1.0), chances, strict=True)
    )
    n_rows, selected = (round(float(counts.sum())) for counts in (rates.mass, rates.selected))
    limiting = None if holds else _worst(tests)
    return GuaranteeResult(
        holds, confidence, constraint, internal, found, total, n_rows, selected, tests, limiting, 0, ranks
    )


def warn_if_not_guaranteed(guarantee: GuaranteeResult) -> None:
    """Warn if a requirement could not be guaranteed, with the number of rows needed."""
    if not guarantee.holds:
        warn_user(str(guarantee), GuaranteeWarning)

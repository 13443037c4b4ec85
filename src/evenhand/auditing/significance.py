"""Groups beside a named reference, with practical and statistical significance side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.association_tests import (
    breslow_day,
    cochran_mantel_haenszel,
    common_odds_ratio,
    fisher,
    holm,
    standard_deviations,
    telling,
)
from evenhand.auditing.figure_tables import Block, FigureTables, lines_of, values_of
from evenhand.auditing.group_rates import refuse_uncounted
from evenhand.auditing.reference import ReferenceCounts, impact_ratio
from evenhand.data.checks import check_fraction, check_number
from evenhand.data.tables import Library
from evenhand.display.text import show
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName
from evenhand.guarantee.intervals import critical_value

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit

_STRATIFIED = ("strata", "cmh_p_value", "common_odds_ratio", "breslow_day_p_value", "conditional_disparity")


@dataclass(frozen=True)
class GroupTest:
    """A group beside its reference. What is undefined is NaN, or None of a flag.

    Attributes
    ----------
    group, reference : GroupName
    rows, selected : int
        Of the group.
    rate, reference_rate, difference : float
        Selection rates, and the first minus the second.
    impact_ratio, low, high : float
        The first rate divided by the second, with limits that hold simultaneously for all groups of the same
        features.
    z : float
        The difference in standard deviations, from the pooled rate of both; negative if the group's is lower.
    p_value, mid_p, adjusted_p_value : float
        Fisher's exact test, two-sided; its mid-P value; and its p-value by Holm's method for all groups of
        the same features.
    shortfall : float
        People of the group who would have to be selected in addition for the reference's rate.
    odds_ratio : float
    practical, statistical : bool or None
        Whether the impact ratio is below its threshold, and whether the p-value is.
    large : bool or None
        Whether the difference, in either direction, is beyond its threshold; None if there is none.
    strata : int
        Strata with both groups, in which some of them are selected and some are not.
    cmh_p_value, common_odds_ratio, breslow_day_p_value : float
        Cochran-Mantel-Haenszel over the strata, the odds ratio by Mantel and Haenszel, and Breslow and Day's
        test that it is the same in all strata.
    conditional_disparity : float
        The share of the group among those not selected minus that among those selected, averaged over strata
        by their numbers of rows (conditional demographic disparity).
    """

    group: GroupName
    reference: GroupName
    rows: int
    selected: int
    rate: float
    reference_rate: float
    difference: float
    impact_ratio: float
    low: float
    high: float
    z: float
    p_value: float
    mid_p: float
    adjusted_p_value: float
    shortfall: float
    odds_ratio: float
    practical: bool | None
    statistical: bool
    large: bool | None
    strata: int = 0
    cmh_p_value: float = math.nan
    common_odds_ratio: float = math.nan
    breslow_day_p_value: float = math.nan
    conditional_disparity: float = math.nan


_RATES = {
    "rows": ("rows", ","),
    "selected": ("selected", ","),
    "rate": ("rate", ".3f"),
    "difference": ("difference", "+.3f"),
    "impact ratio": ("impact_ratio low high", "interval"),
    "shortfall": ("shortfall", ",.1f"),
}
_TESTS = {
    "Z": ("z", ".2f"),
    "p": ("p_value", "p"),
    "mid-P": ("mid_p", "p"),
    "Holm": ("adjusted_p_value", "p"),
    "odds ratio": ("odds_ratio", ".3f"),
}
_STRATA = {
    "strata": ("strata", ","),
    "CMH p": ("cmh_p_value", "p"),
    "common odds ratio": ("common_odds_ratio", ".3f"),
    "homogeneity p": ("breslow_day_p_value", "p"),
    "disparity": ("conditional_disparity", "+.3f"),
}


@dataclass(frozen=True, eq=False)
class Significance(FigureTables):
    """Tests of all groups; made by ``Audit.significance``. ``print`` shows them.

    Attributes
    ----------
    tests : tuple of GroupTest
        Each feature that the reference names, then the combinations if it names all features.
    references : dict
        Numbers of ``rows`` and of ``selected`` rows of each reference.
    confidence : float
        Of the intervals.
    ratio, level, difference : float
        Thresholds of the flags; the last may be None.
    given : tuple of str
        Control features.
    excluded : int
        Rows that lack a sensitive value and are not in the tests.
    library : {"pandas", "polars", "pyarrow"} or None
    """

    _tables: ClassVar = {"groups": ("tests", GroupTest)}
    tests: tuple[GroupTest, ...]
    references: dict[GroupName, dict[str, int]]
    confidence: float
    ratio: float
    level: float
    difference: float | None
    given: tuple[str, ...] = ()
    excluded: int = 0
    library: Library | None = None

    def _columns(self, what: str) -> dict[str, Any]:
        """Those of strata, and of a threshold, only where there are any."""
        absent = {*(() if self.given else _STRATIFIED), *(("large",) if self.difference is None else ())}
        return {name: kind for name, kind in super()._columns(what).items() if name not in absent}

    def notes(self) -> list[str]:
        """How the figures are made."""
        found = [
            f"Impact ratio: {100 * self.confidence:g}% intervals that hold simultaneously for all groups of "
            "a table (exact limits of each rate, Bonferroni's correction, combined by MOVER).",
            "Z: difference in standard deviations, pooled. p: Fisher's exact test, two-sided; Holm: adjusted "
            "for all groups of a table. Shortfall: people missing to the reference's rate.",
            "The flags answer different questions, and neither replaces the other: a small ratio may be "
            "chance, and a significant one may be small.",
        ]
        if self.given:
            found.append(
                f"Given {', '.join(map(show, self.given))}: CMH is the Cochran-Mantel-Haenszel test without "
                "continuity correction; homogeneity is Breslow and Day's with Tarone's correction, where a "
                "small p says that one odds ratio does not describe all strata; disparity is the share among "
                "those not selected minus that among those selected, averaged over strata by size."
            )
        if self.excluded:
            found.append(f"{self.excluded:,} rows lack a sensitive value and are not in the tests.")
        return found

    def blocks(self) -> Iterator[Block]:
        """The tables as text."""
        flags = {
            f"ratio < {self.ratio:g}": ("practical", "flag"),
            f"p < {self.level:g}": ("statistical", "flag"),
        }
        if self.difference is not None:
            flags[f"|difference| > {self.difference:g}"] = ("large", "flag")
        for reference, base in self.references.items():
            title = " x ".join(map(show, reference.features))
            tests = [(values_of(one.group), one) for one in self.tests if one.reference == reference]
            head, *lines = lines_of(title, _RATES, tests)
            numbers = [f"{base['rows']:,}", f"{base['selected']:,}", f"{base['selected'] / base['rows']:.3f}"]
            yield Block([head, [values_of(reference), *numbers, "", "reference", ""], *lines])
            yield Block(lines_of(title, _TESTS | flags, tests))
            if self.given:
                yield Block(lines_of(title, _STRATA, tests))

    def __repr__(self) -> str:
        against = "; ".join(map(str, self.references))
        return f"<Significance of {len(self.tests):,} groups against {against}>"


def significance(audit: Audit, *, ratio: float, level: float, difference: float | None) -> Significance:
    """The tests of an audit; see :meth:`~evenhand.auditing.result.Audit.significance`."""
    terms, counts = audit.terms, audit.reference_counts
    check_number("ratio", ratio)
    check_fraction("level", level)
    if difference is not None:
        check_number("difference", difference)
    if not counts:
        raise InputError("significance needs a named reference: audit(..., reference={'race': 'White'}).")
    refuse_uncounted(terms, "tests of significance")
    thresholds = float(ratio), float(level), None if difference is None else float(difference)
    return Significance(
        tuple(one for family in counts for one in _tests(family, terms.confidence, *thresholds)),
        {family.groups[family.place]: family.numbers(family.place) for family in counts},
        terms.confidence,
        *thresholds,
        given=counts[0].strata[0].features if counts[0].strata else (),
        excluded=0 if audit.excluded is None else audit.excluded.rows or 0,
        library=audit.library,
    )


def _tests(
    counts: ReferenceCounts, confidence: float, threshold: float, level: float, least: float | None
) -> Iterator[GroupTest]:
    numbers = [counts.numbers(k) for k in range(len(counts.groups))]
    n2, x2 = numbers[counts.place].values()
    others = [k for k in range(len(counts.groups)) if k != counts.place]
    tables = [(numbers[k]["selected"], numbers[k]["rows"], x2, n2) for k in others]
    exact = [fisher(*table) for table in tables]
    adjusted = holm([p for p, _ in exact]).tolist()
    z = critical_value(confidence, len(others))
    for k, table, tested, holms in zip(others, tables, exact, adjusted, strict=True):
        x1, n1, *_ = table
        rate, base = x1 / n1, x2 / n2
        ratio = impact_ratio(rate, n1, base, n2, z)
        yield GroupTest(
            counts.groups[k],
            counts.groups[counts.place],
            n1,
            x1,
            *(rate, base, rate - base),
            *ratio,
            standard_deviations(*table),
            *(*tested, holms),
            shortfall=n1 * base - x1,
            odds_ratio=common_odds_ratio(*table),
            practical=None if math.isnan(ratio[0]) else ratio[0] < threshold,
            statistical=tested[0] < level,
            large=None if least is None else abs(rate - base) > least,
            **(_over_strata(counts, k) if counts.strata else {}),
        )


def _over_strata(counts: ReferenceCounts, group: int) -> dict[str, Any]:
    """Tests of a group and the reference over strata."""
    x1, n1, x2, n2 = (part[:, k] for k in (group, counts.place) for part in (counts.selected, counts.rows))
    tables = telling(x1, n1, x2, n2)
    return {
        "strata": len(tables[0]),
        "cmh_p_value": cochran_mantel_haenszel(*tables),
        "common_odds_ratio": common_odds_ratio(*tables),
        "breslow_day_p_value": breslow_day(*tables),
        "conditional_disparity": _conditional_disparity(counts.rows, counts.selected, group),
    }


def _conditional_disparity(rows: NDArray[np.float64], selected: NDArray[np.float64], group: int) -> float:
    """Conditional demographic disparity, from the strata in which some are selected and some are not."""
    sizes, chosen = rows.sum(axis=1), selected.sum(axis=1)
    tells = (chosen > 0) & (chosen < sizes)
    if not tells.any():
        return math.nan
    rows, selected, sizes, chosen = (part[tells] for part in (rows, selected, sizes, chosen))
    own, hits = rows[:, group], selected[:, group]
    return float(np.average((own - hits) / (sizes - chosen) - hits / chosen, weights=sizes))

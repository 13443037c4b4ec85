"""An audit as plain text: short aligned tables, at most about a hundred characters wide."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap

from evenhand.auditing.comparison import FOUR_FIFTHS, Comparison
from evenhand.auditing.exclusion import DisparityRange, Excluded, range_notes
from evenhand.auditing.group_rates import Finding, Rate, Terms
from evenhand.display.text import show
from evenhand.groups.groups import GroupName
from evenhand.requirements.statistic import SELECTION

__all__ = ["LEFT_OUT", "aligned", "asks", "estimate", "group_name", "page", "range_cells", "rate_text"]

_MOST_LINES = 40
_NAME_WIDTH = 36
_WIDTH = 100
LEFT_OUT = "left out"
_MOST_NAMES = 5


def page(
    terms: Terms,
    groups: Sequence[Finding],
    comparisons: Sequence[Comparison],
    excluded: Excluded | None = None,
) -> str:
    """The text of an audit: rates of each group, changes, and disparities."""
    headline = _headline(terms, groups)
    if excluded is not None:
        headline += wrap(str(excluded), _WIDTH)
    blocks = [headline, *_rate_tables(terms, groups)]
    if terms.compared:
        blocks.append(_change_table(terms, groups))
    blocks.append(_comparison_table(terms, groups, comparisons))
    if excluded is not None and excluded.rates:
        blocks.append(_excluded_table(terms, comparisons, excluded))
    return "\n\n".join("\n".join(lines) for lines in blocks)


def estimate(value: float, low: float, high: float) -> str:
    """A number with its interval.

    Examples
    --------
    >>> estimate(0.3118, 0.29, 0.335), estimate(math.nan, 0.0, 1.0)
    ('0.312 [0.290, 0.335]', 'undefined')
    """
    return "undefined" if math.isnan(value) else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def group_name(group: GroupName) -> str:
    """The name of a group; "everyone" if it has no features."""
    return str(group) or "everyone"


def asks(found: Comparison) -> str:
    """What a comparison is about, in a few words.

    Examples
    --------
    >>> from evenhand import RateBound, audit
    >>> capacity = RateBound("selection rate", at_most=0.3)
    >>> asks(audit(None, [1, 0, 1, 0], {"sex": ["F", "F", "M", "M"]}, constraint=capacity).comparisons[0])
    'selection rate, at most 0.3'
    """
    if found.against == "bound":
        return f"{found.notion}, {found.measure} {found.tolerance:g}"
    if found.against == "reference":
        return found.notion
    between = " between groups" if found.against == "groups" and found.notion != FOUR_FIFTHS else ""
    given = f" given {', '.join(map(show, found.given))}" if found.given else ""
    return f"{found.notion}, {found.measure}{between}{given}"


def aligned(lines: Sequence[Sequence[str]], *, text: int = 1) -> list[str]:
    r"""Lines with aligned columns, two spaces apart: the first `text` columns are text, the others numbers.

    Examples
    --------
    >>> print(*aligned([["group", "rows"], ["sex=F", "12"], ["sex=M", "1,024"]]), sep="\n")
    group   rows
    sex=F     12
    sex=M  1,024
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k < text else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _headline(terms: Terms, groups: Sequence[Finding]) -> list[str]:
    rows = groups[0].rows
    present = sum(group.kind == "intersectional" and group.rows != 0 for group in groups)
    size = "" if rows is None else f" of {_count(rows)} rows"
    if not terms.min_count:
        size += f" in {present:,} group{'s' if present > 1 else ''}"
    by = ", ".join(map(show, terms.features))
    lines = [f"Audit{size} by {by}. Intervals: {100 * terms.confidence:g}%."]
    if terms.reading:
        lines += wrap(terms.reading, _WIDTH)
    if terms.by_proxy:
        lines += wrap(terms.by_proxy, _WIDTH)
    if terms.weighted:
        lines.append("Rates are weighted; numbers of rows are not.")
    if terms.min_count:
        lines.append(f"Counts below {terms.min_count} are left out, as is everything that would reveal them.")
    for pooled in terms.pooled:
        lines += wrap(f"Pooled: {pooled}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    if terms.merged:
        lines.append("Single features are not shown, because rare combinations were merged for training.")
    return lines


def _rate_tables(terms: Terms, groups: Sequence[Finding]) -> Iterator[list[str]]:
    """Counts and the rates over all rows; then the rates over the rows of one label."""

    def first(group: Finding) -> list[str]:
        numbers = [group.rows, group.positives] if terms.labelled else [group.rows]
        counts = [LEFT_OUT if number is None else _count(number) for number in numbers]
        return [*counts, *rates(group, terms.rates[:2])]

    def rates(group: Finding, names: Sequence[str]) -> list[str]:
        return [rate_text(group.rates.get(name)) for name in names]

    numbers = ["rows", "positives"] if terms.labelled else ["rows"]
    yield _by_group(terms, groups, ["group", *numbers, *terms.rates[:2]], first)
    if terms.labelled:
        header = ["group", *terms.rates[2:]]
        yield _by_group(terms, groups, header, lambda group: rates(group, terms.rates[2:]))


def _change_table(terms: Terms, groups: Sequence[Finding]) -> list[str]:
    names = terms.rates[:2]

    def row(group: Finding) -> list[str]:
        change = group.change
        if change is None:
            return [LEFT_OUT] * (3 + len(names))
        counts = (change.up, change.down, change.unchanged)
        return [*map(_count, counts), *(rate_text(change.rates[name]) for name in names)]

    return _by_group(terms, groups, ["changed", "up", "down", "same", *names], row)


def _by_group(
    terms: Terms, groups: Sequence[Finding], header: list[str], row: Callable[[Finding], list[str]]
) -> list[str]:
    """A table with one line per group; a long one is cut."""
    rows = [[_short(group.group), *row(group)] for group in groups[:_MOST_LINES]]
    lines = aligned([header, *rows])
    left_out = len(groups) - len(rows) + terms.absent_not_listed
    return [*lines, f"and {left_out:,} more: see to_frame()"] if left_out else lines


def _comparison_table(
    terms: Terms, groups: Sequence[Finding], comparisons: Sequence[Comparison]
) -> list[str]:
    """One line per notion and measure, or per bound, in parts with a heading each."""
    combinations = "combinations" if len(terms.features) > 1 else "groups"
    headings = {
        ("population", "intersectional"): f"{combinations} compared with everyone",
        ("population", "independent"): "single features compared with everyone",
        ("groups", "intersectional"): f"{combinations} compared with each other",
        ("groups", "independent"): "values of each feature compared with each other",
        "bound": "bounds on rates: the rate that is nearest to its bound, or misses it most",
        "reference": "rates minus those of the reference",
        FOUR_FIFTHS: "four-fifths rule: lowest selection rate divided by the highest",
    }
    lines: list[str] = []
    for part, heading in headings.items():
        there = [found for found in comparisons if part == _part(found) and not found.strata]
        rows = [_comparison_row(terms, found) for found in there]
        notes = [note for found in there for note in _notes(groups, found)]
        if rows:
            lines += [*([""] if lines else []), heading, *aligned(rows, text=4), *dict.fromkeys(notes)]
    within = [found for found in comparisons if found.strata]
    for found in within:
        if found.tolerance is not None:
            lines += [*([""] if lines else []), *_stratum_table(terms, found)]
    for mode in ("intersectional", "independent"):
        rest = [found for found in within if found.tolerance is None and found.groups == mode]
        if rest:
            lines += [*([""] if lines else []), *_worst_strata(rest)]
    return lines


def _worst_strata(within: Sequence[Comparison]) -> list[str]:
    """The worst stratum by each notion, beside all rows together, where nothing is required."""
    first, rows = within[0], [["", "all together", f"worst of {len(within[0].strata):,} strata", "", ""]]
    for found in within:
        who = "" if found.group is None else _short(found.group, 20)
        where = "" if found.stratum is None else _short(found.stratum, 20)
        whole = found.aggregate
        beside = "" if whole is None else estimate(whole.value, whole.low, whole.high)
        worst = estimate(found.value, found.low, found.high)
        rows.append([f"{found.notion}, {found.measure}", beside, worst, where, who])
    given = ", ".join(map(show, first.given))
    who = "single features" if first.groups == "independent" else "groups"
    heading = f"{who} compared within strata of {given}: see to_frame('strata')"
    return [heading, *aligned(rows, text=5)]


def _stratum_table(terms: Terms, found: Comparison) -> list[str]:
    """The disparity in each stratum, below that of all rows together; the worst strata of many."""
    against = "each other" if found.against == "groups" else "everyone in their stratum"
    who = "combinations" if len(terms.features) > 1 else "groups"
    who = "single features" if found.groups == "independent" else who
    heading = f"{asks(found)}: {who} compared with {against}"
    worst = sorted(found.strata, key=lambda part: -part.value if part.measure == "difference" else part.value)
    shown = found.strata if len(found.strata) <= _MOST_LINES else tuple(worst[:_MOST_LINES])
    rows = [["stratum", found.measure, "group"]]
    if found.aggregate is not None:
        rows.append(["all together", *_comparison_row(terms, found.aggregate)[1:3]])
    rows += [[_short(part.stratum), *_comparison_row(terms, part)[1:3]] for part in shown if part.stratum]
    where = "" if found.stratum is None else _short(found.stratum)
    rows.append([f"worst: {where}", *_comparison_row(terms, found)[1:3]])
    lines = [heading, *aligned(rows, text=3)]
    if len(shown) < len(found.strata):
        lines.append(f"and {len(found.strata) - len(shown):,} more strata: see to_frame('strata')")
    if found.tolerance is not None:
        lines.append(f"{found.verdict} (tolerance {found.tolerance:g})")
    lines += _undefined(found)
    for names, text in (
        (found.vacuous, "strata without two groups to compare"),
        (found.empty, "without any row"),
    ):
        if names:
            listed = "; ".join(_short(name) for name in names[:_MOST_NAMES])
            more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
            lines += wrap(f"{text}: {listed}{more}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def range_cells(found: DisparityRange) -> tuple[str, str, str]:
    """The value of a comparison, its range if excluded rows are counted in, and whether that is settled."""
    if math.isnan(found.best + found.worst):
        return _plain(found.value), "undefined", found.settled or ""
    settled = "" if found.tolerance is None else f"{found.settled} (tolerance {found.tolerance:g})"
    return _plain(found.value), f"{found.best:.3f} to {found.worst:.3f}", settled


def _excluded_table(terms: Terms, comparisons: Sequence[Comparison], excluded: Excluded) -> list[str]:
    """Selection rates, and disparities with a tolerance, over all groups that excluded rows could be in."""
    rates = [one for one in excluded.rates if one.rate == SELECTION.name]
    cells = [
        [_short(one.group), _plain(one.value), f"{one.low:.3f} to {one.high:.3f}"]
        for one in rates[:_MOST_LINES]
    ]
    lines = aligned(
        [[f"{SELECTION.name} if excluded rows are counted in", "without them", "lowest to highest"], *cells]
    )
    if len(rates) > _MOST_LINES:
        lines.append(f"and {len(rates) - _MOST_LINES:,} more: see to_frame('excluded')")
    asked = [one for one in excluded.comparisons if one.tolerance is not None]
    names = [
        f"{one.notion}, {_whose(terms, one.groups)}" if one.notion == FOUR_FIFTHS else one.notion
        for one in asked
    ]
    rows = [[name, *range_cells(one)] for name, one in zip(names, asked, strict=True)]
    table = aligned([["disparity", "without them", "best to worst", ""], *rows], text=4)
    notes = [line for note in range_notes(comparisons, excluded) for line in wrap(note, _WIDTH)]
    return [*lines, "", *table, *notes]


def _whose(terms: Terms, groups: str) -> str:
    return "combinations" if groups == "intersectional" and len(terms.features) > 1 else show(groups)


def _plain(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.3f}"


def _part(found: Comparison) -> str | tuple[str, str]:
    """Which part of the table a comparison is in."""
    if found.notion == FOUR_FIFTHS:
        return FOUR_FIFTHS
    return found.against if found.against in ("bound", "reference") else (found.against, found.groups)


def _comparison_row(terms: Terms, found: Comparison) -> list[str]:
    label = asks(found)
    who = "" if found.group is None else _short(found.group, 30)
    if found.notion == FOUR_FIFTHS:
        label = "combinations" if found.groups == "intersectional" else show(found.groups)
    if terms.min_count and found.group is None:
        who = "(not shown)"
    tolerance = ""
    if found.tolerance is not None and found.against not in ("bound", "reference"):
        tolerance = f" (tolerance {found.tolerance:g})"
    verdict = f"{found.verdict or ''}{tolerance}"
    return [label, estimate(found.value, found.low, found.high), who, verdict]


def _notes(groups: Sequence[Finding], found: Comparison) -> Iterator[str]:
    """A capacity as numbers of rows, and the groups in which a rate is undefined."""
    rows, selected, share = groups[0].rows, groups[0].selected, found.tolerance
    if _is_capacity(found) and rows and selected is not None and share is not None:
        yield (
            f"{_count(selected)} of {_count(rows)} rows are selected; a share of {share:g} would be "
            f"{_count(round(share * rows, 1))}"
        )
    yield from _undefined(found)


def _undefined(found: Comparison) -> Iterator[str]:
    """The groups in which a rate is undefined, so that an interval is open."""
    if found.undefined:
        names = "; ".join(_short(group) for group in found.undefined[:_MOST_NAMES])
        more = len(found.undefined) - _MOST_NAMES
        listed = f"{names} and {more} more" if more > 0 else names
        holds = ", where the bound holds" if found.against == "bound" and found.verdict == "satisfied" else ""
        text = f"{found.notion}: undefined for {listed}{holds}"
        yield from wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _is_capacity(found: Comparison) -> bool:
    """Whether the share of all people that are selected is bounded."""
    return found.against == "bound" and found.groups == "population" and found.notion == SELECTION.name


def rate_text(rate: Rate | None) -> str:
    """A rate with its interval, or that it is left out."""
    return LEFT_OUT if rate is None else estimate(rate.value, rate.low, rate.high)


def _count(number: float) -> str:
    return f"{number:,.0f}" if number == round(number) else f"{number:,.1f}"


def _short(group: GroupName, width: int = _NAME_WIDTH) -> str:
    """A shortened group name: only the values of a long name, and both ends of long values."""
    name = group_name(group)
    if len(name) <= width:
        return name
    each = max(3, (width - 2 * (len(group.values) - 1)) // len(group.values))
    values = [show(value) for value in group.values]
    if len(", ".join(values)) > width:
        ends = each // 2, each - each // 2 - 1
        values = [v if len(v) <= each else v[: ends[0]] + "…" + v[len(v) - ends[1] :] for v in values]
    return ", ".join(values)

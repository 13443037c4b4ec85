"""An audit as plain text: short aligned tables, at most about a hundred characters wide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from evenhand.auditing.comparison import FOUR_FIFTHS, Comparison, asks, estimate, group_name
from evenhand.auditing.group_rates import Finding, Rate, Terms
from evenhand.display.text import show
from evenhand.groups.groups import GroupName
from evenhand.requirements.statistic import SELECTION

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit

_MOST_LINES = 40
_NAME_WIDTH = 36
_WIDTH = 100
LEFT_OUT = "left out"
_MOST_NAMES = 5


def page(audit: Audit) -> str:
    """The text of an audit: rates of each group, changes, and disparities."""
    blocks = [_headline(audit), *_rate_tables(audit)]
    if audit.terms.compared:
        blocks.append(_change_table(audit))
    blocks.append(_comparison_table(audit))
    return "\n\n".join("\n".join(lines) for lines in blocks)


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


def _headline(audit: Audit) -> list[str]:
    terms, groups = audit.terms, audit.groups
    rows = groups[0].rows
    present = sum(group.kind == "intersectional" and group.rows != 0 for group in groups)
    size = "" if rows is None else f" of {_count(rows)} rows"
    if not terms.min_count:
        size += f" in {present:,} group{'s' if present > 1 else ''}"
    by = ", ".join(map(show, terms.features))
    lines = [f"Audit{size} by {by}. Intervals: {100 * terms.confidence:g}%."]
    for note in (terms.reading, terms.by_proxy):
        lines += wrap(note, _WIDTH) if note else []
    if terms.weighted:
        lines.append("Rates are weighted; numbers of rows are not.")
    if terms.min_count:
        lines.append(f"Counts below {terms.min_count} are left out, as is everything that would reveal them.")
    for pooled in terms.pooled:
        lines += _wrapped(f"Pooled: {pooled}")
    if terms.merged:
        lines.append("Single features are not shown, because rare combinations were merged for training.")
    return lines if audit.excluded is None else [*lines, *wrap(str(audit.excluded), _WIDTH)]


def _rate_tables(audit: Audit) -> Iterator[list[str]]:
    """Counts and the rates over all rows; then the rates over the rows of one label."""
    terms = audit.terms
    counts = ["rows", "positives"] if terms.labelled else ["rows"]

    def cell(group: Finding, name: str) -> str:
        return _count(getattr(group, name)) if name in counts else rate_text(group.rates.get(name))

    yield _by_group(audit, ["group", *counts, *terms.rates[:2]], cell)
    if terms.labelled:
        yield _by_group(audit, ["group", *terms.rates[2:]], cell)


def _change_table(audit: Audit) -> list[str]:
    counts = {"up": "up", "down": "down", "same": "unchanged"}

    def cell(group: Finding, name: str) -> str:
        if group.change is None:
            return LEFT_OUT
        if name in counts:
            return _count(getattr(group.change, counts[name]))
        return rate_text(group.change.rates[name])

    return _by_group(audit, ["changed", *counts, *audit.terms.rates[:2]], cell)


def _by_group(audit: Audit, header: list[str], cell: Callable[[Finding, str], str]) -> list[str]:
    """A table with one line per group, and a cell for each name in the header; a long one is cut."""
    shown = audit.groups[:_MOST_LINES]
    lines = aligned(
        [header, *([_short(group.group), *(cell(group, name) for name in header[1:])] for group in shown)]
    )
    left_out = len(audit.groups) - len(shown) + audit.terms.absent_not_listed
    return [*lines, f"and {left_out:,} more: see to_frame()"] if left_out else lines


def _comparison_table(audit: Audit) -> list[str]:
    """One line per notion and measure, or per bound, in parts with a heading each."""
    terms = audit.terms
    combinations = "combinations" if len(terms.features) > 1 else "groups"
    headings = {
        ("population", "intersectional"): f"{combinations} compared with everyone",
        ("population", "independent"): "single features compared with everyone",
        ("groups", "intersectional"): f"{combinations} compared with each other",
        ("groups", "independent"): "values of each feature compared with each other",
        ("named", "intersectional"): f"{combinations} compared with a named one",
        ("named", "independent"): "values of each feature compared with a named one",
        "bound": "bounds on rates: the rate that is nearest to its bound, or misses it most",
        "reference": "rates minus those of the reference",
        FOUR_FIFTHS: "four-fifths rule: lowest selection rate divided by the highest",
    }
    parts: list[list[str]] = []
    for part, heading in headings.items():
        there = [found for found in audit.comparisons if part == _part(found) and not found.strata]
        rows = [_comparison_row(terms, found) for found in there]
        notes = [note for found in there for note in _notes(audit.groups[0], found)]
        if rows:
            parts.append([heading, *aligned(rows, text=4), *dict.fromkeys(notes)])
    within = [found for found in audit.comparisons if found.strata]
    parts += [_stratum_table(terms, found) for found in within if found.tolerance is not None]
    for mode in ("intersectional", "independent"):
        rest = [found for found in within if found.tolerance is None and found.groups == mode]
        if rest:
            parts.append(_worst_strata(rest))
    return [line for part in parts for line in ("", *part)][1:]


def _worst_strata(within: Sequence[Comparison]) -> list[str]:
    """The worst stratum by each notion, beside all rows together, where nothing is required."""
    first, rows = within[0], [["", "all together", f"worst of {len(within[0].strata):,} strata", "", ""]]
    for found in within:
        who = "" if found.group is None else _short(found.group, 20)
        who += f" ({found.side})" if who and found.side else ""
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
    against = {"groups": "each other", "named": "a named one"}.get(found.against, "everyone in their stratum")
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
    if found.vacuous:
        lines += _wrapped(f"strata without two groups to compare: {_some(found.vacuous)}")
    if found.empty:
        lines += _wrapped(f"without any row: {_some(found.empty)}")
    return lines


def _part(found: Comparison) -> str | tuple[str, str]:
    """Which part of the table a comparison is in."""
    if found.notion == FOUR_FIFTHS:
        return FOUR_FIFTHS
    return found.against if found.against in ("bound", "reference") else (found.against, found.groups)


def _comparison_row(terms: Terms, found: Comparison) -> list[str]:
    label = asks(found)
    who = "" if found.group is None else _short(found.group, 30)
    who += f" ({found.side})" if who and found.side else ""
    if found.notion == FOUR_FIFTHS:
        label = "combinations" if found.groups == "intersectional" else show(found.groups)
    if terms.min_count and found.group is None:
        who = "(not shown)"
    tolerance = ""
    if found.tolerance is not None and found.against not in ("bound", "reference"):
        tolerance = f" (tolerance {found.tolerance:g})"
    verdict = f"{found.verdict or ''}{tolerance}"
    return [label, estimate(found.value, found.low, found.high), who, verdict]


def _notes(everyone: Finding, found: Comparison) -> Iterator[str]:
    """A capacity as numbers of rows, and the groups in which a rate is undefined."""
    rows, selected, share = everyone.rows, everyone.selected, found.tolerance
    capacity = (found.against, found.groups, found.notion) == ("bound", "population", SELECTION.name)
    if capacity and rows and selected is not None and share is not None:
        yield (
            f"{_count(selected)} of {_count(rows)} rows are selected; a share of {share:g} would be "
            f"{_count(round(share * rows, 1))}"
        )
    yield from _undefined(found)


def _undefined(found: Comparison) -> Iterator[str]:
    """The groups in which a rate is undefined, which leaves its interval open."""
    if found.undefined:
        holds = ", where the bound holds" if found.against == "bound" and found.verdict == "satisfied" else ""
        yield from _wrapped(f"{found.notion}: undefined for {_some(found.undefined)}{holds}")


def _some(names: Sequence[GroupName]) -> str:
    """The first names of a list, and how many there are besides."""
    more = len(names) - _MOST_NAMES
    return "; ".join(map(_short, names[:_MOST_NAMES])) + (f" and {more:,} more" if more > 0 else "")


def _wrapped(text: str) -> list[str]:
    return wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def rate_text(rate: Rate | None) -> str:
    """A rate with its interval, or that it is left out."""
    return LEFT_OUT if rate is None else estimate(rate.value, rate.low, rate.high)


def _count(number: float | None) -> str:
    if number is None:
        return LEFT_OUT
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

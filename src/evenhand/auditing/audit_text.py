"""An audit as short tables, at most about a hundred characters wide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from evenhand.auditing.comparison import FOUR_FIFTHS, Comparison, asks, estimate, group_name
from evenhand.auditing.figure_tables import WIDTH, Block
from evenhand.auditing.group_rates import Finding, Rate, Terms
from evenhand.display.text import first_of, show
from evenhand.groups.groups import GroupName
from evenhand.requirements.statistic import SELECTION

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit

_MOST_LINES = 40
_NAME_WIDTH = 36
LEFT_OUT = "left out"
_AGAINST = {"groups": "each other", "named": "a named one"}


def blocks(audit: Audit) -> Iterator[Block]:
    """Counts and the rates over all rows, the rates over the rows of one label, changes, and disparities."""
    terms = audit.terms
    counts = ["rows", "positives"] if terms.labelled else ["rows"]

    def cell(group: Finding, name: str) -> str:
        return _count(getattr(group, name)) if name in counts else rate_text(group.rates.get(name))

    yield _by_group(audit, ["group", *counts, *(terms.actions or terms.rates[:2])], cell)
    if terms.labelled:
        yield _by_group(audit, ["group", *terms.rates[2:]], cell)
    moves = {"up": "up", "down": "down", "same": "unchanged"}

    def change(group: Finding, name: str) -> str:
        rates = group.change.rates if group.change else {}
        return _count(getattr(group.change, moves[name])) if name in moves else rate_text(rates.get(name))

    if terms.compared:
        yield _by_group(audit, ["changed", *moves, *terms.rates[:2]], change)
    yield from _comparisons(audit)


def headline(audit: Audit) -> str:
    """What was audited, and how to read the figures."""
    terms, groups = audit.terms, audit.groups
    rows = groups[0].rows
    present = sum(group.kind == "intersectional" and group.rows != 0 for group in groups)
    size = "" if rows is None else f" of {_count(rows)} rows"
    if not terms.min_count:
        size += f" in {present:,} group{'s' if present > 1 else ''}"
    by = ", ".join(map(show, terms.features))
    lines = [f"Audit{size} by {by}. Intervals: {100 * terms.confidence:g}%."]
    for note in (terms.reading, terms.by_proxy):
        lines += wrap(note, WIDTH) if note else []
    if terms.weighted:
        lines.append("Rates are weighted; numbers of rows are not.")
    if terms.min_count:
        lines.append(f"Counts below {terms.min_count} are left out, as is everything that would reveal them.")
    for pooled in terms.pooled:
        lines += _wrapped(f"Pooled: {pooled}")
    if terms.merged:
        lines.append("Single features are not shown, because rare combinations were merged for training.")
    return "\n".join(lines if audit.excluded is None else [*lines, *wrap(str(audit.excluded), WIDTH)])


def _by_group(audit: Audit, header: list[str], cell: Callable[[Finding, str], str]) -> Block:
    """A table with one line per group, and a cell for each name in the header; a long one is cut."""
    shown = audit.groups[:_MOST_LINES]
    lines = [[_short(group.group), *(cell(group, name) for name in header[1:])] for group in shown]
    left_out = len(audit.groups) - len(shown)
    return Block([header, *lines], notes=[f"and {left_out:,} more: see to_frame()"] if left_out else [])


def _comparisons(audit: Audit) -> Iterator[Block]:
    """One line per notion and measure, or per bound, in parts with a heading each."""
    terms, parts = audit.terms, dict[str, list[Comparison]]()
    for found in audit.comparisons:
        if found.tolerance is None or not found.strata:
            parts.setdefault(_heading(terms, found), []).append(found)
    for heading, there in parts.items():
        rows = [_comparison_row(terms, found) for found in there]
        notes = (note for found in there for note in _notes(audit.groups[0], found))
        yield Block(rows, 4, heading, list(dict.fromkeys(notes)), headed=False)
    for found in audit.comparisons:
        if found.tolerance is not None and found.strata:
            yield _stratum_table(audit, found)


def _heading(terms: Terms, found: Comparison) -> str:
    """What a comparison is listed below."""
    who = _who(terms, found)
    if found.notion == FOUR_FIFTHS:
        return "four-fifths rule: lowest selection rate divided by the highest"
    if found.strata:
        return f"{who} compared within strata, the worst of them: see to_frame('strata')"
    return {
        "bound": "bounds on rates: the rate that is nearest to its bound, or misses it most",
        "reference": "rates minus those of the reference",
    }.get(found.against, f"{who} compared with {_AGAINST.get(found.against, 'everyone')}")


def _who(terms: Terms, found: Comparison) -> str:
    """The groups that are compared."""
    if found.groups == "independent":
        return "single features"
    return "combinations" if len(terms.features) > 1 else "groups"


def _stratum_table(audit: Audit, found: Comparison) -> Block:
    """The disparity in each stratum, the first of many, and in the worst, below that of all rows together."""
    terms, shown = audit.terms, found.strata[:_MOST_LINES]
    against = _AGAINST.get(found.against, "everyone in their stratum")
    named = {"all together": found.aggregate} | {_short(part.stratum): part for part in shown}
    named[f"worst: {_short(found.stratum)}"] = found
    rows = [[name, *_comparison_row(terms, part)[1:3]] for name, part in named.items() if part]
    more = len(found.strata) - len(shown)
    notes = [f"and {more:,} more strata: see to_frame('strata')"] if more else []
    notes += [f"{found.verdict} (tolerance {found.tolerance:g})", *_notes(audit.groups[0], found)]
    heading = f"{asks(found)}: {_who(terms, found)} compared with {against}"
    return Block([["stratum", found.measure, "group"], *rows], 3, heading, notes)


def _comparison_row(terms: Terms, found: Comparison) -> list[str]:
    label, worst = asks(found), estimate(found.value, found.low, found.high)
    side = f" ({found.side})" if found.side else ""
    who = _short(found.group, 30) + side
    if found.notion == FOUR_FIFTHS:
        label = "combinations" if found.groups == "intersectional" else show(found.groups)
    if terms.min_count and found.group is None:
        who = "(not shown)"
    if found.strata and found.tolerance is None:
        label = label.removesuffix(f" given {', '.join(map(show, found.given))}")
        who = f"{_short(found.group, 20)}{side} given {_short(found.stratum, 20)}"
    verdict: str = found.verdict or ""
    if found.tolerance is not None and found.against not in ("bound", "reference"):
        verdict += f" (tolerance {found.tolerance:g})"
    return [label, worst, who, verdict]


def _notes(everyone: Finding, found: Comparison) -> Iterator[str]:
    """A capacity as numbers of rows, and groups and strata about which nothing is known."""
    rows, selected, share = everyone.rows, everyone.selected, found.tolerance
    capacity = (found.against, found.groups, found.notion) == ("bound", "population", SELECTION.name)
    if capacity and rows and selected is not None and share is not None:
        yield (
            f"{_count(selected)} of {_count(rows)} rows are selected; a share of {share:g} would be "
            f"{_count(round(share * rows, 1))}"
        )
    if found.strata and found.tolerance is None:
        return
    holds = ", where the bound holds" if found.against == "bound" and found.verdict == "satisfied" else ""
    for what, names, end in (
        (f"{found.notion}: undefined for", found.undefined, holds),
        ("strata without two groups to compare:", found.vacuous, ""),
        ("without any row:", found.empty, ""),
    ):
        if names:
            yield from _wrapped(f"{what} {first_of(map(_short, names))}{end}")


def _wrapped(text: str) -> list[str]:
    return wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def rate_text(rate: Rate | None) -> str:
    """A rate with its interval, or that it is left out."""
    return LEFT_OUT if rate is None else estimate(rate.value, rate.low, rate.high)


def _count(number: float | None) -> str:
    if number is None:
        return LEFT_OUT
    return f"{number:,.0f}" if number == round(number) else f"{number:,.1f}"


def _short(group: GroupName | None, width: int = _NAME_WIDTH) -> str:
    """A shortened group name: only the values of a long name, and both ends of these if they are long."""
    name = "" if group is None else group_name(group)
    if group is not None and len(name) > width:
        name = ", ".join(map(show, group.values))
    end = width // 2
    return name if len(name) <= width else f"{name[:end]}…{name[end + 1 - width :]}"

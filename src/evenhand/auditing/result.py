"""The result of an audit, to print, turn into a table or save as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from evenhand.auditing.audit_text import blocks, headline
from evenhand.auditing.comparison import Comparison, group_name
from evenhand.auditing.figure_tables import Block, FigureTables, cell, plain, values_by_feature
from evenhand.auditing.group_rates import Excluded, Finding, Rate, Terms
from evenhand.auditing.impact_ratios import SMALLEST_SHARE, ImpactRatios, impact_ratios
from evenhand.auditing.reference import ReferenceCounts
from evenhand.auditing.significance import Significance, significance
from evenhand.auditing.tally import Tally
from evenhand.data.checks import check_choice
from evenhand.data.tables import Library, make_table
from evenhand.display.notebook import MOST_ROWS, inline_svg
from evenhand.display.text import show
from evenhand.groups.groups import GroupName

_NUMBERS = ("value", "low", "high", "tolerance")
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "comparisons": (
        *("notion", "measure", "groups", "value", "low", "high", "statistic", "group", "reference"),
        *("tolerance", "verdict", "against", "given", "stratum"),
    ),
    "distances": ("notion", "measure", "groups", "statistic", "group", "value", "low", "high", "stratum"),
    "strata": (
        *("notion", "measure", "groups", "given", "stratum"),
        *("value", "low", "high", "statistic", "group"),
    ),
}
_OF_GROUPS = ("groups", "group", "quantity", "value", "low", "high", "note")
_UNKNOWN = Rate(math.nan, math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class Audit(FigureTables):
    """Result of :func:`evenhand.audit`: rates and disparities of the groups. ``print`` shows it.

    Attributes
    ----------
    terms : Terms
        The settings: features, confidence, which inputs were passed, what is left out.
    groups : tuple of Finding
        All rows, each value of each feature, each combination of values. Combinations that never occur come
        last, with no rows.
    comparisons : tuple of Comparison
        The disparity between groups by each notion, rates and their bounds, and the four-fifths rule.
    library : {"pandas", "polars", "pyarrow"}, default=None
        The library of the tables that were audited.
    excluded : Excluded or None
        Rows that lack a sensitive value and were left out, if there are any.
    counted : Tally or None
        Numbers of people for `impact_ratios`; None if small ones are left out, or groups are probabilities.
    audits_of_strata : callable or None
        Makes `strata`, if control features were given.
    reference_counts : tuple of ReferenceCounts
        Numbers of people for `significance`; empty without a named reference.

    Examples
    --------
    >>> from evenhand import audit
    >>> found = audit(None, [1, 1, 0, 1, 0, 0], {"sex": ["F", "F", "F", "M", "M", "M"]})
    >>> [(str(part.group), part.selected) for part in found.groups][1:]
    [('sex=F', 2.0), ('sex=M', 1.0)]
    >>> round(found["demographic parity"].value, 3)
    0.167
    >>> print(found.to_frame(backend="pandas").head(3)[["group", "quantity", "value"]].to_string())
          group        quantity  value
    0  everyone            rows    6.0
    1  everyone        selected    3.0
    2  everyone  selection rate    0.5
    """

    _tables: ClassVar = dict.fromkeys(("groups", *_COLUMNS))
    terms: Terms
    groups: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...]
    library: Library | None = None
    excluded: Excluded | None = None
    counted: Tally | None = None
    audits_of_strata: Callable[[], dict[str, Audit]] | None = None
    reference_counts: tuple[ReferenceCounts, ...] = ()

    @cached_property
    def strata(self) -> dict[str, Audit] | None:
        """The audit of each stratum by its name, made when first asked for; None without control features."""
        return None if self.audits_of_strata is None else self.audits_of_strata()

    def __getitem__(self, notion: str) -> Comparison:
        """The first comparison by the notion, or of the bounded rate, of this name."""
        for found in self.comparisons:
            if found.notion == notion:
                return found
        known = ", ".join(repr(name) for name in dict.fromkeys(part.notion for part in self.comparisons))
        raise KeyError(f"no comparison by {notion!r} in this audit; there are {known}")

    def __repr__(self) -> str:
        everyone = self.groups[0]
        rows = "rows" if everyone.rows is None else f"{everyone.rows:,.0f} rows"
        return f"<Audit of {rows} by {', '.join(map(show, self.terms.features))}: {self.comparisons[0]}>"

    @property
    def _headline(self) -> str:  # type: ignore[override]
        return headline(self)

    def blocks(self) -> Iterator[Block]:
        """Counts and rates of each group, changes, and disparities as text."""
        return blocks(self)

    def _repr_html_(self) -> str:
        chart = inline_svg(self.plot) if any(group.rates for group in self.groups) else ""
        return super()._repr_html_() + chart

    def plot(self) -> Any:
        """Chart of the rates of each group; of several actions, their shares, stacked.

        A notebook shows it as a picture, without a network.

        Returns
        -------
        altair chart
        """
        from evenhand.charts import actions_chart, rates_chart  # noqa: PLC0415  (needs an extra)

        records = [
            {"group": group_name(group.group), "quantity": name, **asdict(rate)}
            for group in self.groups
            for name, rate in group.rates.items()
        ]
        if self.terms.actions:
            return actions_chart(records, max_groups=MOST_ROWS)
        return rates_chart(records, confidence=self.terms.confidence, max_groups=MOST_ROWS)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects, ready for JSON. Undefined values are None.

        So are suppressed numbers; suppressed rates are absent.

        Returns
        -------
        dict
            ``features``, ``confidence``, ``labelled``, ``weighted``, ``compared``, ``min_count``, ``pooled``,
            ``merged``, ``randomised``, ``threshold``, ``above_median``, ``proxy``, ``groups``,
            ``comparisons`` and ``excluded``.
            Comparisons have their ``strata``, and the ``aggregate``, if control features were given.
        """
        return audit_dict(self)

    def impact_ratios(
        self,
        *,
        date: object = None,
        source: object = None,
        min_share: float = SMALLEST_SHARE,
    ) -> ImpactRatios:
        """The bias-audit tables of New York City's Local Law 144 (6 RCNY 5-301).

        For each sensitive feature and, if there are several, for their intersections: number of applicants,
        number selected, selection rate, and impact ratio, which is the rate divided by the highest one. The
        law asks for sex, race/ethnicity and their intersections, and for an independent auditor. For
        scores, audited with ``threshold="median"``, the scoring rate replaces the selection rate: it is the
        share strictly above the median of all rows.

        People who lack a value (``missing="exclude"`` or ``"category"``) are counted as unknown in the
        tables that need it, and are in the others. Intervals are added that the law does not ask for.

        Parameters
        ----------
        date, source : str or what prints as one, default=None
            Date and source of the data, for the summary. A date may be a ``datetime.date``.
        min_share : float, default=0.02
            Categories with a smaller share of the people in a table are left out of its ratios; their numbers
            and rates are shown. The highest rate is that among the categories that are not left out. At most
            0.02; 0 leaves none out.

        Returns
        -------
        ImpactRatios

        Examples
        --------
        >>> from evenhand import audit
        >>> decisions = [1] * 30 + [0] * 30 + [1] * 20 + [0] * 60
        >>> found = audit(None, decisions, {"sex": ["M"] * 60 + ["F"] * 80})
        >>> ratios = found.impact_ratios(date="2026", source="applications")
        >>> [(str(one.group), one.applicants, one.selected, one.ratio) for one in ratios.categories]
        [('sex=F', 80, 20, 0.5), ('sex=M', 60, 30, 1.0)]
        """
        return impact_ratios(self, date=date, source=source, min_share=min_share)

    def significance(
        self, *, ratio: float = 0.8, level: float = 0.05, difference: float | None = None
    ) -> Significance:
        """Each group beside the named reference: how far apart, whether by chance, and how many people.

        The audit must have a ``reference``, and count people: weights, probabilities of decisions and hidden
        counts are refused. Excluded rows are counted in the result and are in no test. With control features,
        groups are also compared over the strata.

        Parameters
        ----------
        ratio : float, default=0.8
            Impact ratios below this are flagged as practically significant.
        level : float, default=0.05
            P-values of Fisher's exact test below this are flagged as statistically significant.
        difference : float, default=None
            Differences of rates beyond this, in either direction, are flagged as large; None flags none.

        Returns
        -------
        Significance
            To print, or with ``to_frame``, ``to_csv`` and ``to_dict``.

        Examples
        --------
        >>> from evenhand import audit
        >>> decisions = [1] * 72 + [0] * 24 + [1] * 40 + [0] * 40
        >>> found = audit(None, decisions, {"sex": ["M"] * 96 + ["F"] * 80}, reference={"sex": "M"})
        >>> [test] = found.significance().tests
        >>> round(test.impact_ratio, 3), round(test.z, 2), round(test.p_value, 4), test.shortfall
        (0.667, -3.43, 0.0009, 20.0)
        >>> test.practical, test.statistical
        (True, True)
        """
        return significance(self, ratio=ratio, level=level, difference=difference)

    @property
    def by_group(self) -> Any:
        """Rates with one row per group and one column per rate, as fairlearn's ``MetricFrame.by_group``.

        Of several features, groups are their combinations. Intervals, and single features, are in
        :meth:`to_frame`.

        Examples
        --------
        >>> from evenhand import audit
        >>> found = audit(None, [1, 0, 1, 1], {"sex": ["F", "F", "M", "M"]}).by_group
        >>> found["selection rate"].to_list()
        [0.5, 1.0]
        """
        rows = [
            dict(zip(map(show, group.group.features), map(show, group.group.values), strict=True))
            | {name: (rate or _UNKNOWN).value for name, rate in _quantities(group, self.terms)}
            for group in self.groups
            if group.kind == self.groups[-1].kind
        ]
        quantities = {name for name, _ in _quantities(self.groups[0], self.terms)}
        return make_table(rows, numbers=quantities, library=self.library)

    def _columns(self, what: str) -> dict[str, Any]:
        check_choice("what", what, tuple(self._tables))
        names = _COLUMNS.get(what) or (
            *_OF_GROUPS[:2],
            *_feature_columns(self.terms).values(),
            *_OF_GROUPS[2:],
        )
        return {name: "float" if name in _NUMBERS else "str" for name in names}

    def records(self, what: str = "groups") -> list[dict[str, Any]]:
        """The rows of a table; see :meth:`to_frame`."""
        every = self.comparisons
        if what == "groups":
            return list(_group_rows(self))
        if what == "comparisons":
            return [_row(what, found) for found in every]
        if what == "distances":
            return [_row(what, part, found) for found in every for part in found.distances]
        return [
            _row(what, replace(part, given=found.given)) | {"stratum": str(part.stratum or "all together")}
            for found in every
            for part in (found.aggregate, *found.strata)
            if part is not None
        ]


def audit_dict(audit: Audit, name: Callable[[GroupName], Any] = values_by_feature) -> dict[str, Any]:
    """Everything as plain Python objects; see :meth:`evenhand.auditing.result.Audit.to_dict`."""
    parts = {"groups": audit.groups, "comparisons": audit.comparisons, "excluded": audit.excluded}
    found: dict[str, Any] = plain({**vars(audit.terms), **parts}, name)
    return found


def _quantities(group: Finding, terms: Terms) -> Iterator[tuple[str, Rate | None]]:
    """Everything that is reported about a group, by name; None if it is suppressed."""

    def exactly(number: float | None) -> Rate | None:
        return None if number is None else Rate(number, math.nan, math.nan)

    yield "rows", exactly(group.rows)
    if terms.labelled:
        yield "positives", exactly(group.positives)
    if not terms.actions:
        yield "selected", exactly(group.selected)
    for name in terms.rates:
        yield name, group.rates.get(name)
    if group.change is not None:
        for part in ("up", "down", "unchanged"):
            yield f"rows {part}", exactly(getattr(group.change, part))
        for name, rate in group.change.rates.items():
            yield f"change of {name}", rate


def _feature_columns(terms: Terms) -> dict[str, str]:
    """The columns of the sensitive features in the table of groups."""
    columns: dict[str, str] = {}
    for name in terms.features:
        column = show(name)
        while column in (*_OF_GROUPS, *columns.values()):
            column += " (feature)"
        columns[name] = column
    return columns


def _group_rows(audit: Audit) -> Iterator[dict[str, Any]]:
    terms, columns = audit.terms, _feature_columns(audit.terms)
    for group in audit.groups:
        values = dict(zip(group.group.features, group.group.values, strict=True))
        who = {columns[name]: show(values[name]) if name in values else None for name in terms.features}
        for quantity, found in _quantities(group, terms):
            about = {"groups": group.kind, "group": group_name(group.group), **who, "quantity": quantity}
            yield {**about, **vars(found or _UNKNOWN), "note": "left out" if found is None else None}


def _row(what: str, *sources: Any) -> dict[str, Any]:
    """Attributes as cells of a table, each of the first source that has it."""
    return {
        name: cell(next(getattr(one, name) for one in sources if hasattr(one, name)))
        for name in _COLUMNS[what]
    }

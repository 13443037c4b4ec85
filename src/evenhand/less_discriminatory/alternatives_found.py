"""The result of a search for alternatives: a table, a chart, a page and a record."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenhand._atomic import written_at_once
from evenhand.auditing.comparison import group_name
from evenhand.auditing.figure_tables import Block, FigureTables, figure, lines_of
from evenhand.data.tables import Library
from evenhand.display.notebook import html_table, inline_svg
from evenhand.display.text import show
from evenhand.groups.groups import GroupName
from evenhand.solver.certificate import small

_TABLE = {
    "sensitive": ("protected", "text"),
    "accuracy": ("accuracy", ".4f"),
    "difference": ("accuracy_difference accuracy_low accuracy_high", "interval"),
    "lowest impact ratio": ("impact_ratio ratio_low ratio_high", "interval"),
    "difference of ratio": ("ratio_difference difference_low difference_high", "interval"),
    "closed": ("closed", ".0%"),
    "comparable": ("comparable", "flag"),
    "verdict": ("verdict", "text"),
}
_RANKS = {
    "AUC": ("auc", ".4f"),
    "difference of AUC": ("auc_difference auc_low auc_high", "interval"),
    "KS": ("ks", ".4f"),
    "difference of KS": ("ks_difference ks_low ks_high", "interval"),
}
_GROUPS = {
    "rows": ("rows", ","),
    "rate": ("rate", ".3f"),
    "impact ratio": ("impact_ratio low high", "interval"),
    "p": ("p_value", "p"),
    "shortfall": ("shortfall", ",.1f"),
    "SMD": ("smd", "+.3f"),
    "newly selected": ("newly_selected", ",.0f"),
    "good outcome": ("good_selected", ".0%"),
    "newly declined": ("newly_declined", ",.0f"),
    "good outcome ": ("good_declined", ".0%"),
}


@dataclass(frozen=True)
class GroupOutcome:
    """A group under one model. What is undefined, or not compared, is NaN.

    Attributes
    ----------
    candidate : str
    group, reference : GroupName
    rows : int
    rate : float
        The share that is selected.
    impact_ratio, low, high : float
        With limits that hold for all groups at once (Bonferroni).
    p_value : float
        Fisher's exact test, two-sided.
    shortfall : float
        People missing to the rate of the reference.
    smd : float
        Standardized mean difference of the scores.
    newly_selected, newly_declined : float
        People who are selected and were not by the incumbent, and the reverse.
    good_selected, good_declined : float
        The shares of them with a good outcome.
    """

    candidate: str
    group: GroupName
    reference: GroupName
    rows: int
    rate: float
    impact_ratio: float
    low: float
    high: float
    p_value: float
    shortfall: float
    smd: float
    newly_selected: float
    newly_declined: float
    good_selected: float
    good_declined: float


@dataclass(frozen=True)
class Compared:
    """One model beside the incumbent.

    Attributes
    ----------
    name, kind : str
    protected : str
        Whether it uses sensitive features when it decides: "no", "yes", "infers them" or "unknown".
    accuracy, auc, ks : float
    accuracy_difference, accuracy_low, accuracy_high : float
        From the incumbent's, with paired limits; also of AUC and KS.
    group : GroupName
        With the lowest impact ratio.
    impact_ratio, ratio_low, ratio_high : float
        The lowest one.
    ratio_difference, difference_low, difference_high : float
        From the incumbent's lowest one, with paired limits.
    closed : float
        The share of the distance from the incumbent's impact ratio to the bound; NaN beyond the margin.
    comparable : bool or None
        Whether the limits of the accuracy say that it is not below the incumbent's by the margin.
    verdict : str
    """

    name: str
    kind: str
    protected: str
    accuracy: float
    accuracy_difference: float
    accuracy_low: float
    accuracy_high: float
    auc: float
    auc_difference: float
    auc_low: float
    auc_high: float
    ks: float
    ks_difference: float
    ks_low: float
    ks_high: float
    group: GroupName
    impact_ratio: float
    ratio_low: float
    ratio_high: float
    ratio_difference: float
    difference_low: float
    difference_high: float
    closed: float = math.nan
    comparable: bool | None = None
    verdict: str = ""

    def judged(self, incumbent: Compared, bound: float, margin: float, verdict: str) -> Compared:
        """The same with its part of the way to the bound, and why it was chosen or not."""
        if self is incumbent:
            return replace(self, verdict=verdict)
        start, within = incumbent.impact_ratio, self.accuracy_difference >= -margin
        closed = (self.impact_ratio - start) / (bound - start) if within and bound > start else math.nan
        return replace(self, closed=closed, comparable=self.accuracy_low > -margin, verdict=verdict)


@dataclass(frozen=True)
class Point:
    """The largest impact ratio of any rule on the learned probabilities, at a loss of accuracy."""

    margin: float
    impact_ratio: float


@dataclass(frozen=True, eq=False)
class Alternatives(FigureTables):
    """Result of :func:`evenhand.alternatives`. ``print`` shows it, ``plot`` draws it.

    Attributes
    ----------
    candidates : tuple of Compared
        The incumbent first; figures are of the rows that had no part in the choice.
    groups : tuple of GroupOutcome
        The groups under each of them.
    points : tuple of Point
        The bound at several losses of accuracy.
    chosen : str or None
        The candidate that is chosen.
    bound, bound_estimate, bound_low, bound_high : float
        The largest impact ratio at the margin: by the probabilities, with a proof; and of the rule that
        attains it on observed outcomes and groups, with limits.
    gap : float
        Of the proof.
    margin, confidence, rate : float
    rows : dict
        Numbers of rows: trained on, chosen on, reported on.
    missing : tuple of str
        What could not be tried, and why.
    record : dict
        Date, digest of the data, versions.
    library : {"pandas", "polars", "pyarrow"} or None
    """

    _tables: ClassVar = {
        "candidates": ("candidates", Compared),
        "groups": ("groups", GroupOutcome),
        "bound": ("points", Point),
    }
    candidates: tuple[Compared, ...]
    groups: tuple[GroupOutcome, ...]
    points: tuple[Point, ...]
    chosen: str | None
    bound: float
    bound_estimate: float
    bound_low: float
    bound_high: float
    gap: float
    margin: float
    confidence: float
    rate: float
    rows: dict[str, int]
    missing: tuple[str, ...]
    record: dict[str, str]
    library: Library | None = None

    @property
    def _headline(self) -> str:  # type: ignore[override]
        tried = len(self.candidates) - 1
        old, new = self.candidates[0], {one.name: one for one in self.candidates}.get(self.chosen or "")
        who = "those with scores" if any(math.isnan(one.auc) for one in self.candidates[1:]) else "all"
        begins = f"{tried:,} model{'s' * (tried != 1)} beside the incumbent, {who} selecting {self.rate:.1%}."
        if new is None:
            return f"{begins} None is chosen."
        shown = "is" if new.comparable else "is not shown to be"
        return (
            f"{begins} Chosen: {new.name}. Its lowest impact ratio is {new.impact_ratio:.3f} instead of "
            f"{old.impact_ratio:.3f}, and it {shown} comparable."
        )

    def notes(self) -> list[str]:
        """How the figures are made, and what cannot be said."""
        rows, new = self.rows, self.rows["reported on"]
        observed = "bound_estimate bound_low bound_high"
        found = [
            f"Models were trained on {rows['trained on']:,} rows. {rows['chosen on']:,} others chose among "
            f"them and gave the verdicts, and {new:,} more, which had no part in that, gave all figures: "
            f"{100 * self.confidence:g}% limits hold for the chosen one as for any other. Differences are "
            "paired with the incumbent (bootstrap, cut anew at the approval rate); limits of impact ratios "
            "are for all groups at once.",
            f"Comparable: the limits say that accuracy is less than {self.margin:g} below the incumbent's.",
            "Bound: if the learned probabilities are right, no rule on them that selects as many and is "
            f"at most {self.margin:g} less accurate has a lowest impact ratio above {self.bound:.3f} (proof, "
            f"gap {small(self.gap)}). Estimate: the rule that attains it, on observed outcomes and groups, "
            f"moved to exactly that accuracy, has {figure(self, observed, 'interval')}. These are limits for "
            "this rule. They are no confidence interval of the most that any rule can reach, and a model "
            "that knows more than the probabilities can be above both. Closed: how much of the distance "
            "from the incumbent to the estimate a model within the margin has closed.",
        ]
        widths = [(one.accuracy_high - one.accuracy_low) / 2 for one in self.candidates[1:]]
        half = float(np.median(widths)) if widths else 0.0  # of the limits of a difference in accuracy
        if half > self.margin:
            needed = math.ceil(new * (half / self.margin) ** 2 / 1000) * 1000
            in_all = needed * sum(rows.values()) // new
            found.append(
                f"A margin of {self.margin:g} cannot be resolved: limits are {half:.4f} on either side. "
                f"About {needed:,} rows to report on are needed, {in_all:,} in all."
            )
        return [*found, *self.missing, "These are statistics and no legal opinion: check with counsel."]

    def blocks(self) -> Iterator[Block]:
        """The tables as text."""
        for columns in (_TABLE, _RANKS):
            yield Block(lines_of("model", columns, [(one.name, one) for one in self.candidates]))
        for name in dict.fromkeys([self.candidates[0].name, self.chosen or self.candidates[0].name]):
            own = [one for one in self.groups if one.candidate == name]
            head, *lines = lines_of(f"{name}: group", _GROUPS, [(group_name(one.group), one) for one in own])
            for one, line in zip(own, lines, strict=True):
                line[3:7] = ["reference", "", "", ""] if one.group == one.reference else line[3:7]
            yield Block([head, *lines])

    def __repr__(self) -> str:
        tried = len(self.candidates) - 1
        return f"<Alternatives: {tried} models beside the incumbent, chosen: {self.chosen}>"

    def _repr_html_(self) -> str:
        return super()._repr_html_() + inline_svg(self.plot)

    def plot(self) -> Any:
        """Chart of accuracy against the lowest impact ratio, with the bound as a curve.

        Returns
        -------
        altair chart
        """
        from evenhand.charts import alternatives_chart  # noqa: PLC0415  (needs an extra)

        models = [{**one, "chosen": one["name"] == self.chosen} for one in self.records("candidates")]
        bound = self.records("bound")
        return alternatives_chart(models, bound, margin=self.margin, confidence=self.confidence)

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write everything as JSON, with the date, versions and a digest of the data."""
        return self._written(path, json.dumps(self.to_dict(), indent=1, allow_nan=False))

    def to_html(
        self, path: str | os.PathLike[str], *, title: str = "Less discriminatory alternatives"
    ) -> Path:
        """Write a page that opens from disk and needs no network.

        Parameters
        ----------
        path : str or path
        title : str

        Returns
        -------
        Path
        """
        style = files("evenhand.less_discriminatory").joinpath("page.css").read_text("utf-8")
        record = html_table(["record", ""], [*map(list, self.record.items())], most=None)
        first, end, rest = super()._repr_html_().partition("</p>")
        named = html.escape(show(title))
        head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{named}</title>'
        body = f"<h1>{named}</h1>{first}{end}{inline_svg(self.plot)}{rest}{record}"
        return self._written(path, f"{head}<style>{style}</style><main>{body}</main></html>")

    def _written(self, path: str | os.PathLike[str], text: str) -> Path:
        with written_at_once(Path(path)) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
        return Path(path)

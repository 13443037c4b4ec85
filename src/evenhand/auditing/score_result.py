"""The result of an audit of scores, to print, plot, turn into tables or save as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from evenhand.auditing.comparison import group_name
from evenhand.auditing.figure_tables import Block, FigureTables, lines_of
from evenhand.data.checks import check_choice
from evenhand.data.tables import Library
from evenhand.display.notebook import inline_svg
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName

ELSE = "everyone else"


@dataclass(frozen=True)
class GroupScores:
    """Scores of one group. What is undefined, or not compared, is NaN.

    Attributes
    ----------
    group : GroupName
        Empty for all rows.
    reference : str or None
        Whom it is compared with: the reference, or "everyone else".
    rows : int
    mean : float
        Of the scores.
    auc, low, high : float
        Area under the ROC curve, with DeLong's interval.
    ks : float
        Kolmogorov-Smirnov: the largest distance between the distribution functions of group and reference.
    smd, residual_smd : float
        Standardized mean difference of the scores, and of label minus probability.
    auc_difference, difference_low, difference_high : float
        The group's AUC minus that of the reference; limits hold simultaneously for all groups of the same
        features.
    calibration_error : float
        Mean distance of probability and share of positives over the bins, weighted by rows.
    lowest_ratio, ratio_low, ratio_high, at_share : float
        The lowest impact ratio over all cut-offs, its limits, and the share of all rows selected there.
    """

    group: GroupName
    reference: str | None
    rows: int
    mean: float
    auc: float
    low: float
    high: float
    ks: float
    smd: float
    residual_smd: float
    auc_difference: float
    difference_low: float
    difference_high: float
    calibration_error: float
    lowest_ratio: float
    ratio_low: float
    ratio_high: float
    at_share: float


@dataclass(frozen=True)
class CutOff:
    """What a group's impact ratio would be if the best `share` of all rows were selected.

    Attributes
    ----------
    group : GroupName
    reference : str
    share, cut_off : float
        The tenth, and the least favourable score that is selected.
    rate, reference_rate : float
        Shares of the group and of its reference that are selected.
    impact_ratio, low, high : float
        Limits hold simultaneously for all groups of the same features and all cut-offs.
    """

    group: GroupName
    reference: str | None
    share: float
    cut_off: float
    rate: float
    reference_rate: float
    impact_ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Bin:
    """Calibration of a group in one tenth of all rows: mean probability, and share of positives."""

    group: GroupName
    rows: int
    predicted: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True)
class RocPoint:
    """A point of a group's ROC curve."""

    group: GroupName
    false_positive_rate: float
    true_positive_rate: float


_LEVELS = {
    "rows": ("rows", ","),
    "mean": ("mean", "#,.4g"),
    "SMD": ("smd", "+.3f"),
    "residual SMD": ("residual_smd", "+.3f"),
    "KS": ("ks", ".3f"),
    "lowest ratio": ("lowest_ratio ratio_low ratio_high", "interval"),
    "selected": ("at_share", ".0%"),
}
_RANKS = {
    "AUC": ("auc low high", "interval"),
    "calibration error": ("calibration_error", ".3f"),
    "difference of AUC": ("auc_difference difference_low difference_high", "interval"),
}
_COMPARED = ("SMD", "residual SMD", "KS", "lowest ratio", "selected", "difference of AUC")
_NEEDS = {
    "cut-offs": "there is only one group",
    "calibration": "it needs labels, and probabilities as scores",
    "roc": "it needs groups with both labels",
}
"""The charts, and why there may be nothing to draw."""


@dataclass(frozen=True, eq=False)
class ScoreAudit(FigureTables):
    """Result of :func:`evenhand.audit_scores`. ``print`` shows it, ``plot`` draws it.

    Attributes
    ----------
    groups : tuple of GroupScores
        All rows, then each group.
    cut_offs : tuple of CutOff
    bins : tuple of Bin
        Empty without labels, or if scores are no probabilities.
    curves : tuple of RocPoint
        Empty without labels.
    confidence : float
    favourable : {"high", "low"}
    reference : GroupName or None
    labelled, probabilities : bool
        Whether there are labels, and whether scores were read as probabilities.
    excluded : int
        Rows that lack a sensitive value and were left out.
    library : {"pandas", "polars", "pyarrow"} or None
    """

    _tables: ClassVar = {
        "groups": ("groups", GroupScores),
        "cut-offs": ("cut_offs", CutOff),
        "calibration": ("bins", Bin),
        "roc": ("curves", RocPoint),
    }
    groups: tuple[GroupScores, ...]
    cut_offs: tuple[CutOff, ...]
    bins: tuple[Bin, ...]
    curves: tuple[RocPoint, ...]
    confidence: float
    favourable: str
    reference: GroupName | None
    labelled: bool
    probabilities: bool
    excluded: int = 0
    library: Library | None = None

    @property
    def _headline(self) -> str:  # type: ignore[override]
        return f"Scores of {self.groups[0].rows:,} rows; groups are compared with {self.reference or ELSE}."

    def notes(self) -> list[str]:
        """How the figures are made."""
        level = f"{100 * self.confidence:g}%"
        found = [
            "SMD: difference of means in standard deviations of all rows. KS: largest distance between "
            "distribution functions. Lowest ratio: smallest impact ratio if the best 10 % to 90 % were "
            f"selected, and at which share; {self.favourable} scores are favourable."
        ]
        if self.labelled:
            found.append(
                f"AUC: DeLong's {level} intervals; those of differences hold simultaneously for all groups "
                "of the same features (Bonferroni)."
            )
        if self.labelled and not self.probabilities:
            found.append("Scores are not all from 0 to 1: no residuals and no calibration.")
        if self.probabilities:
            found.append(
                "Residual SMD: SMD of label minus probability. Calibration error: mean distance of "
                "probability and share of positives in tenths of all rows; chance alone makes it positive."
            )
        if self.excluded:
            found.append(f"{self.excluded:,} rows lack a sensitive value and are left out.")
        return found

    def blocks(self) -> Iterator[Block]:
        """The tables as text."""
        absent = () if self.probabilities else ("residual SMD", "calibration error")
        for columns in (_LEVELS, _RANKS) if self.labelled else (_LEVELS,):
            shown = {name: part for name, part in columns.items() if name not in absent}
            lines = lines_of("group", shown, [(group_name(one.group), one) for one in self.groups])
            alone = [k for k, name in enumerate(shown, start=1) if name in _COMPARED]
            for one, line in zip(self.groups, lines[1:], strict=True):
                for k in alone if one.reference is None else ():  # everyone, and the reference
                    line[k] = "reference" if one.group.features and k == alone[-1] else ""
            yield Block(lines)

    def __repr__(self) -> str:
        return f"<ScoreAudit of {self.groups[0].rows:,} rows in {len(self.groups) - 1:,} groups>"

    def _repr_html_(self) -> str:
        return super()._repr_html_() + (inline_svg(self.plot) if self.cut_offs else "")

    def plot(self, what: Literal["cut-offs", "calibration", "roc"] = "cut-offs") -> Any:
        """Chart of impact ratios by cut-off, calibration by group, or ROC curves, of the six largest groups.

        Parameters
        ----------
        what : {"cut-offs", "calibration", "roc"}, default="cut-offs"

        Returns
        -------
        altair chart
            A notebook shows it as a picture, without a network.
        """
        from evenhand.charts import calibration_chart, cut_off_chart, roc_chart  # noqa: PLC0415  (needs an extra)

        check_choice("what", what, tuple(_NEEDS))
        sizes = {group_name(one.group): one.rows for one in self.groups}
        records = [
            {"n": record.get("rows", sizes[record["group"]]), **record} for record in self.records(what)
        ]
        if not records:
            raise InputError(f"there is nothing to draw for {what!r}: {_NEEDS[what]}.")
        if what == "calibration":
            return calibration_chart(records, confidence=self.confidence)
        return (roc_chart if what == "roc" else cut_off_chart)(records)

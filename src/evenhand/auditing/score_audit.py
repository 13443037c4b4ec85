"""Audit of scores, probabilities and prices by group: level, ranking, and what cut-offs would do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp, rankdata
from sklearn.metrics import roc_curve

from evenhand.auditing.group_rates import reported_groups
from evenhand.auditing.query import read_columns
from evenhand.auditing.reference import impact_ratio, reference_families
from evenhand.auditing.score_result import ELSE, Bin, CutOff, GroupScores, RocPoint, ScoreAudit
from evenhand.data.checks import check_choice, check_fraction
from evenhand.data.labels import finite_numbers
from evenhand.data.tables import library_of
from evenhand.exceptions import InputError
from evenhand.groups.groups import GroupName, Groups, Missing
from evenhand.guarantee.intervals import critical_value, wilson
from evenhand.requirements.rates import ArgumentNames, read_rows

_BINS = 10
_POINTS = 101
_LARGEST = 1e100
"""Squares and sums of larger scores may overflow."""
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class _Rows(NamedTuple):
    """Scores, labels (without any, nobody is positive), and label minus probability (or NaN)."""

    scores: Floats
    positive: Mask
    residual: Floats

    def of(self, members: Mask) -> _Rows:
        """The rows of some."""
        return _Rows(self.scores[members], self.positive[members], self.residual[members])


class _Pair(NamedTuple):
    """The rows of a group and of those that it is compared with, which may be nobody; see `_pairs`."""

    group: GroupName
    members: Mask
    others: Mask
    reference: str | None = None
    comparisons: int = 1


def audit_scores(
    y_true: Any,
    scores: Any,
    sensitive_features: Any,
    *,
    data: Any = None,
    reference: Mapping[str, Any] | None = None,
    favourable: Literal["high", "low"] = "high",
    confidence: float = 0.95,
    pos_label: Any = None,
    missing: Missing = "error",
) -> ScoreAudit:
    """Audit scores, probabilities or prices: how their level, ranking and meaning differ by group.

    Parameters
    ----------
    y_true : array, sequence, series or None
        Labels of any two values. None if there are none, as for prices: AUC, ROC curves, residuals and
        calibration are then left out.
    scores : array, sequence or series
        Finite numbers of any range. If there are labels and all scores are from 0 to 1 they are also read as
        probabilities, for residuals and calibration.
    sensitive_features : table, mapping, array or sequence
        One column per sensitive feature.
    data : table, default=None
        A table, eager or lazy; the three arguments are then names of its columns. These are read into
        memory, because ranks need all scores.
    reference : mapping, default=None
        The group that others are compared with, such as ``{"race": "White"}``; see :func:`audit`. None
        compares each group with everyone else.
    favourable : {"high", "low"}, default="high"
        Which end of the scores people want: high for a credit score, low for a price.
    confidence : float, default=0.95
        Of the intervals; strictly between 0 and 1.
    pos_label : object, default=None
        The positive label; None stands for the one that sorts last.
    missing : {"error", "category", "exclude"}, default="error"
        Whether a missing sensitive value is an error, a value of its own, or leaves the row out of all
        figures.

    Returns
    -------
    ScoreAudit

    Notes
    -----
    Standardized mean differences (SMD) are in standard deviations of all rows. An AUC has DeLong's interval,
    each at the stated confidence; differences of AUCs hold simultaneously for all groups of the same
    features (Bonferroni). They are undefined where DeLong's variance is 0, as of perfectly separated or
    constant scores. Impact ratios are those of selecting the best 10 %, 20 %, ..., 90 % of all rows, more if
    scores are tied at the cut-off; their limits hold simultaneously for all groups and cut-offs, for the
    cut-offs found. Calibration compares mean probability and share of positives in tenths of all rows; its
    error is the mean distance, which chance alone makes positive in small groups. Rows count once: weights
    are not supported.

    Examples
    --------
    >>> import numpy as np
    >>> sex = np.repeat(["F", "M"], 500)
    >>> p = np.append(np.linspace(0.1, 0.7, 500), np.linspace(0.3, 0.9, 500))
    >>> y = np.arange(1000) * 0.618 % 1 < p
    >>> found = audit_scores(y, p, {"sex": sex}, reference={"sex": "M"})
    >>> print(found)
    Scores of 1,000 rows; groups are compared with sex=M.
    <BLANKLINE>
    group      rows    mean     SMD  residual SMD     KS          lowest ratio   selected
    everyone  1,000  0.5000
    sex=F       500  0.4000  -0.999        +0.000  0.334  0.000 [0.000, 0.060]        10%
    sex=M       500  0.6000                                                     reference
    <BLANKLINE>
    group                      AUC  calibration error       difference of AUC
    everyone  0.726 [0.695, 0.757]              0.011
    sex=F     0.703 [0.656, 0.749]              0.014  -0.004 [-0.069, 0.061]
    sex=M     0.706 [0.660, 0.752]              0.011               reference
    <BLANKLINE>
    SMD: difference of means in standard deviations of all rows. KS: largest distance between
      distribution functions. Lowest ratio: smallest impact ratio if the best 10 % to 90 % were
      selected, and at which share; high scores are favourable.
    AUC: DeLong's 95% intervals; those of differences hold simultaneously for all groups of the same
      features (Bonferroni).
    Residual SMD: SMD of label minus probability. Calibration error: mean distance of probability and
      share of positives in tenths of all rows; chance alone makes it positive.
    """
    check_fraction("confidence", confidence)
    check_choice("favourable", favourable, ("high", "low"))
    if data is not None:
        columns = read_columns(data, {"y_true": y_true, "scores": scores}, sensitive_features)
        y_true, scores, sensitive_features = map(columns.get, ("y_true", "scores", "sensitive_features"))
    values = finite_numbers(scores, "scores")
    if values is None:
        raise InputError("scores must be numbers.")
    if np.abs(values).max(initial=0) > _LARGEST:
        raise InputError(f"scores must be numbers from -{_LARGEST:g} to {_LARGEST:g}.")
    read = read_rows(
        y_true,
        scores,
        sensitive_features,
        pos_label=pos_label,
        missing=missing,
        threshold=0.0,  # decisions are not used; scores have been read
        names=ArgumentNames(prediction="scores"),
    )
    kept = read.codes < len(read.groups)
    number = np.asarray(values, np.float64)[kept]
    positive = np.zeros(len(number), np.bool_) if read.positive is None else read.positive[kept]
    probabilities = read.positive is not None and number.min() >= 0 and number.max() <= 1
    rows = _Rows(number, positive, positive - number if probabilities else np.full(len(number), np.nan))
    selected = _selections(number, 1.0 if favourable == "high" else -1.0)
    tenths = np.unique(np.quantile(number, np.linspace(0, 1, _BINS + 1)))
    figures, cut_offs, bins, curves = [], [], [], []
    for pair in _pairs(read.groups, read.codes[kept], reference):
        own = rows.of(pair.members)
        cuts = list(_cut_offs(pair, selected, confidence))
        calibration = list(_calibration(pair.group, own, tenths, confidence)) if probabilities else []
        figures.append(_figures(pair, rows, confidence, cuts, calibration))
        cut_offs += cuts
        bins += calibration
        curves += list(_curve(pair.group, own))
    return ScoreAudit(
        tuple(figures),
        tuple(cut_offs),
        tuple(bins),
        tuple(curves),
        confidence=float(confidence),
        favourable=favourable,
        reference=None if reference is None else GroupName(tuple(reference), tuple(reference.values())),
        labelled=read.positive is not None,
        probabilities=bool(probabilities),
        excluded=int(len(kept) - kept.sum()),
        library=library_of(sensitive_features, scores, y_true),
    )


def _pairs(
    groups: Groups, codes: NDArray[np.integer[Any]], reference: Mapping[str, Any] | None
) -> Iterator[_Pair]:
    """Everyone, then each group with the rows that it is compared with."""
    family = reported_groups(groups)
    everyone = np.ones(len(codes), np.bool_)
    yield _Pair(family.names[0], everyone, ~everyone)
    if reference is None:
        for name, members in zip(family.names[1:], family.matrix[1:], strict=True):
            number = sum(other.features == name.features for other in family.names)
            yield _Pair(name, members[codes], ~members[codes], ELSE, number)
        return
    for part, place in reference_families(groups, reference, groups.counts.astype(np.float64)):
        others = part.matrix[place][codes]
        for k, (name, members) in enumerate(zip(part.names, part.matrix, strict=True)):
            if k == place:
                yield _Pair(name, members[codes], ~everyone)
            else:
                yield _Pair(name, members[codes], others, str(part.names[place]), len(part.names) - 1)


def _figures(
    pair: _Pair, rows: _Rows, confidence: float, cut_offs: Sequence[CutOff], bins: Sequence[Bin]
) -> GroupScores:
    own, other = rows.of(pair.members), rows.of(pair.others)
    (auc, variance), (base, noise) = (auc_of(part.scores, part.positive) for part in (own, other))
    # A variance of 0 is no knowledge: it is that of two or three rows that happen to be in order.
    spread = variance + noise if variance > 0 and noise > 0 else math.nan
    error = sum(one.rows * abs(one.predicted - one.observed) for one in bins)
    known = [one for one in cut_offs if not math.isnan(one.impact_ratio)]
    worst = min(known, key=lambda one: one.impact_ratio, default=None)
    lowest = (math.nan,) * 4 if worst is None else (worst.impact_ratio, worst.low, worst.high, worst.share)
    return GroupScores(
        pair.group,
        pair.reference,
        len(own.scores),
        float(own.scores.mean()),
        *_with_limits(auc, variance or math.nan, critical_value(confidence), lowest=0.0),
        kolmogorov_smirnov(own.scores, other.scores),
        standardized_difference(own.scores, other.scores, rows.scores),
        standardized_difference(own.residual, other.residual, rows.residual),
        *_with_limits(auc - base, spread, critical_value(confidence, pair.comparisons), lowest=-1.0),
        error / len(own.scores) if bins else math.nan,
        *lowest,
    )


def _with_limits(value: float, variance: float, z: float, *, lowest: float) -> tuple[float, float, float]:
    half = z * math.sqrt(variance)
    low, high = np.clip([value - half, value + half], lowest, 1.0)
    return value, float(low), float(high)


def _selections(scores: Floats, sign: float) -> list[tuple[float, float, Mask]]:
    """For each tenth, its cut-off and who is selected: the best of all rows, and those tied with them."""
    falling = -np.sort(-sign * scores)
    places = [math.ceil(len(falling) * tenth / 10) - 1 for tenth in range(1, 10)]
    return [
        (tenth / 10, float(sign * falling[place]), sign * scores >= falling[place])
        for tenth, place in enumerate(places, start=1)
    ]


def _cut_offs(pair: _Pair, selected: list[tuple[float, float, Mask]], confidence: float) -> Iterator[CutOff]:
    if not pair.others.any():
        return
    z = critical_value(confidence, pair.comparisons * len(selected))
    for share, cut_off, chosen in selected:
        rate, base = (float(chosen[part].mean()) for part in (pair.members, pair.others))
        ratio = impact_ratio(rate, int(pair.members.sum()), base, int(pair.others.sum()), z)
        yield CutOff(pair.group, pair.reference, share, cut_off, rate, base, *ratio)


def _calibration(group: GroupName, own: _Rows, edges: Floats, confidence: float) -> Iterator[Bin]:
    """Mean probability and share of positives of a group, in tenths of all rows."""
    place = np.searchsorted(edges[1:-1], own.scores, side="right")
    for k in np.unique(place):
        inside = own.of(place == k)
        share = wilson(inside.positive.mean(), len(inside.scores), critical_value(confidence))
        limits = (float(part) for part in (share.value, share.low, share.high))
        yield Bin(group, len(inside.scores), float(inside.scores.mean()), *limits)


def _curve(group: GroupName, own: _Rows) -> Iterator[RocPoint]:
    """Points of the ROC curve at falling cut-offs, at most about `_POINTS`, if the group has both labels."""
    if own.positive.any() and not own.positive.all():
        false, true, _ = roc_curve(own.positive, own.scores, drop_intermediate=False)
        chosen = np.unique(np.linspace(0, len(false) - 1, _POINTS).round().astype(int))
        for k in chosen:
            yield RocPoint(group, float(false[k]), float(true[k]))


def auc_of(scores: Floats, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """Area under the ROC curve, and its variance by DeLong, DeLong and Clarke-Pearson (1988).

    The share of pairs of a positive and a negative row in which the positive one has the higher score, ties
    counting half. Its variance comes from each row's own share of such pairs.

    Returns
    -------
    auc, variance : float
        NaN without rows of both labels; the variance also with a single row of one label.

    Examples
    --------
    >>> auc, variance = auc_of(np.array([1.0, 2, 2, 3]), np.array([False, False, True, True]))
    >>> auc, variance
    (0.875, 0.03125)
    """
    up, down = scores[positive], scores[~positive]
    if not len(up) or not len(down):
        return math.nan, math.nan
    ranks = rankdata(np.concatenate([up, down]))  # by midranks, as Sun and Xu (2014)
    above = (ranks[: len(up)] - rankdata(up)) / len(down)
    below = 1 - (ranks[len(up) :] - rankdata(down)) / len(up)
    if min(len(up), len(down)) < 2:
        return float(above.mean()), math.nan
    return float(above.mean()), float(above.var(ddof=1) / len(up) + below.var(ddof=1) / len(down))


def kolmogorov_smirnov(first: Floats, second: Floats) -> float:
    """Largest distance between the distribution functions of two samples.

    Examples
    --------
    >>> kolmogorov_smirnov(np.array([1.0, 2, 3, 4]), np.array([3.0, 4, 5, 6]))
    0.5
    """
    if not len(first) or not len(second):
        return math.nan
    return float(ks_2samp(first, second, method="asymp").statistic)


def standardized_difference(first: Floats, second: Floats, everyone: Floats) -> float:
    """Difference of means in standard deviations of everyone; NaN if everyone has the same value.

    Examples
    --------
    >>> everyone = np.array([1.0, 1, 3, 3])
    >>> standardized_difference(everyone[:2], everyone[2:], everyone)
    -2.0
    """
    if not len(first) or not len(second) or everyone.min() == everyone.max():
        return math.nan
    return float((first.mean() - second.mean()) / everyone.std())

"""Audit of decisions by group, with uncertainty; only the decisions are needed, not the model.

One pass counts rows by group and label. From these counts come the rates of each group with their intervals
(`group_rates`), the disparities between groups with a verdict (`comparison`), and the changes since earlier
decisions (`change`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np

from evenhand.auditing.action_audit import audit_actions
from evenhand.auditing.comparison import Comparison, all_notions, compare, four_fifths
from evenhand.auditing.group_rates import Terms, absent_groups, find, find_excluded
from evenhand.auditing.proxy_tally import tally_by_proxy
from evenhand.auditing.query import tally_table
from evenhand.auditing.rate_bounds import compare_with_bound
from evenhand.auditing.reference import count_beside
from evenhand.auditing.result import Audit
from evenhand.auditing.suppression import hide_small, published
from evenhand.auditing.tally import Tally, tally
from evenhand.auditing.within_strata import compare_in_strata, tallies
from evenhand.data.checks import check_count, check_fraction
from evenhand.data.labels import read_median
from evenhand.data.tables import Library, library_of
from evenhand.exceptions import InputError, VacuousConstraintWarning, warn_user
from evenhand.groups.groups import Missing
from evenhand.groups.proxy import Proxy
from evenhand.requirements.bounds import NoWorse, RateBound
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import read_rows
from evenhand.requirements.requirement import Constraint, Requirement, check_constraint


def audit(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    data: Any = None,
    reference: Mapping[str, Any] | None = None,
    control_features: Any = None,
    constraint: Constraint | None = None,
    before: Any = None,
    sample_weight: Any = None,
    confidence: float = 0.95,
    pos_label: Any = None,
    missing: Missing = "error",
    min_size: int = 0,
    min_count: int = 0,
    threshold: float | Literal["median"] | None = None,
    actions: Any = None,
) -> Audit:
    """Audit decisions: rates of each group, disparities, their uncertainty, and whether a requirement holds.

    Parameters
    ----------
    y_true : array, sequence, series, name of a column, or None
        Labels of any two values. None if they are not known; only selection rates are then compared.
    y_pred : array, sequence, series or name of a column
        Predicted labels, or numbers from 0 to 1: the probability that a randomised decision is positive.
        Scores, such as those of ``predict_proba``, need a `threshold` to become decisions; the result says
        how predictions were read.
    sensitive_features : table, mapping, array, sequence, Proxy, or names of columns
        One column per sensitive feature. With a :class:`Proxy` one of them is known by probabilities: each
        rate then is the probability-weighted estimate, with an interval that holds whatever the true groups
        are within the probabilities, widened for sampling. Verdicts use that interval: evidence is
        insufficient where proxies cannot tell.
    data : table, default=None
        The table that has the columns, eager or lazy, of any library that narwhals reads: polars, such as
        ``pl.scan_parquet("*.parquet")``, pandas, pyarrow, DuckDB, Dask or PySpark. The other arguments then
        are names of its columns, and the library that holds it counts the rows in one pass, or two for scores
        and probabilities. Only the sums for each combination of values are collected: the table need not fit
        into memory.
    reference : mapping, default=None
        The group that others are compared with by :meth:`Audit.significance
        <evenhand.auditing.result.Audit.significance>`, such as ``{"race": "White", "sex": "Male"}``. It names
        one or more sensitive features; of several, each is compared by itself, and if all are named, so are
        their combinations. It must have at least 30 rows.
    control_features : table, mapping, array, sequence or names of columns, default=None
        One column per control feature. Groups are then also compared within each stratum, the people with the
        same values of these, by every notion; ``strata`` of the result has the audit of each. A notion of
        `constraint` with ``given=`` gets its verdict from the strata of the features that it names.
    constraint : Constraint, default=None
        The requirement, such as ``DemographicParity(difference=0.05)`` or
        ``RateBound("selection rate", at_most=0.2)``; several are joined by ``&``, and each gets a verdict.
        None reports every notion by both measures, without a verdict.
    before : array, sequence, series or name of a column, default=None
        Earlier predictions for the same rows, to report the changes. They are also the reference of
        ``NoWorse(...)``, unless it has one of its own.
    sample_weight : array or name of a column, default=None
        Weight of each row. Intervals then use an effective number of rows, from a linearised variance that
        is valid even if weights and decisions are correlated; see
        ``evenhand.auditing.tally.effective_size``.
    confidence : float, default=0.95
        Of the intervals; strictly between 0 and 1.
    pos_label : object, default=None
        The positive label; None stands for the one that sorts last.
    missing : {"error", "category", "exclude"}, default="error"
        Whether a missing sensitive value is an error, a value of its own, or leaves the row out of the audit.
        Excluded rows are counted in the result.
    min_size : int, default=0
        Combinations with fewer rows are pooled, and so are values of a single feature that have fewer; the
        groups of single features keep all of their rows. Pooled groups are listed in the result and in a
        warning. See :meth:`Groups.fit`.
    min_count : int, default=0
        For publication: smaller counts are left out, together with their rates and with everything that
        would reveal them by addition and subtraction. What is shown of a group depends on its counts: the
        rows, if there are enough; the selection rate, if enough are selected and enough are not; the rest,
        if there are enough of each kind of right and wrong decision. Disparities are still reported, but a
        group that is not shown is not named, and figures that depend on it are rounded to two digits, limits
        outwards. Not with `before`, `control_features`, bounds on rates, and notions with `given`.
    threshold : float or "median", default=None
        Turns scores of any range into decisions: rows with at least this score are selected. It is applied
        to `before` too, unless that holds labels. With "median", rows with a score above the median of all
        rows count as selected, and selection rates are the scoring rates of New York City's Local Law 144.
    actions : Costs or sequence, default=None
        For decisions among several actions, their names; the labels must then be among them, and an action is
        right if it equals the label. :class:`Costs` name other actions than labels, of which the ones that
        cost least for a label are right. The rates of the result are those of the actions, and `before` is
        the reference of ``NoWorse(...)`` alone. Not with `data`, `reference`, `control_features`,
        `min_count`, `threshold`, `pos_label` and proxies.

    Returns
    -------
    Audit

    Notes
    -----
    Rates have Wilson intervals and changes of rates Newcombe's for paired data, each with the stated
    confidence on its own. A disparity has an interval that holds simultaneously for all groups of a notion;
    see ``evenhand.auditing.comparison``. So has a rate that is bounded: an exact one among the rows that
    it looks at, for precision among the selected; see ``evenhand.auditing.rate_bounds``. A requirement is
    satisfied, or violated, if its whole interval is on that side of the tolerance; otherwise the evidence is
    insufficient. Probabilities are treated as if each decision had been drawn.

    Examples
    --------
    >>> from evenhand import DemographicParity
    >>> found = audit(
    ...     [0, 1, 1, 1, 0, 1] * 100,
    ...     [0, 1, 1, 1, 0, 0] * 100,
    ...     {"sex": ["F", "F", "F", "M", "M", "M"] * 100},
    ...     constraint=DemographicParity(difference=0.05),
    ... )
    >>> found["demographic parity"].verdict
    'violated'
    >>> print(found)
    Audit of 600 rows in 2 groups by sex. Intervals: 95%.
    <BLANKLINE>
    group     rows  positives        selection rate            error rate
    everyone   600        400  0.500 [0.460, 0.540]  0.167 [0.139, 0.199]
    sex=F      300        200  0.667 [0.612, 0.718]  0.000 [0.000, 0.013]
    sex=M      300        200  0.333 [0.282, 0.388]  0.333 [0.282, 0.388]
    <BLANKLINE>
    group       true-positive rate   false-positive rate
    everyone  0.750 [0.705, 0.790]  0.000 [0.000, 0.019]
    sex=F     1.000 [0.981, 1.000]  0.000 [0.000, 0.037]
    sex=M     0.500 [0.431, 0.569]  0.000 [0.000, 0.037]
    <BLANKLINE>
    groups compared with everyone
    demographic parity, difference  0.167 [0.124, 0.207]  sex=M  violated (tolerance 0.05)
    <BLANKLINE>
    four-fifths rule: lowest selection rate divided by the highest
    sex  0.500 [0.414, 0.599]  sex=M  violated (tolerance 0.8)

    Of a table, by the names of its columns:

    >>> import polars as pl
    >>> table = pl.LazyFrame({"paid": [0, 1, 1, 1], "approved": [0, 1, 1, 0], "sex": ["F", "F", "M", "M"]})
    >>> audit("paid", "approved", "sex", data=table).terms.features
    ('sex',)
    """
    _check_settings(constraint, confidence, min_size, min_count, threshold, actions=actions is not None)
    parts: Sequence[Any] = () if constraint is None else constraint.requirements
    bounds_or_strata = not all(isinstance(part, Notion) and not part.controls for part in parts)
    if min_count and (bounds_or_strata or control_features is not None or before is not None):
        raise InputError(
            "min_count cannot suppress small counts of strata, of changes and of bounds on rates: omit "
            "control_features, before, bounds and notions with given, or audit them separately."
        )
    if actions is not None:
        refused: tuple[Any, ...] = (data, reference, control_features, threshold, pos_label)
        if any(other is not None for other in refused) or min_count or isinstance(sensitive_features, Proxy):
            raise InputError(
                "an audit of several actions takes neither data, reference, control_features, threshold, "
                "pos_label, min_count nor proxies."
            )
        return audit_actions(
            y_true,
            y_pred,
            sensitive_features,
            actions=actions,
            constraint=constraint,
            confidence=float(confidence),
            before=before,
            sample_weight=sample_weight,
            missing=missing,
            min_size=min_size,
        )
    if threshold == "median" and before is not None:
        raise InputError("threshold='median' is about one set of scores: omit before.")
    number = threshold if threshold in (None, "median") else float(threshold)
    columns = {"y_true": y_true, "y_pred": y_pred, "before": before, "sample_weight": sample_weight}
    if isinstance(sensitive_features, Proxy):
        others = (data, before, control_features, reference)
        if any(other is not None for other in others) or min_size or min_count or missing != "error":
            raise InputError(
                "an audit by proxies takes neither data, reference, before, missing, min_size, min_count nor "
                "control_features."
            )
        if threshold == "median":
            raise InputError("an audit by proxies takes a number as threshold.")
        counted: Tally = tally_by_proxy(
            columns, sensitive_features, constraint=constraint, pos_label=pos_label, threshold=number
        )
        median = None
    else:
        counted, median = (_tally_columns if data is None else partial(tally_table, data))(
            columns,
            sensitive_features,
            control_features=control_features,
            pos_label=pos_label,
            missing=missing,
            min_size=min_size,
            threshold=number,
        )
    return audit_of(
        counted,
        reference=reference,
        constraint=constraint,
        confidence=float(confidence),
        min_count=int(min_count),
        threshold=median if threshold == "median" else threshold,
        above_median=threshold == "median",
        library=library_of(sensitive_features, y_pred, y_true) if data is None else library_of(data),
    )


def _tally_columns(
    columns: Mapping[str, Any], sensitive_features: Any, *, threshold: Any, **settings: Any
) -> tuple[Tally, float | None]:
    """The sums over cells of columns in memory, and the median of the scores if that is the threshold."""
    y_true, y_pred, before, sample_weight = columns.values()
    median = None
    if threshold == "median":
        y_pred, median = read_median(y_pred)
        threshold = float(np.nextafter(median, np.inf))
    settings |= {"before": before, "sample_weight": sample_weight, "threshold": threshold}
    return tally(read_rows(y_true, y_pred, sensitive_features, **settings)), median


def audit_of(
    counted: Tally,
    *,
    reference: Mapping[str, Any] | None = None,
    constraint: Constraint | None = None,
    confidence: float = 0.95,
    min_count: int = 0,
    threshold: float | None = None,
    above_median: bool = False,
    library: Library | None = None,
) -> Audit:
    """Audit of decisions that are already counted; see :func:`audit`."""
    groups = counted.groups
    beside = () if reference is None else count_beside(counted, reference)
    required = (
        tuple(all_notions(groups, labelled=counted.labelled))
        if constraint is None
        else constraint.requirements
    )
    comparisons = _compare(counted, required, confidence, judge=constraint is not None)
    strata = None
    if groups.strata is not None:
        plain = None if constraint is None else constraint.within(None)
        settings: dict[str, Any] = {"constraint": plain, "confidence": confidence, "library": library}
        strata = partial(_audits_of_strata, counted, groups.strata.features, **settings)
    findings = find(counted, confidence)
    excluded = find_excluded(counted, min_count=min_count)
    absent = absent_groups(counted, findings[0])
    if min_count:
        findings, shown = hide_small(counted, findings, min_count)
        comparisons = tuple(published(found, shown) for found in comparisons)
        absent = tuple(replace(group, rows=None, positives=None, selected=None, rates={}) for group in absent)
    terms = Terms.of(
        counted,
        confidence,
        min_count=min_count,
        pooled=tuple(one.without_counts() if min_count else one for one in groups.pooled_groups),
        threshold=None if threshold is None else float(threshold),
        above_median=above_median,
    )
    people = None if min_count or counted.proxy else counted
    return Audit(terms, (*findings, *absent), comparisons, library, excluded, people, strata, beside)


def _audits_of_strata(counted: Tally, controls: Sequence[str], **settings: Any) -> dict[str, Audit]:
    """The audit of each stratum by its name; a second one of the same text is marked, such as "1"."""
    found: dict[str, Audit] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousConstraintWarning)  # comparisons within strata say where
        for stratum, inside in tallies(counted, controls):
            name = str(stratum.name)
            while name in found:
                name += " (2)"
            found[name] = audit_of(inside, **settings)
    return found


def _check_settings(
    constraint: Any, confidence: Any, min_size: Any, min_count: Any, threshold: Any, *, actions: bool
) -> None:
    """Raise an InputError unless the settings of an audit are proper."""
    check_fraction("confidence", confidence)
    check_count("min_size", min_size)
    check_count("min_count", min_count)
    if constraint is not None:
        check_constraint(constraint, actions=actions)
    if threshold is not None and not (isinstance(threshold, str) and threshold == "median"):
        number = isinstance(threshold, Real) and not isinstance(threshold, bool | np.bool_)
        if not (number and math.isfinite(threshold)):
            raise InputError(f"threshold must be a finite number or 'median', got {threshold!r}.")


def _compare(
    counted: Tally, required: tuple[Requirement, ...], confidence: float, *, judge: bool
) -> tuple[Comparison, ...]:
    groups = counted.groups
    controls = () if groups.strata is None else groups.strata.features
    if groups.is_one_group("intersectional") and any(isinstance(part, Notion) for part in required):
        warn_user(
            f"there is only one group, {groups.members().names[0]}, so there is nothing to compare.",
            VacuousConstraintWarning,
        )
    found: list[Comparison] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousConstraintWarning)  # already issued above, once
        for part in required:
            if isinstance(part, RateBound | NoWorse):
                found += compare_with_bound(part, counted, confidence)
            elif isinstance(part, Notion) and part.controls:
                found.append(compare_in_strata(part, counted, confidence, judge=judge))
            elif isinstance(part, Notion):
                found.append(compare(part, counted, confidence, judge=judge))
                if controls:
                    found.append(compare_in_strata(part.within(controls), counted, confidence, judge=False))
    return (*found, *four_fifths(counted, confidence))

"""Selection rates of the cells: the 2M numbers in which every notion and every risk is linear.

A cell is a pair (group m, label y). Its mass is P(S=m, Y=y) and its selection rate is
P(decision 1 | S=m, Y=y), undefined (NaN) where the mass is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_number, check_rows
from evenhand.data.columns import blocks, factorize, named_columns
from evenhand.data.labels import (
    MAX_CLASSES,
    read_decisions,
    read_labels,
    read_scores,
    read_selection,
    read_weights,
)
from evenhand.display.notebook import ShownAsTable
from evenhand.display.text import show
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups, Missing
from evenhand.groups.proxy import Proxy
from evenhand.groups.strata import stratify

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

Selection = NDArray[np.bool_] | NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class CellRates(ShownAsTable):
    """Masses and selection rates of the cells.

    Attributes
    ----------
    groups : Groups
        The groups, in the order of the first axis.
    mass : array, shape (M, 2)
        Sum of the weights of each cell; its number of rows if there are no weights.
    selected : array, shape (M, 2)
        The part of `mass` that is selected.
    labelled : bool
        Whether labels are known. If not, all rows are in column 0 and only notions that do not depend on the
        label can be measured.
    classes : array or None
        The negative and the positive label, if labels were read.

    Examples
    --------
    >>> counted = cell_rates([0, 1, 0, 1], [0, 1, 1, 1], {"sex": ["F", "F", "M", "M"]})
    >>> counted.rates.tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """

    groups: Groups
    mass: Floats
    selected: Floats
    labelled: bool = True
    classes: NDArray[Any] | None = None

    @classmethod
    def count(
        cls, groups: Groups, cells: NDArray[np.integer[Any]], decisions: Flags, weights: Floats | None = None
    ) -> CellRates:
        """Counts of decisions on rows of given cells, numbered 2 m + y."""
        given = np.ones(len(cells)) if weights is None else weights
        mass, selected = (
            np.bincount(cells, weights=by, minlength=2 * len(groups)).reshape(-1, 2).astype(np.float64)
            for by in (given, given * decisions)
        )
        return cls(groups, mass, selected)

    def _table(self) -> tuple[str, Sequence[str], list[tuple[str, ...]]]:
        """Share of the people and selection rates; those among each label, if labels are known."""
        share = self.mass.sum(axis=1) / max(float(self.mass.sum()), np.finfo(np.float64).tiny)
        rates = [quotient(self.selected.sum(axis=1), self.mass.sum(axis=1))]
        headings = ["group", "share of people", "selected"]
        if self.labelled:
            rates += [quotient(self.selected[:, y], self.mass[:, y]) for y in (0, 1)]
            labels = ("label 0", "label 1") if self.classes is None else self.classes.tolist()
            headings += [f"selected of {show(label)}" for label in labels]
        rows = [
            (str(name), *("-" if np.isnan(number) else f"{number:.4f}" for number in numbers))
            for name, *numbers in zip(self.groups.cell_names, share, *rates, strict=True)
        ]
        return "", headings, rows

    def among(self, cells: Flags) -> CellRates:
        """Rates of the people in some of the groups, such as those of one stratum; the others are empty."""
        inside = cells[:, None]
        return replace(self, mass=self.mass * inside, selected=self.selected * inside)

    @property
    def masses(self) -> Floats:
        """P(S=m, Y=y), shape (M, 2)."""
        self._require_labels("the masses of cells")
        total: float = self.mass.sum()
        return self.mass / total

    @property
    def rates(self) -> Floats:
        """P(decision 1 | S=m, Y=y), shape (M, 2); NaN in cells without mass."""
        self._require_labels("the rates of cells")
        return quotient(self.selected, self.mass)

    def risk(self, cost: float = 0.5) -> float:
        """Cost-sensitive risk: (1 - cost) P(decision 0, Y=1) + cost P(decision 1, Y=0).

        Parameters
        ----------
        cost : float, default=0.5
            Cost of a false positive; a false negative costs ``1 - cost``.

        Returns
        -------
        float
            With the default cost, half the error rate.
        """
        self._require_labels("the risk")
        check_number("cost", cost)
        missed = (self.mass[:, 1] - self.selected[:, 1]).sum()
        return float(((1 - cost) * missed + cost * self.selected[:, 0].sum()) / self.mass.sum())

    def _require_labels(self, what: str) -> None:
        if not self.labelled:
            raise InputError(f"{what} cannot be computed without labels: pass y_true.")


def quotient(part: Floats, whole: Floats) -> Floats:
    """Part of a whole; NaN where that is 0."""
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), np.nan)


def cell_rates(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    control_features: Any = None,
    sample_weight: Any = None,
    pos_label: Any = None,
    missing: Missing = "error",
    min_size: int = 0,
    actions: Any = None,
) -> CellRates:
    """Count decisions by group and label, in one pass.

    Parameters
    ----------
    y_true : array, sequence, series or None
        Labels of any two values; None if they are unknown.
    y_pred : array, sequence or series
        Predicted labels, or the probability of deciding for the positive class.
    sensitive_features : table, mapping, array or sequence
        One column per sensitive feature.
    control_features : table, mapping, array or sequence, default=None
        One column per control feature. Cells are then counted in each stratum, for notions with ``given=``.
    sample_weight : array, default=None
        Weight of each row.
    pos_label : object, default=None
        The positive label; None takes the one that sorts last.
    missing : {"error", "category", "exclude"}, default="error"
        Whether a missing sensitive value is an error, a value of its own, or leaves the row out;
        ``groups.excluded`` then records how many.
    min_size : int, default=0
        Groups with fewer rows are pooled; see :meth:`Groups.fit`.
    actions : Costs or sequence, default=None
        For decisions among several actions, as :func:`evenhand.audit` takes them.

    Returns
    -------
    CellRates
        With `actions`, :class:`~evenhand.requirements.action_rates.ActionRates`.

    Examples
    --------
    >>> counted = cell_rates([0, 1, 1, 0], [0, 1, 0, 1], {"sex": ["F", "F", "M", "M"]})
    >>> counted.rates
    array([[0., 1.],
           [1., 0.]])
    >>> counted.risk()
    0.25
    """
    settings = {
        "control_features": control_features,
        "sample_weight": sample_weight,
        "missing": missing,
        "min_size": min_size,
    }
    if actions is not None:
        from evenhand.requirements.actions import count_actions  # noqa: PLC0415  (its requirements count)

        if pos_label is not None:
            raise InputError("several actions have no positive label: leave out pos_label.")
        counted: Any = count_actions(y_true, y_pred, sensitive_features, actions, **settings)
        return counted  # type: ignore[no-any-return]
    decisions = read_rows(y_true, y_pred, sensitive_features, pos_label=pos_label, **settings)
    groups, positive, weights = decisions.groups, decisions.positive, decisions.weights

    def columns(rows: slice) -> tuple[NDArray[Any] | None, NDArray[Any]]:
        selection = decisions.selection[rows]
        return (None, selection) if weights is None else (weights[rows], weights[rows] * selection)

    sums = sum_cells(decisions.codes, decisions.n_codes, positive, columns)
    mass, selected = sums[:, : len(groups)]
    return CellRates(groups, mass, selected, labelled=positive is not None, classes=decisions.classes)


@dataclass(frozen=True, eq=False)
class Decisions:
    """The decision on each row, with its group and label.

    Attributes
    ----------
    groups : Groups
    codes : array of int
        Group of each row. Rows that lack a sensitive value and are excluded have codes from ``len(groups)``
        on, in the order of ``groups.excluded``.
    positive : array of bool or None
        Label of each row, if labels are known.
    selection : array of bool or float
        Decision on each row, or its probability.
    before : array of bool or float, or None
        The same by an earlier rule.
    weights : array of float or None
        Weight of each row.
    classes : array or None
        The negative and the positive label, if labels are known.
    """

    groups: Groups
    codes: NDArray[np.integer[Any]]
    positive: Flags | None
    selection: Selection
    before: Selection | None = None
    weights: Floats | None = None
    classes: NDArray[Any] | None = None

    @property
    def n_codes(self) -> int:
        """Number of groups and of kinds of excluded rows."""
        return len(self.groups) + len(self.groups.excluded)

    @property
    def randomised(self) -> bool:
        """Whether a decision, present or earlier, is a probability strictly between 0 and 1."""
        return any(
            bool(((part[rows] > 0) & (part[rows] < 1)).any())
            for part in (self.selection, self.before)
            if part is not None and part.dtype != np.bool_
            for rows in blocks(len(part))
        )


@dataclass(frozen=True)
class ArgumentNames:
    """Names of the label, the prediction and the earlier prediction in messages."""

    label: str = "y_true"
    prediction: str = "y_pred"
    before: str = "before"


_ARGUMENTS = ArgumentNames()


def read_rows(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    control_features: Any = None,
    before: Any = None,
    sample_weight: Any = None,
    pos_label: Any = None,
    missing: Missing = "error",
    min_size: int = 0,
    threshold: float | None = None,
    counts: NDArray[np.int64] | None = None,
    names: ArgumentNames = _ARGUMENTS,
    classes: NDArray[Any] | None = None,
) -> Decisions:
    """Read labels, predictions, weights and sensitive features of the same rows.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, control_features, sample_weight, pos_label, missing, min_size
        See :func:`cell_rates`.
    before : array, sequence or series, default=None
        Earlier predictions of the same rows, of any kind that `y_pred` may have.
    threshold : float, default=None
        The lowest score that is selected, if predictions are scores.
    counts : array of int, default=None
        Rows of the data that each row here stands for, used for groups and messages; None stands for one.
    names : ArgumentNames, optional
        For messages.
    classes : array of two values, default=None
        The negative and the positive label, if they are known from other rows.

    Returns
    -------
    Decisions
    """
    if missing == "impute":  # a policy of fit
        raise InputError(
            "missing='impute' is for fit: decisions alone tell nothing about groups. Count the rows that "
            "have all sensitive values, or treat missing ones as a group."
        )
    if isinstance(sensitive_features, Proxy):
        raise InputError(
            "a Proxy has probabilities of groups, which cannot be counted: pass it to audit or fit."
        )
    columns = named_columns(sensitive_features, what="sensitive_features", default_name="sensitive_feature")
    controls = None
    if control_features is not None:
        controls = named_columns(control_features, what="control_features", default_name="control_feature")
    given = {
        names.label: y_true,
        names.prediction: y_pred,
        names.before: before,
        "sensitive_features": columns,
        "control_features": controls,
        "sample_weight": sample_weight,
    }
    weights = read_weights(sample_weight, check_rows(given))
    labels = None
    if y_true is not None:
        labels = read_labels(y_true, pos_label=pos_label, what=names.label, counts=counts, classes=classes)

    def read(predictions: Any, what: str) -> Selection:
        if threshold is not None:
            decided = read_scores(predictions, threshold, what=what)
            if decided is not None:
                return decided
            if what == names.prediction:
                raise InputError(f"threshold is for scores, but {what} holds no numbers: omit threshold.")
        if labels is None and pos_label is not None and classes is None:
            return read_decisions(predictions, pos_label=pos_label, what=what, counts=counts)
        known = classes if labels is None else labels.classes
        return read_selection(predictions, known, what=what, counts=counts)

    selection = read(y_pred, names.prediction)
    earlier = None if before is None else read(before, names.before)
    if labels is None and pos_label is not None and threshold is None and classes is None:
        earlier_labels = {} if before is None else {names.before: before}
        _check_positive(pos_label, {names.prediction: y_pred} | earlier_labels)
    groups, codes = Groups.fit(columns, missing=missing, min_size=min_size, row_counts=counts)
    lacking = groups.excluded_places(columns) if groups.excluded else None
    if controls is not None:
        groups, codes = stratify(groups, codes, controls, row_counts=counts)
    if lacking is not None:
        codes = np.where(codes < 0, len(groups) + lacking, codes)
    positive, found = (None, None) if labels is None else (labels.positive, labels.classes)
    return Decisions(groups, codes, positive, selection, earlier, weights, found)


def _check_positive(pos_label: Any, predictions: dict[str, Any]) -> None:
    """Refuse a positive label that never occurs: it is probably misspelt."""
    parts = [factorize(column, what=name, limit=MAX_CLASSES)[0] for name, column in predictions.items()]
    found = list(dict.fromkeys(level for levels in parts for level in levels))
    where, shown = " and ".join(predictions), ", ".join(map(repr, found))
    if pos_label not in found and not {pos_label, *found} <= {0, 1}:
        raise InputError(
            f"pos_label={pos_label!r} does not occur among the labels {shown} of {where}. If nobody was "
            "selected, pass decisions as 0 and 1."
        )
    if len(found) > 2:
        raise InputError(f"{where} must hold the same two labels, got {shown}.")


def sum_cells(
    codes: NDArray[np.integer[Any]],
    n_groups: int,
    positive: Flags | None,
    columns: Callable[[slice], Sequence[NDArray[Any] | None]],
) -> Floats:
    """Sums of several columns over the rows of each cell, in one pass.

    Parameters
    ----------
    codes : array of int
        Group of each row.
    n_groups : int
        Number of groups, M.
    positive : array of bool or None
        Label of each row; None gives every row label 0.
    columns : callable
        Returns the columns of a slice of rows, so they need not exist for all rows at once. None is a column
        of ones.

    Returns
    -------
    array, shape (columns, M, 2)
    """
    sums: list[Floats] = []
    for rows in blocks(len(codes)):
        cell = codes[rows].astype(np.intp)
        cell *= 2
        if positive is not None:
            cell += positive[rows]
        for k, column in enumerate(columns(rows)):
            found = np.bincount(cell, column, 2 * n_groups)
            if k == len(sums):
                sums.append(np.zeros(2 * n_groups))
            sums[k] += found
    return np.array(sums).reshape(-1, n_groups, 2)

"""How often each cell is selected: the 2M numbers in which every notion and every risk is linear.

A cell is a pair (group m, label y). Its mass is P(S=m, Y=y) and its selection rate is
P(decision 1 | S=m, Y=y), undefined (NaN) where the mass is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError
from evenhand.fairness.groups import Groups
from evenhand.inputs.columns import blocks, factorize, named_columns
from evenhand.inputs.labels import (
    check_rows,
    read_decisions,
    read_labels,
    read_scores,
    read_selection,
    read_weights,
)

__all__ = ["CellRates", "Decisions", "cell_rates", "count_cells", "read_people", "sum_cells"]

_MOST_LABELS = 100
Selection = NDArray[np.bool_] | NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class CellRates:
    """Masses and selection rates of the cells.

    Attributes
    ----------
    groups : Groups
        The groups, in the order of the first axis.
    mass : array, shape (M, 2)
        Sum of weights (rows, where there are none) of each cell.
    selected : array, shape (M, 2)
        The part of `mass` that is selected.
    labelled : bool
        Whether labels were known. If not, all rows stand in column 0 and only notions that do not
        look at the label can be measured.
    classes : array or None
        The negative and the positive label, in that order, where labels were read.
    """

    groups: Groups
    mass: NDArray[np.float64]
    selected: NDArray[np.float64]
    labelled: bool = True
    classes: NDArray[Any] | None = None

    @classmethod
    def count(
        cls,
        groups: Groups,
        cells: NDArray[np.integer[Any]],
        decisions: NDArray[np.bool_],
        weights: NDArray[np.float64] | None = None,
    ) -> CellRates:
        """Counts of decisions on rows whose cell, 2 m + y, is known."""
        given = np.ones(len(cells)) if weights is None else weights
        mass, selected = (
            np.bincount(cells, weights=by, minlength=2 * len(groups)).reshape(-1, 2).astype(np.float64)
            for by in (given, given * decisions)
        )
        return cls(groups, mass, selected)

    @property
    def masses(self) -> NDArray[np.float64]:
        """P(S=m, Y=y), shape (M, 2)."""
        self._require_labels("the masses of cells")
        total: float = self.mass.sum()
        return self.mass / total

    @property
    def rates(self) -> NDArray[np.float64]:
        """P(decision 1 | S=m, Y=y), shape (M, 2); NaN in cells without mass."""
        self._require_labels("the rates of cells")
        empty = self.mass == 0
        return np.where(empty, np.nan, self.selected / np.where(empty, 1.0, self.mass))

    def risk(self, cost: float = 0.5) -> float:
        """Give the cost-sensitive risk: (1 - cost) P(0, Y=1) + cost P(1, Y=0).

        Parameters
        ----------
        cost : float
            Price of a false positive; a false negative costs ``1 - cost``.

        Returns
        -------
        float
            Half the error rate at the default of 0.5.
        """
        self._require_labels("the risk")
        if not 0 <= cost <= 1:
            raise InputError(f"cost should be a number from 0 to 1, but is {cost!r}.")
        missed = (self.mass[:, 1] - self.selected[:, 1]).sum()
        return float(((1 - cost) * missed + cost * self.selected[:, 0].sum()) / self.mass.sum())

    def _require_labels(self, what: str) -> None:
        if not self.labelled:
            raise InputError(f"{what} cannot be had without labels: pass y_true.")


def cell_rates(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    missing: Literal["error", "own_group"] = "error",
    min_size: int = 0,
) -> CellRates:
    """Count decisions by group and label, in one pass.

    Parameters
    ----------
    y_true : array, sequence, series or None
        Labels of any two values; None if they are not known.
    y_pred : array, sequence or series
        Predicted labels, or the probability of deciding for the positive class.
    sensitive_features : table, mapping, array or sequence
        One column per sensitive feature.
    sample_weight : array, optional
        How much each row counts.
    pos_label : object, optional
        The positive label; by default the one that sorts last.
    missing : {"error", "own_group"}
        What a missing sensitive value does.
    min_size : int
        Groups with fewer rows are pooled; see :meth:`Groups.fit`.

    Returns
    -------
    CellRates

    Examples
    --------
    >>> counted = cell_rates([0, 1, 1, 0], [0, 1, 0, 1], {"sex": ["F", "F", "M", "M"]})
    >>> counted.rates
    array([[0., 1.],
           [1., 0.]])
    >>> counted.risk()
    0.25
    """
    decisions = read_people(
        y_true,
        y_pred,
        sensitive_features,
        sample_weight=sample_weight,
        pos_label=pos_label,
        missing=missing,
        min_size=min_size,
    )
    groups, positive = decisions.groups, decisions.positive
    mass, selected = count_cells(
        decisions.codes, len(groups), positive, decisions.selection, decisions.weights
    )
    return CellRates(groups, mass, selected, labelled=positive is not None, classes=decisions.classes)


@dataclass(frozen=True, eq=False)
class Decisions:
    """What was decided about each row, and the group and the label that it has.

    Attributes
    ----------
    groups : Groups
    codes : array of int
        Group of each row.
    positive : array of bool or None
        Label of each row, where labels are known.
    selection : array of bool or float
        Decision of each row, or its probability.
    before : array of bool or float, optional
        The same by an earlier rule.
    weights : array of float, optional
        Weight of each row.
    classes : array, optional
        The negative and the positive label, where labels are known.
    """

    groups: Groups
    codes: NDArray[np.integer[Any]]
    positive: NDArray[np.bool_] | None
    selection: Selection
    before: Selection | None = None
    weights: NDArray[np.float64] | None = None
    classes: NDArray[Any] | None = None

    @property
    def randomised(self) -> bool:
        """Whether some decision, or earlier one, is a probability that is neither 0 nor 1."""
        return any(
            bool(((part[rows] > 0) & (part[rows] < 1)).any())
            for part in (self.selection, self.before)
            if part is not None and part.dtype != np.bool_
            for rows in blocks(len(part))
        )


def read_people(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    before: Any = None,
    sample_weight: Any = None,
    pos_label: Any = None,
    missing: Literal["error", "own_group"] = "error",
    min_size: int = 0,
    threshold: float | None = None,
) -> Decisions:
    """Read labels, predictions, weights and sensitive features, and check that they belong together.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, sample_weight, pos_label, missing, min_size
        See :func:`cell_rates`.
    before : array, sequence or series, optional
        Earlier predictions of the same rows, of the same kinds as `y_pred`.
    threshold : float, optional
        From which score on a row is selected, where predictions are scores.

    Returns
    -------
    Decisions
    """
    columns = named_columns(sensitive_features, what="sensitive_features", default_name="sensitive_feature")
    given = {
        "y_true": y_true,
        "y_pred": y_pred,
        "before": before,
        "sensitive_features": columns,
        "sample_weight": sample_weight,
    }
    weights = read_weights(sample_weight, check_rows(given))
    labels = None if y_true is None else read_labels(y_true, pos_label=pos_label, what="y_true")

    def read(predictions: Any, what: str) -> Selection:
        if threshold is not None:
            decided = read_scores(predictions, threshold, what=what)
            if decided is not None:
                return decided
            if what == "y_pred":
                raise InputError("threshold is for scores, but y_pred holds no numbers: leave it out.")
        if labels is None and pos_label is not None:
            return read_decisions(predictions, pos_label=pos_label, what=what)
        return read_selection(predictions, None if labels is None else labels.classes, what=what)

    selection = read(y_pred, "y_pred")
    earlier = None if before is None else read(before, "before")
    if labels is None and pos_label is not None and threshold is None:
        _check_positive(pos_label, {"y_pred": y_pred} | ({} if before is None else {"before": before}))
    groups, codes = Groups.fit(columns, missing=missing, min_size=min_size)
    if labels is None:
        return Decisions(groups, codes, None, selection, earlier, weights)
    return Decisions(groups, codes, labels.positive, selection, earlier, weights, labels.classes)


def _check_positive(pos_label: Any, predictions: dict[str, Any]) -> None:
    """Refuse a positive label that never occurs: it is misspelt more likely than nobody was ever selected."""
    parts = [factorize(column, what=name, limit=_MOST_LABELS)[0] for name, column in predictions.items()]
    found = list(dict.fromkeys(level for levels in parts for level in levels))
    where, shown = " and ".join(predictions), ", ".join(map(repr, found))
    if pos_label not in found and not {pos_label, *found} <= {0, 1}:
        raise InputError(
            f"pos_label={pos_label!r} does not occur among the labels {shown} of {where}. If nobody was "
            "selected, pass decisions as 0 and 1."
        )
    if len(found) > 2:
        raise InputError(f"{where} should hold the same two labels, but hold {shown}.")


def count_cells(
    codes: NDArray[np.integer[Any]],
    n_groups: int,
    positive: NDArray[np.bool_] | None,
    selection: Selection,
    weights: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum weights, and weights times selection, over the rows of each cell.

    Parameters
    ----------
    codes : array of int
        Group of each row.
    n_groups : int
        Number of groups, M.
    positive : array of bool or None
        Label of each row; None puts every row at label 0.
    selection : array of bool or float
        Decision of each row, or its probability.
    weights : array of float, optional
        Weight of each row.

    Returns
    -------
    mass, selected : arrays of shape (M, 2)

    Examples
    --------
    >>> import numpy as np
    >>> count_cells(np.array([0, 1]), 2, np.array([True, False]), np.array([0.5, 1.0]))
    (array([[0., 1.], [1., 0.]]), array([[0. , 0.5], [1. , 0. ]]))
    """

    def columns(rows: slice) -> tuple[NDArray[Any] | None, NDArray[Any]]:
        if weights is None:
            return None, selection[rows]
        return weights[rows], weights[rows] * selection[rows]

    mass, selected = sum_cells(codes, n_groups, positive, columns)
    return mass, selected


def sum_cells(
    codes: NDArray[np.integer[Any]],
    n_groups: int,
    positive: NDArray[np.bool_] | None,
    columns: Callable[[slice], Sequence[NDArray[Any] | None]],
) -> NDArray[np.float64]:
    """Sum several columns over the rows of each cell, in one pass.

    Parameters
    ----------
    codes, n_groups, positive
        See :func:`count_cells`.
    columns : callable
        Gives the columns of a slice of rows, so that they need not exist for all rows at a time. None
        stands for a column of ones.

    Returns
    -------
    array, shape (columns, M, 2)
    """
    sums: list[NDArray[np.float64]] = []
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

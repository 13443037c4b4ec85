"""Labels, predictions and weights, read and validated."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, NoReturn

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand.data.checks import check_rows
from evenhand.data.columns import Level, TooManyLevels, as_column, count_rows, factorize, object_column
from evenhand.exceptions import InputError

_PLAIN_TYPES = (str, bytes, bool, int, float, datetime.date, datetime.datetime)
MAX_CLASSES = 100
"""A column of labels or decisions with more distinct values is refused at once."""
NOT_NUMBERS = "sample_weight must be numbers without missing values."
RowCounts = NDArray[np.int64] | None


@dataclass(frozen=True)
class Labels:
    """A label: its classes, of two the positive one last, and the number of each row's class."""

    classes: NDArray[Any]
    codes: NDArray[np.intp]

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Whether the label of each row is the second one."""
        return np.asarray(self.codes == 1)


def read_labels(
    y: Any,
    *,
    pos_label: Level = None,
    what: str = "y",
    counts: RowCounts = None,
    classes: NDArray[Any] | None = None,
    several: bool = False,
) -> Labels:
    """Read a label of any two values, or of more.

    Parameters
    ----------
    y : array, sequence or series
        Strings, booleans, -1/1, ...: any two distinct values, none missing.
    pos_label : object, default=None
        The positive value; None takes the one that sorts last, whatever order a categorical declares.
    what : str, default="y"
        The argument's name, for messages.
    counts : array of int, default=None
        Rows that each entry stands for; None stands for one.
    classes : array of two values, default=None
        ``[negative, positive]`` if they are known; one of them may then be missing in `y`.
    several : bool, default=False
        Whether there may be more than two.

    Returns
    -------
    Labels
        ``classes`` is ``[negative, positive]``, or more than two in order.

    Examples
    --------
    >>> read_labels(["no", "yes", "no"])
    Labels(classes=array(['no', 'yes'], dtype='<U3'), codes=array([0, 1, 0]))
    """
    levels, codes = factorize_labels(y, what)
    _refuse_missing(codes, what, counts)
    if classes is not None and set(levels) <= set(classes.tolist()):
        return Labels(classes, np.array([level == classes[1] for level in levels], np.intp)[codes])
    if classes is not None and (classes.tolist() != [0, 1] or len(levels) == 1):
        raise InputError(f"{what} has the labels {levels}, not {' or '.join(map(repr, classes.tolist()))}.")
    if len(levels) != 2:
        shown = ", ".join(repr(level) for level in levels[:5]) + (", ..." if len(levels) > 5 else "")
        if any(isinstance(level, float) and not level.is_integer() for level in levels):
            raise InputError(f"Unknown label type: continuous. {what} holds numbers such as {shown}.")
        if len(levels) > 2 and not several:
            raise InputError(
                "Only binary classification is supported. The type of the target is multiclass. "
                f"{what} has {len(levels)} classes ({shown})."
            )
        if len(levels) < 2:
            raise InputError(f"{what} has only one class ({shown}), and two are needed.")
    mixed = len({isinstance(level, str) for level in levels}) == 2
    if len(levels) > 2:
        if mixed:
            raise InputError(f"{what} has values of two types, {shown}: convert them to one.")
        if pos_label is not None:
            raise InputError(f"pos_label={pos_label!r} is for two labels, and {what} has {len(levels)}.")
        return Labels(class_array(*levels), codes.astype(np.intp))
    if pos_label is None and mixed:
        raise InputError(f"{what} has values of two types, {levels}: say which is positive with pos_label.")
    if pos_label is not None and pos_label not in levels:
        raise InputError(f"pos_label={pos_label!r} is not a value of {what}, which has {levels}.")
    positive = 1 if pos_label is None else levels.index(pos_label)
    same = (codes == positive).astype(np.intp)
    return Labels(class_array(levels[1 - positive], levels[positive]), same)


def factorize_labels(y: Any, what: str) -> tuple[tuple[Level, ...], NDArray[np.int32]]:
    """The distinct labels of a column, and each row's position among them; -1 where it is missing."""
    try:
        return factorize(y, what=what, limit=MAX_CLASSES)
    except TooManyLevels as error:
        raise InputError(f"{error} A label needs exactly two. Unknown label type: continuous.") from None


def _refuse_missing(codes: NDArray[np.int32], what: str, counts: RowCounts) -> None:
    missing, n_rows = count_rows(codes < 0, counts)
    if missing:
        raise InputError(f"{what} is missing in {missing:,} of {n_rows:,} rows. Fill them in or drop them.")


def class_array(*classes: Level) -> NDArray[Any]:
    """Labels as an array of their own type, or of objects if they have none in common."""
    alike = len({type(level) for level in classes}) == 1 and isinstance(classes[0], _PLAIN_TYPES)
    return np.array(classes) if alike else object_column(classes)


def read_selection(
    predictions: Any, classes: NDArray[Any] | None, *, what: str = "y_pred", counts: RowCounts = None
) -> NDArray[np.bool_] | NDArray[np.floating[Any]]:
    """Read predictions: labels in `classes`, or the probability of deciding for the positive class.

    Parameters
    ----------
    predictions : array, sequence or series
        Labels, booleans, or numbers in [0, 1].
    classes : array of two values or None
        ``[negative, positive]``. If None, predictions are 0/1, booleans or probabilities.
    what : str, default="y_pred"
        The argument's name, for messages.
    counts : array of int, default=None
        Rows that each entry stands for; None stands for one.

    Returns
    -------
    array of bool or of float
        Decisions or probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> read_selection(["no", "yes"], np.array(["no", "yes"]))
    array([False,  True])
    >>> read_selection([0.25, 1.0], np.array(["no", "yes"]))
    array([0.25, 1.  ])
    """
    values = _plain_numbers(as_column(predictions, what=what))
    known = [0, 1] if classes is None else classes.tolist()
    reversed_ = known == [1, 0]  # False is then the positive label, not the negative decision
    if isinstance(values, np.ndarray) and values.dtype.kind == "b" and not reversed_:
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return _read_probabilities(values, known, what, counts)
    levels, codes = factorize(values, what=what, limit=MAX_CLASSES)
    _refuse_missing(codes, what, counts)
    unknown = [k for k, level in enumerate(levels) if level not in known]
    if unknown:
        listed = ", ".join(repr(levels[k]) for k in unknown[:5])
        rows, n_rows = count_rows(np.isin(codes, unknown), counts)
        or_name = ", or name the positive one by pos_label" if classes is None and len(levels) <= 2 else ""
        raise InputError(
            f"{what} holds {listed} in {rows:,} of {n_rows:,} rows, but the classes are {known[0]!r} "
            f"and {known[1]!r}. Pass predicted labels or probabilities in [0, 1]{or_name}."
        )
    return np.array([level == known[1] for level in levels], dtype=np.bool_)[codes]


def _plain_numbers(column: nw.Series[Any] | NDArray[Any]) -> nw.Series[Any] | NDArray[Any]:
    """A NumPy array of a column of numbers or booleans that is a series or holds objects."""
    if isinstance(column, nw.Series):
        plain = column.dtype.is_numeric() or (column.dtype == nw.Boolean and not column.null_count())
        return column.to_numpy() if plain else column
    if column.dtype.kind == "O":
        try:
            guess = np.array(column.tolist())
        except ValueError:  # lists of different lengths
            return column
        return guess if guess.dtype.kind in "biuf" else column
    return column


def _read_probabilities(
    values: NDArray[np.floating[Any]], known: list[Level], what: str, counts: RowCounts
) -> NDArray[np.bool_] | NDArray[np.floating[Any]]:
    """Floats read as labels if all are among the classes, as probabilities if all lie in [0, 1]."""
    low, high = float(values.min()), float(values.max())
    within = low >= 0.0 and high <= 1.0  # false for NaN
    labels = [float(level) for level in known if isinstance(level, int | float)]
    if len(labels) == 2 and labels != [0.0, 1.0] and bool(np.isin(values, labels).all()):
        if within and labels[1] != 1.0:
            raise InputError(
                f"{what} holds only {sorted(set(values.tolist()))}, which could be labels or probabilities: "
                "pass labels as integers, or code the label as 0 and 1."
            )
        return np.asarray(values == labels[1])
    if not within:
        refuse_probabilities(*count_rows(~((values >= 0.0) & (values <= 1.0)), counts), what)
    return values


def refuse_probabilities(bad: int, n_rows: int, what: str) -> NoReturn:
    """Raise an InputError about probabilities that are none."""
    raise InputError(f"{what} has {bad:,} of {n_rows:,} probabilities that are NaN or outside [0, 1].")


def read_scores(predictions: Any, threshold: float, *, what: str = "y_pred") -> NDArray[np.bool_] | None:
    """Decisions from scores: a row is selected if its score is at least the threshold, as in scikit-learn.

    Parameters
    ----------
    predictions : array, sequence or series
        Scores of any range. If all are 0 or 1 they are decisions already.
    threshold : float
        The lowest score that is selected.
    what : str, default="y_pred"
        The argument's name, for messages.

    Returns
    -------
    array of bool or None
        None if the predictions are not numbers.

    Examples
    --------
    >>> read_scores([0.2, 0.5, 0.7], 0.5)
    array([False,  True,  True])
    """
    values = finite_numbers(predictions, what)
    if values is None:
        return None
    return np.asarray(values == 1 if _are_decisions(values) else values >= threshold)


def finite_numbers(predictions: Any, what: str) -> NDArray[Any] | None:
    """A column of finite numbers; None if it holds anything else than numbers.

    Examples
    --------
    >>> finite_numbers([0.2, 3], "scores")
    array([0.2, 3. ])
    """
    values = _plain_numbers(as_column(predictions, what=what))
    if isinstance(values, nw.Series) or values.dtype.kind not in "biuf":
        return None
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        refuse_scores(bad, len(values), what)
    return values


def _are_decisions(values: NDArray[Any]) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def read_median(predictions: Any, *, what: str = "y_pred") -> tuple[NDArray[np.float64], float]:
    """Scores as numbers, and their median: the mean of the two in the middle of an even number.

    Parameters
    ----------
    predictions : array, sequence or series
        Scores of any range.
    what : str, default="y_pred"
        The argument's name, for messages.

    Returns
    -------
    scores : array
    median : float

    Examples
    --------
    >>> read_median([0.2, 0.5, 0.7, 0.9])[1]
    0.6
    """
    values = finite_numbers(predictions, what)
    if values is None or _are_decisions(values):
        refuse_median(what)
    scores = np.asarray(values, dtype=np.float64)
    return scores, float(np.median(scores))


def refuse_median(what: str) -> NoReturn:
    """Raise an InputError about predictions that have no median, because they are decisions already."""
    raise InputError(f"threshold='median' is for scores, but {what} holds decisions: omit threshold.")


def refuse_scores(bad: int, n_rows: int, what: str) -> NoReturn:
    """Raise an InputError about scores that are not finite."""
    raise InputError(f"{what} has {bad:,} of {n_rows:,} scores that are NaN or infinite.")


def read_decisions(
    predictions: Any, *, pos_label: Level, what: str = "y_pred", counts: RowCounts = None
) -> NDArray[np.bool_]:
    """Read predicted labels without true ones; `pos_label` names the positive one.

    Examples
    --------
    >>> read_decisions(["hire", "reject"], pos_label="hire")
    array([ True, False])
    """
    levels, codes = factorize(predictions, what=what, limit=MAX_CLASSES)
    _refuse_missing(codes, what, counts)
    if len(levels) > 2 or (len(levels) == 2 and pos_label not in levels):
        raise InputError(f"{what} must hold pos_label={pos_label!r} and one other value, got {levels}.")
    return np.array([level == pos_label for level in levels], dtype=np.bool_)[codes]


def read_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Read sample weights; None gives every row the same weight.

    Examples
    --------
    >>> read_weights([1, 2], 2)
    array([1., 2.])
    """
    if sample_weight is None:
        return None
    values = _plain_numbers(as_column(sample_weight, what="sample_weight"))
    if isinstance(values, nw.Series) or values.dtype.kind not in "biuf":
        raise InputError(NOT_NUMBERS)
    weights = np.asarray(values, dtype=np.float64)
    check_rows({"sample_weight": weights}, expected=n_rows)
    bad = int(np.count_nonzero(~(np.isfinite(weights) & (weights >= 0.0))))
    check_weights(bad, n_rows, weights.max())
    return weights


def check_weights(bad: int, n_rows: int, largest: float) -> None:
    """Raise an InputError if some weights are bad or all are zero.

    Examples
    --------
    >>> check_weights(0, 10, 1.5)
    """
    if bad:
        raise InputError(f"sample_weight is negative, NaN or infinite in {bad:,} of {n_rows:,} rows.")
    if largest == 0:
        raise InputError("sample_weight is zero in every row.")

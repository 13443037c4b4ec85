"""Errors and warnings of evenhand.

Messages say what is wrong, where, how often, and what to do.
"""

import sys
import warnings

_QUOTED = 500
"""Characters of another package's error that are quoted: some add whole stack traces."""


class EvenhandError(Exception):
    """Base class of all errors."""


class InputError(EvenhandError, ValueError):
    """Labels, predictions, weights, scores or parameters are invalid."""


class GroupError(EvenhandError, ValueError):
    """Sensitive features are invalid or do not match those of fit."""


class InfeasibleError(EvenhandError):
    """No classifier satisfies the requirement.

    Attributes
    ----------
    conflict : tuple
        Names of linear constraints that cannot hold together, none of which can be left out.
    works : Constraint or None
        The requirement with all tolerances and bounds widened together until it can be satisfied; None if it
        never can.
    nearest : dict
        For each bound and tolerance in conflict, the nearest value that works with all others as they are.
        Keys are parameters of the requirement, as ``set_params`` takes them. Those that cannot help are left
        out.
    """

    def __init__(
        self,
        message: str,
        *,
        conflict: tuple[object, ...] = (),
        works: object = None,
        nearest: dict[str, float] | None = None,
    ) -> None:
        super().__init__(message)
        self.conflict = conflict
        self.works = works
        self.nearest = {} if nearest is None else nearest


class CertificateError(EvenhandError):
    """No algorithm reached a solution certified to the requested tolerance."""


class ClusterError(EvenhandError):
    """A Dask cluster cannot compute: no workers, too little memory, or no connection."""


class UntrustedFileError(EvenhandError):
    """A model file is damaged, altered, too new, or holds objects that are not allowed."""


class MissingExtraError(EvenhandError, ImportError):
    """An optional package is required but not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package!r}; install it with: pip install 'evenhand[{extra}]'"
        )


class EvenhandWarning(UserWarning):
    """Base class of all warnings."""


class VacuousConstraintWarning(EvenhandWarning):
    """Every classifier satisfies the constraint, so nothing is enforced."""


class ConstantScoreWarning(EvenhandWarning):
    """All rows have the same score, so decisions can only be randomised."""


class ConstantClassifierWarning(EvenhandWarning):
    """A fitted classifier decides all rows alike."""


class UnseenGroupWarning(EvenhandWarning):
    """Rows belong to groups not seen in fit, or their values have another type than in fit."""


class ManyGroupsWarning(EvenhandWarning):
    """A sensitive feature has so many distinct numbers that it should be banded first."""


class PooledGroupsWarning(EvenhandWarning):
    """Rare groups were pooled, so they are not compared one by one."""


class ToleranceWarning(EvenhandWarning):
    """The tolerance was not reached on the rows on which it was checked."""


class ForecastWarning(EvenhandWarning):
    """A tolerance is likely to be exceeded by more than half on new rows."""


class GuaranteeWarning(EvenhandWarning):
    """The held-out rows do not support the requested guarantee."""


class ProxyCalibrationWarning(EvenhandWarning):
    """Rows whose group is known contradict the probabilities of a Proxy."""


class LimitWarning(EvenhandWarning):
    """A limit on the number of places excluded rows that the rule selects."""


class VisibleFeatureWarning(EvenhandWarning):
    """A model sees a sensitive feature that it may not use, or does not see one that it may."""


class MonitorWarning(EvenhandWarning):
    """A batch has no rows, was counted before, or brings groups that were not seen before."""


class TrainingRowsWarning(EvenhandWarning):
    """A frozen model seems to have been fitted to these rows, or a guarantee assumes that it was not."""


class VersionWarning(EvenhandWarning):
    """A model file was written with other package versions than those installed."""


__all__ = [name for name, found in globals().items() if isinstance(found, type)]


def reason(error: BaseException) -> str:
    """The type and text of an error of another package in one line, to quote in a message."""
    said = " ".join(str(error).split())
    said = said if len(said) <= _QUOTED else f"{said[:_QUOTED]}..."
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the package that led here, however deep the call is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("evenhand."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

"""Everything that evenhand raises or warns of on purpose.

Each message is a sentence that says what is wrong, where, how often, and what to do.
"""

__all__ = [
    "CertificateError",
    "ConstantClassifierWarning",
    "ConstantScoreWarning",
    "EvenhandError",
    "EvenhandWarning",
    "GroupError",
    "InfeasibleError",
    "InputError",
    "ManyGroupsWarning",
    "MissingExtraError",
    "PooledGroupsWarning",
    "PromiseWarning",
    "ToleranceWarning",
    "TrainingRowsWarning",
    "UnseenGroupWarning",
    "UntrustedFileError",
    "VacuousConstraintWarning",
    "VersionWarning",
    "VisibleFeatureWarning",
]


class EvenhandError(Exception):
    """Parent of every error raised on purpose."""


class InputError(EvenhandError, ValueError):
    """Labels, predictions, weights, scores or parameters that cannot be used."""


class GroupError(EvenhandError, ValueError):
    """Sensitive features that cannot be turned into groups."""


class InfeasibleError(EvenhandError):
    """No classifier satisfies the requirement.

    Attributes
    ----------
    conflict : tuple
        Names of the rows that cannot hold together.
    works : Constraint or None
        The requirement with tolerances widened in step until it can be satisfied, if that helps at all.
    """

    def __init__(self, message: str, *, conflict: tuple[object, ...] = (), works: object = None) -> None:
        super().__init__(message)
        self.conflict = conflict
        self.works = works


class CertificateError(EvenhandError):
    """No algorithm reached a solution that can be proven to the tolerance asked for."""


class UntrustedFileError(EvenhandError):
    """A model file that is damaged, altered, too new, or holds what a file may not hold."""


class MissingExtraError(EvenhandError, ImportError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package!r}; install it with: pip install 'evenhand[{extra}]'"
        )


class EvenhandWarning(UserWarning):
    """Parent of every warning given on purpose."""


class VacuousConstraintWarning(EvenhandWarning):
    """A constraint that every classifier satisfies, so that nothing is enforced."""


class ConstantScoreWarning(EvenhandWarning):
    """All rows have the same scores, so that decisions can only be drawn by lot."""


class ConstantClassifierWarning(EvenhandWarning):
    """A fitted classifier decides everybody alike, whatever their features."""


class UnseenGroupWarning(EvenhandWarning):
    """Rows of groups that were not there at fit, or that are written in another type than there."""


class ManyGroupsWarning(EvenhandWarning):
    """A sensitive feature has so many numbers that it should be banded first."""


class PooledGroupsWarning(EvenhandWarning):
    """Rare groups were put together, so that they are not looked at one by one."""


class ToleranceWarning(EvenhandWarning):
    """The tolerance was not reached on the rows that it is checked on."""


class PromiseWarning(EvenhandWarning):
    """The rows kept back do not support the promise that was asked for."""


class VisibleFeatureWarning(EvenhandWarning):
    """A model that should be blind to a sensitive feature sees it."""


class TrainingRowsWarning(EvenhandWarning):
    """A model that stays as it is seems to have been fitted to the rows that the rule is fitted to."""


class VersionWarning(EvenhandWarning):
    """A model file was written with other versions of packages than those installed."""


def reason(error: BaseException) -> str:
    """Kind of an error of another package and the first line of what it says, for a sentence of ours."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__

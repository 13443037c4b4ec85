"""Everything that evenhand raises or warns of on purpose.

Each message is a sentence that says what is wrong, where, how often, and what to do.
"""

__all__ = [
    "EvenhandError",
    "EvenhandWarning",
    "GroupError",
    "InputError",
    "MissingExtraError",
    "VacuousConstraintWarning",
]


class EvenhandError(Exception):
    """Parent of every error raised on purpose."""


class InputError(EvenhandError, ValueError):
    """Labels, predictions, weights, scores or parameters that cannot be used."""


class GroupError(EvenhandError, ValueError):
    """Sensitive features that cannot be turned into groups."""


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

"""Decisions explained, row by row: for a table, and for a letter."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from evenhand.data.tables import Library, make_table
from evenhand.display.notebook import MOST_ROWS, html_table
from evenhand.groups.groups import GroupName
from evenhand.optimum.group_thresholds import GroupThreshold
from evenhand.requirements.constraints import ConstraintName

__all__ = ["Explanation", "Explanations", "Thresholds"]

_NEGLIGIBLE = 1e-12
_BOUNDARY = 1e-9


@dataclass(frozen=True)
class Explanation:
    """Why one row was decided as it was.

    Attributes
    ----------
    decision : object
        One of the two labels.
    risk : float
        Calibrated probability of the positive label.
    margin : float
        H: positive for the positive label; the decision is randomised only on the boundary.
    probability : float
        Probability of deciding for the positive label.
    unconstrained : object
        The decision of the same probabilities and costs without any requirement.
    moved : dict
        By how much the multiplier of each constraint moved the margin.
    positive : object
        The positive label.
    """

    decision: Any
    risk: float
    margin: float
    probability: float
    unconstrained: Any
    moved: Mapping[ConstraintName, float]
    positive: Any

    @property
    def randomised(self) -> bool:
        """Whether chance had a part in the decision."""
        return 0.0 < self.probability < 1.0

    def __str__(self) -> str:
        said = [f"The decision is {self.decision}; the probability of {self.positive} is {self.risk:.3f}."]
        if self.randomised:
            said.append(
                f"It was randomised: {self.positive} had a probability of {self.probability:.3f}, and the "
                "same row always gets the same answer."
            )
        largest = max(self.moved.items(), key=lambda item: abs(item[1]), default=None)
        if largest is None or abs(largest[1]) <= _NEGLIGIBLE:
            said.append("The fairness requirement did not affect it.")
        else:
            same = self.unconstrained == self.decision
            other = "would have been the same" if same else f"would have been {self.unconstrained}"
            said.append(
                f"Without the fairness requirement the decision {other}: the requirement moved the score "
                f"by {sum(self.moved.values()):+.4f} to {self.margin:+.4f}, mostly through the constraint on "
                f"{largest[0].who}."
            )
        if abs(self.margin) <= _BOUNDARY and not self.randomised:
            said.append("At a score of 0 the requirement leaves the decision to a second score.")
        return " ".join(said)


class Explanations(Sequence[Explanation]):
    """One explanation per row; ``to_frame()`` is the table, and ``str`` of one is a sentence for a letter."""

    def __init__(self, rows: Sequence[Explanation], library: Library | None = None) -> None:
        self._rows = tuple(rows)
        self._library = library

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> Explanations: ...
    def __getitem__(self, index: int | slice) -> Explanation | Explanations:
        if isinstance(index, slice):
            return Explanations(self._rows[index], self._library)
        return self._rows[index]

    def __repr__(self) -> str:
        shown = [str(row) for row in self._rows[:MOST_ROWS]]
        more = len(self) - len(shown)
        return "\n".join([*shown, *([f"and {more:,} more"] if more else [])])

    def _repr_html_(self) -> str:
        records = list(self._records())
        headings = list(records[0]) if records else []
        return html_table(headings, [[_cell(value) for value in record.values()] for record in records])

    def to_frame(self, *, backend: Library | None = None) -> Any:
        """One row per decision.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            By default the library of X.

        Returns
        -------
        table
            Columns ``decision``, ``risk``, ``margin``, ``probability``, ``randomised``, ``unconstrained``,
            one column per constraint with what it moved, and ``sentence``.
        """
        numbers = {"risk", "margin", "probability", *(str(name) for row in self._rows for name in row.moved)}
        return make_table(self._records(), numbers=numbers, library=backend or self._library)

    def _records(self) -> Iterator[dict[str, Any]]:
        for row in self._rows:
            yield {
                "decision": str(row.decision),
                "risk": row.risk,
                "margin": row.margin,
                "probability": row.probability,
                "randomised": "yes" if row.randomised else "no",
                "unconstrained": str(row.unconstrained),
                **{str(name): value for name, value in row.moved.items()},
                "sentence": str(row),
            }


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Thresholds(dict[GroupName, GroupThreshold]):
    """The threshold of each group, short when it is shown."""

    def _lines(self) -> list[tuple[str, str]]:
        return [
            (str(name), f"{one.threshold:.4f}" if one.threshold is not None else one.steps or str(one.note))
            for name, one in self.items()
        ]

    def __repr__(self) -> str:
        lines = [f"{name}  {threshold}" for name, threshold in self._lines()]
        more = len(lines) - MOST_ROWS
        return "\n".join([*lines[:MOST_ROWS], *([f"and {more:,} more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        told = "selected above this score, P(Y=1 | x, group)"
        return html_table(["group", told], self._lines()) if self else html.escape("no groups")

"""The rule that a solution amounts to: a table W, and what to do where it leaves the decision open."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from evenhand.display.notebook import html_table
from evenhand.exceptions import InputError
from evenhand.fairness.scores import GroupedScores
from evenhand.inputs.columns import blocks
from evenhand.solver.oracle import ROUNDING
from evenhand.solver.thresholds import Steps

__all__ = ["SAME_ATOM", "Rule", "lots", "written_out"]

_FORMAT = "evenhand rule"
_VERSION = 1

SAME_ATOM = 1e-11
"""The resolution of rules of classifiers, which round posteriors to 12 digits.

On another processor the last bits of a matrix product differ, and one in some thousand numbers is then
rounded to the neighbouring twelfth digit.
"""


@dataclass(frozen=True, eq=False)
class Rule:
    """Decide 1 where H(x) = sum of W[m,y] p[m,y](x) is positive, and by lot where it is 0.

    Attributes
    ----------
    table : array, shape (M, 2)
        W.
    atoms : array, shape (k, M, 2)
        Posteriors on the boundary that have a probability of their own.
    chances : array, shape (k,)
        The probability of deciding 1 at each atom.
    chance : float
        The probability of deciding 1 elsewhere on the boundary.
    steps : Steps or None
        Where the group is known: the probability of deciding 1 as a step function of the score in each group.
        It then says everything, and includes what happens on the boundary.
    unit : float
        Size of costs. A row is on the boundary if H is 0 up to rounding, compared with its terms and this.
    reach : float
        Size of H up to which a row may be an atom.
    resolution : float
        How near to an atom a posterior is the same: 0 for posteriors as they are; more where they are
        rounded, and may be rounded otherwise on another processor.
    key : str
        Of the lots: whoever has it can repeat every draw.

    Examples
    --------
    >>> import numpy as np
    >>> rule = Rule(np.array([[-0.5, 0.5]]))
    >>> rule.selection(np.array([[[0.3, 0.7]], [[0.6, 0.4]], [[0.5, 0.5]]]))
    array([1. , 0. , 0.5])
    """

    table: NDArray[np.float64]
    atoms: NDArray[np.float64] | None = None
    chances: NDArray[np.float64] | None = None
    chance: float = 0.5
    steps: Steps | None = None
    unit: float = 1.0
    reach: float = 0.0
    key: str = ""
    resolution: float = 0.0

    def __post_init__(self) -> None:
        for array in (self.table, self.atoms, self.chances):
            if array is not None:
                array.flags.writeable = False

    def __repr__(self) -> str:
        atoms = 0 if self.atoms is None else len(self.atoms)
        at_random = f", {atoms:,} boundary atom{'s' if atoms > 1 else ''}" if atoms else ""
        return f"<Rule for {len(self.table):,} groups{', aware' if self.steps else ''}{at_random}>"

    def _repr_html_(self) -> str:
        dust = 1e-12 * max(self.unit, float(np.abs(self.table).max()))
        table = np.where(np.abs(self.table) <= dust, 0.0, self.table)
        rows = [(m, *(f"{weight:+.4f}" for weight in pair)) for m, pair in enumerate(table)]
        told = "Decide 1 where the sum of weight times P(group, label | x) is positive."
        return html_table(["group", "label 0", "label 1"], rows, caption=told)

    def decision(self, posteriors: NDArray[Any] | GroupedScores) -> NDArray[np.float64]:
        """H of each row.

        Parameters
        ----------
        posteriors : array, shape (n, M, 2), or GroupedScores

        Returns
        -------
        array, shape (n,)
        """
        H = np.empty(len(posteriors))
        if isinstance(posteriors, GroupedScores) and posteriors.n_groups <= len(self.table):
            for rows in blocks(len(posteriors)):
                eta, codes = posteriors.eta[rows].astype(np.float64), posteriors.codes[rows]
                H[rows] = self.table[codes, 0] * (1.0 - eta) + self.table[codes, 1] * eta
            return H
        if isinstance(posteriors, GroupedScores) or np.shape(posteriors)[1:] != self.table.shape:
            raise InputError(f"the rule is for posteriors of {len(self.table)} groups, of shape (n, M, 2).")
        posteriors = np.asarray(posteriors)
        for rows in blocks(len(posteriors)):
            block = posteriors[rows].astype(np.float64, copy=False)
            H[rows] = block.reshape(len(block), -1) @ self.table.ravel()
        unknown = int(np.count_nonzero(np.isnan(H)))
        if unknown:
            raise InputError(f"posteriors are NaN in {unknown:,} of {len(H):,} rows.")
        return H

    def selection(self, posteriors: NDArray[Any] | GroupedScores) -> NDArray[np.float64]:
        """Give the probability of deciding 1 for each row.

        Parameters
        ----------
        posteriors : array, shape (n, M, 2), or GroupedScores

        Returns
        -------
        array, shape (n,)
        """
        if self.steps is not None:
            if not isinstance(posteriors, GroupedScores):
                raise InputError("this rule needs the group of each row: pass GroupedScores.")
            if posteriors.n_groups > len(self.table):
                raise InputError(
                    f"the rule is for {len(self.table)} groups, but the scores are of {posteriors.n_groups}."
                )
            return self.steps.selection(posteriors.eta.astype(np.float64, copy=False), posteriors.codes)
        posteriors = posteriors if isinstance(posteriors, GroupedScores) else np.asarray(posteriors)
        H = self.decision(posteriors)
        chosen = (H > 0).astype(np.float64)
        largest = max(self.unit, float(np.abs(self.table).max()))
        near = np.flatnonzero(np.abs(H) <= ROUNDING * largest)
        terms = np.tensordot(written_out(posteriors, near, len(self.table)), np.abs(self.table), axes=2)
        chosen[near[np.abs(H[near]) <= ROUNDING * np.maximum(self.unit, terms)]] = self.chance
        if self.atoms is not None and self.chances is not None and len(self.atoms):
            open_rows = self._beside_atoms(H, ROUNDING * largest)
            here = written_out(posteriors, open_rows, len(self.table)).reshape(-1, self.table.size)
            tree = KDTree(self.atoms.reshape(len(self.atoms), -1))
            beyond = np.nextafter(self.resolution, np.inf)
            distance, atom = tree.query(here, p=np.inf, distance_upper_bound=beyond)
            found = np.isfinite(distance)
            chosen[open_rows[found]] = self.chances[np.asarray(atom)[found]]
        return chosen

    def decide(
        self,
        posteriors: NDArray[Any] | GroupedScores,
        tokens: Callable[[NDArray[np.intp]], Sequence[bytes]],
    ) -> NDArray[np.bool_]:
        """Decide each row; the same person gets the same answer every time and everywhere.

        Where the decision is by lot, the lot is a hash of who the person is, under the rule's key.

        Parameters
        ----------
        posteriors : array, shape (n, M, 2), or GroupedScores
        tokens : function
            Gives, for the numbers of some rows, the bytes by which each person is known.

        Returns
        -------
        array of bool, shape (n,)
        """
        selection = self.selection(posteriors)
        chosen = selection >= 1.0
        drawn = np.flatnonzero((selection > 0.0) & ~chosen)
        if len(drawn):
            chosen[drawn] = lots(tokens(drawn), self.key) < selection[drawn]
        return chosen

    def with_key(self, key: str) -> Self:
        """Give the same rule with another key."""
        return replace(self, key=key)

    def to_json(self) -> str:
        """Write the rule as text, exactly.

        Examples
        --------
        >>> rule = Rule(np.array([[-0.5, 0.5]]), chance=0.25, key="a1")
        >>> Rule.from_json(rule.to_json()).to_json() == rule.to_json()
        True
        """
        steps = self.steps and {
            "edges": [edges.tolist() for edges in self.steps.edges],
            "chances": [chances.tolist() for chances in self.steps.chances],
        }
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "table": self.table.tolist(),
            "atoms": None if self.atoms is None else self.atoms.tolist(),
            "chances": None if self.chances is None else self.chances.tolist(),
            "chance": self.chance,
            "steps": steps,
            "unit": self.unit,
            "reach": self.reach,
            "key": self.key,
            "resolution": self.resolution,
        }
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote.

        Parameters
        ----------
        text : str

        Returns
        -------
        Rule
        """
        try:
            content = json.loads(text, parse_constant=_refuse_constant)
            if content["format"] != _FORMAT:
                raise InputError(f"this is no rule: its format is {content['format']!r}.")
            if content["version"] != _VERSION:
                raise InputError(
                    f"this rule is of version {content['version']!r}, and only {_VERSION} can be read."
                )
            table = _floats(content["table"], (None, 2))
            steps = content["steps"]
            n_atoms = 0 if content["atoms"] is None else len(content["atoms"])
            return cls(
                table,
                None if content["atoms"] is None else _floats(content["atoms"], (None, *table.shape)),
                None if content["chances"] is None else _chances(content["chances"], n_atoms),
                float(_chances([content["chance"]], 1)[0]),
                None if steps is None else _steps(steps["edges"], steps["chances"], len(table)),
                float(_floats(content["unit"], ())),
                float(_floats(content["reach"], ())),
                str(content["key"]),
                float(_floats(content["resolution"], ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"this text is no rule: {type(error).__name__}: {error}") from None

    def boundary(self) -> dict[bytes, float]:
        """Give the probability of deciding 1 at each atom, by the bytes of the atom."""
        if self.atoms is None or self.chances is None:
            return {}
        return {
            atom.tobytes(): chance for atom, chance in zip(self.atoms, self.chances.tolist(), strict=True)
        }

    def _beside_atoms(self, H: NDArray[np.float64], width: float) -> NDArray[np.intp]:
        """Find the rows with the H of some atom, which alone can be atoms."""
        near = np.flatnonzero(np.abs(H) <= self.reach + width)
        own = np.sort(np.tensordot(np.asarray(self.atoms), self.table, axes=2))
        places = np.searchsorted(own, H[near])
        low, high = own[np.maximum(places - 1, 0)], own[np.minimum(places, len(own) - 1)]
        distance = np.minimum(np.abs(H[near] - low), np.abs(H[near] - high))
        return np.asarray(near[distance <= width])


def lots(tokens: Sequence[bytes], key: str) -> NDArray[np.float64]:
    """Numbers in [0, 1), one per person: a keyed hash of the bytes by which the person is known.

    Examples
    --------
    >>> lots([b"a", b"a"], "key").tolist() == [lots([b"a"], "key").item()] * 2
    True
    """
    secret = hashlib.blake2b(key.encode(), digest_size=32).digest()
    drawn = [hashlib.blake2b(token, digest_size=8, key=secret).digest() for token in tokens]
    whole = np.frombuffer(b"".join(drawn), dtype="<u8") >> np.uint64(11)
    return whole.astype(np.float64) * 2.0**-53


def _refuse_constant(name: str) -> float:
    raise InputError(f"this text is no rule: it holds {name}.")


def _floats(values: Any, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    if shape and not array.size:
        array = array.reshape([size or 0 for size in shape])
    fits = len(array.shape) == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits or not np.isfinite(array).all():
        raise InputError(f"this text is no rule: numbers of shape {array.shape} where {shape} should be.")
    return array


def _chances(values: Any, count: int) -> NDArray[np.float64]:
    array = _floats(values, (count,))
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        raise InputError("this text is no rule: a probability is outside [0, 1].")
    return array


def _steps(edges: Any, chances: Any, n_groups: int) -> Steps:
    if len(edges) != n_groups or len(chances) != n_groups:
        raise InputError(f"this text is no rule: it has steps for {len(edges)} groups, not {n_groups}.")
    at = tuple(_floats(row, (None,)) for row in edges)
    if any((np.diff(row) <= 0).any() for row in at):
        raise InputError("this text is no rule: the edges of its steps do not increase.")
    return Steps(at, tuple(_chances(row, len(a) + 1) for row, a in zip(chances, at, strict=True)))


def written_out(
    posteriors: NDArray[Any] | GroupedScores, rows: NDArray[np.intp], n_groups: int
) -> NDArray[np.float64]:
    """Some rows as float64 of shape (k, M, 2); where the group is known, zero off it."""
    if not isinstance(posteriors, GroupedScores):
        return np.ascontiguousarray(posteriors[rows], dtype=np.float64) + 0.0  # no negative zeros
    out = np.zeros((len(rows), n_groups, 2))
    eta = posteriors.eta[rows].astype(np.float64)
    codes = posteriors.codes[rows]
    out[np.arange(len(rows)), codes, 0] = 1.0 - eta
    out[np.arange(len(rows)), codes, 1] = eta
    return out

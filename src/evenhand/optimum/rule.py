"""The optimal classifier as a rule: a table W, and what to do on its boundary."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.special import logit

from evenhand.exceptions import InputError
from evenhand.optimum.rule_format import read, write
from evenhand.optimum.rule_onnx import to_onnx
from evenhand.posteriors.posteriors import AnyPosteriors, Posteriors, read_posteriors
from evenhand.solver.dense import as_float64
from evenhand.solver.oracle import ROUNDING
from evenhand.solver.thresholds import Steps

SAME_ATOM = 1e-11
"""The resolution of rules of classifiers, which round posteriors to 12 digits.

On another processor the last bits of a matrix product differ, and one in some thousand numbers is then
rounded to the neighbouring twelfth digit.
"""


_SURE = 1e-9
"""Log-odds are those of probabilities at least this far from 0 and 1; nearer ones are alike."""

REACH_MARGIN = 1.001
"""Factor on `Rule.reach`, so that rounding puts no atom out of reach."""


@dataclass(frozen=True, eq=False)
class Rule:
    """Decide 1 where H(x) = sum of W[m,y] p[m,y](x) is positive; where it is 0, by a second score.

    The second score is the log-odds of label 1, plus the sum of V[m,y] p[m,y](x). Only single posteriors, on
    the boundary of both, are decided at random.

    Attributes
    ----------
    table : array, shape (M, 2)
        W.
    ties : array, shape (M, 2), or None
        V; None where no two different rows of the fit had H = 0, and others with H = 0 are decided 0.
    atoms : array, shape (k, M, 2)
        Posteriors on the boundary with a probability of their own.
    chances : array, shape (k,)
        The probability of deciding 1 at each atom.
    steps : Steps or None
        Where the group is known: the probability of deciding 1 as a step function of the score in each group.
        It then decides alone, on the boundary too.
    unit : float
        Size of costs. A row is on the boundary if H is 0 up to rounding, relative to its terms and to this.
    reach : float
        Largest ``|H|`` of an atom.
    resolution : float
        Distance within which a posterior is taken for an atom: 0 compares exactly; larger where posteriors
        are rounded, because another processor may round them differently.
    key : str
        Hash key of randomised decisions: with it, every one of them can be repeated.

    Examples
    --------
    >>> import numpy as np
    >>> rule = Rule(np.array([[-0.5, 0.5]]))
    >>> rule.selection(np.array([[[0.3, 0.7]], [[0.6, 0.4]], [[0.5, 0.5]]]))
    array([1., 0., 0.])
    """

    table: NDArray[np.float64]
    ties: NDArray[np.float64] | None = None
    atoms: NDArray[np.float64] | None = None
    chances: NDArray[np.float64] | None = None
    steps: Steps | None = None
    unit: float = 1.0
    reach: float = 0.0
    key: str = ""
    resolution: float = 0.0

    def __post_init__(self) -> None:
        for array in (self.table, self.ties, self.atoms, self.chances):
            if array is not None:
                array.flags.writeable = False

    def __repr__(self) -> str:
        randomised = ", randomised" if self.randomises else ""
        return f"<Rule for {len(self.table):,} groups{', aware' if self.steps else ''}{randomised}>"

    @property
    def randomises(self) -> bool:
        """Whether chance has a part in some decisions."""
        parts = [self.chances] if self.steps is None else self.steps.chances
        return any(part is not None and bool(((part > 0) & (part < 1)).any()) for part in parts)

    def decision(self, posteriors: AnyPosteriors) -> NDArray[np.float64]:
        """H(x) of each row.

        Parameters
        ----------
        posteriors : array of shape (n, M, 2), GroupedScores or StratifiedPosteriors

        Returns
        -------
        array, shape (n,)
        """
        H = self._read(posteriors).weighted(self.table)
        unknown = int(np.count_nonzero(np.isnan(H)))
        if unknown:
            raise InputError(f"posteriors are NaN in {unknown:,} of {len(H):,} rows.")
        return H

    def selection(self, posteriors: AnyPosteriors) -> NDArray[np.float64]:
        """Probability of deciding 1 for each row.

        Parameters
        ----------
        posteriors : array of shape (n, M, 2), GroupedScores or StratifiedPosteriors

        Returns
        -------
        array, shape (n,)
        """
        posteriors = self._read(posteriors)
        if self.steps is not None:
            if posteriors.codes is None:
                raise InputError("this rule needs the group of each row: pass GroupedScores.")
            return self.steps.selection(posteriors.label(), posteriors.codes)
        H = self.decision(posteriors)
        _, chosen = self._decided(posteriors, H)
        if self.atoms is not None and self.chances is not None and len(self.atoms):
            width = max(self._rounding, self.resolution * float(np.abs(self.table).sum()))
            open_rows = np.flatnonzero(np.abs(H) <= self.reach + width)
            here = posteriors.dense(open_rows).reshape(-1, self.table.size)
            tree = KDTree(self.atoms.reshape(len(self.atoms), -1))
            beyond = np.nextafter(self.resolution, np.inf)
            distance, atom = tree.query(here, p=np.inf, distance_upper_bound=beyond)
            found = np.isfinite(distance)
            chosen[open_rows[found]] = self.chances[np.asarray(atom)[found]]
        return chosen

    def decided(self, posteriors: AnyPosteriors) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Decisions by the two scores alone, and for which rows these are more than rounding errors.

        Parameters
        ----------
        posteriors : array of shape (n, M, 2), GroupedScores or StratifiedPosteriors

        Returns
        -------
        sure : array of bool, shape (n,)
        decisions : array, shape (n,)
        """
        posteriors = self._read(posteriors)
        return self._decided(posteriors, self.decision(posteriors))

    def margins(self, posteriors: AnyPosteriors) -> NDArray[np.float64]:
        """H of each row; where it is 0 up to rounding, a number as small with the sign of the second score.

        Parameters
        ----------
        posteriors : array of shape (n, M, 2), GroupedScores or StratifiedPosteriors

        Returns
        -------
        array, shape (n,)
        """
        posteriors = self._read(posteriors)
        H = self.decision(posteriors)
        tied, second, _ = self._second(posteriors, H)
        H[tied] = ROUNDING * self.unit * second / (1 + np.abs(second))
        return H

    def _decided(
        self, posteriors: Posteriors, H: NDArray[np.float64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        sure, chosen = np.ones(len(H), np.bool_), (H > 0).astype(np.float64)
        tied, second, rounding = self._second(posteriors, H)
        sure[tied], chosen[tied] = np.abs(second) > rounding, second > 0
        return sure, chosen

    def _second(
        self, posteriors: Posteriors, H: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
        """The rows with H = 0 up to rounding, their second score, and its rounding errors."""
        tied = np.flatnonzero(np.abs(H) <= self._rounding)
        here = posteriors.dense(tied)
        terms = np.tensordot(here, np.abs(self.table), axes=2)
        kept = np.abs(H[tied]) <= ROUNDING * np.maximum(self.unit, terms)
        tied, here = tied[kept], here[kept]
        if self.ties is None:
            return tied, np.zeros(len(tied)), np.zeros(len(tied))
        score = label_log_odds(here)
        terms = np.abs(score) + np.tensordot(here, np.abs(self.ties), axes=2)
        return tied, score + np.tensordot(here, self.ties, axes=2), ROUNDING * terms

    @property
    def _rounding(self) -> float:
        """Size of H above which no row is on the boundary."""
        return ROUNDING * max(self.unit, float(np.abs(self.table).max()))

    def _read(self, posteriors: AnyPosteriors) -> Posteriors:
        found = read_posteriors(posteriors)
        if found.n_groups != len(self.table):
            raise InputError(
                f"the rule is for {len(self.table)} groups, but the posteriors have {found.n_groups}."
            )
        return found

    def decide(
        self,
        posteriors: AnyPosteriors,
        tokens: Callable[[NDArray[np.intp]], Sequence[bytes]],
    ) -> NDArray[np.bool_]:
        """Decide each row; the same person gets the same answer every time and on every machine.

        A randomised decision compares its probability with a hash of the person's bytes under the rule's key.

        Parameters
        ----------
        posteriors : array of shape (n, M, 2), GroupedScores or StratifiedPosteriors
        tokens : function
            For the numbers of some rows, the bytes that identify each person.

        Returns
        -------
        array of bool, shape (n,)
        """
        selection = self.selection(posteriors)
        chosen = selection >= 1.0
        randomised = np.flatnonzero((selection > 0.0) & ~chosen)
        if len(randomised):
            chosen[randomised] = hashed_uniforms(tokens(randomised), self.key) < selection[randomised]
        return chosen

    def with_key(self, key: str) -> Self:
        """The same rule with another hash key."""
        return replace(self, key=key)

    def to_json(self) -> str:
        """The rule as text, to the last digit.

        Examples
        --------
        >>> rule = Rule(np.array([[-0.5, 0.5]]), key="a1")
        >>> Rule.from_json(rule.to_json()).to_json() == rule.to_json()
        True
        """
        return write(self)

    def to_onnx(self) -> Any:
        """The rule as an ONNX model, for servers that have the probabilities.

        Its input is ``posteriors`` of shape (rows, M, 2), in double precision; where the group is known,
        ``label_probability`` P(Y=1 | x, group) and ``group``, its position. With control features, the groups
        are those within strata, `compared_` of the classifier. Outputs are ``probability`` of deciding 1,
        which is neither 0 nor 1 where decisions are randomised and NaN where the input is, and ``decision``:
        whether it is at least one half.

        Returns
        -------
        onnx.ModelProto
        """
        return to_onnx(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of :meth:`to_json`.

        Parameters
        ----------
        text : str

        Returns
        -------
        Rule
        """
        return cls(**read(text))


def label_log_odds(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-odds of label 1, by which rows are put in order that the requirement leaves open.

    Parameters
    ----------
    rows : array, shape (n, M, 2) or (n, 2 M)
        P(S=m, Y=y | x).

    Returns
    -------
    array, shape (n,)

    Examples
    --------
    >>> label_log_odds(np.array([[0.25, 0.25, 0.25, 0.25], [0.2, 0.1, 0.0, 0.7]])).round(3)
    array([0.   , 1.386])
    """
    eta = as_float64(rows)[:, 1::2].sum(axis=1)
    return np.asarray(logit(np.clip(eta, _SURE, 1.0 - _SURE)))


def hashed_uniforms(tokens: Sequence[bytes], key: str) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), one per person: a keyed hash of the bytes that identify the person.

    Parameters
    ----------
    tokens : sequence of bytes
    key : str

    Returns
    -------
    array, shape (len(tokens),)

    Examples
    --------
    >>> hashed_uniforms([b"a", b"a"], "key").tolist() == [hashed_uniforms([b"a"], "key").item()] * 2
    True
    """
    secret = hashlib.blake2b(key.encode(), digest_size=32).digest()
    digests = [hashlib.blake2b(token, digest_size=8, key=secret).digest() for token in tokens]
    whole = np.frombuffer(b"".join(digests), dtype="<u8") >> np.uint64(11)
    return whole.astype(np.float64) * 2.0**-53

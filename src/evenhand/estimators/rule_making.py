"""The last stage of `fit`: from the solution of a fairness problem to the rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.estimators.learned_posteriors import LearnedPosteriors
from evenhand.fairness.scores import GroupedScores
from evenhand.optimum.atoms import FurtherRows, randomise_atoms
from evenhand.optimum.rule import SAME_ATOM, SAME_ATOM_IN_FILES, Rule
from evenhand.optimum.solution import Solution

__all__ = ["further_rows", "make_rule", "make_rule_of_batches"]


def make_rule(solution: Solution, posteriors: LearnedPosteriors, seed: int) -> Rule:
    """The rule for new rows: the solution's table, with the atoms of the deployed model randomised."""
    rule = randomise_atoms(solution.rule, posteriors.deployed, solution.selection, posteriors.weights)
    return rule.with_key(f"{seed:08x}")


def make_rule_of_batches(
    rule: Rule,
    posteriors: LearnedPosteriors,
    further: FurtherRows | None,
    seed: int,
    *,
    kind: type[np.floating[Any]] = np.float32,
) -> Rule:
    """The rule for new rows, where it was found on more rows than those with posteriors at hand.

    The others have posteriors of the model for new rows already; or all rows were learned from, and those at
    hand stand for them.

    Parameters
    ----------
    rule : Rule
        Of the solution on all rows.
    posteriors : LearnedPosteriors
        Of the rows at hand.
    further : FurtherRows or None
        The others, if they have posteriors of the model for new rows.
    seed : int
    kind : type, default=numpy.float32
        Of the numbers in which posteriors of all rows are kept; scores of known groups are float64 always.

    Returns
    -------
    Rule
    """
    learned, known = posteriors.out_of_fold, isinstance(posteriors.out_of_fold, GroupedScores)
    as_stored = learned if known else np.asarray(learned, dtype=kind).astype(np.float64)
    short = not known and kind is np.float32
    randomised = randomise_atoms(
        rule,
        posteriors.deployed,
        rule.selection(as_stored),
        posteriors.weights,
        resolution=SAME_ATOM_IN_FILES if short else SAME_ATOM,
        further=further,
    )
    return randomised.with_key(f"{seed:08x}")


def further_rows(
    oracle: Any, posteriors: LearnedPosteriors, *, kind: type[np.floating[Any]] = np.float32
) -> FurtherRows:
    """All rows besides those that were learned from.

    Parameters
    ----------
    oracle : PartitionedRows
        All rows.
    posteriors : LearnedPosteriors
    kind : type, default=numpy.float32
        As for :func:`make_rule_of_batches`.

    Returns
    -------
    FurtherRows
    """

    def weight(atoms: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(oracle.weight_of(atoms.reshape(len(atoms), -1)) * oracle.sizes.weight)

    known = isinstance(posteriors.out_of_fold, GroupedScores)
    return FurtherRows(oracle.n_rows - len(posteriors.rows), weight, np.float64 if known else kind)

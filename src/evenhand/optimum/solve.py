"""The exact optimum: from posteriors and a requirement to the best classifier that satisfies it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.data.batched_table import is_dask, is_lazy
from evenhand.data.checks import check_fraction, check_rows
from evenhand.exceptions import InputError
from evenhand.groups.groups import Groups
from evenhand.groups.strata import needed_controls, read_strata
from evenhand.optimum.action_problem import ActionSolution, ActionsProblem, several_actions, warn_if_never
from evenhand.optimum.objectives import Objective, check_objective, read_problem
from evenhand.optimum.solution import Solution
from evenhand.posteriors.posteriors import GroupedScores, in_strata, read_posteriors
from evenhand.requirements.requirement import Constraint
from evenhand.solver.partitions import Partitions
from evenhand.sources.posterior_file import spooled


def solve(
    posteriors: NDArray[Any] | GroupedScores | Partitions | Any,
    constraint: Constraint,
    *,
    cost: Any = 0.5,
    sample_weight: Any = None,
    tol: float = 1e-6,
    groups: Groups | None = None,
    control_features: Any = None,
    objective: Objective = "risk",
) -> Solution:
    """Find the classifier of smallest risk that satisfies a requirement, given posteriors, and prove it.

    Parameters
    ----------
    posteriors : array, shape (n, M, 2) or (n, M, L) with L labels, GroupedScores, lazy table, or Dask arrays
        P(S=m, Y=y | x) of each row, float32 or float64; or scores of rows whose group is known. Or a
        ``polars.LazyFrame`` or ``pyarrow.dataset.Dataset`` with two columns for each group, P(S=0, Y=0 | x),
        P(S=0, Y=1 | x), P(S=1, Y=0 | x), and so on: it need not fit into memory. It is copied to a temporary
        file of float32, and ``selection`` is then computed when it is asked for.
        A Dask array, or GroupedScores of Dask arrays, stays on the workers of the current client for the time
        of the solve: sums and some thousands of rows travel, and what a lost worker held is computed again.
        Sizes of chunks may be unknown, and chunks may be empty; ``selection`` is then a Dask array.
    constraint : Constraint
        The requirement.
    cost : float, pair, array of shape (M, 2), Costs, or array of shape (L, K), default=0.5
        With a number c in [0, 1], a false positive costs c and a false negative 1 - c. A pair holds the two
        costs, and an array those of each group. :class:`Costs` decide among any actions, such as a review by
        a person; its labels are in the order of the last axis of `posteriors`. An array of shape (L, K) holds
        the same for L labels or K actions, if one of them is more than two. With more than two labels, every
        error costs 1 by default.
    sample_weight : array, shape (n,), default=None
        Weight of each row, in the risk and in the requirement. The name of a column of a lazy table; a
        Dask array where posteriors are Dask arrays.
    tol : float, default=1e-6
        Largest gap accepted between the risk attained and the bound, for costs of up to 1; in proportion for
        larger ones.
    groups : Groups, default=None
        Names of the M groups. Without it they are one feature with values 0 to M - 1.
    control_features : table, mapping, array or sequence, default=None
        One column per control feature, for notions with ``given=``. Posteriors are the same as without; the
        rule has a table for each stratum, and decides about ``StratifiedPosteriors``.
    objective : {"risk", "minimax"} or notion, default="risk"
        What is minimised. With a notion, such as ``DemographicParity(difference=0)``, the distance from it:
        the largest difference, or 1 minus the smallest ratio, down to its tolerance; and among the
        classifiers that attain this, the risk. With "minimax" the largest risk of a group, that is the
        expected cost of an error within it (min-max fairness); and among the classifiers that attain this,
        the risk. Groups are the M groups, whatever the requirement compares; those without mass are left out.

    Returns
    -------
    Solution
        For several actions an :class:`~evenhand.optimum.action_problem.ActionSolution`, with the same
        attributes.

    Raises
    ------
    InfeasibleError
        If no classifier satisfies the requirement.
    CertificateError
        If no algorithm reached the tolerance.
    ClusterError
        If a Dask cluster cannot compute: workers die for lack of memory, there has been none for the time
        that ``dask.config.set({"evenhand.worker-timeout": "60s"})`` gives, or the client was closed.

    Examples
    --------
    >>> from evenhand import DemographicParity, RateBound
    >>> from evenhand.datasets import GaussianProblem
    >>> problem = GaussianProblem.random(levels=(2, 2), seed=1)
    >>> posteriors = problem.posteriors(problem.sample(1000).X)
    >>> plain = solve(posteriors, DemographicParity(difference=1.0))
    >>> fair = solve(posteriors, DemographicParity(difference=0.02))
    >>> bool(plain.certificate.objective < fair.certificate.objective)
    True
    >>> bool(fair.certificate.gap < 1e-9 and fair.certificate.violation < 1e-9)
    True

    The least possible risk of the group that has the largest, without any further requirement. Accuracy in
    the other groups is not given away for nothing, but it is given away where that helps the worst group:

    >>> minmax = solve(posteriors, DemographicParity(difference=1.0), objective="minimax")
    >>> minmax.certificate.minimised
    'largest risk of a group'
    >>> bool(minmax.certificate.objective > plain.certificate.objective and minmax.certificate.gap < 1e-6)
    True
    >>> round(sum(minmax.group_weights.values()), 9)  # the least favourable mixture of the groups
    1.0

    The smallest difference of selection rates at a given accuracy and approval rate. No rule on these
    posteriors is below the bound:

    >>> asked = RateBound("accuracy", at_least=0.75) & RateBound("selection rate", at_least=0.3, at_most=0.3)
    >>> near = solve(posteriors, asked, objective=DemographicParity(difference=0))
    >>> near.certificate.minimised, bool(near.certificate.gap < 1e-6)
    ('distance from demographic parity (difference)', True)
    >>> round(near.nearest.difference, 4)  # of the notion with the tolerance that is attained
    0.0866

    Approve, decline, or refer to a person, who has time for a tenth of the cases:

    >>> from evenhand import Costs
    >>> costs = Costs({
    ...     "approve": {"bad": 5, "good": 0},
    ...     "decline": {"bad": 0, "good": 1},
    ...     "review": {"bad": 0.2, "good": 0.2},
    ... })
    >>> requirement = DemographicParity(difference=0.02) & RateBound("review", at_most=0.1)
    >>> reviewed = solve(posteriors, requirement, cost=costs)
    >>> bool(reviewed.certificate.gap < 1e-9)
    True
    >>> bool(reviewed.rates.by_group[:, 2].max() < 0.12 + 1e-9)
    True
    """
    check_fraction("tol", tol)
    check_objective(objective)
    if several_actions(posteriors, cost):
        if objective != "risk":
            raise InputError("several actions support no objective but the risk.")
        if control_features is not None:
            posteriors, groups = _in_strata(posteriors, constraint, groups, control_features)
        among = ActionsProblem.of(
            posteriors, constraint, cost=cost, sample_weight=sample_weight, groups=groups
        )
        chosen = among.solve(tol=tol)
        warn_if_never(cast("ActionSolution", chosen).rule, chosen.selection)
        return chosen
    if is_lazy(posteriors):
        if control_features is not None:
            raise InputError("control features need posteriors in memory: collect them first.")
        posteriors, sample_weight = spooled(posteriors, sample_weight), None
    elif is_dask(posteriors) or not isinstance(posteriors, Partitions):  # a Delayed has every attribute
        posteriors = read_posteriors(posteriors)
        if posteriors.lazy:
            from evenhand.cluster.dask_partitions import DaskPartitions  # noqa: PLC0415  (Dask is an extra)

            posteriors, sample_weight = DaskPartitions(posteriors, sample_weight), None
    if control_features is not None:
        posteriors, groups = _in_strata(posteriors, constraint, groups, control_features)
    settings = {"cost": cost, "sample_weight": sample_weight, "groups": groups}
    task = read_problem(objective, posteriors, constraint, **settings)
    return task.solve(tol=tol)


def _in_strata(
    posteriors: Any, constraint: Constraint, groups: Groups | None, control_features: Any
) -> tuple[Any, Groups]:
    """Posteriors and groups within the strata of the control features that the requirement names."""
    if isinstance(posteriors, Partitions):
        raise InputError("control features need posteriors in memory, not partitions.")
    several = not hasattr(posteriors, "n_groups")  # an array, for decisions among several actions
    n_groups = np.shape(posteriors)[1] if several else posteriors.n_groups
    groups = groups if groups is not None else Groups.product({"group": range(n_groups)})
    columns = needed_controls(control_features, constraint.controls, groups.features)
    if not columns:
        return posteriors, groups
    strata, codes = read_strata(columns)
    check_rows({"posteriors": posteriors, "control_features": codes})
    constraint.check(groups.within(strata))
    if several:
        return in_strata(np.asarray(posteriors), codes, len(strata)), groups.within(strata)
    return posteriors.within(codes, len(strata)), groups.within(strata)

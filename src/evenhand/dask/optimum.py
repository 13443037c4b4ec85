"""The exact optimum of rows on a Dask cluster."""

from __future__ import annotations

from typing import Any

import dask.array as da
from distributed import Client
from numpy.typing import ArrayLike

from evenhand.dask.partitions import DaskPartitions
from evenhand.fairness.groups import Groups
from evenhand.fairness.requirement import Constraint
from evenhand.fairness.scores import GroupedScores
from evenhand.optimum import solve as optimum
from evenhand.optimum.solution import Solution
from evenhand.optimum.worst_group import Objective

__all__ = ["solve"]


def solve(
    posteriors: da.Array | GroupedScores,
    constraint: Constraint,
    *,
    cost: ArrayLike = 0.5,
    sample_weight: Any = None,
    tol: float = 1e-6,
    groups: Groups | None = None,
    start: Solution | None = None,
    client: Client | None = None,
    objective: Objective = "risk",
) -> Solution:
    """Find the classifier of smallest risk that satisfies a fairness requirement, for rows on a cluster.

    The optimum is that of :func:`evenhand.solve`, whatever the chunks. Rows stay on the workers for the time
    of the solve; sums and some thousands of rows travel. What a lost worker held is computed again.

    Parameters
    ----------
    posteriors : dask array, shape (n, M, 2), or GroupedScores of dask arrays
        P(S=m, Y=y | x) of each row, or scores of rows whose group is known. Sizes of chunks may be unknown,
        and chunks may be empty. What does not fit into the memory of the workers, Dask writes to their disks.
    constraint : Constraint
        The requirement.
    cost : float, pair, or array of shape (M, 2), default=0.5
        As for :func:`evenhand.solve`.
    sample_weight : dask array or array, shape (n,), default=None
        Weight of each row; where sizes of chunks are unknown, a dask array with the same chunks.
    tol : float, default=1e-6
        Largest gap accepted between the risk attained and the bound.
    groups : Groups, default=None
        Names of the M groups.
    start : Solution, default=None
        An earlier solution to start from.
    client : distributed.Client, default=None
        By default the current one.
    objective : {"risk", "worst group"}, default="risk"
        As for :func:`evenhand.solve`.

    Returns
    -------
    Solution
        Its `selection` is a dask array, computed from the posteriors when it is asked for.

    Raises
    ------
    ClusterError
        If the cluster cannot compute: workers die for lack of memory, there has been none for the time that
        ``dask.config.set({"evenhand.worker-timeout": "60s"})`` gives, or the client was closed.
    InfeasibleError
        If no classifier satisfies the requirement.
    CertificateError
        If no algorithm reached the tolerance.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> import evenhand as eh
    >>> import evenhand.dask
    >>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    >>> problem = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=1)
    >>> posteriors = problem.posteriors(problem.sample(1000).X)
    >>> fair = eh.DemographicParity(difference=0.02)
    >>> found = evenhand.dask.solve(da.from_array(posteriors, chunks=(300, -1, -1)), fair)
    >>> bool(abs(found.certificate.objective - eh.solve(posteriors, fair).certificate.objective) < 1e-12)
    True
    >>> found.selection.chunks
    ((300, 300, 300, 100),)
    >>> client.close()
    """
    rows = DaskPartitions(posteriors, sample_weight, client=client)
    return optimum.solve(
        rows, constraint, cost=cost, tol=tol, groups=groups, start=start, objective=objective
    )

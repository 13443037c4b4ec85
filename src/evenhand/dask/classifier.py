"""Post-processing on a Dask cluster: count, draw, learn, score, solve; rows stay on the workers."""

from __future__ import annotations

from typing import Any, Literal, Self

import dask
import numpy as np
from distributed import Client
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from evenhand.dask.answers import answers
from evenhand.dask.boosters import copied, local_learner
from evenhand.dask.cluster import computed, find_client
from evenhand.dask.learning import draw_and_learn, score_partitions
from evenhand.dask.table import alongside, as_pieces, read_dask_table
from evenhand.estimators.access import Aware
from evenhand.estimators.all_rows import FoldScore
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.estimators.rule_making import make_rule
from evenhand.estimators.training_data import draw_seed
from evenhand.exceptions import InputError
from evenhand.fairness.groups import Missing
from evenhand.fairness.proxy import Proxy
from evenhand.fairness.requirement import Constraint
from evenhand.inputs.features import Columns
from evenhand.optimum.worst_group import Objective, problem_for
from evenhand.posteriors.calibration import Calibration
from evenhand.posteriors.spec import Form

__all__ = ["DaskFairPostprocessor"]


class DaskFairPostprocessor(FairPostprocessor):
    """The most accurate classifier within a tolerance, given learned probabilities, on a Dask cluster.

    Models learn from a sample of the rows, one fold per worker; xgboost's and lightgbm's distributed
    classifiers learn from all. Every row is then scored where it is, and the optimum is found and proven on
    all rows. Rows stay on the workers: the sample, counts and sums travel.

    What is drawn and decided does not depend on the partitions, and where all rows are learned from it is
    what :class:`evenhand.FairPostprocessor` decides. What a lost worker held is computed again.

    Parameters
    ----------
    estimator : classifier, default=None
        As for :class:`evenhand.FairPostprocessor`; or ``xgboost.dask.DaskXGBClassifier`` or
        ``lightgbm.DaskLGBMClassifier``, which then learn groups as well.
    constraint : Constraint
        What must hold, such as ``DemographicParity(difference=0.02)``.
    learn_rows : int or None, default=1_000_000
        The largest number of rows that models learn from; they are sent to the client. Distributed
        classifiers learn from all rows, and calibration from these.
    client : distributed.Client, default=None
        By default the current one. It is not pickled.
    **params : object
        The others are those of :class:`evenhand.FairPostprocessor`. `confidence` and
        ``missing="exclude"`` need a table in memory.
    n_jobs : int, default=None
        Not used: the cluster has as many workers as it has.

    Attributes
    ----------
    client_ : distributed.Client
        The client that is used.
    classes_, groups_, rule_, certificate_, multipliers_, shadow_prices_, rates_, posterior_model_
        As for :class:`evenhand.FairPostprocessor`.

    Notes
    -----
    Posteriors take 16 bytes per row and group (12 bytes per row where groups are known) in the memory of the
    workers during `fit`, or on their disks.

    What xgboost and lightgbm learn may depend on which worker has which partition. While they learn, a lost
    worker is theirs to notice: lightgbm may wait for it for its ``time_out``.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> from distributed import Client
    >>> from sklearn.linear_model import LogisticRegression
    >>> import evenhand as eh
    >>> from evenhand.dask import DaskFairPostprocessor
    >>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    >>> drawn = eh.datasets.GaussianProblem.random(levels=(2,), seed=1).sample(1000)
    >>> table = pd.DataFrame({"income": drawn.X[:, 0], **drawn.sensitive, "repaid": drawn.y})
    >>> rows = dd.from_pandas(table, npartitions=3)
    >>> fair = DaskFairPostprocessor(
    ...     LogisticRegression(),
    ...     eh.DemographicParity(difference=0.05),
    ...     sensitive_features=list(drawn.sensitive),
    ...     learn_rows=500,
    ... )
    >>> fair.fit(rows, "repaid").certificate_.gap < 1e-6
    True
    >>> decisions = fair.predict(rows)  # lazy
    >>> bool((decisions.compute() == fair.to_local().predict(table.drop(columns="repaid"))).all())
    True
    >>> client.close()
    """

    def __init__(
        self,
        estimator: Any = None,
        constraint: Constraint | None = None,
        *,
        sensitive_features: Columns | None = None,
        aware: Aware = False,
        cost: ArrayLike = 0.5,
        objective: Objective = "risk",
        pos_label: Any = None,
        group_estimator: Any = None,
        posterior: Form | Literal["auto"] = "auto",
        cv: Any = 5,
        average: bool = True,
        calibration: Calibration | None = "dirichlet",
        confidence: float | None = None,
        reserve: float = 0.5,
        missing: Missing = "error",
        unseen: Literal["error", "pooled"] = "error",
        min_group_size: int = 0,
        learn_rows: int | None = 1_000_000,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
        client: Client | None = None,
    ) -> None:
        super().__init__(
            estimator,
            constraint,
            sensitive_features=sensitive_features,
            aware=aware,
            cost=cost,
            objective=objective,
            pos_label=pos_label,
            group_estimator=group_estimator,
            posterior=posterior,
            cv=cv,
            average=average,
            calibration=calibration,
            confidence=confidence,
            reserve=reserve,
            missing=missing,
            unseen=unseen,
            min_group_size=min_group_size,
            learn_rows=learn_rows,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.client = client

    @property
    def client_(self) -> Client:
        """The client: that of the constructor, or the current one."""
        return find_client(self.client)

    def fit(  # type: ignore[override]  # posteriors stay on the workers, so there is no scratch folder
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn posteriors and find the rule.

        The table is read three times, and distributed classifiers keep what they learn from on the workers:
        ``X.persist()`` first if it fits into their memory.

        Parameters
        ----------
        X : Dask DataFrame or array
            Partitions may be empty. Categories that Dask does not know are found.
        y : str, Dask Series or array
            Any two labels: a column of X, which models do not see; or partitioned as X is.
        sensitive_features : Dask DataFrame, Series or array, default=None
            One column per sensitive feature, partitioned as X is, unless the constructor names columns of X.
        sample_weight : str, Dask Series or array, default=None

        Returns
        -------
        self

        Raises
        ------
        ClusterError
            If the cluster cannot compute; see :func:`evenhand.dask.solve`.
        """
        self.__dict__.pop("rule_", None)  # an interrupted fit leaves an unfitted estimator

        if self.missing == "infer":
            raise InputError("missing='infer' needs a table in memory: use FairPostprocessor with a sample.")
        if isinstance(self.sensitive_features, Proxy) or isinstance(sensitive_features, Proxy):
            raise InputError("proxies need a table in memory: use FairPostprocessor with a sample.")

        # Count labels and groups, partition by partition.
        table = read_dask_table(self, X, y, sensitive_features, sample_weight, client=self.client_)
        seed, groups = draw_seed(self.random_state), table.counted.groups

        # Posteriors are learned from a sample, each fold on a worker; or from all rows, if learners can.
        learned = draw_and_learn(self, self.to_local, table, seed)
        sample, posteriors = learned.sample, learned.posteriors

        if len(sample.rows) == table.counted.n_rows:
            # Posteriors of all rows are here already: the rest is that of a table in memory.
            problem = posteriors.problem(self.constraint, self.cost, groups, self.objective)
            solution = problem.solve()
            rule = make_rule(solution, posteriors, seed)
        else:
            # All rows are scored where they are, and the optimum is found and proven on all of them.
            rows = score_partitions(table, learned)
            problem = problem_for(self.objective).read(rows, self.constraint, cost=self.cost, groups=groups)
            solution = problem.solve()
            rule = learned.rule(solution, problem, seed)

        solution = problem.shipped(solution, rule)
        self.promise_, self.in_batches_ = None, False
        self._remember(sample.data, seed)
        if len(sample.rows) < table.counted.n_rows or isinstance(learned.score, FoldScore):
            del self.fitted_to_  # it would be of the sample, or of other folds than `verify` repeats
        return self._keep(solution, rule, posteriors)

    def to_local(self) -> FairPostprocessor:
        """The same classifier for tables in memory, which decides alike bit for bit.

        Returns
        -------
        FairPostprocessor
            What :func:`evenhand.save` takes.
        """
        params = self.get_params(deep=False)
        del params["client"]
        for name in ("estimator", "group_estimator"):
            params[name] = local_learner(params[name])
        local = FairPostprocessor(**params)
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(local, name, value)
        return local

    def predict(
        self,
        X: Any,
        *,
        sensitive_features: Any = None,
        ids: Any = None,
        at_most: int | None = None,
        return_excluded: bool = False,
    ) -> Any:
        """Decisions, in the labels of `fit`; the same person always gets the same one. Nothing is computed.

        Parameters
        ----------
        X : Dask DataFrame or array
        sensitive_features : Dask DataFrame, Series or array, default=None
            Needed only where they may be used and are not columns of X.
        ids : str, Dask Series or array, default=None
            What identifies a person, such as an account number: a column of X, or partitioned as X is.
        at_most, return_excluded
            Refused: a limit is about all rows together, and partitions are decided one by one.

        Returns
        -------
        Dask Series or array, shape (n,)
            A Series of a DataFrame, with its index and divisions; an array of an array.
        """
        check_is_fitted(self)
        if at_most is not None or return_excluded:
            raise InputError(
                "at_most is about all rows together, and partitions are decided one by one: use to_local()."
            )
        return self._answers("predict", X, sensitive_features, kind=self.classes_.dtype, ids=ids)

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """Probability of each decision, in the order of ``classes_``. Nothing is computed.

        Parameters
        ----------
        X : Dask DataFrame or array
        sensitive_features : Dask DataFrame, Series or array, default=None

        Returns
        -------
        Dask array, shape (n, 2)
            Also of a DataFrame, as in ``lightgbm.dask``; sizes of its chunks are then unknown.
        """
        return self._answers("predict_proba", X, sensitive_features, kind=np.dtype(np.float64), width=2)

    def predict_risk(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """P(Y=1 | x): the calibrated probability of the positive label. Nothing is computed.

        Parameters
        ----------
        X : Dask DataFrame or array
        sensitive_features : Dask DataFrame, Series or array, default=None

        Returns
        -------
        Dask Series or array, shape (n,)
        """
        return self._answers("predict_risk", X, sensitive_features, kind=np.dtype(np.float64))

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """H of each row: positive where the decision is for ``classes_[1]``. Nothing is computed.

        Parameters
        ----------
        X : Dask DataFrame or array
        sensitive_features : Dask DataFrame, Series or array, default=None

        Returns
        -------
        Dask Series or array, shape (n,)
        """
        return self._answers("decision_function", X, sensitive_features, kind=np.dtype(np.float64))

    def _answers(self, method: str, X: Any, sensitive_features: Any, **how: Any) -> Any:
        check_is_fitted(self)
        return answers(self.to_local(), method, X, sensitive_features=sensitive_features, **how)

    def score(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: the share of decisions that equal the label, computed on the cluster.

        Parameters
        ----------
        X : Dask DataFrame or array
        y : Dask Series or array
        sensitive_features : Dask DataFrame, Series or array, default=None
        sample_weight : Dask Series or array, default=None

        Returns
        -------
        float
        """
        decisions = self.predict(X, sensitive_features=sensitive_features)
        columns = [as_pieces(alongside(one, X, what)) for one, what in ((decisions, "X"), (y, "y"))]
        if sample_weight is not None:
            columns.append(as_pieces(alongside(sample_weight, X, "sample_weight")))
        right = dask.delayed(_right, pure=False)
        found = computed(self.client_, [right(*pieces) for pieces in zip(*columns, strict=True)])
        return float(np.divide(*np.sum(found, axis=0)))

    def __sklearn_clone__(self) -> Self:
        params = self.get_params(deep=False)
        client = params.pop("client")  # cannot be copied
        return type(self)(**{name: copied(value) for name, value in params.items()}, client=client)

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "client": None}


def _right(decisions: Any, y: Any, weights: Any = None) -> tuple[float, float]:
    """Weight of the rows of a partition that are decided as labelled, and of all."""
    weights = np.ones(len(decisions)) if weights is None else np.asarray(weights, dtype=np.float64)
    return float(weights @ (np.asarray(decisions) == np.asarray(y))), float(weights.sum())

"""Post-processing: posteriors, problem, solve, rule."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from evenhand.calibration import Calibration
from evenhand.classifier import Evidence, FairClassifier, answers_for_file, as_posteriors, counted
from evenhand.exceptions import VacuousConstraintWarning
from evenhand.features import Columns, id_column, person_tokens
from evenhand.guarantee import Promise, promised, warn_if_unpromised
from evenhand.notions import Constraint
from evenhand.people import Aware, People
from evenhand.posteriors import Balance, Examples, Form, PosteriorModel
from evenhand.progress import track
from evenhand.rates import CellRates
from evenhand.rows import RowName, Rows
from evenhand.rule import Rule
from evenhand.scores import GroupedScores
from evenhand.search import PlugIn, Trial, best_trial, read_search, warn_if_missed
from evenhand.solution import Solution, Task, error_prices
from evenhand.solver.certificate import Certificate
from evenhand.ties import settle_ties

__all__ = ["FairPostprocessor"]

_SHARES = np.linspace(1.0, 0.0, 11).tolist()
"""By how much tolerances are tightened for a promise, from the most careful on."""


class FairPostprocessor(FairClassifier):
    """The most accurate classifier within a fairness tolerance, by post-processing probabilities.

    Posteriors P(S, Y | x) are learned from the data, the fair optimum is found exactly on rows that their
    model has not seen, and what is shipped is that model and one small table: the rule.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier with ``predict_proba``, for the label (under ``posterior="joint"``, for
        group and label together). By default boosted trees that take tables as they are. A model that is
        already fitted goes into ``sklearn.frozen.FrozenEstimator`` and stays as it is; pass other rows to
        `fit` than it was fitted to.
    constraint : Constraint
        What must hold, such as ``DemographicParity(difference=0.02)``.
    sensitive_features : str, int, list of these, or function, optional
        Columns of X that hold the sensitive features: names in a table, positions in an array, or a function
        of X that gives them. Otherwise they are passed to `fit`. Scorers and cross-validation need them here.
    aware : bool or list of str
        Whether decisions may use the sensitive features; or the names of those that may be used. Models see
        the same wherever these come from: columns of X that `sensitive_features` names are taken away, and
        what may be used is added on the right as columns of 0 and 1, one per group (in a table
        ``known_group_0``, ``known_group_1``, ...). Only a frozen model, which takes no further columns, sees
        columns of X that may be used as they are, if it was fitted to them.
    cost : float, pair, or array of shape (M, 2)
        A number c prices a false positive at c and a false negative at 1 - c; see :func:`evenhand.solve`.
    pos_label : object, optional
        The positive label. By default the one that sorts last.
    group_estimator : classifier, optional
        For the groups. By default like `estimator`, or the default one if that is frozen. A frozen one has
        the numbers of the groups as its classes and is taken for P(S|x,y) of both labels, as if the group
        told nothing more of the label.
    posterior : {"label_then_group", "group_then_label", "joint"}
        P(Y|x) P(S|x,y), P(S|x) P(Y|x,s), or one model of all cells. Where the group is known, only
        P(Y|x,s) is learned.
    cv : int, splitter or iterable
        Folds for posteriors of rows that their model has not seen.
    holdout : float, optional
        Instead of folds, the share of rows that is set aside to find the rule on.
    average : bool
        Decide by the mean of the folds' models, or by one that is fitted to all rows: smaller, a little less
        accurate with trees.
    calibration : {"dirichlet", "sigmoid", "isotonic", "binning"} or None
        How the posteriors are corrected on the rows that the rule is found on, so that tolerances hold on new
        rows as well: all cells together, linear in the logarithms and shrunk to no change; or cell by cell.
        Where the group is known, group by group, and "dirichlet" is "sigmoid".
    balance : {"weight", "upsample"}, optional
        Let small groups count more while the group model is fitted; its probabilities are corrected for that.
    search : {"exact", "dual", "grid"}, DualAscent or GridSearch
        How multipliers are chosen: by the exact solver; or, for comparison, by the paper's dual ascent or its
        grid, whose shortfall the certificate then shows.
    confidence : float, optional
        Between 0 and 1: promise that the requirement holds on new rows, with this probability over the draw
        of the data. Rows are kept back, and the loosest internal tolerance that passes an exact test on them
        is taken; ``promise_`` tells it, and whether it is about a constant. If the rows do not support any, a
        warning says how many would.
    reserve : float
        Share of the rows that are kept back for it, drawn at random without a look at groups or labels.
    weights : {"both", "fit", "constraint"}
        Whether sample weights count in the inner fit, in risk and requirement, or both.
    missing : {"error", "own_group"}
        Whether a missing sensitive value is refused or a value of its own.
    unseen : {"error", "pooled"}
        Whether a known group that was not there at fit is refused at prediction; or decided like the pooled
        group, if there is one, and otherwise by the costs alone.
    min_group_size : int
        Smaller groups are put together, with a warning; ``groups_.pooled`` records them. A requirement on
        single features is about all rows of each value, whatever its combinations are pooled into.
    tol : float
        Largest proven distance from the optimum that is accepted.
    random_state : int, RandomState or None
        For folds, and for the key of decisions by lot.
    n_jobs : int, optional
        Folds fitted at the same time.
    verbose : bool
        Whether to show progress while folds are fitted.

    Attributes
    ----------
    classes_ : array
        The two labels, sorted.
    pos_label_ : object
        The positive one of them.
    groups_ : Groups
        Names, keys and row counts of the groups.
    rule_ : Rule
        The table W and what happens on the boundary.
    solved_rule_ : Rule
        The same before it was settled for spots that many new people share: what the certificate is about.
    multipliers_, shadow_prices_ : dict
        By the name of each row of the requirement; see :class:`evenhand.Solution`. With `confidence` these,
        the certificate and the rows are of the internal requirement, which ``promise_.internal`` tells.
    certificate_ : Certificate
        Risk attained, bound, gap and violation: the proof, given the posteriors.
    rates_ : CellRates
        Masses and selection rates of the cells, as the posteriors have them.
    rows_ : Rows
        The requirement written out, with the rows that were left out as undefined.
    posterior_model_ : PosteriorModel
        For new rows.
    promise_ : Promise or None
        What holds on new rows, if `confidence` is given.
    history_ : tuple of Trial
        Multipliers, risk and violation of every step of a dual ascent, of the best point of a grid.

    Examples
    --------
    >>> import evenhand as eh
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> compas = eh.datasets.load_compas()
    >>> X, names = compas.one_hot()
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> fair = eh.FairPostprocessor(model, eh.DemographicParity(difference=0.05))
    >>> fair.fit(X, compas.label, sensitive_features=compas.sensitive).certificate_.gap < 1e-6
    True
    >>> rates = eh.cell_rates(compas.label, fair.predict(X), compas.sensitive)
    >>> [parity] = eh.DemographicParity(difference=0.05).measure(rates)
    >>> bool(parity.difference < 0.1)
    True
    """

    rule_: Rule
    solved_rule_: Rule
    posterior_model_: PosteriorModel
    multipliers_: Mapping[RowName, float]
    shadow_prices_: Mapping[RowName, float]
    certificate_: Certificate
    rates_: CellRates
    rows_: Rows
    history_: tuple[Trial, ...]
    promise_: Promise | None
    prices_: NDArray[np.float64]

    def __init__(
        self,
        estimator: Any = None,
        constraint: Constraint | None = None,
        *,
        sensitive_features: Columns | None = None,
        aware: Aware = False,
        cost: ArrayLike = 0.5,
        pos_label: Any = None,
        group_estimator: Any = None,
        posterior: Form = "label_then_group",
        cv: Any = 5,
        holdout: float | None = None,
        average: bool = True,
        calibration: Calibration | None = "dirichlet",
        balance: Balance | None = None,
        search: Any = "exact",
        confidence: float | None = None,
        reserve: float = 0.3,
        weights: Literal["both", "fit", "constraint"] = "both",
        missing: Literal["error", "own_group"] = "error",
        unseen: Literal["error", "pooled"] = "error",
        min_group_size: int = 0,
        tol: float = 1e-6,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.constraint = constraint
        self.sensitive_features = sensitive_features
        self.aware = aware
        self.cost = cost
        self.pos_label = pos_label
        self.group_estimator = group_estimator
        self.posterior = posterior
        self.cv = cv
        self.holdout = holdout
        self.average = average
        self.calibration = calibration
        self.balance = balance
        self.search = search
        self.confidence = confidence
        self.reserve = reserve
        self.weights = weights
        self.missing = missing
        self.unseen = unseen
        self.min_group_size = min_group_size
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Learn posteriors and find the rule.

        Parameters
        ----------
        X : table, array or sparse matrix
        y : array
            Any two labels.
        sensitive_features : table, mapping, array or sequence, optional
            One column per sensitive feature, unless the constructor names columns of X.
        sample_weight : array, optional

        Returns
        -------
        self
        """
        self.__dict__.pop("rule_", None)  # an interrupted fit leaves an unfitted estimator
        read_search(self.search)  # refused before any work
        return self._settle(self._estimate(X, y, sensitive_features, sample_weight, holdout=self.holdout))

    def _settle(self, evidence: Evidence) -> Self:
        """Find the rule, and what can be promised of it."""
        self.promise_ = None
        if evidence.reserved is not None:
            solution, self.promise_ = promised(
                self._candidates(evidence, evidence.reserved), self.constraint, self.confidence
            )
            warn_if_unpromised(self.promise_)
            self.history_ = ()
        else:
            solution, self.history_ = self._choose(evidence.task(self.constraint, self.cost))
        return self._adopt(evidence, solution)

    def _candidates(
        self, evidence: Evidence, rows: Examples
    ) -> Iterator[tuple[Constraint, Solution, list[CellRates]]]:
        """Optima at ever looser tolerances, with what they decide for the rows kept back.

        A lot hangs on the person's features, or on an id of the person: both are counted.
        """
        cells = evidence.model.cells(rows.X, rows.allowed)
        known = isinstance(evidence.posteriors, GroupedScores)
        posteriors = as_posteriors(cells, rows.codes, evidence.given.groups, known=known)
        solution = None
        for share in _SHARES:
            internal = self.constraint.tightened(share)
            with warnings.catch_warnings():
                if solution is not None:  # said once
                    warnings.simplefilter("ignore", VacuousConstraintWarning)
                solution = self._solve(evidence, internal, start=solution)
            rule = self._rule(evidence, solution)
            ways = [
                rule.decide(posteriors, tokens)
                for tokens in (
                    lambda who: person_tokens(rows.X, who),
                    lambda who: [b"%d" % number for number in who],
                )
            ]
            different = ways if (ways[0] != ways[1]).any() else ways[:1]
            groups = evidence.given.groups
            yield internal, solution, [counted(rows, decisions, groups, None) for decisions in different]

    def _choose(self, task: Task, start: Solution | None = None) -> tuple[Solution, tuple[Trial, ...]]:
        """Choose multipliers: by the solver, or by a search."""
        search = read_search(self.search)
        if search is None:
            return task.solve(tol=self.tol, start=start), ()
        trials = search.run(
            PlugIn(task, self.n_jobs),
            watch=lambda steps, total: track(steps, what="searching", total=total, verbose=self.verbose),
        )
        best = best_trial(trials)
        warn_if_missed(best)
        return task.at(best.multipliers), tuple(trials)

    def _solve(self, evidence: Evidence, constraint: Constraint, start: Solution | None = None) -> Solution:
        """Find the optimum on the evidence."""
        return evidence.task(constraint, self.cost).solve(tol=self.tol, start=start)

    def _adopt(self, evidence: Evidence, solution: Solution) -> Self:
        """Become the classifier that a solution describes."""
        self._remember(evidence)
        self.posterior_model_ = evidence.model
        self.multipliers_ = solution.multipliers
        self.shadow_prices_ = solution.shadow_prices
        self.certificate_ = solution.certificate
        self.rates_ = solution.rates
        self.rows_ = solution.rows
        self.prices_ = error_prices(self.cost, len(evidence.given.groups))
        self.solved_rule_ = solution.rule
        self.rule_ = self._rule(evidence, solution)
        self._warn_if_constant(self.rule_.selection(evidence.final))
        return self

    def _rule(self, evidence: Evidence, solution: Solution) -> Rule:
        rule = settle_ties(solution.rule, evidence.final, solution.selection, evidence.weights)
        return rule.with_key(f"{evidence.seed:08x}")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rule_")

    def _posteriors(self, people: People) -> NDArray[Any] | GroupedScores:
        known = self.sight_.knows(self.groups_)
        cells = self.posterior_model_.cells(people.X, self.sight_.allowed(self.groups_, people.known))
        codes = people.known if known and people.known is not None else np.zeros(len(cells), np.int32)
        return as_posteriors(cells, np.maximum(codes, 0), self.groups_, known=known)

    def _read(self, X: Any, sensitive_features: Any) -> tuple[People, NDArray[Any] | GroupedScores]:
        """Read new rows and find their posteriors."""
        check_is_fitted(self)
        people = self.sight_.people(self, X, sensitive_features)
        return people, self._posteriors(people)

    def _decide(self, X: Any, sensitive_features: Any, ids: Any) -> NDArray[np.bool_]:
        people, posteriors = self._read(X, sensitive_features)
        who = people.X if ids is None else id_column(ids, len(posteriors))
        decisions = self.rule_.decide(posteriors, lambda rows: person_tokens(who, rows))
        strangers, H = self._strangers(people, posteriors)
        decisions[strangers] = H > 0
        return decisions

    @answers_for_file
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Probability of each decision, in the order of ``classes_``: 0 or 1 unless it is randomised.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, optional
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n, 2)
        """
        people, posteriors = self._read(X, sensitive_features)
        selection = self.rule_.selection(posteriors)
        strangers, H = self._strangers(people, posteriors)
        selection[strangers] = H > 0
        return self._by_class(selection)

    @answers_for_file
    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """H of each row: positive where the decision is for ``classes_[1]``.

        That is the positive label, unless `pos_label` is the one that sorts first: then this is -H, because
        scikit-learn's tools take a large score for ``classes_[1]``.

        Where the group is known and several rates are bounded together, thresholds may be mixed, and H is 0
        up to rounding for whole ranges of scores: ``predict_proba`` tells their decisions.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, optional
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n,)
        """
        people, posteriors = self._read(X, sensitive_features)
        decision = self.rule_.decision(posteriors)
        strangers, H = self._strangers(people, posteriors)
        decision[strangers] = H
        return self._for_last(decision)

    def _strangers(
        self, people: People, posteriors: NDArray[Any] | GroupedScores
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Find people of a known group that was not there at fit, and H by the costs alone."""
        if not isinstance(posteriors, GroupedScores) or people.known is None:
            return np.empty(0, np.intp), np.empty(0)
        who = np.flatnonzero(people.known < 0)
        eta = posteriors.eta[who]
        false_positive, false_negative = self.prices_.mean(axis=0)
        return who, false_negative * eta - false_positive * (1 - eta)

"""Post-processing, the paper's Algorithm 2: read, posteriors, solve, rule."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from evenhand.data.batched_table import is_dask, is_lazy
from evenhand.data.checks import check_rows
from evenhand.data.labels import class_array
from evenhand.data.row_keys import id_column, row_keys
from evenhand.data.tables import library_of
from evenhand.display.progress import waiting
from evenhand.estimators.access import ModelInput
from evenhand.estimators.base import FairClassifier, by_batches, names_its_file
from evenhand.estimators.decisions import SeveralActions, TwoDecisions
from evenhand.estimators.explanation import ActionRanges, Explanations, Thresholds, action_ranges
from evenhand.estimators.fit_rows import read_rows, space_for_posteriors
from evenhand.estimators.guarantee_candidates import GuaranteeCandidates
from evenhand.estimators.learned_posteriors import LearnedPosteriors
from evenhand.estimators.limits import refused, refused_with_actions
from evenhand.estimators.margin import forecast, solve_with_margin
from evenhand.estimators.settings import Margin, Settings
from evenhand.estimators.training_data import draw_seed
from evenhand.exceptions import InputError, LimitWarning, ToleranceWarning, warn_user
from evenhand.groups.groups import GroupName
from evenhand.guarantee.forecast import warn_if_exceeded
from evenhand.guarantee.guarantee import warn_if_not_guaranteed
from evenhand.optimum.action_problem import warn_if_never
from evenhand.optimum.action_rule import ActionRule
from evenhand.optimum.group_thresholds import group_thresholds
from evenhand.optimum.minimax import group_risks
from evenhand.optimum.objectives import Objective, check_objective
from evenhand.optimum.problem import prices_of
from evenhand.optimum.rule import Rule, hashed_uniforms
from evenhand.optimum.solution import Solution
from evenhand.posteriors.models import PosteriorModel
from evenhand.requirements.actions import Costs
from evenhand.requirements.bounds import EVERYBODY
from evenhand.requirements.constraints import ConstraintName, LinearConstraints
from evenhand.requirements.notions import Notion
from evenhand.requirements.rates import CellRates
from evenhand.solver.certificate import Certificate

_MARGIN_DIGITS = 9
_OF_SOLUTION = (
    *("multipliers", "shadow_prices", "certificate", "group_weights", "rule_multipliers", "rates"),
    *("linear_constraints", "nearest"),
)
"""Attributes of a fit that are those of the solution."""


@dataclass(kw_only=True, eq=False, repr=False)
class FairPostprocessor(FairClassifier):
    """The most accurate classifier within a fairness tolerance, given the probabilities that it learns.

    Posteriors P(S, Y | x) are learned from the data, the fair optimum is found exactly on rows that their
    model has not seen, and what is shipped is that model and one small table: the rule.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier with ``predict_proba``, for the label (with ``CrossFit(form="joint")``,
        for group and label together). By default boosted trees that take tables as they are. A fitted model
        goes into ``sklearn.frozen.FrozenEstimator`` and stays as it is; pass other rows to `fit` than it was
        fitted to.
    constraint : Constraint
        What must hold, such as ``DemographicParity(difference=0.02)``.
    sensitive_features : str, int, list of these, function or Proxy, default=None
        Columns of X that hold the sensitive features: names in a table, positions in an array, or a function
        of X that returns them. Otherwise they are passed to `fit`. Scorers and cross-validation need them
        here. A :class:`Proxy` names columns of probabilities: they are P(S), models do not see them, and only
        P(Y|x) is learned.
    aware : bool or list of str, default=False
        Whether decisions may use the sensitive features; or the names of those that may be used. Models see
        the same wherever these come from: columns of X that `sensitive_features` names are hidden, and what
        may be used is appended as 0/1 columns, one per group (in a table ``known_group_0``,
        ``known_group_1``, ...). Only a frozen model, which takes no further columns, sees usable columns of X
        as they are, if it was fitted to them.
    cost : float, pair, or array of shape (M, 2), default=0.5
        A number c prices a false positive at c and a false negative at 1 - c; see :func:`evenhand.solve`.
    objective : {"risk", "minimax"} or notion, default="risk"
        "risk": the expected cost. "minimax": the largest risk of any group. A notion such as
        ``DemographicParity(difference=0)``: the distance from it. Ties are broken by "risk", and the
        requirement holds in all cases; ``DemographicParity(difference=1)`` requires nothing.
    guarantee : float or Guarantee, default=None
        The confidence with which the requirement has to hold on new rows, or a :class:`Guarantee`, which also
        says how many rows are held out for it. ``guarantee_`` has the result.
    margin : float or "forecast", default=0
        Standard errors of each group by which the requirement is tightened inside, so that new rows come
        nearer to it; "forecast" takes as many as bring ``forecast_`` to the tolerance, if any do.
        ``forecast_.cost`` is the risk that this costs.
    posteriors : CrossFit, default=None
        How posteriors are learned; by default in five folds.
    groups : GroupPolicy, default=None
        What becomes of groups that are missing, unseen or small; by default they are errors.
    pos_label : object, default=None
        The positive label. By default the one that sorts last.
    random_state : int, RandomState or None, default=0
        For folds, and for the key of randomised decisions.
    n_jobs : int, default=None
        Folds fitted, and batches of a lazy table scored, in parallel.
    verbose : bool, default=False
        Whether to show progress while folds are fitted.

    Attributes
    ----------
    classes_ : array
        The two labels, sorted.
    pos_label_ : object
        The positive one of them.
    groups_ : Groups
        Names, keys and row counts of the groups.
    compared_ : Groups
        The groups that the requirement compares: ``groups_``, in every stratum if it names control features.
    strata_ : Groups or None
        The strata, by the values of the control features.
    rule_ : Rule
        The table W and what happens on the boundary.
    solved_rule_ : Rule
        The same before atoms of the deployed model were randomised, and before thresholds were set by ranks:
        what the certificate is about.
    multipliers_, shadow_prices_ : dict
        By the name of each constraint, as in the ``Solution`` of :func:`evenhand.solve`. With `confidence`
        these, the certificate and the linear constraints are of the internal requirement,
        ``guarantee_.internal``.
    certificate_ : Certificate
        Risk attained, bound, gap and violation: the proof, given the posteriors. With
        ``objective="minimax"`` it is the largest risk of a group.
    group_weights_, rule_multipliers_ : dict or None
        With ``objective="minimax"``, the least favourable mixture of the groups, and the multipliers that
        the rule follows from; the latter also with a notion as the objective. See the ``Solution`` of
        :func:`evenhand.solve`.
    nearest_ : Notion or None
        With a notion as the objective, that notion with the tolerance that is attained.
    rates_ : CellRates
        Masses and selection rates of the cells, as the posteriors have them.
    rounded_ : tuple or None
        The nearest rule that never randomises, its certificate and its rates, for :meth:`deterministic`; None
        if ``rule_`` does not randomise, and with a guarantee.
    linear_constraints_ : LinearConstraints
        The requirement written out, and which constraints were dropped as undefined.
    posterior_model_ : PosteriorModel
        For new rows.
    thresholds_ : Thresholds
        The threshold of each group on ``predict_label_proba``, where the group is known.
    guarantee_ : GuaranteeResult or None
        What holds on new rows, if a guarantee was asked for.
    forecast_ : Forecast
        The disparity to expect on new rows, for each notion and bound.
    imputed_ : ImputedRows or None
        With ``missing="impute"``, how many rows lack sensitive values, by feature.

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

    objective: Objective = "risk"
    margin: Margin = 0.0
    takes_actions: ClassVar[bool] = True

    rule_: Any = field(init=False)
    solved_rule_: Any = field(init=False)
    posterior_model_: PosteriorModel = field(init=False)
    multipliers_: Mapping[ConstraintName, float] = field(init=False)
    shadow_prices_: Mapping[ConstraintName, float] = field(init=False)
    group_weights_: Mapping[GroupName, float] | None = field(init=False)
    rule_multipliers_: Mapping[ConstraintName, float] | None = field(init=False)
    nearest_: Notion | None = field(init=False)
    rates_: CellRates = field(init=False)
    rounded_: tuple[Rule, Certificate, CellRates] | None = field(init=False)
    linear_constraints_: LinearConstraints = field(init=False)
    prices_: NDArray[np.float64] = field(init=False)

    def settings(self) -> Settings:
        """The parameters, checked: raises an InputError if they cannot be used."""
        check_objective(self.objective)
        found = super().settings()
        if isinstance(self.objective, Notion) and (found.confidence is not None or found.margin):
            raise InputError(
                f"objective={self.objective!r} supports neither `guarantee` nor `margin`: require the notion "
                "instead, with the tolerance that is attained (`nearest_`)."
            )
        return found

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Learn posteriors and find the rule.

        Parameters
        ----------
        X : table, array or sparse matrix
            A ``polars.LazyFrame`` or a ``pyarrow.dataset.Dataset`` is read in batches, and a Dask DataFrame
            or array stays on its workers, on the client that is current. If it has more than `max_samples`
            rows, models learn from as many, and the rule is found on all; with several actions, on these.
            Posteriors of all rows of files are in a temporary folder meanwhile, 16 bytes per row and group
            (12 per row where groups are known).
        y : array
            Any two labels. The name of a column of a lazy table; or of one of Dask, or what goes with it.
        sensitive_features : table, mapping, array, sequence or Proxy, default=None
            One column per sensitive feature, unless the constructor names columns of X. A :class:`Proxy` has
            probabilities of one of them: P(S|x,y) is learned from these, each row counting for every value in
            part, and decisions do not need them.
        sample_weight : array, default=None
            The name of a column of a table that is not in memory.

        Returns
        -------
        self
        """
        self.__dict__.pop("rule_", None)  # an interrupted fit leaves an unfitted estimator
        settings, seed = self.settings(), draw_seed(self.random_state)

        # Read the table, the labels, the groups, and who may see what, wherever the rows are.
        rows = read_rows(settings, X, y, sensitive_features, sample_weight, seed=seed)

        with space_for_posteriors(settings, rows) as score_all:
            # Out-of-fold posteriors P(S, Y | x), calibrated; other rows are scored by the model.
            posteriors = rows.learn(settings, rows.data, seed)
            scored = score_all(posteriors)

            # The optimum under the requirement, as a rule; for a guarantee, under the loosest that allows it.
            problem = scored.problem(settings, rows.data.compared)
            expect = partial(forecast, problem.constraint, rows.data, posteriors)
            if settings.confidence is None:
                with waiting("solving", verbose=self.verbose):
                    solution, self.forecast_ = solve_with_margin(
                        problem, settings.constraint, settings.margin, expect
                    )
                rule, self.guarantee_ = scored.rule(solution, seed, problem), None
                warn_if_exceeded(self.forecast_)
            else:
                candidates = GuaranteeCandidates(settings.constraint, problem, scored, rows, seed=seed)
                solution, rule, self.guarantee_ = candidates.guarantee(settings.confidence)
                self.forecast_ = expect(solution.rates, solution.rule)
                warn_if_not_guaranteed(self.guarantee_)
            solution = problem.shipped(solution, rule)

            # The same without chance, for `deterministic`; tests of a guarantee are of the rule above.
            self.rounded_ = None
            if rule.randomises and self.guarantee_ is None:
                rounded = scored.deterministic(rule, problem, solution.linear_constraints)
                attained = problem.shipped(solution, rounded).certificate
                self.rounded_ = rounded, attained, problem.rates_of(rounded)

        self._remember(rows.data, seed)
        return self._keep(solution, rule, posteriors)

    def _keep(self, solution: Solution, rule: Rule, posteriors: LearnedPosteriors) -> Self:
        """Set what a fit has found."""
        self.posterior_model_ = posteriors.model
        for name in _OF_SOLUTION:
            setattr(self, f"{name}_", getattr(solution, name))
        self.solved_rule_ = solution.rule
        self.rule_ = rule
        as_solved = rule.atoms is solution.rule.atoms and rule.steps is solution.rule.steps
        if as_solved and self.certificate_.shipped_differs:  # the certificate shows what else was randomised
            warn_user(f"the rule is not the optimum that was proven: {self.certificate_}.", ToleranceWarning)
        if isinstance(rule, ActionRule):
            warn_if_never(rule, rule.selection(posteriors.deployed))
            return self
        self.prices_ = prices_of(self.cost, self.compared_)
        self._warn_if_constant(rule.selection(posteriors.deployed))
        return self

    @property
    def _several(self) -> bool:
        """Whether decisions are among several actions."""
        return isinstance(self.rule_, ActionRule)

    @property
    def _kind(self) -> TwoDecisions | SeveralActions:
        """What decisions are, and all that depends on it."""
        return SeveralActions(self) if self._several else TwoDecisions(self)

    @property
    def actions_(self) -> NDArray[Any]:
        """What is decided between, in the order of ``predict_proba``: the labels, or actions of `cost`."""
        check_is_fitted(self)
        return class_array(*self.rule_.actions) if self._several else self.classes_

    @property
    def _decisions(self) -> NDArray[Any]:
        return self.actions_ if self._several else super()._decisions

    def score(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: the share of decisions that equal the label; minus the mean cost if actions have costs.

        Parameters
        ----------
        X : table or array
        y : array
        sensitive_features : table, mapping or array, default=None
        sample_weight : array, default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if not self._several or (np.ndim(self.cost) == 0 and not isinstance(self.cost, Costs)):
            return super().score(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        check_rows({"X": X, "y": y, "sample_weight": sample_weight})
        given, labels = np.asarray(y).tolist(), self._labels
        unknown = [label for label in given if label not in labels]
        if unknown:
            raise InputError(f"y has the label {unknown[0]!r}, which was not in fit.")
        rows = [labels.index(label) for label in given]
        paid = self.rule_.costs[rows, self._decide(X, sensitive_features, None)]
        return -float(np.average(paid, weights=sample_weight))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rule_")

    def _read(self, X: Any, sensitive_features: Any) -> tuple[ModelInput, Any]:
        """New rows as models see them, and their posteriors."""
        check_is_fitted(self)
        visible = self.access_.read(self, X, sensitive_features)
        cells = self.posterior_model_.cells(visible.X, self.access_.allowed(self.groups_, visible.known))
        codes = np.zeros(len(cells), np.int32) if visible.known is None else np.maximum(visible.known, 0)
        strata = None if visible.strata is None else np.maximum(visible.strata, 0)
        several = self._several
        return visible, self.access_.posteriors(self.groups_, cells, codes, strata, actions=several)

    @names_its_file
    def predict(
        self,
        X: Any,
        *,
        sensitive_features: Any = None,
        ids: Any = None,
        at_most: int | None = None,
        return_excluded: bool = False,
    ) -> Any:
        """Decisions, in the labels of `fit`; the same person always gets the same one, unless places run out.

        A randomised decision depends on a hash of the row of X, so people with the same features get the
        same answer. With `ids` it depends on the id instead, and shares come out as planned also where many
        people have the same features.

        With `at_most`, no more rows than that are selected. Of those that the rule selects, the ones with the
        largest margin (``decision_function``) have the places, whatever their group: by the rule's own prices
        that costs the least. Equal margins are put in order by a hash of the row, or of its id, and rows with
        the same hash by their position. What is required and guaranteed of the rule, parity included, does
        not hold for decisions that a limit has cut short. If that is a capacity to plan for, fit with
        ``RateBound("selection rate", at_most=...)``.

        Parameters
        ----------
        X : table or array
            Of a lazy table, decisions come as an iterator, batch by batch in the order of its rows.
        sensitive_features : table, mapping or array, default=None
            Needed only where they may be used and are not columns of X.
        ids : array or series, default=None
            What identifies a person, such as an account number. The name of a column of a lazy table.
        at_most : int, default=None
            Number of places for the rows of X. A warning says how many rows it has excluded.
        return_excluded : bool, default=False
            Whether to return as well which rows the rule selects and the limit excluded. Then nothing is
            warned of.

        Returns
        -------
        decisions : array, shape (n,), or iterator of arrays
        excluded : array of bool, shape (n,)
            With `return_excluded`.
        """
        if at_most is None and not return_excluded:
            return super().predict(X, sensitive_features=sensitive_features, ids=ids)
        check_is_fitted(self)
        if self._several:
            raise refused_with_actions("at_most")
        if is_lazy(X) or is_dask(X):
            raise refused("at_most")
        selected, excluded = self._within(at_most, *self._read(X, sensitive_features), ids)
        if excluded.any() and not return_excluded:
            warn_user(
                f"at_most={at_most} excludes {excluded.sum():,} of {(selected | excluded).sum():,} rows that "
                "the rule selects: rates are no longer those of the requirement. `return_excluded=True` "
                "says which.",
                LimitWarning,
            )
        decisions = self._decisions[selected.astype(np.intp)]
        return (decisions, excluded) if return_excluded else decisions

    def _within(
        self, at_most: Any, visible: ModelInput, posteriors: Any, ids: Any
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Rows that have a place, and rows that would be selected but have none."""
        whole = isinstance(at_most, Integral) and not isinstance(at_most, bool)
        if at_most is not None and (not whole or at_most < 0):
            raise InputError(f"at_most must be a non-negative integer, got {at_most!r}.")
        selected = self._decided(visible, posteriors, ids)
        chosen = np.flatnonzero(selected)
        excluded = np.zeros_like(selected)
        if at_most is not None and len(chosen) > at_most:
            identity = visible.X if ids is None else id_column(ids, len(posteriors))
            order = hashed_uniforms(row_keys(identity, chosen), f"{self.rule_.key} places")
            # To nine digits, because the last ones of equal rows depend on the rows around them.
            margins = np.round(self._margins(visible, posteriors)[chosen], _MARGIN_DIGITS)
            excluded[chosen[np.lexsort((order, -margins))[at_most:]]] = True
        return selected & ~excluded, excluded

    def _decide(self, X: Any, sensitive_features: Any, ids: Any) -> NDArray[Any]:
        return self._decided(*self._read(X, sensitive_features), ids)

    def _decided(self, visible: ModelInput, posteriors: Any, ids: Any) -> NDArray[Any]:
        identity = visible.X if ids is None else id_column(ids, len(posteriors))
        decisions: NDArray[Any] = self.rule_.decide(posteriors, lambda rows: row_keys(identity, rows))
        unseen, H = self._unseen(visible, posteriors)
        decisions[unseen] = self._kind.best(H)
        return decisions

    @by_batches
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Probability of each decision, in the order of ``actions_``: 0 or 1 unless it is randomised.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, default=None
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n, 2), or (n, K) with K actions
        """
        selection = self._selection(*self._read(X, sensitive_features))
        return selection if self._several else self._by_class(selection)

    def _selection(self, visible: ModelInput, posteriors: Any) -> NDArray[np.float64]:
        selection: NDArray[np.float64] = self.rule_.selection(posteriors)
        unseen, H = self._unseen(visible, posteriors)
        selection[unseen] = self._kind.sure(H)
        return selection

    @by_batches
    def predict_label_proba(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """P(Y=1 | x): the calibrated probability of the positive label, before any rule; or of every label.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, default=None
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n,); or (n, L) with more than two labels, in the order of ``classes_``
        """
        return self._kind.label_probabilities(self._read(X, sensitive_features)[1])

    @names_its_file
    def predict_unconstrained(self, X: Any, *, sensitive_features: Any = None) -> NDArray[Any]:
        """Decisions by the same probabilities without any requirement: those of the least expected cost.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, default=None
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n,)
        """
        visible, posteriors = self._read(X, sensitive_features)
        H = self._kind.unconstrained(posteriors)
        unseen, by_mean_cost = self._unseen(visible, posteriors)
        H[unseen] = by_mean_cost
        return np.asarray(self._decisions[self._kind.best(H).astype(np.intp)])

    @names_its_file
    def explain(
        self,
        X: Any,
        *,
        sensitive_features: Any = None,
        ids: Any = None,
        words: Mapping[Any, str] | None = None,
        outcome: str | None = None,
        reasons: int = 0,
    ) -> Explanations:
        """Decisions in two sentences each: one for the person, and one for the auditor.

        The person's has the decision and the probability of the label, and neither groups nor constraints.
        The auditor's has the margin and what each constraint moved.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, default=None
            Needed only where they may be used and are not columns of X.
        ids : array or series, default=None
            As for `predict`.
        words : mapping, default=None
            A word for each label, such as ``{1: "approved", 0: "declined"}``; by default the labels.
        outcome : str, default=None
            What the probability is of, such as "repayment"; by default the positive label.
        reasons : int, default=0
            How many features to name for each row: those that moved the probability of the label most towards
            the decision, by the mean of the fold models. They explain P(Y=1 | x), not what the requirement
            moved. For linear models and boosted trees in log-odds, for forests in probability, which take
            the extra ``reasons``.

        Returns
        -------
        Explanations
            A sequence, with ``person`` and ``auditor`` of each; ``to_frame()`` is a table.

        Examples
        --------
        >>> import evenhand as eh
        >>> from sklearn.linear_model import LogisticRegression
        >>> data = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=3).sample(2000)
        >>> fair = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.1))
        >>> fair = fair.fit(data.X, data.y, sensitive_features=data.sensitive)
        >>> told = fair.explain(data.X[:1], words={1: "approved", 0: "declined"}, outcome="repayment")
        >>> told[0].person
        'The decision is: ... The estimated probability of repayment is ...'
        """
        visible, posteriors = self._read(X, sensitive_features)
        decided = self._decided(visible, posteriors, ids)
        told = self._kind.explained(
            visible, posteriors, decided, words=words, outcome=outcome, reasons=reasons
        )
        return Explanations(told, library_of(X))

    @property
    def _labels(self) -> list[Any]:
        """The labels in the order of posteriors: of two, the positive one last."""
        labels = self.classes_.tolist()
        return labels if self.pos_label_ is None else sorted(labels, key=lambda one: one == self.pos_label_)

    def deterministic(self) -> Self:
        """The nearest classifier that never randomises, where the law or a board forbids chance.

        Every tie is decided one way: people with the same posterior are selected or not, and a range of
        scores of a known group is cut at one score. The choice has the smallest violation, and then the
        smallest risk, under the out-of-fold posteriors. ``certificate_`` shows what it attains beside the
        optimum, ``rates_`` are its own, and it is saved, verified and explained like any other.

        Returns
        -------
        FairPostprocessor
            Fitted; this one does not change.

        Examples
        --------
        >>> import numpy as np
        >>> import evenhand as eh
        >>> from sklearn.linear_model import LogisticRegression
        >>> data = eh.datasets.GaussianProblem.random(levels=(2, 2), seed=3).sample(2000)
        >>> fair = eh.FairPostprocessor(LogisticRegression(), eh.DemographicParity(difference=0.03))
        >>> fair = fair.fit(np.round(np.clip(data.X, -1.5, 1.5)), data.y, sensitive_features=data.sensitive)
        >>> fair.rule_.randomises, fair.deterministic().rule_.randomises
        (True, False)
        """
        check_is_fitted(self)
        made = copy.copy(self)
        if not self.rule_.randomises:
            return made
        if self.rounded_ is None:
            raise InputError(
                "`guarantee` was tested for decisions that are randomised, and does not cover others: fit "
                "without it, or with aware=True and a requirement on one rate, whose thresholds are set by "
                "ranks."
            )
        made.rule_, made.certificate_, made.rates_ = self.rounded_
        made.rounded_ = None
        return made

    def _shifts(self) -> tuple[tuple[ConstraintName, ...], NDArray[np.float64]]:
        """What each constraint adds to the table W, shape (J, 2M)."""
        masses, linear, multipliers = self.rates_.mass, self.linear_constraints_, self.multipliers_
        A, names = linear.in_sums(masses)[0], linear.names
        A = A[:, : A.shape[1] - linear.n_scalars]
        if self.objective != "risk" and self.rule_multipliers_ is not None:
            multipliers = self.rule_multipliers_
        if self.objective == "minimax":
            risks = group_risks(masses, self.prices_, self.compared_)
            # The weight of a group is taken from that of the risk of all.
            of_all = (self.prices_ * [-1.0, 1.0]).ravel()
            A, names = np.vstack([A, risks.in_sums(masses)[0] + of_all]), (*names, *risks.names)
        shifts = A * np.array([multipliers[name] for name in names])[:, None]
        if self.guarantee_ is None or self.guarantee_.ranks is None:
            return names, shifts
        placed = (self.rule_.table - self.solved_rule_.table).reshape(1, -1)
        return (*names, ConstraintName("guarantee", "ranks", EVERYBODY)), np.vstack([shifts, placed])

    @property
    def thresholds_(self) -> Thresholds | ActionRanges:
        """The score above which each group is selected, where the group is known.

        The score is ``predict_label_proba``. A group says so where its decisions are randomised over a range
        of scores, or where everybody or nobody is selected. With several actions and two labels, each group
        has the ranges of scores of its actions.
        """
        check_is_fitted(self)
        known, names = self.access_.knows(self.groups_), self.compared_.cell_names
        if self._several:
            if not known or len(self.classes_) > 2:
                raise AttributeError(str(refused_with_actions("thresholds")))
            return ActionRanges((name, action_ranges(self.rule_, m)) for m, name in enumerate(names))
        if not known:
            raise AttributeError(
                "thresholds_ needs known groups: fit with aware=True. explain(X) works for all."
            )
        return Thresholds(zip(names, group_thresholds(self.rule_), strict=True))

    @by_batches
    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """H of each row: positive where the decision is for ``classes_[1]``, or one number for each action.

        With more than two actions the largest number is that of the decision, unless some tie; of two, there
        is the difference.

        That is the positive label, unless `pos_label` is the one that sorts first: then this is -H, because
        scikit-learn's tools take a large score for ``classes_[1]``.

        Where the group is known and several rates are bounded together, thresholds may be mixed, and H is 0
        up to rounding for whole ranges of scores: ``predict_proba`` has their probabilities.

        Parameters
        ----------
        X : table or array
        sensitive_features : table, mapping or array, default=None
            Needed only where they may be used and are not columns of X.

        Returns
        -------
        array, shape (n,), or (n, K) with K > 2 actions
        """
        margins = self._margins(*self._read(X, sensitive_features))
        if not self._several:
            return self._for_last(margins)
        return margins if margins.shape[1] > 2 else margins[:, 1] - margins[:, 0]

    def _margins(self, visible: ModelInput, posteriors: Any) -> NDArray[np.float64]:
        margins: NDArray[np.float64] = self.rule_.margins(posteriors)
        unseen, H = self._unseen(visible, posteriors)
        margins[unseen] = H
        return margins

    def _unseen(self, visible: ModelInput, posteriors: Any) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Rows of a known group or stratum that was not seen in fit, and their H by the costs alone."""
        unseen = np.zeros(len(posteriors), np.bool_)
        if self.access_.knows(self.groups_) and visible.known is not None:
            unseen |= visible.known < 0
        if visible.strata is not None:
            unseen |= visible.strata < 0
        rows = np.flatnonzero(unseen)
        return rows, self._kind.of_no_group(posteriors, rows)

"""Settings of a fit: the objects that group parameters, and all of them together, checked."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_memory

from evenhand.data.checks import check_choice, check_count, check_fraction
from evenhand.data.features import Columns
from evenhand.exceptions import InputError
from evenhand.groups.groups import Missing
from evenhand.groups.proxy import Proxy
from evenhand.posteriors.learner import check_model, is_frozen
from evenhand.posteriors.spec import Form
from evenhand.posteriors.tabular import TabularClassifier
from evenhand.requirements.requirement import Constraint

if TYPE_CHECKING:
    from evenhand.estimators.base import FairClassifier

Margin = float | Literal["forecast"]
"""Standard errors of each group, or as many as bring the forecast to the tolerance."""

_FORMS = ("auto", "separate", "label_then_group", "joint")


@dataclass(eq=False, repr=False)
class CrossFit(BaseEstimator):
    """How posteriors P(S, Y | x) are learned: in folds, so that no row is scored by a model that has seen it.

    Parameters
    ----------
    cv : int, float, splitter or iterable, default=5
        Number of folds; a splitter or the splits; or a share in (0, 1), which is held out in one split, and
        the rule is found on it alone. With a number of folds, P(S|x) of "separate" uses at most three. Unless
        this is a splitter or splits, steps of a scikit-learn pipeline that need no label are fitted once, to
        X of all rows.
    group_estimator : classifier, default=None
        For the groups. By default like the label's; if that is frozen or left at its default, or is boosted
        trees or a forest and "separate" is enough, boosted trees with a higher learning rate. A frozen one
        has the codes of the groups as its classes and is taken for P(S|x), or for P(S|x,y) of both labels, as
        if the group told nothing more of the label.
    form : {"auto", "separate", "label_then_group", "joint"}, default="auto"
        P(Y|x) P(S|x), P(Y|x) P(S|x,y), or one model of all cells. "separate" is enough where a decision
        counts the same for both labels in the requirement and for all groups in the cost, as under
        demographic parity; rates of single cells, such as true-positive rates, then rest on the calibration.
        With "joint", P(Y|x) is a sum over groups. "auto" is "separate" for blind decisions where that is
        enough and evenhand's trees learn the groups, and otherwise "label_then_group"; for
        :class:`FairInprocessor` it is "joint". Where the group is known, only P(Y|x,s) is learned.
    average : bool or "auto", default="auto"
        Average the fold models at prediction, or refit one model on all rows: smaller and faster, slightly
        less accurate with trees. "auto" averages.
    calibration : "auto" or None, default="auto"
        Whether posteriors are corrected on the rows that the rule is found on, so that tolerances hold on new
        rows as well. The label's probability is corrected by a curve of itself, logistic in the log-odds, and
        only if these rows contradict it; the groups' given the label, linear in the logarithms of all cells
        and shrunk towards no change. With nothing required, decisions are those of the label's model at the
        threshold of the cost, whatever the group model is. Where the group is known, each group has a curve
        after the common one.
    max_samples : int, default=1_000_000
        Of a table that is not in memory, the largest number of rows that models learn from. They are drawn so
        that small combinations of group and label are kept whole, and weighted accordingly; the rule is found
        on all rows. A table in memory is learned from as a whole.
    memory : str or joblib.Memory, default=None
        Folder to cache learned posteriors in: fits that differ only in what they require, as in a grid search
        over tolerances, then learn them once. joblib pickles them and unpickles what it finds: use a folder
        that nobody else can write to, and empty it when the package of a learner has changed. Model files do
        not name it.

    Examples
    --------
    >>> import evenhand as eh
    >>> fair = eh.FairPostprocessor(posteriors=eh.CrossFit(3, average=False))
    >>> fair.set_params(posteriors__cv=10).posteriors
    CrossFit(average=False, cv=10)
    """

    cv: Any = 5
    _: KW_ONLY
    group_estimator: Any = None
    form: Form | Literal["auto"] = "auto"
    average: bool | Literal["auto"] = "auto"
    calibration: Literal["auto"] | None = "auto"
    max_samples: int = 1_000_000
    memory: Any = None


@dataclass(eq=False, repr=False)
class GroupPolicy(BaseEstimator):
    """What becomes of groups that are missing, unseen or small.

    Parameters
    ----------
    missing : {"error", "category", "exclude", "impute"}, default="error"
        Whether a missing sensitive value is refused, a value of its own, leaves the row out of groups and
        requirement, or is imputed.

        With "exclude", ``groups_.excluded`` counts the rows that are left out. They still teach P(Y|x), in
        the forms "separate" and "label_then_group" and if they have all features that `aware` names; a
        model of "joint" needs the group and learns nothing from them. Blind classifiers decide every row;
        where decisions use a feature, a row that lacks it is an error.

        "impute" learns P(Y|x) from all rows and P(S|x,y) from the rows that have sensitive values: one
        feature after the other, those that most rows have first, each from the rows that have it and those
        before. Rows that lack values count in the requirement by their posteriors. **This assumes that values
        are missing at random given x, y and the features that are learned before**: among people with the
        same x and y, those who do not tell their race are of the same races as those who do; and some people
        of every kind tell it. That rows without a value differ in x and y does no harm; whether they differ
        in the value itself cannot be seen. Features of `aware` rule out groups after a model that does not
        see them, a row that lacks one at prediction is decided by what is known of it, and the requirement
        holds where values are missing as they are in fit. ``imputed_`` has the numbers of rows.
    unseen : {"error", "pooled"}, default="error"
        Whether a known group that was not seen in fit is refused at prediction; or decided like the pooled
        group, if there is one, and otherwise by the costs alone. The same holds for a stratum not seen in
        fit; strata are never pooled.
    min_size : int, default=0
        Smaller groups are pooled, with a warning; ``groups_.pooled`` records them. A requirement on single
        features is about all rows of each value, whatever its combinations are pooled into. With a guarantee
        only rows that are not held out count.

    Examples
    --------
    >>> import evenhand as eh
    >>> eh.FairPostprocessor(groups=eh.GroupPolicy(missing="exclude", min_size=50)).groups
    GroupPolicy(min_size=50, missing='exclude')
    """

    missing: Missing = "error"
    unseen: Literal["error", "pooled"] = "error"
    min_size: int = 0


@dataclass(eq=False, repr=False)
class Guarantee(BaseEstimator):
    """A guarantee for new rows: the requirement holds on them with a probability over the draw of the data.

    Parameters
    ----------
    confidence : float, default=0.95
        That probability, strictly between 0 and 1.
    reserve : float, default=0.5
        Share of the rows that are held out for it, drawn at random regardless of group and label. Where
        groups are known and the requirement is about one rate, they set the thresholds; otherwise the
        smallest margins within the tolerance that pass a binomial test on them are used. With too few, a
        warning says how many are needed.

    Examples
    --------
    >>> import evenhand as eh
    >>> eh.FairPostprocessor(guarantee=0.9).guarantee  # the confidence alone will do
    0.9
    """

    confidence: float = 0.95
    reserve: float = 0.5


@dataclass(frozen=True, eq=False)
class Settings:
    """What a fit is told, checked. Stages take this, and not the estimator.

    Attributes
    ----------
    classifier : FairClassifier
        Whose other parameters stages read, and on which the number and the names of features are recorded.
    constraint : Constraint
    posteriors : CrossFit
        The classifier's own, or the default.
    groups : GroupPolicy
    learners : pair of classifiers
        Those that posteriors are learned with: of the label, or of the cells; of the groups.
    confidence, reserve
        Of :class:`Guarantee`; None if there is to be none.
    margin : float or "forecast"
        Standard errors of each group by which the requirement is tightened.
    """

    classifier: FairClassifier
    constraint: Constraint
    posteriors: CrossFit
    groups: GroupPolicy
    learners: tuple[Any, Any]
    confidence: float | None
    reserve: float
    margin: Margin

    @property
    def policies(self) -> dict[str, Any]:
        """How :meth:`evenhand.Groups.fit` treats groups."""
        return {**self.groups.get_params(), "single_features": self.constraint.single_features}

    @property
    def columns(self) -> Columns | None:
        """Sensitive columns of X; None if they are passed to `fit`, or known by proxies."""
        where = self.classifier.sensitive_features
        return None if isinstance(where, Proxy) else where


def read_settings(classifier: FairClassifier, posteriors: CrossFit, label: Any) -> Settings:
    """The parameters of a classifier, checked before any row is read.

    Parameters
    ----------
    classifier : FairClassifier
    posteriors : CrossFit
        Its own, or the default.
    label : classifier
        Of the label, or of the cells.

    Returns
    -------
    Settings
    """
    constraint, groups = classifier.constraint, read_object(GroupPolicy, "groups", classifier.groups)
    if not isinstance(constraint, Constraint):
        raise InputError(
            "constraint must be a notion of fairness, such as DemographicParity(difference=0.02), got "
            f"{constraint!r}."
        )
    constraint.check(None, actions=classifier.takes_actions)
    check_choice("form", posteriors.form, _FORMS)
    check_choice("calibration", posteriors.calibration, (None, "auto"))
    if not isinstance(posteriors.average, bool) and posteriors.average != "auto":
        raise InputError(f"average must be True, False or 'auto', got {posteriors.average!r}.")
    group = group_learner(label, posteriors.group_estimator)
    check_model(label, role="estimator")
    check_model(group, role="group_estimator")
    check_count("min_size", groups.min_size)
    check_count("max_samples", posteriors.max_samples, 1)
    _check_memory(posteriors.memory)
    confidence, reserve = _read_guarantee(classifier.guarantee)
    margin = _read_margin(classifier.margin, confidence)
    return Settings(classifier, constraint, posteriors, groups, (label, group), confidence, reserve, margin)


def read_object(kind: type[Any], name: str, given: Any) -> Any:
    """Settings that are given, or the defaults."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise InputError(f"{name} must be a {kind.__name__}, such as {kind()!r}, got {given!r}.")
    return given


def _check_memory(given: Any) -> None:
    try:
        check_memory(given)
    except ValueError:
        raise InputError(f"`memory` must be a folder or a joblib.Memory, got {given!r}.") from None


def _read_guarantee(given: Any) -> tuple[float | None, float]:
    if given is None:
        return None, 0.0
    if isinstance(given, Real) and not isinstance(given, bool):
        given = Guarantee(float(given))
    found = read_object(Guarantee, "guarantee", given)
    check_fraction("confidence", found.confidence)
    check_fraction("reserve", found.reserve)
    return float(found.confidence), float(found.reserve)


def _read_margin(given: Any, confidence: float | None) -> Margin:
    """Standard errors of a margin; a guarantee finds margins of its own."""
    number = isinstance(given, Real) and not isinstance(given, bool) and 0 <= float(given) < math.inf
    if not number and given != "forecast":
        raise InputError(f"`margin` must be a non-negative number or 'forecast', got {given!r}.")
    if confidence is not None and given != 0:
        raise InputError("`guarantee` finds its own margins: leave `margin` at 0.")
    return "forecast" if given == "forecast" else float(given)


def group_learner(label: Any, given: Any) -> Any:
    """The classifier that groups are learned with."""
    if given is not None:
        return given
    default = TabularClassifier()
    if is_frozen(label) or (type(label) is TabularClassifier and label.get_params() == default.get_params()):
        return default.set_params(learning_rate=0.2)  # half of the trees: benchmarks/TUNING.md
    return label

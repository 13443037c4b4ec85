"""The search for less discriminatory alternatives to a model, on rows that no candidate has seen."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.auditing.reference import SMALLEST_REFERENCE, reference_families
from evenhand.data import features
from evenhand.data.batched_table import is_dask, is_lazy
from evenhand.data.checks import check_choice, check_fraction, check_rows
from evenhand.data.fingerprint import Fingerprint
from evenhand.data.tables import library_of
from evenhand.display.progress import track, waiting
from evenhand.estimators.postprocess import FairPostprocessor
from evenhand.exceptions import EvenhandError, GroupError, InputError
from evenhand.less_discriminatory.alternatives_found import Alternatives, Point
from evenhand.less_discriminatory.candidates import KINDS, Candidate, Training, learner_of, sees
from evenhand.less_discriminatory.paired_comparison import Comparison, Decider, Floats, Rows, judged
from evenhand.optimum.solution import Solution
from evenhand.optimum.solve import solve
from evenhand.requirements.bounds import RateBound
from evenhand.requirements.notions import DemographicParity
from evenhand.requirements.rates import ArgumentNames, Decisions, read_rows

_NAMES = ArgumentNames(label="y")
_MARGINS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Where the curve of the bound is computed, in margins."""
_ROOM = 1e-9
_DRAWS = 400
"""Bootstrap samples: limits at 95 % are then the tenth smallest and largest."""


def alternatives(
    incumbent: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    reference: Mapping[str, Any] | None = None,
    candidates: Mapping[str, Any] | None = None,
    margin: float = 0.005,
    approval_rate: float | None = None,
    estimator: Any = None,
    search: Sequence[str] = KINDS,
    test_size: float = 0.5,
    confidence: float = 0.95,
    pos_label: Any = None,
    folder: Any = None,
    random_state: int = 0,
    verbose: bool = False,
) -> Alternatives:
    """Search for models that are as accurate as the incumbent and select groups more evenly.

    Rows are split at random: candidates are trained on one part. Of the held-out part, one half chooses among
    the candidates, and all figures are from the other half, which has no part in the choice.

    Parameters
    ----------
    incumbent : classifier, or array of scores or decisions
        The model in use. It must not have been trained on these rows.
    X : table or array
        In memory.
    y : array
        Outcomes of any two values, none missing.
    sensitive_features : table, mapping, array, or names of columns of X
        New candidates see no column of X that has the name of one of these. An array X has no names: leave
        them out of it.
    reference : mapping, default=None
        The groups that others are compared with, such as ``{"race": "White", "sex": "Male"}``. None compares
        with the group of each feature that has the highest rate.
    candidates : mapping, default=None
        Models of your own by name: classifiers, fitted or still to be fitted; or scores of the rows.
    margin : float, default=0.005
        By how much a comparable model may be less accurate.
    approval_rate : float, default=None
        The share of rows that is selected, by every model. None is that of the incumbent's own decisions.
    estimator : classifier, default=None
        What candidates are trained with; a copy of the incumbent by default.
    search : sequence of {"fair", "seeds", "settings", "features"}
        What is trained: :class:`FairInprocessor` along a path of tolerances; the same learner again, with
        other seeds; with other settings, halved and doubled; without each feature. All of them by default.
    test_size : float, default=0.5
        Share of the rows that is held out.
    confidence : float, default=0.95
        Of all intervals.
    pos_label : object, default=None
        The label of a good outcome; None is the one that sorts last.
    folder : path, default=None
        Where scores of trained candidates are kept: an interrupted search goes on from there.
    random_state : int, default=0
    verbose : bool, default=False
        Whether to show progress.

    Returns
    -------
    Alternatives

    Notes
    -----
    The bound is the largest impact ratio of any rule on the learned P(label, group | x), at the approval
    rate and with an accuracy of at most `margin` below the incumbent's, by the probabilities: a proof. Its
    estimate and interval are those of the rule that attains it, on observed outcomes and groups; the interval
    is no confidence interval of the largest impact ratio that any rule can have. A model that knows more of
    the outcome or the groups than these probabilities do can be above both.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["F", "M"], 4000)
    >>> X = rng.normal(size=(4000, 3)) + np.outer(sex == "M", [0.0, 0.6, 0.6])
    >>> y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=4000) > 0.5).astype(int)
    >>> old = LogisticRegression().fit(X[:1000], y[:1000])
    >>> found = alternatives(
    ...     old, X[1000:], y[1000:], sensitive_features={"sex": sex[1000:]}, reference={"sex": "M"},
    ...     search=["features"], margin=0.1,
    ... )
    >>> [one.name for one in found.candidates]
    ['incumbent', 'without 0', 'without 1', 'without 2']
    >>> found.chosen
    'without 1'
    """
    for name, value in (("margin", margin), ("test_size", test_size), ("confidence", confidence)):
        check_fraction(name, value)
    for kind in search:
        check_choice("search", kind, KINDS)
    if is_lazy(X) or is_dask(X):
        raise InputError("alternatives needs a table in memory: collect it first.")
    X = np.asarray(X) if isinstance(X, list) else X
    check_rows({"X": range(X.shape[0]), "y": y})
    hidden, columns = _sensitive(X, sensitive_features)
    read = read_rows(y, y, columns, pos_label=pos_label, names=_NAMES)
    people, positive = _people(read, reference), np.asarray(read.classes)[1]
    train, held_out = features.random_split(len(read.codes), test_size, random_state)
    halves = [held_out[part] for part in features.random_split(len(held_out), 0.5, random_state + 1)]
    choosing, reporting = _parts(people, halves)
    data = Fingerprint.of(X, people.positive, read.codes, None)
    key = f"{data} {version('evenhand')} {version('scikit-learn')} {test_size} {random_state}"
    place = None if folder is None else Path(folder)
    if place is not None and place.exists() and not place.is_dir():
        raise InputError(f"folder: {place} is not a folder.")
    training = Training(X, y, columns, hidden, reference or "groups", train, positive, place, key)
    first = Candidate("incumbent", "incumbent", incumbent)
    own = training.read(first, decides=approval_rate is None)
    rate = _approval_rate(own, approval_rate)
    tried = [Candidate(name, "given", model) for name, model in (candidates or {}).items()]
    learner = learner_of(incumbent, estimator)
    if learner is not None:
        figures = own.take(halves[0]).figures(choosing, choosing.once, rate)
        ratio = min(1.0, float(choosing.lowest(figures[None])[0]))
        tried += training.generated(learner, ratio=ratio, search=tuple(search))
    elif not tried:
        raise InputError("the incumbent is no classifier: pass `estimator`, to train, or `candidates`.")
    names = [one.name for one in (first, *tried)]
    if taken := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"candidates: another model has the name {taken[0]!r}, choose another one.")
    steps = track(tried, what="models", total=len(tried), verbose=verbose)
    models, deciders, missing = _deciders(training, first, own, steps)
    chosen_on, reported_on = ([one.take(half) for one in deciders] for half in halves)
    with waiting("bound and intervals", verbose=verbose):
        selected = reported_on[0].selected(reporting.once, rate)
        points, best = _bound(training, halves[1], selected, margin)
        price = sum(value for name, value in best.shadow_prices.items() if name.notion == "accuracy")
        choice = Comparison(choosing, chosen_on, rate, 0, 0, confidence)
        reported_on.append(Decider(None, np.asarray(best.selection)))
        final = Comparison(reporting, reported_on, rate, _DRAWS, random_state, confidence)
        about = [(one.name, one.kind, sees(one, hidden)) for one in models]
        chosen, reasons = judged([choice.compared(k, *one) for k, one in enumerate(about)], margin)
        # To first order the rule of the bound at exactly the margin: accuracy has the price of the proof.
        moved = final.lowest(-1) + price * (final.differences(-1)[:, 0] + margin)
        estimate, (low, high) = float(moved[0]), final.limits(moved[1:]).tolist()
        found = [final.compared(k, *one) for k, one in enumerate(about)]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    versions = {package: version(package) for package in ("evenhand", "scikit-learn", "numpy")}
    return Alternatives(
        tuple(one.judged(found[0], estimate, margin, reasons[one.name]) for one in found),
        tuple(group for k, one in enumerate(models) for group in final.groups(k, one.name)),
        points,
        chosen,
        1 - best.certificate.bound,
        *(estimate, low, high, best.certificate.gap, float(margin), float(confidence), final.rate),
        rows={"trained on": len(train), "chosen on": len(halves[0]), "reported on": len(halves[1])},
        missing=tuple(missing),
        record={"date": now, "data": data.unordered, "python": platform.python_version(), **versions},
        library=library_of(X, sensitive_features),
    )


def _bound(
    training: Training, held_out: NDArray[np.intp], selected: Floats, margin: float
) -> tuple[tuple[Point, ...], Solution]:
    """The largest impact ratio of any rule on learned probabilities at some losses of accuracy, with a proof.

    P(label, group | x) is learned on the training rows, and solved for on the held-out ones, of which the
    incumbent has `selected` these shares. The solution is that at the margin.
    """
    free, hidden = DemographicParity(difference=1, groups="independent"), training.hidden
    model = training.fitted(Candidate("posteriors", "bound", FairPostprocessor(None, free), hidden))
    posteriors = model._read(features.take_rows(features.drop_columns(training.X, hidden), held_out), None)[1]
    eta, rate = posteriors.label(), float(selected.mean())
    accuracy = float((eta * selected + (1 - eta) * (1 - selected)).mean())
    given: Any = {"groups": model.compared_}
    given["objective"] = DemographicParity(ratio=1, groups="independent", against=training.against)
    found = {}
    for part in _MARGINS:
        floor = RateBound("accuracy", at_least=max(0.0, accuracy - part * margin - _ROOM))
        asked = floor & RateBound("selection rate", at_least=rate, at_most=rate)
        found[part] = solve(posteriors, asked, **given)
    points = tuple(Point(part * margin, 1 - one.certificate.bound) for part, one in found.items())
    return points, found[1.0]


def _parts(people: Rows, halves: Sequence[NDArray[np.intp]]) -> list[Rows]:
    """The halves of the held-out rows, which must have enough rows of every group."""
    parts = [people.take(half) for half in halves]
    for k, name in enumerate(people.names):
        fewest = min(int(part.members[k].sum()) for part in parts)
        if fewest < SMALLEST_REFERENCE:
            raise GroupError(
                f"{name} has {fewest} rows in a half of the held-out rows; at least {SMALLEST_REFERENCE} are "
                "needed: merge it with others, or pass more rows."
            )
    return parts


def _deciders(
    training: Training, first: Candidate, own: Decider, tried: Iterable[Candidate]
) -> tuple[list[Candidate], list[Decider], list[str]]:
    """The models that are compared, what they decide, and what is said of the others."""
    models, deciders, missing, copies = [first], [own], list[str](), list[str]()
    for one in tried:
        try:
            made = training.decider(one)
        except (EvenhandError, TypeError, ValueError) as error:
            missing.append(f"{one.name} could not be tried: {str(error).splitlines()[0]}")
            continue
        if any(made.same(known) for known in deciders):
            copies.append(one.name)
        else:
            models, deciders = [*models, one], [*deciders, made]
    if copies:
        missing.append(f"Left out, with the same scores as another model: {', '.join(copies)}.")
    return models, deciders, missing


def _sensitive(X: Any, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The sensitive columns of X, and all of them as arrays."""
    names = [given] if isinstance(given, str) else given
    if isinstance(names, list | tuple) and len(names) < X.shape[0]:
        return tuple(names), {name: np.asarray(part) for name, part in features.columns_of(X, names).items()}
    read = {name: np.asarray(part) for name, part in features.sensitive_columns(X, None, given).items()}
    return tuple(name for name in features.column_names(X) if features.has_names(X) and name in read), read


def _approval_rate(own: Decider, asked: float | None) -> float:
    """The share that the incumbent selects."""
    if asked is not None:
        check_fraction("approval_rate", asked)
        if own.scores is None:
            raise InputError(
                "the incumbent has decisions but no scores to cut at approval_rate: leave it out, or "
                "pass scores."
            )
        return float(asked)
    if own.decisions is None:
        raise InputError("the incumbent has scores but no decisions: pass approval_rate.")
    rate = float(own.decisions.mean())
    if rate in (0.0, 1.0):
        raise InputError(
            f"the incumbent selects {'everyone' if rate else 'nobody'}, as any model does at that rate: pass "
            "its scores, or a model with probabilities, and approval_rate."
        )
    return rate


def _people(read: Decisions, reference: Mapping[str, Any] | None) -> Rows:
    """The rows with the groups of each feature that is compared, and their references."""
    families: Any = [(read.groups.members("independent"), None)]
    if reference is not None:
        counts = np.bincount(read.codes, minlength=len(read.groups)).astype(np.float64)
        families = list(reference_families(read.groups, reference, counts))[: len(reference)]
    names = tuple(name for family, _ in families for name in family.names)
    starts = np.cumsum([0, *(len(family.names) for family, _ in families)])
    places = [-1 if p is None else start + p for (_, p), start in zip(families, starts, strict=False)]
    held = np.concatenate([family.matrix for family, _ in families]).astype(np.bool_)[:, read.codes]
    return Rows(np.asarray(read.positive), held, names, np.repeat(places, np.diff(starts)))

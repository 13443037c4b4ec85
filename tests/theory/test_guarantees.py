"""The guarantee against known populations; ``benchmarks/guarantee.py`` is the full version."""

import numpy as np
import pytest
from benchmarks.division import PARITY, WAYS, Setting, draw
from benchmarks.exact import GaussianProblem
from sklearn.linear_model import LogisticRegression
from tests.flat import build

import evenhand as eh
from evenhand.guarantee.guarantee import guaranteed
from evenhand.guarantee.noninferiority import p_value
from evenhand.requirements.rates import CellRates

LEVEL = 0.05
DRAWS = 120
SHARES = {2: [0.8, 0.2], 4: [0.5, 0.3, 0.15, 0.05]}

pytestmark = pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")


def problem(n_groups):
    rng = np.random.default_rng(n_groups)
    share, rate = np.array(SHARES[n_groups]), rng.uniform(0.3, 0.7, n_groups)
    means = np.array([-0.8, 0.8]) + 0.6 * rng.normal(size=(n_groups, 1))
    groups = eh.Groups.product({"group": range(n_groups)})
    return GaussianProblem(share[:, None] * np.column_stack([1 - rate, rate]), means, groups)


def broken(kind, setting, n, *, constraint, confidence, seed, **settings):
    """Whether the guarantee was made (or none asked for), and whether the tolerance is then broken."""
    data = setting.sample(n, seed=seed)
    fair = build(kind, LogisticRegression(), constraint, aware=True, confidence=confidence, **settings)
    fair.fit(data.X, data.y, sensitive_features=data.sensitive)
    rates = setting.rates_of(lambda X, codes: fair.predict(X, sensitive_features={"group": codes}))
    guaranteed = fair.guarantee_ is None or fair.guarantee_.holds
    return guaranteed, guaranteed and max(found.excess for found in constraint.measure(rates)) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "constraint", "n_groups", "draws"),
    [
        (eh.FairPostprocessor, eh.DemographicParity(difference=0.1), 2, 40),
        (eh.FairPostprocessor, eh.EqualOpportunity(ratio=0.7), 2, 30),
        (eh.FairPostprocessor, eh.EqualizedOdds(difference=0.2), 4, 20),
        (eh.FairInprocessor, eh.DemographicParity(difference=0.1), 2, 20),
    ],
    ids=str,
)
def test_guarantees_are_kept_and_plain_tolerances_are_not(kind, constraint, n_groups, draws):
    setting, n = problem(n_groups), 1000 * n_groups
    settings = {"cv": 2} if kind is eh.FairPostprocessor else {}
    outcomes = {
        confidence: np.array(
            [
                broken(kind, setting, n, constraint=constraint, confidence=confidence, seed=seed, **settings)
                for seed in range(draws)
            ]
        )
        for confidence in (1 - LEVEL, None)
    }
    given, wrong = outcomes[1 - LEVEL].T
    assert given.mean() > 0.2  # otherwise nothing is tested here
    assert wrong.mean() <= LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / draws)
    plain = outcomes[None][:, 1].mean()
    if plain > 2 * LEVEL:  # otherwise the tolerance does not bind
        assert wrong.mean() < plain


@pytest.mark.slow
def test_a_split_stratified_by_label_would_break_guarantees():
    """Ten groups at the tolerance, most rows held out: stratified by cell, nearly all are wrong."""
    setting = Setting(10, 2000, PARITY, confidence=0.5, reserve=0.7, apart=0.05)
    wrong, given = {}, {}
    for way, divide in WAYS.items():
        guaranteed, broken = np.array([draw(setting, divide, seed) for seed in range(10)]).T
        wrong[way], given[way] = (guaranteed & broken).mean(), guaranteed.mean()
    assert wrong["at random"] <= 0.5 < wrong["by group and label"]
    assert given["at random"] >= 0.5  # otherwise nothing is tested here


MASSES = np.array([[0.25, 0.25], [0.2, 0.1], [0.1, 0.1]])
TODAY = CellRates(eh.Groups.product({"group": range(3)}), MASSES, MASSES * [[0.2, 0.4]])


def held_out(rates, n, rng):
    """Counts of n held-out rows, from a population with given selection rates."""
    cells = rng.multinomial(n, MASSES.ravel()).reshape(MASSES.shape)
    return CellRates(TODAY.groups, cells.astype(float), rng.binomial(cells, rates).astype(float))


@pytest.mark.parametrize(
    ("constraint", "strict", "bad"),
    [
        (eh.RateBound("selection rate", at_most=0.3), 0.25, 0.301),
        (
            eh.RateBound("true-positive rate", at_least=0.6, groups="intersectional"),
            0.75,
            [[0.3, 0.9], [0.3, 0.599], [0.3, 0.9]],
        ),
        (eh.RateBound("precision", at_least=0.5), [[0.2, 0.4]], [[0.2756, 0.3356]]),
        (
            eh.RateBound("accuracy", at_least=0.6) & eh.RateBound("false-positive rate", at_most=0.2),
            [[0.1, 0.6]],
            [[0.2005, 0.6]],
        ),
        (eh.NoWorse("selection rate", than=TODAY), [[0.3, 0.5]], [[0.3, 0.5], [0.3, 0.5], [0.2, 0.399]]),
        pytest.param(
            eh.DemographicParity(difference=0.1, against="groups"),
            0.3,
            [[0.35], [0.35], [0.2495]],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            eh.DemographicParity(ratio=0.8, against="groups"),
            0.5,
            [[0.5], [0.45], [0.3995]],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            eh.EqualOpportunity(difference=0.15, against="groups")
            & eh.RateBound("selection rate", at_most=0.55),
            0.5,
            [[0.5, 0.5], [0.5, 0.5], [0.5, 0.3495]],
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_guarantees_of_bounds_and_between_groups_are_wrong_no_more_often_than_the_level(
    constraint, strict, bad
):
    """From a classifier that is inside the requirement to one just outside it, which the test must stop."""
    strict, bad = (np.broadcast_to(np.array(rates, float), MASSES.shape) for rates in (strict, bad))
    outside = CellRates(TODAY.groups, MASSES, MASSES * bad)
    assert max(found.excess for found in constraint.measure(outside)) > 0
    rng = np.random.default_rng(0)
    chosen = [
        guaranteed(
            ((constraint, rates, [held_out(rates, 4000, rng)]) for rates in (strict, bad)),
            constraint,
            1 - LEVEL,
        )
        for _ in range(DRAWS)
    ]
    wrong = np.mean([guarantee.holds and rates is bad for rates, guarantee in chosen])
    assert wrong <= LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / DRAWS)
    assert np.mean([guarantee.holds for _, guarantee in chosen]) > 0.8  # otherwise nothing is tested here


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraint", "draws"),
    [
        (eh.RateBound("selection rate", at_most=0.4), 40),
        (
            eh.RateBound("true-positive rate", at_least=0.7, groups="intersectional")
            & eh.RateBound("selection rate", at_most=0.6),
            30,
        ),
        (eh.DemographicParity(difference=0.15, against="groups"), 40),
        (eh.EqualOpportunity(ratio=0.7, against="groups") & eh.RateBound("precision", at_least=0.6), 30),
    ],
    ids=str,
)
def test_guarantees_of_fitted_classifiers_are_kept(constraint, draws):
    given, wrong = np.array(
        [
            broken(
                eh.FairPostprocessor,
                problem(2),
                3000,
                constraint=constraint,
                confidence=1 - LEVEL,
                seed=seed,
                cv=2,
            )
            for seed in range(draws)
        ]
    ).T
    assert given.mean() > 0.2  # otherwise nothing is tested here
    assert wrong.mean() <= LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / draws)


@pytest.mark.parametrize(("measure", "tolerance"), [("difference", 0.1), ("ratio", 0.8)])
def test_limits_of_a_part_from_all_rows_keep_the_level(measure, tolerance):
    """Shares at the border of the tolerance, with the group's part known from ten times as many rows."""
    rng, draws, level, part, rest = np.random.default_rng(0), 400, 0.2, 0.4, 0.5
    if measure == "difference":
        share = rest - tolerance / (1 - part)
    else:
        share = rest * tolerance * (1 - part) / (1 - tolerance * part)
    wrong = {"held out": 0, "all": 0}
    for _ in range(draws):
        n, elsewhere = rng.binomial(600, part), rng.binomial(5400, part)
        counts = (rng.binomial(n, share), n), (rng.binomial(600 - n, rest), 600 - n)
        for which, sizes in (("held out", None), ("all", (n + elsewhere, 6000 - n - elsewhere))):
            p = p_value(*counts, tolerance=tolerance, measure=measure, level=level, sizes=sizes)
            wrong[which] += p <= level
    assert wrong["held out"] < wrong["all"] <= draws * level + 3 * np.sqrt(draws * level * (1 - level))


@pytest.mark.slow
def test_guarantees_by_margins_are_kept_where_groups_are_at_the_tolerance():
    """Four groups, half of the rows held out, and a level at which wrong guarantees would show."""
    setting = Setting(4, 500, eh.DemographicParity(difference=0.06), confidence=0.6, reserve=0.5, apart=0.08)
    guaranteed, broken = np.array([draw(setting, WAYS["at random"], seed) for seed in range(60)]).T
    assert (guaranteed & broken).mean() <= 0.4 + 3 * np.sqrt(0.24 / 60)
    assert guaranteed.mean() > 0.5  # otherwise nothing is tested here


SMALL = np.array([[0.45, 0.45], [0.03, 0.02], [0.03, 0.02]])
"""Masses of three groups, of which two are small."""


def stated(constraint, classifiers, n, rng, level):
    """Which of some classifiers is returned, and the requirement that is guaranteed of it."""
    candidates = []
    for rates in classifiers:
        cells = rng.multinomial(n, SMALL.ravel()).reshape(SMALL.shape)
        counts = CellRates(TODAY.groups, cells.astype(float), rng.binomial(cells, rates).astype(float))
        candidates.append((constraint, rates, [counts]))
    return guaranteed(candidates, constraint, 1 - level)


def rates_of(*by_group):
    return np.broadcast_to(np.array(by_group, float)[:, None], SMALL.shape)


@pytest.mark.parametrize(
    ("constraint", "classifiers"),
    [
        # far outside; inside, and then just outside; just outside
        (eh.RateBound("selection rate", at_most=0.2, groups="intersectional"), [(0.1, 0.25, 0.1)]),
        (eh.DemographicParity(difference=0.1), [(0.5, 0.5, 0.5), (0.5, 0.388, 0.5)]),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (eh.DemographicParity(difference=0.05), [(0.5, 0.444, 0.5)]),
                (eh.DemographicParity(difference=0.05), [(0.5, 0.35, 0.5)]),
                (eh.EqualizedOdds(difference=0.1), [(0.2, 0.35, 0.2)]),
                (eh.DemographicParity(ratio=0.9), [(0.4, 0.3, 0.4)]),
                (eh.DemographicParity(difference=0.05, against="groups"), [(0.5, 0.4, 0.5)]),
                (
                    eh.DemographicParity(difference=0.05) & eh.RateBound("selection rate", at_most=0.5),
                    [(0.499, 0.35, 0.499)],
                ),
            )
        ),
    ],
    ids=str,
)
def test_what_is_stated_is_wrong_no_more_often_than_the_level(constraint, classifiers):
    """Whether the guarantee was made or a weaker one stated instead, both share one level."""
    rng, level, draws = np.random.default_rng(0), 0.2, 150
    wrong = weaker = 0
    for _ in range(draws):
        rates, guarantee = stated(constraint, [rates_of(*one) for one in classifiers], 3000, rng, level)
        population = CellRates(TODAY.groups, SMALL, SMALL * rates)
        if guarantee.attainable is not None:
            weaker += not guarantee.holds
            wrong += max(found.excess for found in guarantee.attainable.measure(population)) > 0
    assert wrong <= draws * level + 3 * np.sqrt(draws * level * (1 - level))
    assert weaker > draws / 20  # otherwise nothing is tested here


@pytest.mark.slow
@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize(
    "constraint",
    [
        eh.DemographicParity(difference=0.02),
        eh.EqualizedOdds(difference=0.03),
        eh.EqualOpportunity(ratio=0.95),
    ],
    ids=str,
)
def test_what_is_attainable_holds_for_the_fitted_classifier(constraint, aware):
    """By tests and by ranks, of the classifier that is returned, in the population."""
    setting, level, draws, wrong, weaker = problem(2), 0.2, 40, 0, 0
    for seed in range(draws):
        data = setting.sample(600, seed=seed)
        fair = build(
            eh.FairPostprocessor, LogisticRegression(), constraint, aware=aware, confidence=1 - level, cv=2
        )
        fair.fit(data.X, data.y, sensitive_features=data.sensitive)
        rates = setting.rates_of(
            lambda X, codes, fair=fair: fair.predict(
                X, sensitive_features={"group": codes} if aware else None
            )
        )
        guarantee = fair.guarantee_
        if guarantee.attainable is not None:
            weaker += not guarantee.holds
            wrong += max(found.excess for found in guarantee.attainable.measure(rates)) > 0
    assert wrong <= draws * level + 3 * np.sqrt(draws * level * (1 - level))
    assert weaker > draws / 4  # otherwise nothing is tested here

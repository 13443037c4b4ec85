import numpy as np
import pytest
from benchmarks.exact import GaussianProblem
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from tests.flat import build

import evenhand as eh
from evenhand.data.features import random_split
from evenhand.estimators.rank_thresholds import plan_ranks, set_thresholds
from evenhand.exceptions import GuaranteeWarning, InputError
from evenhand.guarantee.ranks import Ranks, violation_chances
from evenhand.optimum.group_thresholds import group_thresholds
from evenhand.optimum.rule import Rule
from evenhand.posteriors.posteriors import DensePosteriors, GroupedScores
from evenhand.requirements.rates import CellRates

ALL = (True, True)
RULE = Rule(np.array([[-0.5, 0.5], [-0.5, 0.5]]), key="k")
MASSES = np.array([[0.52, 0.28], [0.06, 0.14]])
PROBLEM = GaussianProblem(MASSES, np.array([[-0.8, 0.8]] * 2), eh.Groups.product({"group": range(2)}))


def placed(scores, ranks, slack=(0, 0)):
    """The rule with thresholds at ranks of two groups' scores."""
    sizes = tuple(map(len, scores))
    joined = GroupedScores(np.concatenate(scores), np.repeat([0, 1], sizes), 2)
    return set_thresholds(RULE, joined, np.zeros(len(joined), bool), Ranks(ALL, ranks, slack, sizes))


def edges(rule):
    return [float(edge[0]) for edge in rule.steps.edges if len(edge)]


def test_a_threshold_is_above_the_row_of_its_rank():
    scores = np.array([0.9, 0.7, 0.5, 0.3]), np.array([0.8, 0.6, 0.4, 0.2])
    rule = placed(scores, (3, 1))
    assert edges(rule) == pytest.approx([0.6, 0.9])  # two rows are selected, and none
    assert rule.selection(GroupedScores([0.61, 0.59, 0.89, 0.91], [0, 0, 1, 1], 2)).tolist() == [1, 0, 0, 1]


def test_at_the_ends_everybody_or_nobody_is_selected():
    rule = placed((np.array([0.0, 0.5]), np.array([0.5, 1.0])), (4, 0))
    assert rule.selection(GroupedScores([0.0, 0.0, 1.0], [0, 0, 1], 2)).tolist() == [1, 1, 0]
    told = [one.note for one in group_thresholds(rule)]
    assert told == ["everyone is selected", "no one is selected"]


def test_a_rank_beyond_the_last_row_is_below_it():
    scores = np.array([0.9, 0.5]), np.array([0.4, 0.0])
    rule = placed(scores, (3, 3))
    assert edges(rule)[:1] == pytest.approx([0.25])
    assert rule.selection(GroupedScores([0.3, 0.2, 0.0], [0, 0, 1], 2)).tolist() == [1, 0, 1]
    assert placed((np.array([0.9]), np.zeros(0)), (1, 1)) is None
    assert placed(scores, (5, 1)) is None


def test_the_margin_changes_its_sign_at_the_threshold():
    rule = placed((np.array([0.9, 0.7, 0.5]), np.array([0.8, 0.6, 0.4])), (2, 3))
    scores = GroupedScores(np.tile(np.linspace(0, 1, 21), 2), np.repeat([0, 1], 21), 2)
    assert ((rule.decision(scores) > 0) == (rule.selection(scores) == 1)).all()


def test_rows_with_the_same_score_are_on_the_same_side():
    tied = np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.1])
    other = np.linspace(0.2, 0.8, 6)
    assert edges(placed((tied, other), (3, 1), (1, 0)))[0] == pytest.approx(0.7)  # nearer to the second
    assert edges(placed((tied, other), (5, 1), (1, 0)))[0] == pytest.approx(0.3)  # nearer to the sixth
    assert placed((tied, other), (4, 1), (1, 0)) is None
    assert edges(placed((tied, other), (2, 1), (0, 0)))[0] == pytest.approx(0.7)


def test_ranks_need_known_groups():
    with pytest.raises(InputError, match="group of each row"):
        set_thresholds(
            RULE,
            DensePosteriors(np.full((4, 2, 2), 0.25)),
            np.zeros(4, bool),
            Ranks(ALL, (1, 1), (0, 0), (2, 2)),
        )


def test_ties_among_rows_to_learn_from_are_allowed_for():
    masses = np.full((2, 2), 0.25)
    rates = CellRates(eh.Groups.product({"group": range(2)}), masses, masses / 2)
    learned = [np.linspace(1, 0, 400), np.repeat(np.linspace(1, 0, 40), 10)]
    ranks = plan_ranks(rates, ALL, learned, np.array([400, 400]))
    assert ranks.slack[0] == 0
    assert 5 <= ranks.slack[1] <= 12
    assert ranks.ranks == (201, 201)


def test_a_group_without_rows_to_learn_from_gets_the_rate_of_all():
    mass = np.array([[0.5, 0.5], [0.0, 0.0]])
    rates = CellRates(eh.Groups.product({"group": range(2)}), mass, mass * 0.3)
    ranks = plan_ranks(rates, ALL, [np.linspace(1, 0, 50), np.zeros(0)], np.array([99, 9]))
    assert ranks.ranks == (30, 4)


ATOMS = np.linspace(0.02, 0.98, 60)


@pytest.mark.parametrize("atoms", [False, True])
def test_thresholds_break_a_requirement_as_often_as_computed(atoms):
    """Scores without ties, and with 60 values; their population is known."""
    rng = np.random.default_rng(0)
    n, ranks, slack = (300, 150), (151, 76), (6, 4) if atoms else (0, 0)
    constraint = eh.DemographicParity(difference=0.1, against="groups")
    groups = eh.Groups.product({"group": range(2)})
    chance, _ = violation_chances(constraint, groups, Ranks(ALL, ranks, slack, n), np.array(n), 0.9)
    chance -= 0.9 / 50  # for the groups' parts, which do not matter here
    broken, placed_at_all = [], 0
    for _ in range(3000):
        scores = [rng.choice(ATOMS, size) if atoms else rng.random(size) for size in n]
        rule = placed(scores, ranks, slack)
        if rule is None:
            broken.append(False)  # nothing is guaranteed
            continue
        q = [float((edge < ATOMS).mean()) if atoms else 1 - edge for edge in edges(rule)]
        broken.append(abs(q[0] - q[1]) > 0.1)
        placed_at_all += 1
    error = np.sqrt(chance / 3000)
    assert placed_at_all > 2900
    assert np.mean(broken) <= chance + 3 * error
    if not atoms:
        assert np.mean(broken) >= chance / 2  # no more careful than it has to be


def fit(constraint, n=3000, model=None, **settings):
    data = PROBLEM.sample(n, seed=0)
    fair = build(
        eh.FairPostprocessor,
        model or LogisticRegression(),
        constraint,
        **{"aware": True, "confidence": 0.95, "cv": 2, "random_state": 0, **settings},
    )
    return fair.fit(data.X, data.y, sensitive_features=data.sensitive), data


def fit_to(X, y, group, constraint, **settings):
    shared = {"aware": True, "confidence": 0.9, "cv": 2, "random_state": 0}
    fair = build(eh.FairPostprocessor, LogisticRegression(), constraint, **shared, **settings)
    return fair.fit(X, y, sensitive_features={"group": group})


@pytest.mark.parametrize(
    "constraint",
    [
        eh.DemographicParity(difference=0.15),
        eh.EqualOpportunity(difference=0.15, against="groups"),
        eh.PredictiveEquality(ratio=0.7),
        eh.DemographicParity(difference=0.15) & eh.RateBound("selection rate", at_most=0.6),
    ],
    ids=str,
)
def test_a_guarantee_by_ranks(constraint):
    fair, data = fit(constraint)
    guarantee = fair.guarantee_
    assert guarantee.holds
    assert guarantee.ranks is not None
    assert guarantee.n_tested == 0
    assert sum(test.p_value for test in guarantee.tests) > 0
    rates = PROBLEM.rates_of(lambda X, codes: fair.predict(X, sensitive_features={"group": codes}))
    assert max(found.excess for found in constraint.measure(rates)) <= 0
    decided = fair.predict(data.X, sensitive_features=data.sensitive)
    margin = fair.decision_function(data.X, sensitive_features=data.sensitive)
    assert ((margin > 0) == (decided == 1)).all()


def test_thresholds_and_explanations_are_those_of_the_rule():
    fair, data = fit(eh.DemographicParity(difference=0.1))
    shown = [one.threshold for one in fair.thresholds_.values()]
    assert shown == pytest.approx(edges(fair.rule_))
    told = fair.explain(data.X, sensitive_features=data.sensitive)[0]
    assert 0.5 * (2 * told.risk - 1) + sum(told.moved.values()) == pytest.approx(told.margin)
    assert "guarantee, ranks: everybody" in map(str, told.moved)


@pytest.mark.parametrize(
    ("constraint", "settings"),
    [
        (eh.EqualizedOdds(difference=0.3), {}),
        (eh.DemographicParity(difference=0.2), {"aware": False}),
        (eh.DemographicParity(difference=0.2), {"objective": "minimax"}),
        (eh.DemographicParity(difference=0.2), {"model": DecisionTreeClassifier(max_depth=3)}),
    ],
    ids=["two rates", "blind", "minimax", "ties"],
)
def test_other_guarantees_are_tested(constraint, settings):
    guarantee = fit(constraint, **settings)[0].guarantee_
    assert guarantee.ranks is None
    assert guarantee.n_tested > 0


def test_with_fewer_rows_the_rate_goes_where_it_varies_less():
    fair, _ = fit(eh.EqualOpportunity(difference=0.1, against="groups"), n=1500)
    assert fair.guarantee_.holds
    strictest = "EqualOpportunity(difference=0.0, against='groups') & RateBound('true-positive rate', at_"
    assert repr(fair.guarantee_.internal).startswith(strictest)


def test_with_too_few_rows_ranks_guarantee_something_weaker():
    narrow = eh.DemographicParity(difference=0.05)
    with pytest.warns(
        GuaranteeWarning, match=r"difference=0\.\d+\) can \(95 %\), or about [\d,]+ rows for what"
    ):
        fair, data = fit(narrow, n=300)
    guarantee = fair.guarantee_
    weaker = guarantee.attainable.difference
    assert (guarantee.holds, guarantee.n_tested) == (False, 0)
    assert 0.1 < weaker < 0.3
    count = np.bincount(data.sensitive["group"])  # the groups' parts are limited by all rows
    for difference, enough in ((weaker, True), (weaker - 0.002, False)):
        chance, _ = violation_chances(
            narrow.with_slack(difference), fair.groups_, guarantee.ranks, count, 0.05
        )
        assert (chance <= 0.05) is enough
    assert (edges(fair.rule_) != edges(fair.solved_rule_)) is True
    assert fit(narrow, n=round(1.2 * guarantee.needed))[0].guarantee_.holds
    with pytest.warns(GuaranteeWarning):
        assert not fit(narrow, n=guarantee.needed // 4)[0].guarantee_.holds


def test_a_group_with_few_rows_is_not_selected_as_a_whole():
    """With a dozen held out positives the rank for a high rate is beyond the last: that is not everybody."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], [4000, 800])
    y = np.where(group == 0, rng.random(4800) < 0.5, np.arange(4800) % 35 == 0).astype(int)
    X = (6.0 * y + rng.normal(size=4800))[:, None]
    fair = fit_to(X, y, group, eh.EqualOpportunity(difference=0.3))
    assert fair.guarantee_.ranks is not None
    [_, k], [_, n] = fair.guarantee_.ranks.ranks, fair.guarantee_.ranks.sizes
    assert k == n + 1
    assert fair.predict(X, sensitive_features={"group": group})[group == 1].mean() < 0.3


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_groups_without_a_row_that_counts_are_not_guaranteed():
    rng = np.random.default_rng(1)
    group = np.repeat([0, 1], [1200, 800])
    y = np.where(group == 0, rng.random(2000) < 0.5, False).astype(int)
    X = (2.0 * y + rng.normal(size=2000))[:, None]
    fair = fit_to(X, y, group, eh.EqualOpportunity(difference=0.5))
    assert not fair.guarantee_.holds
    assert fair.guarantee_.attainable is None
    assert fair.guarantee_.to_dict()["rows_needed_reason"] == "a group has no held-out rows"
    assert fair.predict(X, sensitive_features={"group": group})[group == 1].mean() < 0.2


def test_requirements_that_nothing_satisfies_are_left_out():
    """Tightened, the two bounds contradict each other."""
    bounds = eh.RateBound("selection rate", at_least=0.3) & eh.RateBound(
        "selection rate", at_most=0.65, groups="intersectional"
    )
    assert fit(bounds)[0].guarantee_.ranks is not None


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
@pytest.mark.parametrize("missing", ["error", "exclude"])
def test_held_out_rows_have_no_part_in_pooling(missing):
    rng = np.random.default_rng(0)
    n, names = 2000, np.array(["a", "b", "c", "d", "e"], dtype=object)
    group = rng.choice(names, n, p=[0.5, 0.44, 0.02, 0.02, 0.02])
    if missing == "exclude":
        group[::7] = None
    y = rng.integers(0, 2, n)
    X = (y + rng.normal(size=n))[:, None]
    parity = eh.DemographicParity(difference=0.3)
    fair = fit_to(X, y, group, parity, min_group_size=20, missing=missing)
    inside = np.flatnonzero([value is not None for value in group])
    learned = group[inside[random_split(len(inside), fair.settings().reserve, fair.seed_)[0]]]
    counts = {name: int((learned == name).sum()) for name in names}
    assert dict(fair.groups_.pooled) == {(name,): k for name, k in counts.items() if k < 20}
    assert len(fair.groups_.pooled) >= 2


def test_a_few_rows_with_the_same_score_cost_some_ranks_and_not_the_guarantee():
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=(4000, 1)), np.repeat(["a", "b"], 2000)
    x[1::2] = x[::2]  # everybody twice
    y = (x[:, 0] + rng.logistic(size=4000) > 0).astype(int)
    fair = fit_to(x, y, group, eh.DemographicParity(difference=0.1))
    assert fair.guarantee_.holds
    assert max(fair.guarantee_.ranks.slack) > 0


def test_scores_with_more_ties_than_expected_are_not_guaranteed(monkeypatch):
    monkeypatch.setattr("evenhand.estimators.rank_thresholds._ties", lambda *_: 0)
    with pytest.warns(GuaranteeWarning, match=r"too many of the 1,500 held-out rows are tied at a"):
        fair, _ = fit(eh.DemographicParity(difference=0.2), model=DecisionTreeClassifier(max_depth=4))
    assert not fair.guarantee_.holds
    assert fair.guarantee_.needed is None

"""The optimum for several actions: against a full program and two decisions, and as a rule on new rows."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import eye_array, kron

import evenhand as eh
from evenhand.exceptions import ConstantClassifierWarning, InfeasibleError, InputError
from evenhand.optimum.action_problem import ActionsProblem
from evenhand.optimum.action_rule import ActionRule

LENDING = eh.Costs(
    {
        "approve": {"bad": 5, "good": 0},
        "decline": {"bad": 0, "good": 1},
        "review": {"bad": 0.2, "good": 0.2},
    }
)
ERRORS = eh.Costs({0: {"no": 0, "yes": 0.5}, 1: {"no": 0.5, "yes": 0}})


def population(seed, n=400, M=3, L=3, *, ties=False):
    """Posteriors in which groups have labels of different frequencies."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    if ties:
        x = np.round(x)[:, :1] * np.ones(4)
    groups = np.exp(0.6 * x @ rng.normal(size=(4, M)))
    labels = np.exp((x @ rng.normal(size=(4, L)))[:, None] + rng.normal(size=(M, L)))
    labels /= labels.sum(axis=2, keepdims=True)
    return groups[:, :, None] / groups.sum(axis=1)[:, None, None] * labels


def full_program(problem):
    """The smallest expected cost, by a program with a variable for each row, action and scalar."""
    rows, K = problem.rows, problem.rows.n_actions
    n, D, S = rows.n_rows, rows.width, problem.program.scalars
    P = n * rows.weights_of(slice(None))[:, None] * rows.matrix
    tables = problem.program.A[:, : D * K].reshape(-1, D, K)
    worth = np.vstack(
        [np.einsum("nd,jdk->nkj", P, tables).reshape(n * K, -1), n * problem.program.A[:, D * K :].T]
    )
    gain = np.append((P @ problem.program.gain[: D * K].reshape(D, K)).ravel(), np.zeros(S))
    one = kron(eye_array(n), np.ones((1, K))).tocsr()
    one.resize((n, n * K + S))
    limits = n * np.concatenate([problem.program.hi, -problem.program.lo])
    both = np.vstack([worth.T, -worth.T])[np.isfinite(limits)]
    found = linprog(-gain, both, limits[np.isfinite(limits)], one, np.ones(n), bounds=(0, 1))
    return problem.unit * found.fun / n if found.status == 0 else None


REQUIREMENTS = [
    eh.DemographicParity(difference=0.02),
    eh.DemographicParity(ratio=0.9, against="groups", action=0),
    eh.EqualOpportunity(difference=0.03),
    eh.EqualizedOdds(difference=0.05, against="groups"),
    eh.AccuracyParity(difference=0.0) & eh.RateBound(1, at_most=0.2),
    eh.DemographicParity(difference=0.01, action={0: 0.0, 1: 0.5, 2: 1.0}, against={"group": 1}),
    eh.DemographicParity(difference=0.02) & eh.NoWorse([1, 2], margin=-0.02),
    eh.NoWorse("accuracy", margin=-0.1, groups="population") & eh.RateBound(1, at_most=0.2),
]


@pytest.mark.parametrize("constraint", REQUIREMENTS[:3:2], ids=str)
def test_within_strata_the_optimum_is_that_of_each_stratum(constraint):
    posteriors, job = population(3), np.random.default_rng(4).integers(0, 3, len(population(3)))
    within = type(constraint)(**{**constraint.get_params(), "given": ["job"]})
    found = eh.solve(posteriors, within, control_features={"job": job})
    alone = [eh.solve(posteriors[job == k], constraint) for k in range(3)]
    shares = np.bincount(job) / len(job)
    assert found.certificate.objective == pytest.approx(
        sum(share * one.certificate.objective for share, one in zip(shares, alone, strict=True)), abs=1e-10
    )
    assert abs(found.certificate.gap) < 1e-11
    assert str(found.rates.groups.cell_names[0]) == "job=0, group=0"


@pytest.mark.parametrize("constraint", REQUIREMENTS, ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_the_optimum_is_that_of_the_full_program_and_the_rule_attains_it(constraint, ties):
    posteriors = population(1, ties=ties)
    weights = np.random.default_rng(2).random(len(posteriors))
    problem = ActionsProblem.of(posteriors, constraint, sample_weight=weights)
    solution = problem.solve()
    certificate = solution.certificate
    assert certificate.objective == pytest.approx(full_program(problem), abs=1e-9)
    assert abs(certificate.gap) < 1e-11
    assert certificate.violation < 1e-11
    assert not certificate.shipped_differs
    assert solution.rule.selection(posteriors) == pytest.approx(solution.selection, abs=1e-12)


@pytest.mark.parametrize(
    "constraint",
    [
        eh.DemographicParity(difference=0.01),
        eh.DemographicParity(ratio=0.9),
        eh.EqualOpportunity(ratio=0.95, against="groups"),
        eh.PredictiveEquality(difference=0.01),
        eh.EqualizedOdds(difference=0.01),
        eh.AccuracyParity(ratio=0.99),
    ],
    ids=str,
)
def test_two_labels_as_actions_cost_what_two_decisions_do(constraint):
    posteriors = population(3, n=1500, L=2)
    binary = eh.solve(posteriors, constraint)
    both = eh.solve(posteriors, constraint, cost=ERRORS)
    assert both.certificate.objective == pytest.approx(binary.certificate.objective, abs=1e-12)
    assert both.rates.selected[:, :, 1] == pytest.approx(binary.rates.rates * binary.rates.masses, abs=1e-6)


@pytest.mark.parametrize("better", ["approve", ["approve", "review"]], ids=str)
@pytest.mark.parametrize("than", ["today", "unconstrained"])
def test_no_group_is_worse_off_after_review(than, better):
    """Reviews that are equally frequent, and approvals that no group has fewer of than under a reference."""
    rows, weights = population(12, n=2000, L=2), np.random.default_rng(0).random(2000)

    def solved(constraint):
        return eh.solve(rows, constraint, cost=LENDING, sample_weight=weights)

    today, free = solved(eh.RateBound("review", at_most=0.05)), solved(eh.RateBound("review", at_most=1.0))
    reviews = eh.DemographicParity(difference=0.0, action="review") & eh.RateBound("review", at_least=0.3)
    reference = today.rates if than == "today" else "unconstrained"
    plain, kept = solved(reviews), solved(reviews & eh.NoWorse(better, than=reference))
    before = today.rates if than == "today" else free.rates
    which = [list(LENDING.table).index(name) for name in ([better] if isinstance(better, str) else better)]
    least = before.by_group[:, which].sum(axis=1)
    assert (kept.rates.by_group[:, which].sum(axis=1) >= least - 1e-9).all()
    broken = (plain.rates.by_group[:, which].sum(axis=1) < least - 1e-6).any()
    assert (kept.certificate.objective > plain.certificate.objective + 1e-9) == broken
    assert broken or better != "approve"
    assert kept.certificate.violation < 1e-11
    assert abs(kept.certificate.gap) < 1e-11


def test_the_price_of_a_review_is_what_one_more_saves():
    posteriors, step = population(4, n=3000, L=2), 1e-4
    parity = eh.DemographicParity(difference=0.05)
    at = [
        eh.solve(posteriors, parity & eh.RateBound("review", at_most=0.1 + more), cost=LENDING)
        for more in (0.0, step)
    ]
    [price] = [value for name, value in at[0].shadow_prices.items() if name.notion == "rate of review"]
    saved = at[1].certificate.objective - at[0].certificate.objective
    assert saved / step == pytest.approx(price, rel=0.02)
    assert price < 0


def test_shadow_prices_of_parity_are_derivatives():
    posteriors, step = population(5, n=3000), 1e-4
    costs = [eh.solve(posteriors, eh.DemographicParity(difference=delta)) for delta in (0.03, 0.03 + step)]
    slope = (costs[1].certificate.objective - costs[0].certificate.objective) / step
    assert sum(costs[0].shadow_prices.values()) == pytest.approx(slope, rel=0.02)


def test_costs_of_several_groups_of_rows_decide_as_their_weights_say():
    """A row of weight 2 is two rows."""
    posteriors, constraint = population(6, n=200), eh.DemographicParity(difference=0.02)
    weighted = eh.solve(posteriors, constraint, sample_weight=np.repeat([1.0, 2.0], 100))
    twice = eh.solve(np.concatenate([posteriors, posteriors[100:]]), constraint)
    assert weighted.certificate.objective == pytest.approx(twice.certificate.objective, abs=1e-12)


def test_new_rows_that_tie_are_decided_by_the_second_score():
    """Two actions that cost the same: the rule that is shipped keeps a capacity on new rows as well."""
    costs = eh.Costs({"a": {0: 0, 1: 1}, "b": {0: 1, 1: 0}, "also b": {0: 1, 1: 0}})
    requirement = eh.RateBound("b", at_least=0.2, at_most=0.2) & eh.DemographicParity(difference=0.02)
    rows = population(7, n=6000, L=2)
    solution = eh.solve(rows[:3000], requirement, cost=costs)
    assert not solution.certificate.shipped_differs
    rates = solution.rule.selection(rows[3000:]).mean(axis=0)
    assert rates[1] == pytest.approx(0.2, abs=0.03)
    assert rates[2] > 0.05
    assert solution.rule.atoms is None or len(solution.rule.atoms) <= 30


@pytest.mark.parametrize("seed", [40, 57, 98, 101, 138, 147])
def test_actions_that_tie_by_both_scores_are_decided_as_proven(seed):
    """The last digits of the two scores do not decide."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (60, 2, 2)).astype(float)
    rows[rows.sum(axis=(1, 2)) == 0] = 1
    rows /= rows.sum(axis=(1, 2), keepdims=True)
    costs, weights = rng.integers(0, 4, (2, 4)).astype(float), rng.integers(0, 4, 60)
    requirement = eh.PredictiveEquality(difference=0.05) & eh.RateBound("accuracy", at_most=0.3)
    solution = ActionsProblem.of(rows, requirement, cost=costs, sample_weight=weights).solve()
    assert not solution.certificate.shipped_differs
    kept = weights > 0
    assert solution.rule.selection(rows)[kept] == pytest.approx(solution.selection[kept], abs=1e-9)


@pytest.mark.parametrize("seed", [0, 2, 7])
def test_copies_of_a_row_that_ties_share_one_mixture(seed):
    """The linear program takes some of the 8,000 copies, and the others take their best action."""
    rows = np.random.default_rng(seed).dirichlet(np.ones(4), 20_000).reshape(-1, 2, 2)
    rows[:8_000] = rows[0]
    solution = ActionsProblem.of(rows, eh.RateBound("review", at_most=0.3), cost=LENDING).solve()
    assert not solution.certificate.shipped_differs
    assert solution.rule.selection(rows)[:, 2].mean() == pytest.approx(0.3, abs=1e-9)


@pytest.mark.parametrize("K", [2, 3])
def test_what_no_decision_changes_is_not_looked_for_on_samples(K):
    """All actions are right for one label, and rates of all actions sum to 1: samples have other numbers."""
    rows = population(13, n=6_000, M=4)
    costs = np.array([[2.0, 0.0, 1.0], [3.0, 1.0, 1.0], [2.0, 2.0, 2.0]])[:, :K]
    for asked in (
        eh.EqualOpportunity(difference=0.0, against={"group": 2}),
        eh.DemographicParity(ratio=1.0, against="groups"),
    ):
        problem = ActionsProblem.of(rows, asked & eh.RateBound(1, at_most=0.9), cost=costs)
        certificate = problem.solve(advise=False).certificate
        assert abs(certificate.gap) < 1e-9
        assert certificate.violation < 1e-9
    never = eh.EqualOpportunity(difference=0.1) & eh.RateBound("accuracy", at_most=0.5)
    with pytest.raises(InfeasibleError):
        ActionsProblem.of(rows, never, cost=np.full((3, K), 1.0)).solve()


def test_actions_that_cost_the_same_and_copies_of_rows():
    """Whole regions tie: a linear program of all distinct rows decides them."""
    rows = population(14, n=36_000, M=2, L=2)
    rows[:33_000] = rows[np.random.default_rng(0).integers(0, 2000, 33_000)]
    costs = np.array([[2.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    asked = eh.RateBound("accuracy", at_most=0.9) & eh.RateBound(2, at_most=0.4, groups="intersectional")
    certificate = ActionsProblem.of(rows, asked, cost=costs).solve(advise=False).certificate
    assert abs(certificate.gap) < 1e-9
    assert certificate.violation < 1e-9


@pytest.mark.parametrize("seed", range(40, 60))
def test_one_row_alone_is_decided_as_it_is_among_others(seed):
    """Few different rows, and actions that cost the same: the rule attains what is certified."""
    rng = np.random.default_rng(seed)
    M, L, K = (int(size) for size in rng.integers(2, 5, 3))
    rows = np.round(6 * population(seed, n=60, M=M, L=L)) / 6 + 1e-3
    rows /= rows.sum(axis=(1, 2), keepdims=True)
    table, weights = np.round(3 * rng.random((L, K))), rng.random(60)
    requirement = eh.DemographicParity(difference=float(rng.choice([0.0, 0.02])), against="groups")
    solution = ActionsProblem.of(rows, requirement, cost=table, sample_weight=weights).solve()
    alone = np.concatenate([solution.rule.selection(row[None]) for row in rows])
    attained = np.einsum("i,iml,ia->mla", weights / weights.sum(), rows, alone)
    assert attained == pytest.approx(solution.rates.selected, abs=1e-9)


def test_what_cannot_hold_together_is_named():
    asked = eh.RateBound("review", at_least=0.5) & eh.RateBound("approve", at_least=0.6)
    with pytest.raises(InfeasibleError, match="rate of review") as caught:
        eh.solve(population(8, L=2), asked, cost=LENDING)
    assert len(caught.value.conflict) == 2
    works = caught.value.works
    assert eh.solve(population(8, L=2), works, cost=LENDING).certificate.violation < 1e-9


def test_an_action_that_nobody_gets_is_told():
    costs = eh.Costs({**LENDING.table, "review": {"bad": 9, "good": 9}})
    with pytest.warns(ConstantClassifierWarning, match="nobody gets the action 'review'"):
        eh.solve(population(9, L=2), eh.DemographicParity(difference=0.1), cost=costs)


def test_a_label_that_a_group_does_not_have_leaves_its_requirement_out():
    posteriors = population(10)
    posteriors[:, 0, 2] = 0.0
    posteriors /= posteriors.sum(axis=(1, 2), keepdims=True)
    solution = eh.solve(posteriors, eh.EqualOpportunity(difference=0.02))
    assert [str(name.group) for name in solution.linear_constraints.undefined] == ["group=0"]
    assert solution.certificate.violation < 1e-9


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"posteriors": np.full((5, 2, 3), np.nan)}, "NaN, negative"),
        ({"posteriors": np.zeros((0, 2, 3))}, "no rows"),
        ({"posteriors": np.ones((5, 2, 3), int)}, "must be floats of shape"),
        ({"cost": 0.3}, "cost=0.3 is for two labels"),
        ({"cost": "x"}, "cost must be Costs or numbers, got 'x'"),
        ({"cost": [[0, 1], [1]]}, "cost must be Costs or numbers"),
        ({"posteriors": population(0, L=2), "cost": [[0, 1], [1]]}, "cost must be numbers"),
        ({"constraint": eh.DemographicParity(difference=0.1, action=[])}, "name an action"),
        ({"constraint": eh.DemographicParity(difference=0.1, action={1, 2})}, "name an action"),
        ({"constraint": eh.RateBound({0: 0, 1: 1, 2: 5}, at_most=0.1)}, "value of the action 2 must be"),
        (
            {"posteriors": eh.GroupedScores(np.linspace(0, 1, 5), np.zeros(5, int), 1), "cost": LENDING},
            "in memory",
        ),
        ({"cost": LENDING}, "posteriors have 3 labels, and Costs has 2"),
        ({"objective": "minimax"}, "no objective but the risk"),
        ({"groups": eh.Groups.product({"g": "ab"})}, "posteriors have 3 groups, and groups names 2"),
        ({"constraint": "parity"}, "constraint must be"),
        ({"posteriors": np.full((3, 2, 120), 1 / 240), "cost": 0.5}, "GiB of memory"),
    ],
)
def test_what_cannot_be_solved_is_refused(changed, said):
    given = {"posteriors": population(0), "constraint": eh.DemographicParity(difference=0.1)} | changed
    with pytest.raises(InputError, match=said):
        eh.solve(**given)


def test_the_rule_refuses_other_posteriors():
    rule = eh.solve(population(0), eh.DemographicParity(difference=0.1)).rule
    with pytest.raises(InputError, match=r"shape \(n, 3, 3\)"):
        rule.selection(np.full((2, 2, 2), 0.25))
    with pytest.raises(InputError, match="NaN in 2 of 2 rows"):
        rule.selection(np.full((2, 3, 3), np.nan))
    assert "3 actions" in repr(rule)


def test_rows_without_any_tie_need_no_second_score():
    rule = ActionRule(-1.0 + np.eye(2)[None], 1.0 - np.eye(2), ("a", "b"), ties=np.zeros((1, 2, 2)))
    assert rule.selection(np.array([[[0.2, 0.8]]])).tolist() == [[0.0, 1.0]]
    assert rule.selection(np.empty((0, 1, 2))).shape == (0, 2)


def test_the_same_person_gets_the_same_action():
    table = np.zeros((1, 2, 3))
    atom = np.array([[[0.5, 0.5]]])
    rule = ActionRule(
        table, np.ones((2, 3)), ("a", "b", "c"), None, atom, np.array([[0.2, 0.3, 0.5]]), key="k"
    )
    rows = np.repeat(atom, 3000, axis=0)
    people = [str(number).encode() for number in range(3000)]
    decided = rule.decide(rows, lambda index: [people[k] for k in index])
    again = rule.decide(rows[::-1], lambda index: [people[2999 - k] for k in index])
    assert (decided == again[::-1]).all()
    assert np.bincount(decided) / 3000 == pytest.approx([0.2, 0.3, 0.5], abs=0.04)

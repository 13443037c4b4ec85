"""Rates and their bounds in an audit: intervals, verdicts, and every output."""

import json
import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest
from tests.auditing.helpers import assert_same, sample

import evenhand as eh
from evenhand.auditing.tally import rate_change, tally
from evenhand.exceptions import InputError
from evenhand.guarantee.intervals import clopper_pearson, critical_value
from evenhand.requirements.bounds import BOUNDED_RATES
from evenhand.requirements.rates import read_rows

Y, DECIDED, FEATURES = sample()
EARLIER = sample(seed=1)[1]


def exact(hits, rows, groups=1, confidence=0.95):
    """Clopper-Pearson by another package, at Bonferroni's level."""
    found = binomtest(int(hits), int(rows)).proportion_ci(1 - (1 - confidence) / groups, method="exact")
    return found.low, found.high


# Intervals and verdicts


@pytest.mark.parametrize("rate", BOUNDED_RATES)
@pytest.mark.parametrize("mode", ["population", "intersectional", "independent"])
def test_an_audit_agrees_with_the_measurement(rate, mode):
    bound = eh.RateBound(rate, at_least=0.2, at_most=0.7, groups=mode)
    low, high = eh.audit(Y, DECIDED, FEATURES, constraint=bound).comparisons[:2]
    [measured] = bound.measure(eh.cell_rates(Y, DECIDED, FEATURES))
    assert [part.value for part in low.distances] == measured.values.tolist()
    assert (low.measure, low.value, low.tolerance) == ("at least", measured.values.min(), 0.2)
    assert (high.measure, high.value, high.tolerance) == ("at most", measured.values.max(), 0.7)
    assert {low.against, high.against} == {"bound"}
    assert {low.groups, high.groups} == {mode}
    assert low.low == min(part.low for part in low.distances)
    assert low.high == min(part.high for part in low.distances)
    assert high.low == max(part.low for part in high.distances)
    assert high.high == max(part.high for part in high.distances)
    assert low.reference is high.reference is None


def test_the_population_has_an_exact_interval():
    found = eh.audit(
        None, DECIDED, FEATURES, constraint=eh.RateBound("selection rate", at_most=0.5)
    ).comparisons[0]
    assert (found.low, found.high) == pytest.approx(exact(DECIDED.sum(), len(DECIDED)))
    assert found.value == DECIDED.mean()
    assert str(found.group) == ""


def test_precision_has_an_interval_among_the_selected():
    found = eh.audit(
        Y, DECIDED, FEATURES, constraint=eh.RateBound("precision", at_least=0.4, groups="independent")
    )["precision"]
    for part in found.distances:
        [feature], [value] = part.group.features, part.group.values
        chosen = (FEATURES[feature] == value) & (DECIDED == 1)
        assert part.value == Y[chosen].mean()
        assert (part.low, part.high) == pytest.approx(exact(Y[chosen].sum(), chosen.sum(), groups=5))


def test_precision_of_weighted_rows_uses_an_effective_number_of_the_selected():
    y, decided, weights = [1, 0, 1, 0, 1, 0], [1, 1, 1, 0, 0, 1], [3.0, 1, 1, 5, 5, 1]
    found = eh.audit(
        y, decided, list("aaabbb"), sample_weight=weights, constraint=eh.RateBound("precision", at_least=0.5)
    ).comparisons[0]
    w, hits = np.array([3.0, 1, 1, 1]), np.array([1, 0, 1, 0])
    q = w @ hits / w.sum()
    size = min(q * (1 - q) * w.sum() ** 2 / (w**2 @ (hits - q) ** 2), w.sum() ** 2 / (w @ w))
    expected = clopper_pearson(q, size, critical_value(0.95))
    assert (found.value, found.low, found.high) == pytest.approx(
        (q, float(expected.low), float(expected.high))
    )


def test_equal_weights_change_nothing():
    both = eh.RateBound("precision", at_least=0.4, groups="intersectional") & eh.NoWorse("accuracy")
    plain, weighted = (
        eh.audit(Y, DECIDED, FEATURES, before=EARLIER, constraint=both, sample_weight=weights).to_dict()
        for weights in (None, np.full(len(Y), 7.0))
    )
    assert_same(weighted, plain | {"weighted": True})


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [
        (eh.RateBound("selection rate", at_most=0.1), "violated"),
        (eh.RateBound("selection rate", at_most=0.9), "satisfied"),
        (eh.RateBound("selection rate", at_most=float(DECIDED.mean())), "insufficient evidence"),
        (eh.RateBound("true-positive rate", at_least=0.95, groups="intersectional"), "violated"),
        (eh.RateBound("true-positive rate", at_least=0.1, groups="intersectional"), "satisfied"),
        (eh.RateBound("true-positive rate", at_least=0.5, groups="intersectional"), "insufficient evidence"),
        (eh.RateBound("accuracy", at_most=0.3), "violated"),
        (eh.RateBound("false-positive rate", at_least=0.9), "violated"),
    ],
    ids=repr,
)
def test_a_verdict_needs_the_whole_interval_on_one_side(bound, verdict):
    assert eh.audit(Y, DECIDED, FEATURES, constraint=bound).comparisons[0].verdict == verdict


def test_one_clear_violation_is_enough():
    """The smallest rate is of a small group, and uncertain; that of a large one is clearly too low."""
    decided = [1] * 300 + [0] * 700 + [1] + [0] * 4
    found = eh.audit(
        None,
        decided,
        {"g": ["large"] * 1000 + ["small"] * 5},
        constraint=eh.RateBound("selection rate", at_least=0.5, groups="intersectional"),
    )["selection rate"]
    assert str(found.group) == "g=small"
    assert found.distances[1].high > 0.5
    assert found.verdict == "violated"


def test_intervals_hold_for_all_groups_at_once():
    bound = eh.RateBound("selection rate", at_least=0.1, groups="intersectional")
    found = eh.audit(None, DECIDED, FEATURES, constraint=bound)["selection rate"]
    [first, *_] = found.distances
    own = (FEATURES["sex"] == "F") & (FEATURES["race"] == "A")
    assert (first.low, first.high) == pytest.approx(exact(DECIDED[own].sum(), own.sum(), groups=6))


# Undefined rates


def test_precision_where_nobody_is_selected_is_undefined_and_the_bound_holds():
    y, group = [1, 0] * 500 + [1, 0] * 500, ["a"] * 1000 + ["b"] * 1000
    decided = [1, 0] * 500 + [0] * 1000
    found = eh.audit(
        y, decided, group, constraint=eh.RateBound("precision", at_least=0.5, groups="intersectional")
    )
    one = found["precision"]
    assert [str(name) for name in one.undefined] == ["sensitive_feature=b"]
    assert math.isnan(one.distances[1].value)
    assert (one.value, one.verdict) == (1.0, "satisfied")
    assert "precision: undefined for sensitive_feature=b, where the bound holds" in str(found)
    nobody = eh.audit(y, [0] * 2000, group, constraint=eh.RateBound("precision", at_least=0.5), pos_label=1)[
        "precision"
    ]
    assert math.isnan(nobody.value)
    assert (nobody.group, nobody.verdict) == (None, "satisfied")


def test_nothing_is_known_of_a_group_without_positives():
    y, group = [1] * 1000 + [0] * 1000, ["a"] * 1000 + ["b"] * 1000
    for bound, limits in (
        (eh.RateBound("true-positive rate", at_least=0.5, groups="intersectional"), ("low", 0.0)),
        (eh.RateBound("true-positive rate", at_most=1.0, groups="intersectional"), ("high", 1.0)),
    ):
        found = eh.audit(y, [1] * 1000 + [0] * 1000, group, constraint=bound)
        one = found["true-positive rate"]
        assert [str(name) for name in one.undefined] == ["sensitive_feature=b"]
        assert getattr(one, limits[0]) == limits[1]
        assert "true-positive rate: undefined for sensitive_feature=b" in str(found)
    assert eh.audit(y, y, group, constraint=bound).comparisons[0].value == 1.0
    strict = eh.RateBound("true-positive rate", at_least=0.5, groups="intersectional")
    assert eh.audit(y, y, group, constraint=strict).comparisons[0].verdict == "insufficient evidence"


def test_positives_without_weight_are_no_evidence():
    bound, weights = eh.RateBound("true-positive rate", at_least=0.1), [0, 1, 1, 1]
    found = eh.audit([1, 0, 0, 0], [1, 0, 1, 0], list("aabb"), sample_weight=weights, constraint=bound)
    one = found["true-positive rate"]
    assert math.isnan(one.value)
    assert (one.low, one.high, one.verdict) == (0.0, 1.0, "insufficient evidence")


def test_bounds_need_labels_if_their_rate_does():
    with pytest.raises(InputError, match="a bound on the precision needs labels: pass y_true"):
        eh.audit(None, DECIDED, FEATURES, constraint=eh.RateBound("precision", at_least=0.5))


def test_a_bound_on_one_group_is_no_occasion_for_a_warning():
    found = eh.audit(None, [1, 0] * 50, ["a"] * 100, constraint=eh.RateBound("selection rate", at_most=0.9))
    assert found["selection rate"].verdict == "satisfied"


def test_a_bound_of_ones_own_is_audited():
    missed = eh.Statistic("miss rate", mask=(0, 1), slope=(0, -1), intercept=(0, 1))
    found = eh.audit(Y, DECIDED, FEATURES, constraint=eh.RateBound(missed, at_most=0.9))["miss rate"]
    chosen = DECIDED[Y == 1]
    assert found.value == pytest.approx(1 - chosen.mean())
    assert (found.low, found.high) == pytest.approx(exact((1 - chosen).sum(), len(chosen)))


# No worse than a reference


def test_rates_of_a_reference_are_given_numbers():
    reference = eh.cell_rates(Y, EARLIER, FEATURES)
    bound = eh.NoWorse("true-positive rate", than=reference, groups="independent")
    found = eh.audit(Y, DECIDED, FEATURES, constraint=bound)["true-positive rate no worse"]
    assert (found.measure, found.tolerance, found.against) == ("at least", 0.0, "reference")
    assert found.statistic == "true-positive rate"
    for part in found.distances:
        [feature], [value] = part.group.features, part.group.values
        own = (FEATURES[feature] == value) & (Y == 1)
        low, high = exact(DECIDED[own].sum(), own.sum(), groups=5)
        then = EARLIER[own].mean()
        assert (part.value, part.low, part.high) == pytest.approx(
            (DECIDED[own].mean() - then, low - then, high - then)
        )


@pytest.mark.parametrize(
    "rate", ["selection rate", "true-positive rate", "false-positive rate", "error rate", "accuracy"]
)
def test_earlier_decisions_are_the_reference_if_there_is_none(rate):
    found = eh.audit(Y, DECIDED, FEATURES, before=EARLIER, constraint=eh.NoWorse(rate))[f"{rate} no worse"]
    reference = eh.cell_rates(Y, EARLIER, FEATURES)
    [measured] = eh.NoWorse(rate, than=reference).measure(eh.cell_rates(Y, DECIDED, FEATURES))
    sign = 1 if found.measure == "at least" else -1
    assert (found.measure == "at most") == (rate in ("error rate", "false-positive rate"))
    assert sign * found.value == pytest.approx(-measured.excesses.max())
    assert found.group == measured.worst
    counted = tally(read_rows(Y, DECIDED, FEATURES, before=EARLIER))
    asked = eh.NoWorse("error rate" if rate == "accuracy" else rate).rate_statistic
    change = rate_change(counted, asked, np.eye(6), critical_value(0.95, 6), clopper_pearson)
    flip = -1 if rate == "accuracy" else 1
    assert [part.value for part in found.distances] == pytest.approx(list(flip * change.value))
    lows = change.low if flip == 1 else -change.high
    assert [part.low for part in found.distances] == pytest.approx(list(lows))


def test_the_same_decisions_are_no_evidence_of_being_worse():
    for rate in ("selection rate", "error rate"):
        found = eh.audit(Y, DECIDED, FEATURES, before=DECIDED, constraint=eh.NoWorse(rate)).comparisons[0]
        assert (found.value, found.verdict) == (0.0, "insufficient evidence")


def test_a_clear_loss_is_a_violation_and_a_clear_gain_is_none():
    more = np.where(np.arange(len(Y)) % 2, 1, DECIDED)
    gain = eh.audit(Y, more, FEATURES, before=DECIDED, constraint=eh.NoWorse("selection rate"))
    loss = eh.audit(Y, DECIDED, FEATURES, before=more, constraint=eh.NoWorse("selection rate"))
    assert [part.comparisons[0].verdict for part in (gain, loss)] == ["satisfied", "violated"]


def test_a_reference_of_its_own_goes_before_earlier_decisions():
    bound = eh.NoWorse("selection rate", than=eh.cell_rates(Y, np.zeros(len(Y), int), FEATURES))
    found = eh.audit(Y, DECIDED, FEATURES, before=np.ones(len(Y), int), constraint=bound).comparisons[0]
    assert found.verdict == "satisfied"


def test_without_any_reference_the_message_says_what_to_pass():
    with pytest.raises(InputError, match=r"pass than=evenhand.cell_rates.*to an audit, those decisions as b"):
        eh.audit(Y, DECIDED, FEATURES, constraint=eh.NoWorse("selection rate"))


def test_a_group_without_a_rate_under_the_reference_leaves_the_interval_open():
    y, group = [1, 0] * 300, ["a", "a", "b", "b"] * 150
    reference = eh.cell_rates([1, 0, 0, 0], [0, 0, 0, 0], list("aabb"), pos_label=1)
    bound = eh.NoWorse("true-positive rate", than=reference)
    found = eh.audit(y, y, group, constraint=bound).comparisons[0]
    assert [str(name) for name in found.undefined] == ["sensitive_feature=b"]
    assert (found.low, found.verdict) == (-1.0, "insufficient evidence")


# Outputs

ALL = (
    eh.RateBound("selection rate", at_most=0.3)
    & eh.RateBound("true-positive rate", at_least=0.5, groups="intersectional")
    & eh.RateBound("precision", at_least=0.3, at_most=0.9, groups="independent")
    & eh.NoWorse("selection rate")
    & eh.DemographicParity(ratio=0.8, against="groups")
    & eh.EqualizedOdds(difference=0.1)
)


@pytest.fixture(scope="module")
def found():
    return eh.audit(Y, DECIDED, FEATURES, before=EARLIER, constraint=ALL)


def test_comparisons_have_the_order_of_the_requirement(found):
    assert [part.notion for part in found.comparisons[:7]] == [
        "selection rate",
        "true-positive rate",
        "precision",
        "precision",
        "selection rate no worse",
        "demographic parity",
        "equalized odds",
    ]


def test_bounds_are_in_the_text(found):
    text = str(found)
    lines = text.splitlines()
    start = lines.index("bounds on rates: the rate that is nearest to its bound, or misses it most")
    assert lines[start + 1].startswith("selection rate, at most 0.3 ")
    assert lines[start + 1].split()[-2:] == ["everyone", "violated"]
    assert f"{DECIDED.sum():,} of 4,000 rows are selected; a share of 0.3 would be 1,200" in text
    assert "rates minus those of the reference" in text
    assert "combinations compared with each other" in text
    assert "demographic parity, ratio between groups" in text
    assert max(map(len, lines)) <= 120


def test_bounds_are_in_the_repr_and_the_notebook(found):
    short = repr(found)
    assert short.startswith("<Audit of 4,000 rows by sex, race: selection rate, at most 0.3: 0.")
    assert short.endswith(", violated>")
    page = found._repr_html_()
    assert "true-positive rate, at least 0.5" in page
    assert "selection rate no worse" in page


def test_bounds_are_in_the_frames(found):
    table = found.to_frame("comparisons", backend="polars")
    assert table["against"].to_list()[:5] == ["bound"] * 4 + ["reference"]
    assert table["group"][0] == "everyone"
    assert table["measure"].to_list()[:4] == ["at most", "at least", "at least", "at most"]
    distances = found.to_frame("distances", backend="polars")
    precision = distances.filter((pl.col("notion") == "precision") & (pl.col("measure") == "at least"))
    assert precision["group"].to_list() == ["sex=F", "sex=M", "race=A", "race=B", "race=C"]
    assert precision["value"][0] == Y[(FEATURES["sex"] == "F") & (DECIDED == 1)].mean()


def test_bounds_are_in_the_json(found):
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    first = written["comparisons"][0]
    assert (first["against"], first["group"], first["tolerance"]) == ("bound", {}, 0.3)
    assert first["verdict"] == "violated"
    nobody = eh.audit(
        Y, 0 * Y, FEATURES, constraint=eh.RateBound("precision", at_least=0.5), pos_label=1
    ).to_dict()
    one = json.loads(json.dumps(nobody, allow_nan=False))["comparisons"][0]
    assert (one["value"], one["low"], one["high"], one["verdict"]) == (None, None, None, "satisfied")


@pytest.mark.parametrize("weights", [None, "weight"])
def test_a_table_has_the_same_comparisons(weights):
    rng = np.random.default_rng(3)
    rows = {"y": Y, "decided": DECIDED, "earlier": EARLIER, **FEATURES, "weight": rng.lognormal(size=len(Y))}
    roles = {"y_true": "y", "y_pred": "decided", "before": "earlier", "sample_weight": weights}
    of_table = eh.audit(
        data=pl.DataFrame(rows).lazy(), **roles, sensitive_features=["sex", "race"], constraint=ALL
    )
    of_rows = eh.audit(
        Y,
        DECIDED,
        FEATURES,
        before=EARLIER,
        sample_weight=None if weights is None else rows[weights],
        constraint=ALL,
    )
    assert_same(of_table.to_dict(), of_rows.to_dict())

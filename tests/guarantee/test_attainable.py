"""What can be guaranteed where the requirement cannot: less strict requirements along one path."""

import math

import pytest

import evenhand as eh
from evenhand.guarantee.attainable import attainable, more_rows
from evenhand.guarantee.guarantee import guaranteed

ODDS = eh.EqualizedOdds(difference=0.02)
CAPACITY, WIDER = (eh.RateBound("selection rate", at_most=limit) for limit in (0.3, 0.35))


def at_most(*, difference=math.inf, ratio=-math.inf, capacity=math.inf):
    """A requirement holds if it asks for no more than this."""

    def holds(constraint):
        return all(
            notion.tolerance >= difference
            if notion.compares_by == "difference"
            else notion.tolerance <= ratio
            for notion in constraint.notions
        ) and all(bound.at_most >= capacity for bound in constraint.bounds)

    return holds


@pytest.mark.parametrize(
    ("asked", "true", "found"),
    [
        (ODDS, {"difference": 0.0465}, eh.EqualizedOdds(difference=0.047)),
        (ODDS, {"difference": 0.047}, eh.EqualizedOdds(difference=0.047)),
        (ODDS, {"difference": 0.9995}, None),
        (eh.DemographicParity(ratio=0.8), {"ratio": 0.7123}, eh.DemographicParity(ratio=0.712)),
        (eh.DemographicParity(ratio=0.8), {"ratio": 0.0}, None),
        (CAPACITY, {"capacity": 0.41}, eh.RateBound("selection rate", at_most=0.41)),
        (CAPACITY, {}, None),
        (ODDS & CAPACITY, {"difference": 0.1, "capacity": 0.2}, eh.EqualizedOdds(difference=0.1) & CAPACITY),
        (ODDS & CAPACITY, {"capacity": 0.2}, CAPACITY),
        (
            ODDS & CAPACITY,
            {"difference": 0.0, "capacity": 0.35},
            eh.RateBound("selection rate", at_most=0.35),
        ),
    ],
    ids=str,
)
def test_notions_are_relaxed_first_and_bounds_only_without_them(asked, true, found):
    best = attainable(asked, at_most(**true))
    assert repr(best) == repr(found) or (
        # one step of the path can be two thousandths wide
        best is not None and more_rows(found, best) < 1.1
    )


def test_the_requirement_itself_stays_as_it_is():
    asked = ODDS & CAPACITY
    attainable(asked, at_most(difference=0.5, capacity=0.5))
    assert asked == ODDS & CAPACITY
    assert (asked.notions[0].difference, asked.bounds[0].at_most) == (0.02, 0.3)


def test_rows_grow_with_the_square_of_the_distance_from_the_strictest():
    assert more_rows(ODDS, eh.EqualizedOdds(difference=0.06)) == pytest.approx(9)
    assert more_rows(eh.DemographicParity(ratio=0.9), eh.DemographicParity(ratio=0.7)) == pytest.approx(9)
    # The strictest capacity that classifiers aim for is 0.15.
    assert more_rows(CAPACITY, eh.RateBound("selection rate", at_most=0.45)) == pytest.approx(4)
    assert more_rows(ODDS & CAPACITY, eh.EqualizedOdds(difference=0.03) & CAPACITY) == pytest.approx(2.25)
    assert more_rows(ODDS & CAPACITY, CAPACITY) == more_rows(ODDS, None) == math.inf


def test_references_are_numbers_of_the_fit_and_are_shown_as_they_were_asked_for():
    groups = {"g": ["a", "b"] * 200}
    reference = eh.cell_rates(None, [1, 1, 0, 0] * 100, groups)
    asked, resolved = eh.NoWorse("selection rate"), eh.NoWorse("selection rate", than=reference)
    _, guarantee = guaranteed([(asked, "any", [reference])], asked, 0.95, resolved=resolved)
    assert not guarantee.holds
    assert guarantee.attainable.than == "unconstrained"
    assert -0.2 < guarantee.attainable.margin < -0.05
    assert 400 < guarantee.needed < 2000

"""A monitor as its users see it."""

import datetime
import json
import tracemalloc

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.exceptions import GroupError, InputError, MonitorWarning, UntrustedFileError
from evenhand.requirements.measurement import BoundMeasurement

PARITY = eh.DemographicParity(difference=0.05)


def stream(days, rows=400, *, change=None, rng, rates=(0.3, 0.33)):
    """Batches of decisions; from day `change` on, women are selected half as often."""
    for day in range(days):
        sex = rng.choice(["F", "M"], rows, p=[0.4, 0.6])
        low = rates[0] / 2 if change is not None and day >= change else rates[0]
        yield day, sex, (rng.random(rows) < np.where(sex == "F", low, rates[1])).astype(int)


def people(rng, rows=3000):
    """Rows with two sensitive features, a control feature, labels and decisions."""
    sex, race = rng.choice(["F", "M"], rows), rng.choice(["A", "B", "C"], rows)
    level = rng.choice(["junior", "senior"], rows)
    y = (rng.random(rows) < 0.4).astype(int)
    d = (rng.random(rows) < 0.2 + 0.4 * y + 0.1 * (sex == "M")).astype(int)
    return {"sex": sex, "race": race}, {"level": level}, y, d


def test_a_change_raises_an_alarm_that_says_who_and_since_when():
    monitor = eh.Monitor(PARITY)
    for day, sex, decided in stream(40, change=20, rng=np.random.default_rng(1)):
        monitor.update(decided, {"sex": sex}, time=f"2026-03-{day + 1:02}" if day < 31 else None)
        assert monitor.alarm is None or day >= 20
    alarm = monitor.alarm
    assert (alarm.group, alarm.against, alarm.notion) == ("sex=F", "everyone", "demographic parity")
    assert alarm.low
    assert 20 < alarm.batch <= 35
    assert 10 <= alarm.since <= alarm.batch
    assert alarm.evidence >= 20
    assert alarm.time.startswith("2026-03-")
    assert str(alarm) in str(monitor)


def test_decisions_within_the_tolerance_are_shown_to_be():
    monitor = eh.Monitor(eh.DemographicParity(difference=0.1))
    for _, sex, decided in stream(20, rng=np.random.default_rng(2)):
        monitor.update(decided, {"sex": sex})
    assert monitor.alarm is None
    assert {one.verdict for one in monitor.disparities()} == {"within tolerance"}


@pytest.mark.parametrize(
    "constraint",
    [
        eh.DemographicParity(difference=0.05, groups="independent"),
        eh.DemographicParity(ratio=0.8, against="groups"),
        eh.EqualizedOdds(difference=0.1),
        eh.AccuracyParity(ratio=0.9),
        eh.EqualOpportunity(ratio=0.8, against={"sex": "M", "race": "A"}),
        eh.DemographicParity(difference=0.05, given=["level"]),
        eh.RateBound("precision", at_least=0.5, groups="intersectional") & PARITY,
        eh.RateBound("accuracy", at_least=0.5, at_most=0.9),
    ],
    ids=repr,
)
def test_values_are_those_of_the_requirement_itself(constraint):
    """The worst value of each statistic, by the second computation of `measure`."""
    sensitive, level, y, decided = people(np.random.default_rng(3))
    monitor, controls = eh.Monitor(constraint), level if constraint.controls else None
    for part in np.array_split(np.arange(3000), 5):
        monitor.update(
            decided[part],
            {name: column[part] for name, column in sensitive.items()},
            y_true=y[part],
            control_features=controls and {name: column[part] for name, column in controls.items()},
        )
    rates = eh.cell_rates(y, decided, sensitive, control_features=controls)
    found = monitor.disparities()
    for one in constraint.measure(rates):
        mine = [
            part
            for part in found
            if part.notion == one.notion and part.statistic == getattr(one, "statistic", part.statistic)
            if getattr(one, "stratum", None) is None or str(one.stratum) in part.group
        ]
        values = [part.value for part in mine]
        if isinstance(one, BoundMeasurement):
            np.testing.assert_allclose(values[: len(one.values)], one.values)
        elif mine[0].kind == "difference":
            assert max(map(abs, values)) == pytest.approx(one.difference)
        else:
            assert min(values) == pytest.approx(one.ratio)
        assert all(part.low <= part.value <= (np.inf if part.high is None else part.high) for part in mine)
        assert all(part.rate_low <= part.rate <= part.rate_high for part in mine)


def test_no_worse_than_decisions_that_were_counted():
    sensitive, _, y, decided = people(np.random.default_rng(4))
    before = eh.cell_rates(y, decided, {"sex": sensitive["sex"]})
    monitor = eh.Monitor(eh.NoWorse("selection rate", than=before))
    monitor.update(decided * (sensitive["sex"] == "M"), {"sex": sensitive["sex"]})
    assert (monitor.alarm.group, monitor.alarm.against) == ("sex=F", "")
    assert {one.group: one.verdict for one in monitor.disparities()}["sex=F"] == "violated"


@pytest.mark.parametrize("lazy", [False, True])
def test_a_table_by_names_of_columns_counts_alike(lazy):
    sensitive, level, y, decided = people(np.random.default_rng(5))
    table = pl.DataFrame({**sensitive, **level, "y": y, "d": decided})
    one, other = (eh.Monitor(eh.EqualizedOdds(difference=0.1, given=["level"])) for _ in range(2))
    one.update(decided, sensitive, y_true=y, control_features=level)
    other.update(
        "d", ["sex", "race"], y_true="y", control_features="level", data=table.lazy() if lazy else table
    )
    assert one.disparities() == other.disparities()
    assert one.evidence == other.evidence
    assert isinstance(other.to_frame(), pl.DataFrame)


def test_labels_that_come_late_count_for_rates_of_labels_only():
    sensitive, _, y, decided = people(np.random.default_rng(6))
    at_once, late = (eh.Monitor(PARITY & eh.EqualOpportunity(difference=0.05)) for _ in range(2))
    at_once.update(decided, sensitive, y_true=y)
    late.update(decided, sensitive)
    assert [one.rate for one in late.disparities() if one.statistic == "true-positive rate"] == [None] * 6
    late.update(decided, sensitive, y_true=y, late=True)
    assert at_once.disparities() == late.disparities()
    with pytest.raises(InputError, match="pass y_true"):
        late.update(decided, sensitive, late=True)


def test_weights_of_a_table_are_read_from_it():
    rng = np.random.default_rng(16)
    sensitive, _, y, decided = people(rng, 500)
    weight = rng.random(500)
    table = pl.DataFrame({**sensitive, "y": y, "d": decided, "w": weight})
    one, other = (eh.Monitor(eh.EqualizedOdds(difference=0.1)) for _ in range(2))
    one.update(decided, sensitive, y_true=y, sample_weight=weight)
    other.update("d", ["sex", "race"], data=table.lazy(), y_true="y", sample_weight="w")
    for name in ("rows", "rate", "value", "low", "high"):  # sums of weights differ in their last digits
        found = [[getattr(part, name) for part in monitor.disparities()] for monitor in (one, other)]
        assert found[0] == pytest.approx(found[1], abs=1e-6)
    with pytest.raises(InputError, match="data has no column 'q'"):
        other.update("d", ["sex", "race"], data=table, sample_weight="q")


def test_weights_up_to_one_count_as_parts_of_rows():
    sensitive, _, _, decided = people(np.random.default_rng(8), 400)
    one, other = eh.Monitor(PARITY), eh.Monitor(PARITY)
    for part in range(2):
        one.update(decided, sensitive, sample_weight=np.full(400, 0.5), batch=str(part))
    other.update(decided, sensitive)
    assert one.disparities() == other.disparities()
    with pytest.raises(InputError, match="weights from 0 to 1"):
        one.update(decided, sensitive, sample_weight=np.full(400, 2.0))


def test_the_state_is_a_small_file_that_gives_the_same_monitor(tmp_path):
    monitor = eh.Monitor(PARITY)
    for _, sex, decided in stream(90, 100, rng=np.random.default_rng(10)):
        monitor.update(decided, {"sex": sex})
    path = tmp_path / "state.json"
    monitor.save(path)
    assert path.stat().st_size < 8000
    again = eh.Monitor.load(path)
    assert repr(again) == repr(monitor)
    assert again.to_dict() == monitor.to_dict()
    assert again.history() == monitor.history()
    for one in (monitor, again):
        one.update([1, 0, 1], {"sex": ["F", "M", "F"]})
    assert again.to_dict() == monitor.to_dict()


def test_of_two_writers_the_second_is_told(tmp_path):
    path = tmp_path / "state.json"
    monitor = eh.Monitor(PARITY)
    monitor.update([1, 0], {"sex": ["F", "M"]})
    monitor.save(path)
    with pytest.raises(InputError, match="exists already"):
        eh.Monitor(PARITY).save(path)
    one, other = eh.Monitor.load(path), eh.Monitor.load(path)
    one.update([1, 1], {"sex": ["F", "M"]})
    one.save(path)
    other.update([0, 1], {"sex": ["F", "M"]})
    before = path.read_bytes()
    with pytest.raises(InputError, match="changed by someone else"):
        other.save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (lambda text: text[:-20], "cannot be read"),
        (lambda text: text.replace('"evenhand monitor"', '"other"'), "not the state"),
        (lambda text: text.replace('"version":1', '"version":9'), "format 9"),
        (
            lambda text: text.replace('"known",{"tuple":[0,0]', '"known",{"tuple":[0]'),
            "do not belong together",
        ),
        (lambda text: text.replace('"batch":1', '"batch":-1'), "do not belong together"),
        (lambda text: text.replace('"start":0', '"start":1000000000'), "do not belong together"),
        (lambda text: text.replace('"sums":[1,1,', '"sums":[1,2,'), "do not belong together"),
        (lambda text: text.replace('"sums":[1,', '"sums":[-1,'), "non-negative numbers"),
        (lambda text: text.replace("DemographicParity", "Groups"), "damaged"),
        (lambda text: text.replace("0.95", "7"), "damaged"),
    ],
)
def test_a_damaged_state_is_refused(tmp_path, alter, words):
    path = tmp_path / "state.json"
    monitor = eh.Monitor(PARITY)
    monitor.update([1, 0], {"sex": ["F", "M"]})
    monitor.save(path)
    altered = alter(path.read_text())
    assert altered != path.read_text()
    path.write_text(altered)
    with pytest.raises(UntrustedFileError, match=words):
        eh.Monitor.load(path)


def test_a_state_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps([[[]]] * 1000))
    for size in (100, 50_000):
        with pytest.raises(UntrustedFileError, match="more than"):
            eh.Monitor.load(path, max_bytes=size)
    with pytest.raises(InputError, match="no file"):
        eh.Monitor.load(tmp_path / "nothing.json")


def test_a_batch_given_twice_is_told_and_not_counted():
    sensitive, _, _, decided = people(np.random.default_rng(11))
    monitor = eh.Monitor(PARITY)
    monitor.update(decided, sensitive)
    with pytest.warns(MonitorWarning, match="same rows was counted before"):
        monitor.update(decided, sensitive)
    monitor.update(decided[:10], {k: v[:10] for k, v in sensitive.items()}, batch="a")
    with pytest.warns(MonitorWarning, match="batch 'a' was counted before"):
        monitor.update(decided[:20], {k: v[:20] for k, v in sensitive.items()}, batch="a")
    assert (monitor.batches, monitor.rows) == (2, 3010)


def test_a_new_group_is_told_counted_and_compared_from_then_on():
    monitor, rng = eh.Monitor(PARITY), np.random.default_rng(12)
    for _, sex, decided in stream(5, rng=rng):
        monitor.update(decided, {"sex": sex})
    with pytest.warns(MonitorWarning, match=r"new groups, counted from batch 6 on: sex=X \(100 rows\)"):
        monitor.update(np.r_[np.zeros(100), np.ones(300)], {"sex": ["X"] * 100 + ["M"] * 300})
    for _, sex, decided in stream(20, rng=rng):
        sex[:50], decided[:50] = "X", 0
        monitor.update(decided, {"sex": sex})
    assert monitor.alarm.group == "sex=X"
    assert monitor.alarm.since == 5
    assert [one.rows for one in monitor.disparities() if one.group == "sex=X"] == [1100]


def test_values_of_another_type_are_refused():
    monitor = eh.Monitor(PARITY)
    monitor.update([1, 0], {"group": [1, 2]})
    with pytest.raises(InputError, match="of type int and is now '1' of type str"):
        monitor.update([1, 0], {"group": ["1", "2"]})
    assert monitor.batches == 1


def test_other_features_are_refused_and_another_order_is_not():
    sensitive, _, _, decided = people(np.random.default_rng(13))
    one, other = eh.Monitor(PARITY), eh.Monitor(PARITY)
    for monitor in (one, other):
        monitor.update(decided, sensitive, batch="1")
    one.update(decided, sensitive, batch="2")
    other.update(decided, {"race": sensitive["race"], "sex": sensitive["sex"]}, batch="2")
    assert one.disparities() == other.disparities()
    with pytest.raises(InputError, match="earlier ones had 'sex', 'race'"):
        one.update(decided, {"sex": sensitive["sex"]}, batch="3")


def test_an_empty_batch_is_told():
    monitor = eh.Monitor(PARITY)
    with pytest.warns(MonitorWarning, match="batch 1 has no rows"):
        monitor.update([], {"sex": []})
    monitor.update([1, 0], {"sex": ["F", "M"]})
    with pytest.warns(MonitorWarning, match="batch 3 has no rows"):
        monitor.update("d", "sex", data=pl.DataFrame({"d": [], "sex": []}))
    assert (monitor.batches, monitor.rows) == (3, 2)


def test_labels_of_one_kind_in_a_batch():
    """A small batch may hold one label only; earlier batches tell which, and 0 and 1 do."""
    monitor = eh.Monitor(eh.EqualOpportunity(difference=0.1), pos_label="paid")
    monitor.update(["paid", "late"], {"sex": ["F", "M"]}, y_true=["paid", "late"])
    monitor.update(["late"], {"sex": ["F"]}, y_true=["late"])
    monitor.update(["paid"], {"sex": ["M"]}, y_true=["paid"])
    with pytest.raises(InputError, match=r"y_true has the labels \('gone',\), not 'late' or 'paid'"):
        monitor.update(["paid"], {"sex": ["M"]}, y_true=["gone"])
    assert [one.rows for one in monitor.disparities()] == [1, 1]
    zeros = eh.Monitor(eh.EqualOpportunity(difference=0.1))
    zeros.update([0, 1], {"sex": ["F", "M"]}, y_true=[0, 0])
    with pytest.raises(InputError, match="has the labels 'no', 'yes', and earlier ones had 0, 1"):
        zeros.update(["no", "yes"], {"sex": ["F", "M"]}, y_true=["no", "yes"])
    assert zeros.rows == 2


def test_decisions_as_probabilities():
    monitor = eh.Monitor(PARITY)
    monitor.update([0.5, 1.0, 0.25, 0.0], {"sex": ["F", "F", "M", "M"]})
    assert [one.rate for one in monitor.disparities()] == [0.75, 0.125]


def test_time_must_not_go_backwards():
    monitor = eh.Monitor(PARITY)
    monitor.update([1, 0], {"sex": ["F", "M"]}, time=datetime.date(2026, 1, 5))
    with pytest.raises(InputError, match="2026-01-04 is before 2026-01-05"):
        monitor.update([1, 0], {"sex": ["F", "M"]}, time="2026-01-04")
    with pytest.raises(InputError, match="ISO 8601"):
        monitor.update([1, 0], {"sex": ["F", "M"]}, time="yesterday")
    assert monitor.batches == 1


def test_parameters_are_checked():
    with pytest.raises(InputError, match="must be a requirement"):
        eh.Monitor("parity")
    with pytest.raises(InputError, match="strictly between"):
        eh.Monitor(PARITY, confidence=95)
    with pytest.raises(InputError, match="action= is for decisions among several actions"):
        eh.Monitor(eh.DemographicParity(difference=0.05, action="review"))
    with pytest.raises(GroupError, match="neither a control feature"):
        eh.Monitor(eh.DemographicParity(difference=0.1, given=["level"])).update([1, 0], {"sex": ["F", "M"]})


@pytest.fixture(scope="module")
def fitted():
    """A model, and a function that draws people with a share of women."""
    rng = np.random.default_rng(14)

    def draw(rows, women):
        sex = np.where(rng.random(rows) < women, "F", "M")
        X = rng.normal(size=(rows, 2)) + (sex == "M")[:, None] * 0.3
        return X, sex, (rng.random(rows) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(int)

    from sklearn.linear_model import LogisticRegression

    X, sex, y = draw(3000, 0.4)
    fair = eh.FairPostprocessor(LogisticRegression(), PARITY).fit(X, y, sensitive_features={"sex": sex})
    return fair, draw


@pytest.mark.parametrize("women", [0.4, 0.55])
def test_people_are_compared_with_those_of_the_fit(fitted, women, tmp_path):
    fair, draw = fitted
    eh.save(fair, tmp_path / "fair.evenhand")
    monitor = eh.Monitor.from_model(tmp_path / "fair.evenhand")
    assert monitor.constraint == fair.constraint
    for _ in range(10):
        X, sex, _ = draw(400, women)
        monitor.update(fair.predict(X), {"sex": sex})
    monitor.save(tmp_path / "state.json")
    again = eh.Monitor.load(tmp_path / "state.json")
    assert again.drift == monitor.drift
    if women == 0.4:
        assert monitor.drift is None
    else:
        assert monitor.drift.what in ("the share of sex=F", "the share of sex=M")
        assert monitor.drift.evidence >= 20
        assert str(monitor.drift) in str(monitor)


def test_a_model_that_pools_groups_or_is_none_is_refused(fitted):
    with pytest.raises(InputError, match="takes a fitted"):
        eh.Monitor.from_model(object())


def test_both_sides_of_a_requirement_are_told_apart():
    bounds = eh.RateBound("selection rate", at_least=0.3, at_most=0.9, groups="intersectional")
    monitor = eh.Monitor(bounds & eh.DemographicParity(ratio=0.8) & eh.EqualizedOdds(ratio=0.8))
    monitor.update([1, 0, 1, 1] * 20, {"sex": ["F", "F", "M", "M"] * 20}, y_true=[1, 0, 0, 1] * 20)
    about = [(one.notion, one.statistic, one.group, one.required) for one in monitor.disparities()]
    assert len(about) == len(set(about))
    assert {one.required for one in monitor.disparities()} == {
        *("at least 0.3", "at most 0.9", "at least 0.8", "at least 0.8, of one minus rates"),
    }
    assert "true-positive rate" in str(monitor)


def test_a_state_cannot_take_memory_or_hide_characters(tmp_path):
    path = tmp_path / "state.json"
    monitor = eh.Monitor(PARITY)
    monitor.update([1, 0] * 50, {"sex": ["F", "M"] * 50})
    monitor.save(path)
    content = json.loads(path.read_text())
    wide = {**content, "parts": [["<U400000000", ["a"]]]}
    path.write_text(json.dumps({**wide, "alarm": {**content["alarm"], "group": "\x1b[31m"}}))
    tracemalloc.start()
    found = eh.Monitor.load(path)
    assert tracemalloc.get_traced_memory()[1] < 1e7
    tracemalloc.stop()
    assert "\x1b" not in str(found.alarm)
    path.write_text(json.dumps({**content, "alarm": {**content["alarm"], "evidence": "none"}}))
    with pytest.raises(UntrustedFileError, match="damaged"):
        eh.Monitor.load(path)


def test_the_chart_has_every_period_and_the_alarm():
    monitor = eh.Monitor(PARITY)
    for _, sex, decided in stream(50, change=10, rng=np.random.default_rng(15)):
        monitor.update(decided, {"sex": sex})
    found = monitor.history()
    assert 25 < len({one["batch"] for one in found}) <= 35
    assert {one["group"] for one in found} == {"sex=F", "sex=M"}
    women = [one["rate"] for one in found if one["group"] == "sex=F" and one["batch"] <= 10]
    assert np.mean(women) == pytest.approx(0.3, abs=0.05)
    assert f"the alarm was raised at batch {monitor.alarm.batch}" in monitor.plot().description
    assert "alarm at batch" in monitor._repr_html_().lower()

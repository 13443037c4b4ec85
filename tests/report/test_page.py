import json
import re
from importlib.metadata import version

import numpy as np
import pytest
import yaml
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.flat import build

import evenhand as eh
from evenhand.datasets import GaussianProblem
from evenhand.exceptions import InputError
from evenhand.report import page as page_module
from evenhand.report.contents import contents
from evenhand.report.model import describe, versions
from evenhand.report.page import _prices, render
from evenhand.report.summary import place_in_words
from evenhand.solver.certificate import small

PROBLEM = GaussianProblem.random(levels=(2, 2), seed=2)
TRAIN, TEST = PROBLEM.sample(3000, seed=0), PROBLEM.sample(2000, seed=1)
PARITY = eh.DemographicParity(difference=0.05) & eh.EqualOpportunity(ratio=0.8)


def fitted(kind=eh.FairPostprocessor, **settings):
    return build(kind, LogisticRegression(), PARITY, cv=2, **settings).fit(
        TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive
    )


def decided(model):
    return model.predict(TEST.X, sensitive_features=TEST.sensitive)


@pytest.fixture(scope="module")
def model():
    return fitted(aware=True)


@pytest.fixture
def without_charts(monkeypatch):
    """For tests of the text: charts take most of the time."""
    monkeypatch.setattr(page_module, "_charts", lambda _: iter(()))


@pytest.fixture(scope="module")
def report(model, tmp_path_factory):
    """An audit, and the page of it in a folder of its own."""
    audit = eh.audit(TEST.y, decided(model), TEST.sensitive, constraint=PARITY)
    path = tmp_path_factory.mktemp("report") / "r.html"
    return audit, eh.write_report(path, audit, model=model, title="A & B")


def test_the_contents_are_plain_values(model):
    before = LogisticRegression().fit(TRAIN.X, TRAIN.y).predict(TEST.X)
    audit = eh.audit(TEST.y, decided(model), TEST.sensitive, before=before, constraint=PARITY)
    shown = contents(
        audit,
        before=eh.audit(TEST.y, before, TEST.sensitive),
        model=model,
        test=(TEST.X, TEST.y, TEST.sensitive),
        title="t",
        data="",
    )
    again = json.loads(json.dumps(shown, allow_nan=False))
    assert again == json.loads(json.dumps(again))
    accuracy = (decided(model) == TEST.y).mean()
    assert shown["cost"]["after"]["value"] == pytest.approx(accuracy)
    without = (model.predict_unconstrained(TEST.X, sensitive_features=TEST.sensitive) == TEST.y).mean()
    plain = (before == TEST.y).mean()
    found = {name: one["value"] for name, one in shown["cost"]["before"].items()}
    assert found == {"plain": pytest.approx(plain), "without": pytest.approx(without)}
    assert shown["cost"]["change"]["value"] == pytest.approx(accuracy - without)  # like for like
    assert shown["changed"]["since"] == "plain"
    assert [one["notion"] for one in shown["comparisons"] if one["asked"]] == [
        "demographic parity",
        "equal opportunity",
    ]
    assert shown["model"]["proof"]["gap"] < 1e-6
    assert len(shown["model"]["thresholds"]) == 4
    assert {row["group"] for row in shown["calibration"]} == {str(name) for name in model.groups_.names}
    assert all(row["low"] <= row["observed"] <= row["high"] for row in shown["calibration"])


def test_thresholds_agree_with_the_decisions(model):
    shown = contents(eh.audit(TEST.y, decided(model), TEST.sensitive), model=model, title="", data="")
    found = {row["group"]: row["threshold"] for row in shown["model"]["thresholds"]}
    found = {name: threshold for name, threshold in found.items() if threshold is not None}
    assert len(found) > 1
    eta = model.predict_label_proba(TEST.X, sensitive_features=TEST.sensitive)
    codes = model.groups_.encode(TEST.sensitive)
    decisions = decided(model)
    for m, name in enumerate(model.groups_.names):
        if str(name) not in found:
            continue
        own = codes == m
        agree = (eta[own] > found[str(name)]) == (decisions[own] == 1)
        assert agree.mean() > 0.98


def test_the_page_shows_the_contents(report):
    audit, path = report
    page = path.read_text("utf-8")
    assert "<title>A &amp; B</title>" in page
    assert "no group differs from everyone by more than 0.05" in page
    assert "at least 0.8 times those of everyone" in page
    for comparison in audit.comparisons:
        assert f"{comparison.value:.3f}" in page
    assert "Nothing is guaranteed for new data" in page
    assert page.count("<img ") == 2  # rates and thresholds
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.usefixtures("without_charts")
def test_a_blind_rule_is_shown_as_weights(model):
    blind = fitted()
    shown = contents(eh.audit(TEST.y, blind.predict(TEST.X), TEST.sensitive), model=blind, title="", data="")
    assert [row["group"] for row in shown["model"]["weights"]] == [str(name) for name in blind.groups_.names]
    cells = "".join(f'<td class="num">{weight:+.3f}</td>' for weight in blind.rule_.table[0])
    assert f'<th scope="row">{blind.groups_.names[0]}</th>{cells}</tr>' in render(shown)
    assert describe(model)["weights"] == []


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConstantClassifierWarning")
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
@pytest.mark.usefixtures("without_charts")
@pytest.mark.parametrize("aware", [False, True, ["A1"]], ids=["blind", "aware", "partly"])
@pytest.mark.parametrize("kind", [eh.FairPostprocessor, eh.FairInprocessor])
def test_every_kind_of_model_has_a_page(kind, aware, tmp_path):
    own = fitted(kind, aware=aware)
    audit = eh.audit(TEST.y, decided(own), TEST.sensitive)
    page = eh.write_report(tmp_path / "r.html", audit, model=own).read_text("utf-8")
    assert ("post-processing" if kind is eh.FairPostprocessor else "in-processing") in page
    assert ("This one has" in page) == (kind is eh.FairPostprocessor)
    assert ("the test rows show how it performs" in page) == (kind is eh.FairInprocessor)


def test_a_gap_within_rounding_is_shown_as_such(report):
    page = report[1].read_text("utf-8")
    [gap] = re.findall(r"a gap of ([^ ]+), and violates the requirement by at most ([^ ]+)\.<", page)
    assert gap == ("&lt;1e-12", "&lt;1e-12")
    assert small(-5.6e-17) == "<1e-12"
    assert small(2.5e-7) == "2.5e-07"


def test_each_of_two_notions_has_a_price_at_every_tolerance():
    both = eh.DemographicParity(difference=0.05) & eh.EqualOpportunity(difference=0.05)
    blind = eh.FairPostprocessor(LogisticRegression(), both, posteriors=eh.CrossFit(2))
    curve = eh.frontier(blind, TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive, tolerances=6)
    shown = contents(eh.audit(TEST.y, TEST.y, TEST.sensitive), frontier=curve, title="", data="")
    rows = _prices(shown["frontier"], "fair")
    places = {(row["group"], row["tolerance"]) for row in rows}
    assert {name.rsplit(" (")[-1] for name, _ in places} == {"selection rate)", "true-positive rate)"}
    assert {len([1 for name, _ in places if name == one]) for one, _ in places} == {5}
    assert np.isnan(curve.points[0].price)  # multipliers of exact parity are not unique
    total = sum(row["price"] for row in rows if row["tolerance"] == curve.points[1].tolerance)
    assert total == pytest.approx(curve.points[1].price)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("satisfied", "Demographic parity within 0.9 holds on 2,000 rows: the largest difference is 0."),
        ("violated", "Demographic parity within 0.001 is violated on 2,000 rows"),
        (
            "insufficient evidence",
            "Whether demographic parity within 0.15 holds cannot be decided from 2,000",
        ),
    ],
)
def test_the_summary_gives_verdicts_with_their_evidence(verdict, words):
    tolerance = float(re.search(r"within ([\d.]+)", words)[1])
    decisions = (TEST.X[:, 0] > 0).astype(int)
    value = eh.audit(TEST.y, decisions, TEST.sensitive)["demographic parity"].value
    tolerance = value if verdict == "insufficient evidence" else tolerance
    parity = eh.DemographicParity(difference=tolerance)
    shown = contents(eh.audit(TEST.y, decisions, TEST.sensitive, constraint=parity), title="", data="")
    sentences = {one["about"]: one["text"] for one in shown["summary"]}
    assert shown["comparisons"][0]["verdict"] == verdict
    assert sentences["What holds"].startswith(words.replace("0.15", f"{tolerance:g}"))
    assert sentences["Accuracy"].startswith("Accuracy is 0.")


def test_the_summary_of_decisions_without_labels_or_tolerance():
    shown = contents(eh.audit(None, TEST.y, TEST.sensitive), title="", data="")
    asked, holds, cost = (one["text"] for one in shown["summary"])
    assert asked.startswith("Nothing was required")
    assert holds.startswith(
        "No tolerance was set; by demographic parity, groups differ from everyone by up to 0."
    )
    assert cost == "Without labels, accuracy is unknown."
    rule = [one for one in shown["comparisons"] if one["notion"] == "four-fifths rule"]
    assert all(one["tolerance"] == 0.8 and not one["asked"] for one in rule)


def test_what_it_cost_is_the_difference_to_the_same_probabilities(model):
    without = model.predict_unconstrained(TEST.X, sensitive_features=TEST.sensitive)
    eta = model.predict_label_proba(TEST.X, sensitive_features=TEST.sensitive)
    assert (without == (eta > 0.5)).all()
    audit = eh.audit(TEST.y, decided(model), TEST.sensitive, constraint=PARITY, before=without)
    shown = contents(audit, model=model, test=(TEST.X, TEST.y, TEST.sensitive), title="", data="")
    change = shown["cost"]["change"]
    assert change["value"] == pytest.approx((decided(model) == TEST.y).mean() - (without == TEST.y).mean())
    assert change["low"] < change["value"] < change["high"]
    assert shown["changed"]["since"] == "without"
    parity = shown["comparisons"][0]
    assert parity["before"]["without"] == pytest.approx(
        eh.audit(TEST.y, without, TEST.sensitive)["demographic parity"].value
    )
    [expected] = [one for one in model.forecast_.on(2000).expected if one.notion == "demographic parity"]
    assert parity["forecast"]["value"] == expected.value
    cost = shown["summary"][2]["text"]
    assert "by the same probabilities without the requirement is -0." in cost


@pytest.mark.usefixtures("without_charts")
@pytest.mark.parametrize("kind", [eh.FairPostprocessor, eh.FairInprocessor])
def test_a_requirement_that_does_not_bind_is_said_to_in_one_line(kind):
    loose = eh.DemographicParity(difference=0.9)
    own = kind(LogisticRegression(), loose, posteriors=eh.CrossFit(2), aware=True).fit(
        TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive
    )
    shown = contents(eh.audit(TEST.y, decided(own), TEST.sensitive), model=own, title="", data="")
    words = "The requirement does not bind; differences from the plain model come from cross-fitting"
    assert words in shown["summary"][2]["text"]
    page = render(shown)
    assert words in page
    assert "easier by 0.01" not in page


def test_auc_and_calibration_of_each_group(model):
    shown = contents(
        eh.audit(TEST.y, decided(model), TEST.sensitive),
        model=model,
        test=(TEST.X, TEST.y, TEST.sensitive),
        title="",
        data="",
    )
    eta = model.predict_label_proba(TEST.X, sensitive_features=TEST.sensitive)
    for group in shown["groups"]:
        own = np.ones(2000, bool)
        for part in filter(None, group["name"].replace("everyone", "").split(", ")):
            feature, value = part.split("=")
            own &= np.asarray(TEST.sensitive[feature]).astype(str) == value
        assert own.sum() == group["rows"]
        assert group["probabilities"] == {
            "auc": pytest.approx(roc_auc_score(TEST.y[own], eta[own])),
            "predicted": pytest.approx(eta[own].mean()),
            "observed": pytest.approx(TEST.y[own].mean()),
        }


def test_the_model_card_has_what_a_reviewer_asks_for(model, tmp_path):
    audit = eh.audit(TEST.y, decided(model), TEST.sensitive, constraint=PARITY)
    card = eh.write_report(tmp_path / "card.md", audit, model=model, title="A <b> | B").read_text("utf-8")
    page = eh.write_report(tmp_path / "card.html", audit, model=model).read_text("utf-8")
    begin, front, body = card.split("---\n", 2)  # as Hugging Face and skops have cards: YAML, then Markdown
    described = yaml.safe_load(front)
    assert not begin
    assert described["library_name"] == "evenhand"
    assert "fairness" in described["tags"]
    assert body.startswith("\n# A &lt;b&gt; \\| B\n")
    eh.save(model, tmp_path / "m.eh")
    loaded = eh.load(tmp_path / "m.eh")
    for text in (card, page):
        assert "LogisticRegression" in text
        assert "max_iter=100" in text
        assert loaded.fitted_to_.unordered in text
        assert loaded.fitted_on_.isoformat() in text
        assert "3,000" in text
        assert f"scikit-learn {version('scikit-learn')}" in text
        assert "xgboost" not in text
        for part in ("developed by", "reviewed by", "approved by", "role", "date"):
            assert part in text
    lines = [*body.splitlines(), ""]
    for first in (k for k, line in enumerate(lines) if set(line) <= set("|- ") and "---" in line):
        rows = lines[first - 1 : lines.index("", first)]
        cells = [re.sub(r"\\\\\|", "", row).count("|") for row in rows]
        assert set(cells) == {cells[0]}  # a table whose every row has the same number of cells


def test_a_pipeline_is_described_by_its_parts_and_their_settings():
    own = eh.FairPostprocessor(
        make_pipeline(StandardScaler(), LogisticRegression(C=0.25)), PARITY, posteriors=eh.CrossFit(2)
    ).fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    card = {line["about"]: line["text"] for line in describe(own)["card"]}
    assert card["learner"] == "StandardScaler, LogisticRegression"
    assert "logisticregression__C=0.25" in card["its settings"]
    assert "LogisticRegression(" not in card["its settings"]


def test_packages_of_the_learner_are_among_the_versions():
    xgboost = pytest.importorskip("xgboost")
    own = eh.FairPostprocessor(
        make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=3)),
        eh.DemographicParity(difference=0.2),
        posteriors=eh.CrossFit(2),
    )
    own.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    assert versions(own)["xgboost"] == xgboost.__version__


@pytest.mark.usefixtures("without_charts")
@pytest.mark.parametrize("ending", ["html", "md"])
def test_names_are_never_markup(tmp_path, ending):
    name = "<script>alert(1)</script> [x](javascript:a) | *b*"
    sex = [name, "M"] * 50
    audit = eh.audit([1, 0, 0, 1] * 25, [1, 0, 1, 0] * 25, {"sex": sex}, constraint=PARITY)
    text = eh.write_report(tmp_path / f"r.{ending}", audit, title=name).read_text("utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    if ending == "md":
        assert "[x](" not in text.replace("\\[", "")
        assert " | *b*" not in text


def test_small_groups_are_grey_and_the_page_says_so(without_charts):
    few = {"a": ["x"] * 90 + ["y"] * 10}
    page = render(contents(eh.audit(None, [1, 0] * 50, few), title="", data=""))
    assert page.count('<tr class="small">') == 1
    assert "Grey: groups with fewer than 30 rows" in page
    enough = {"a": ["x", "y"] * 50}
    assert "Grey" not in render(contents(eh.audit(None, [1, 0] * 50, enough), title="", data=""))


def test_a_ratio_names_whose_it_is():
    """Everybody of one group is selected: its ratio is 0 because nobody of it is refused."""
    sex = ["F"] * 100 + ["M"] * 100
    parity = eh.DemographicParity(ratio=0.8)
    audit = eh.audit(None, [1] * 100 + [1, 0] * 50, {"sex": sex}, constraint=parity)
    assert audit.comparisons[0].value == 0
    assert audit.comparisons[0].side == "refused"
    assert "sex=F (refused)" in str(audit)
    assert "sex=F (refused)" in contents(audit, title="", data="")["summary"][1]["text"]
    few = eh.audit(None, [1] * 10 + [0] * 90 + [1, 0] * 50, {"sex": sex}, constraint=parity)
    assert few.comparisons[0].side == "selected"


@pytest.mark.usefixtures("without_charts")
def test_a_guarantee_is_shown(tmp_path):
    own = eh.FairPostprocessor(
        LogisticRegression(),
        eh.DemographicParity(difference=0.2),
        aware=True,
        posteriors=eh.CrossFit(2),
        guarantee=0.9,
    ).fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    audit = eh.audit(TEST.y, decided(own), TEST.sensitive)
    page = eh.write_report(tmp_path / "r.html", audit, model=own).read_text("utf-8")
    assert "<strong>Guaranteed.</strong>" in page
    assert f"no classifier that satisfies {own.guarantee_.internal!r} has a risk (half the error)" in page
    assert "tighter than the one that was asked for" in page
    assert "Nothing is guaranteed" not in page


@pytest.mark.usefixtures("without_charts")
def test_what_is_guaranteed_instead_is_shown(tmp_path):
    own = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(difference=0.001), posteriors=eh.CrossFit(2), guarantee=0.9
    )
    with pytest.warns(eh.exceptions.GuaranteeWarning):
        own.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    audit = eh.audit(TEST.y, decided(own), TEST.sensitive, constraint=own.constraint)
    page = eh.write_report(tmp_path / "r.html", audit, model=own).read_text("utf-8")
    assert "<strong>Not guaranteed.</strong>" in page
    assert f"{own.guarantee_.attainable!r} can (90 %), or about {own.guarantee_.needed:,} rows" in page
    assert f"only {own.guarantee_.attainable!r} is guaranteed for new data" in page


def test_small_and_absent_groups_are_caveats():
    sensitive = {"a": ["x"] * 40 + ["y"] * 5, "b": ["u"] * 40 + ["v"] * 5}
    shown = contents(eh.audit(None, [0, 1, 1] * 15, sensitive), title="", data="")
    assert any("fewer than 30 rows: " in caveat for caveat in shown["caveats"])
    assert any("do not occur in these rows: 2." in caveat for caveat in shown["caveats"])


def test_constant_decisions_are_a_caveat():
    shown = contents(eh.audit(None, [1] * 45, {"a": ["x", "y", "z"] * 15}), title="", data="")
    assert any("Everybody is selected: these decisions are constant" in one for one in shown["caveats"])


def test_suppressed_numbers_stay_out_of_the_page(tmp_path):
    sensitive = {"a": ["x"] * 40 + ["y"] * 40 + ["z"] * 3}
    audit = eh.audit([0, 1] * 41 + [1], [0, 1, 1] * 27 + [0, 1], sensitive, min_count=10)
    page = eh.write_report(tmp_path / "a.html", audit).read_text("utf-8")
    assert "left out" in page
    assert not re.search(r">\s*3\s*<", page)


def test_what_would_show_suppressed_numbers_is_refused(model, tmp_path):
    test = (TEST.X, TEST.y, TEST.sensitive)
    decisions = decided(model)
    hidden, plain = (eh.audit(TEST.y, decisions, TEST.sensitive, min_count=k) for k in (400, 0))
    path = tmp_path / "a.html"
    with pytest.raises(InputError, match="below min_count=400, and test, before would show them"):
        eh.write_report(path, hidden, model=model, test=test, before=plain)
    with pytest.raises(InputError, match="and impact_ratios would show them"):
        eh.write_report(path, hidden, impact_ratios=plain.impact_ratios())
    assert not path.exists()
    assert "left out" in eh.write_report(path, hidden, model=model, before=hidden).read_text()


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    target = tmp_path / "r.html"
    target.write_text("old")
    audit = eh.audit(None, [0, 1], {"g": ["a", "b"]})

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        eh.write_report(target, audit)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ManyGroupsWarning")
def test_of_many_groups_some_are_shown_and_the_rest_counted():
    codes = np.arange(1200) % 150
    audit = eh.audit(None, np.arange(1200) % 2, {"a": codes, "b": codes % 3})
    shown = contents(audit, title="", data="")
    assert shown["groups_left_out"] > 0
    assert "more groups are not shown" in render(shown)


def test_randomised_thresholds_are_shown_and_rounding_errors_are_not():
    """If two rates are bounded together, H is 0 in a whole group, and only the steps define the rule."""
    odds = eh.FairPostprocessor(
        LogisticRegression(), eh.EqualizedOdds(difference=0.0), aware=True, posteriors=eh.CrossFit(2)
    )
    odds.fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    found = describe(odds)["thresholds"]
    mixed = [edges for edges in odds.rule_.steps.edges if len(edges) > 1 and np.ptp(edges) > 0.01]
    assert mixed
    assert sum(one["threshold"] is None for one in found) >= len(mixed)
    for one, edges in zip(found, odds.rule_.steps.edges, strict=True):
        if one["threshold"] is None:
            assert one["note"] == "randomised"
        else:
            assert edges[0] <= one["threshold"] <= edges[-1]
            assert one["note"] is None


# Bounds on rates, and groups against each other

CAPACITY = eh.RateBound("selection rate", at_most=0.3) & eh.DemographicParity(ratio=0.8, against="groups")


@pytest.fixture(scope="module")
def limited():
    return eh.FairPostprocessor(LogisticRegression(), CAPACITY, aware=True, posteriors=eh.CrossFit(2)).fit(
        TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive
    )


def test_bounds_are_listed_in_plain_words(limited):
    audit = eh.audit(TEST.y, decided(limited), TEST.sensitive, constraint=CAPACITY)
    shown = contents(audit, model=limited, title="", data="")
    json.dumps(shown, allow_nan=False)
    asked, holds, _ = (one["text"] for one in shown["summary"])
    assert asked.startswith("At most 30 % of people are selected; demographic parity: smallest over largest ")
    assert "selection rate at least 0.8, among all combinations of A1 and A2" in asked
    selected = int(decided(limited).sum())
    assert f"(95% interval), {selected:,} of 2,000 people" in holds
    assert "a selection rate of at most 0.3" in holds.lower()
    assert "demographic parity between groups with a ratio of at least 0.8" in holds
    [words] = shown["model"]["prices"]["places"]
    price = abs(next(p for name, p in limited.shadow_prices_.items() if not name.group.features))
    assert words == f"One more place among 1,000 people would save {2 * price:.2g} errors among them."
    rows = shown["model"]["prices"]["rows"]
    assert rows
    assert all(row["price"] > 0 for row in rows)  # no table of zeros
    assert len(rows) + shown["model"]["prices"]["idle"] == 8
    page = render(shown)
    assert words in page
    assert "ratio between groups" in page
    rates = next(text for text in re.findall(r'alt="([^"]*)"', page) if text.startswith("Selection rate"))
    assert rates


@pytest.mark.usefixtures("without_charts")
def test_a_page_of_bounds_alone():
    today = eh.cell_rates(TRAIN.y, np.full(len(TRAIN.y), 0.1), TRAIN.sensitive)
    bounds = (
        eh.RateBound("true-positive rate", at_least=0.6, groups="intersectional")
        & eh.RateBound("precision", at_least=0.2, at_most=1.0, groups="independent")
        & eh.NoWorse("selection rate", than=today)
        & eh.NoWorse("error rate", than=today, groups="population")
    )
    model = eh.FairPostprocessor(LogisticRegression(), bounds, aware=True, posteriors=eh.CrossFit(2)).fit(
        TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive
    )
    audit = eh.audit(TEST.y, decided(model), TEST.sensitive, constraint=bounds)
    curve = eh.frontier(
        eh.FairPostprocessor(
            LogisticRegression(), eh.DemographicParity(difference=0.1), posteriors=eh.CrossFit(2)
        ),
        TRAIN.X,
        TRAIN.y,
        sensitive_features=TRAIN.sensitive,
        tolerances=2,
    )
    shown = contents(audit, model=model, frontier=curve, title="", data="")
    assert shown["frontier"]["asked"] is None
    asked = shown["summary"][0]["text"]
    assert asked.startswith("True-positive rate at least 0.6 in every group, among all combinations of A1")
    assert "precision at least 0.2 in every group, for each of A1 and A2 by itself" in asked
    assert "no group has a lower selection rate than in the reference, among all combinations" in asked
    assert "the error rate is not higher than in the reference" in asked
    holds = shown["summary"][1]["text"]
    assert "the smallest rate is 0." in holds
    assert "the change of the rate is -0." in holds
    assert shown["model"]["prices"]["places"] == []
    assert len(shown["comparisons"]) == len(bounds.requirements) + 1 + 3  # both sides of precision; the rule
    page = render(shown)
    assert "change, at least" in page


@pytest.mark.usefixtures("without_charts")
def test_undefined_rates_are_named_and_have_no_number():
    y, group = [1, 0] * 100, ["a"] * 100 + ["b"] * 100
    bound = eh.RateBound("precision", at_least=0.9) & eh.RateBound(
        "precision", at_least=0.9, groups="intersectional"
    )
    shown = contents(eh.audit(y, [1, 0] * 50 + [0] * 100, group, constraint=bound), title="", data="")
    assert "precision is undefined for sensitive_feature=b." in render(shown)
    nobody = contents(eh.audit(y, [0] * 200, group, constraint=bound, pos_label=1), title="", data="")
    assert (
        "A precision of at least 0.9 holds on 200 rows: the rate is undefined" in nobody["summary"][1]["text"]
    )


def test_prices_of_places_are_sentences():
    assert place_in_words(-0.1, in_errors=False) == (
        "One more place among 1,000 people would save 0.1 of the costs of errors among them."
    )
    assert place_in_words(0.1, in_errors=True).startswith("One place less that must be filled among 1,000")
    assert place_in_words(0.0, in_errors=True).startswith("One more place would save nothing")


@pytest.mark.usefixtures("without_charts")
def test_with_unequal_costs_prices_are_risks():
    model = eh.FairPostprocessor(
        LogisticRegression(), CAPACITY, aware=True, cost=0.3, posteriors=eh.CrossFit(2)
    ).fit(TRAIN.X, TRAIN.y, sensitive_features=TRAIN.sensitive)
    page = render(contents(eh.audit(TEST.y, decided(model), TEST.sensitive), model=model, title="", data=""))
    assert "of the costs of errors among them" in page
    assert "Risk saved where a requirement is easier by 0.01" in page


def test_verdicts_about_one_notion_can_be_told_apart():
    sex, level = ["F"] * 200 + ["M"] * 200, ["1", "2"] * 200
    decisions = [1] * 100 + [0] * 100 + [1] * 110 + [0] * 90
    parity = eh.DemographicParity(difference=0.2) & eh.DemographicParity(difference=0.2, given=["level"])
    bounds = [
        eh.RateBound("selection rate", at_most=0.9, groups=one) for one in ("population", "independent")
    ]
    asked = parity & bounds[0] & bounds[1]
    audit = eh.audit(None, decisions, {"sex": sex}, control_features={"level": level}, constraint=asked)
    holds = contents(audit)["summary"][1]["text"]
    for words in (
        "parity within",
        "parity given level within",
        "at most 0.9 holds",
        "0.9 in every group holds",
    ):
        assert words in holds


def test_rows_that_lack_a_sensitive_value_are_counted(without_charts, tmp_path):
    sex = ["F", "M"] * 50 + [None] * 20
    audit = eh.audit(None, [1, 0, 0, 1] * 30, {"sex": sex}, missing="exclude")
    page = eh.write_report(tmp_path / "a.html", audit).read_text()
    assert page.count("20 of 120 rows lack a sensitive value and are left out: 20 lack sex.") == 2
    hidden = eh.audit(None, [1, 0, 0, 1] * 30, {"sex": sex}, missing="exclude", min_count=5)
    assert "Their selection rate" not in eh.write_report(tmp_path / "b.html", hidden).read_text()


@pytest.mark.usefixtures("without_charts")
def test_a_named_group_is_called_by_its_name_also_without_a_model():
    group = {name: TEST.sensitive[name][0] for name in ("A1", "A2")}
    parity = eh.DemographicParity(difference=0.1, against=group)
    shown = contents(eh.audit(TEST.y, TEST.y, TEST.sensitive, constraint=parity))
    name = ", ".join(f"{feature}={value}" for feature, value in group.items())
    assert shown["summary"][0]["text"].startswith(f"Demographic parity: no group differs from {name} by more")
    assert f"<td>difference from {name}</td>" in render(shown)


@pytest.mark.parametrize("missing", ["category", "exclude"])
def test_rows_without_a_sensitive_value_are_compared_as_the_model_takes_them(missing):
    lacking = {
        name: np.where(np.arange(3000) % 9 == 0, None, column) for name, column in TRAIN.sensitive.items()
    }
    made = build(eh.FairPostprocessor, LogisticRegression(), PARITY, cv=2, missing=missing)
    made.fit(TRAIN.X, TRAIN.y, sensitive_features=lacking)
    test = TRAIN.X, TRAIN.y, lacking
    audit = eh.audit(TRAIN.y, made.predict(TRAIN.X), lacking, constraint=PARITY, missing=missing)
    shown = contents(audit, model=made, test=test)
    first = shown["groups"][0]
    assert first["rows"] == (3000 if missing == "category" else 2666)
    assert first["before"]["without"]["selection rate"]["value"] > 0

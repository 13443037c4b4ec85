"""The page in a real browser, opened from disk, with all requests and console messages recorded."""

import json
import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.datasets import GaussianProblem

pytestmark = pytest.mark.slow

SCRIPT = "</script><script>window.hacked=1</script>"
RIGHT_TO_LEFT = "\u202e\u05e2\u05d1\u05e8\u05d9\u05ea\u202c"
NAMES = [SCRIPT, "\"quotes\" 'and' & <b>bold</b>", RIGHT_TO_LEFT, "\U0001f642 long " + "n" * 60]
PROBLEM = GaussianProblem.random(levels=(4,), seed=2)
TRAIN, TEST = PROBLEM.sample(4000, seed=0), PROBLEM.sample(3000, seed=1)
PARITY = eh.DemographicParity(difference=0.05)
LIMITS = ("value", "low", "high")


@dataclass
class Visit:
    page: object
    requests: list = field(default_factory=list)
    messages: list = field(default_factory=list)

    def text(self, where):
        return self.page.inner_text(where)


def named(data):
    return {"group": np.array(NAMES, dtype=object)[data.codes]}


@pytest.fixture(scope="module")
def curve():
    fair = {
        "blind": eh.FairPostprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2)),
        "aware": eh.FairPostprocessor(LogisticRegression(), PARITY, aware=True, posteriors=eh.CrossFit(2)),
    }
    plain = LogisticRegression().fit(TRAIN.X, TRAIN.y)
    test = (TEST.X, TEST.y, named(TEST))
    return eh.frontier(
        fair,
        TRAIN.X,
        TRAIN.y,
        sensitive_features=named(TRAIN),
        test=test,
        others={SCRIPT: plain},
        tolerances=11,
    )


@pytest.fixture(scope="module")
def report(curve, tmp_path_factory):
    model = eh.FairPostprocessor(LogisticRegression(), PARITY, aware=True, posteriors=eh.CrossFit(2))
    model.fit(TRAIN.X, TRAIN.y, sensitive_features=named(TRAIN))
    plain = LogisticRegression().fit(TRAIN.X, TRAIN.y).predict(TEST.X)
    now = model.predict(TEST.X, sensitive_features=named(TEST))
    audit = eh.audit(TEST.y, now, named(TEST), before=plain, constraint=PARITY)
    before = eh.audit(TEST.y, plain, named(TEST), constraint=PARITY)
    return eh.write_report(
        tmp_path_factory.mktemp("report") / "report.html",
        audit,
        before=before,
        model=model,
        frontier=curve,
        test=(TEST.X, TEST.y, named(TEST)),
        title=f"Report {SCRIPT}",
        data="rows <i>of</i> a test",
    )


def visit(browser, path, **settings):
    context = browser.new_context(offline=True, **settings)
    seen = Visit(context.new_page())
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
    seen.page.goto(path.as_uri())
    return seen


@pytest.fixture
def explored(browser, curve, tmp_path):
    """A page about a curve only: its table of groups follows the slider."""
    audit = eh.audit(TEST.y, LogisticRegression().fit(TRAIN.X, TRAIN.y).predict(TEST.X), named(TEST))
    seen = visit(browser, eh.write_report(tmp_path / "curve.html", audit, frontier=curve))
    yield seen
    seen.page.context.close()


@pytest.fixture
def opened(browser, report):
    seen = visit(browser, report)
    yield seen
    seen.page.context.close()


def test_the_page_opens_from_disk_without_a_message_or_a_request(opened, report):
    assert opened.messages == []
    assert [url for url in opened.requests if not url.startswith("data:image/svg+xml")] == [report.as_uri()]
    assert report.stat().st_size < 3_000_000
    assert not re.search(r"""(?:src|href)=["']?https?:""", report.read_text("utf-8"))


def test_remote_hosts_are_forbidden(opened):
    blocked = opened.page.evaluate("fetch('https://example.org/').then(() => 'fetched', () => 'refused')")
    assert blocked == "refused"
    assert any("Content Security Policy" in message for message in opened.messages)


def test_names_are_shown_as_text_and_nothing_runs(opened, explored):
    assert opened.page.evaluate("window.hacked") is None
    assert opened.text("h1") == f"Report {SCRIPT}"
    assert "rows <i>of</i> a test" in opened.text("header")
    assert opened.page.locator("#rates").count() == 0  # one table of groups, not two
    assert explored.page.locator("section[aria-labelledby=groups]").count() == 0
    shown = explored.text("#rates")
    groups = opened.page.locator("section[aria-labelledby=groups] tbody th").all_inner_texts()
    for name in NAMES:
        plain = name.replace("\u202e", "").replace("\u202c", "")
        assert any(plain in text.replace("\u202e", "").replace("\u202c", "") for text in groups)
        assert plain in shown.replace("\u202e", "").replace("\u202c", "")
    assert opened.page.locator("b, i").count() == 0


def test_the_slider_shows_the_numbers_of_the_library(explored, curve):
    page = explored.page
    for name in ("aware", "blind"):
        for k in (0, 3, 10):
            move(page, name, k)
            point = curve.curve(name)[k]
            state = explored.text("#state")
            assert explored.text("#chosen") == f"{point.tolerance:.4f}"
            asked = f"Asked {point.tolerance:.3f}, forecast {point.forecast:.3f}, measured"
            assert f"{asked} {point.comparison.value:.3f}" in state
            expected = [getattr(rate, key) for rate in (point.accuracy, point.comparison) for key in LIMITS]
            assert numbers(state)[:6] == pytest.approx(expected, abs=5.1e-4)
            assert point.comparison.verdict in state
            rows = page.locator("#rates tbody tr").all()
            groups = point.groups()
            assert len(rows) == len(groups)
            for row, group in zip(rows, groups, strict=True):
                cells = row.locator("td").all_inner_texts()
                rate = group.rates["selection rate"]
                assert numbers(cells[1]) == pytest.approx([rate.value, rate.low, rate.high], abs=5.1e-4)


def move(page, name, k):
    """Choose a curve and a place of the slider."""
    page.select_option("#curve", name)
    page.evaluate(
        "k => { const s = document.getElementById('tolerance'); s.value = k;"
        " s.dispatchEvent(new Event('input')); }",
        k,
    )


def centres(page, where):
    """Centres of circles of the plot, in pixels."""
    found = [[node.get_attribute(key) for key in ("cx", "cy")] for node in page.locator(where).all()]
    return np.array(found, float).reshape(-1, 2)


def line(page, where):
    """Corners of a curve of the plot, in pixels."""
    return np.array([pair.split(",") for pair in page.locator(where).get_attribute("points").split()], float)


def test_the_marker_moves_along_the_curve_and_the_test_point_beside_it(opened, curve):
    page = opened.page
    for name in ("blind", "aware"):
        for k, point in enumerate(curve.curve(name)):
            move(page, name, k)
            corners = line(page, "#plot .curve.on")
            assert len(corners) == len(curve.curve(name))
            [marker], chosen = centres(page, "#plot .dot"), centres(page, "#plot .counted:not(.few)")
            assert marker == pytest.approx(corners[k], abs=1e-3)
            # the same scale for what is expected and what was measured
            (x0, y0), (x1, y1) = corners[0], corners[-1]
            first, last = curve.curve(name)[0], curve.curve(name)[-1]
            across = (point.comparison.value - first.expected_disparity) / (
                last.expected_disparity - first.expected_disparity
            )
            up = (point.accuracy.value - first.expected_accuracy) / (
                last.expected_accuracy - first.expected_accuracy
            )
            assert chosen[0] == pytest.approx([x0 + across * (x1 - x0), y0 + up * (y1 - y0)], abs=0.01)


@pytest.mark.parametrize("width", [1280, 390])
def test_test_points_have_intervals_and_do_not_overlap(browser, report, curve, width):
    seen = visit(browser, report, viewport={"width": width, "height": 900})
    page, drawn = seen.page, 0
    for name in ("blind", "aware"):
        for k in range(0, 21, 4):
            move(page, name, k)
            few = centres(page, "#plot .counted.few")
            drawn = max(drawn, len(few))
            assert page.locator("#plot .bar.few").count() == 2 * len(few)
            assert page.locator("#plot .bar:not(.few):not(.off)").count() == 2
            places = [*few, *centres(page, "#plot .dot"), *centres(page, "#plot .counted:not(.few)")]
            gaps = [np.hypot(*(a - b)) for i, a in enumerate(few) for b in places[i + 1 :]]
            assert min(gaps) >= 48
    solved = len(curve.curve("blind"))
    assert 2 <= drawn < solved if width != 1280 else drawn > 2  # fewer where there is less room
    page.context.close()


def test_the_legend_says_what_is_expected_and_what_was_measured(opened):
    opened.page.select_option("#curve", "aware")
    keys = opened.page.locator("#legend li").all_inner_texts()
    assert keys[:4] == [
        "blind: optimum by the posteriors",
        "aware: optimum by the posteriors",
        "aware on test rows, 95 % intervals",
        "chosen",
    ]
    assert keys[4:] == ["other models"]


def test_a_trained_classifier_has_test_points_and_no_curve(browser, tmp_path):
    trained = eh.FairInprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2))
    solved = eh.FairPostprocessor(LogisticRegression(), PARITY, posteriors=eh.CrossFit(2))
    curve = eh.frontier(
        {"trained": trained, "solved": solved},
        TRAIN.X,
        TRAIN.y,
        sensitive_features=named(TRAIN),
        tolerances=[0.02, 0.1, 0.2],
    )
    audit = eh.audit(None, TEST.y, named(TEST))
    seen = visit(browser, eh.write_report(tmp_path / "trained.html", audit, frontier=curve))
    page = seen.page
    assert seen.messages == []
    move(page, "trained", 1)
    assert page.locator("#plot .curve.on").count() == 0
    assert page.locator("#plot .curve").count() == 1
    assert centres(page, "#plot .dot") == pytest.approx(centres(page, "#plot .counted:not(.few)"))
    assert page.locator("#legend li").all_inner_texts()[:2] == [
        "solved: optimum by the posteriors",
        "trained on test rows, 95 % intervals",
    ]
    page.context.close()


def numbers(text):
    return [float(part) for part in re.findall(r"-?\d+\.\d+", text)]


def test_the_page_can_be_used_by_keyboard(opened):
    page = opened.page
    page.focus("#tolerance")
    before = opened.text("#state")
    page.keyboard.press("End")
    assert opened.text("#state") != before
    page.keyboard.press("Home")
    assert opened.text("#chosen") == "0.0000"
    assert page.get_attribute("#tolerance", "aria-valuetext") == "tolerance 0.0000"
    page.reload()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_every_picture_has_an_alternative_text(opened):
    pictures = opened.page.locator("img").all()
    assert len(pictures) >= 5
    for picture in pictures:
        assert len(picture.get_attribute("alt")) > 20
        assert picture.evaluate("image => image.complete && image.naturalWidth > 100")
    assert "marked" in opened.page.get_attribute("#plot", "aria-label")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_legible_on_a_phone_in_light_and_dark(browser, report, scheme):
    seen = visit(browser, report, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = seen.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for where in ("body", "#state", "table", ".verdict"):
        ink, paper = page.evaluate(
            "where => [getComputedStyle(document.querySelector(where)).color,"
            " getComputedStyle(document.body).backgroundColor]",
            where,
        )
        assert contrast(ink, paper) > 4.5
    size = page.evaluate("parseFloat(getComputedStyle(document.querySelector('td')).fontSize)")
    assert size >= 13
    page.context.close()


def contrast(*colours):
    """Contrast of two colours as defined by WCAG 2."""
    bright = []
    for colour in colours:
        parts = np.array([int(part) for part in re.findall(r"\d+", colour)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        bright.append(float(linear @ [0.2126, 0.7152, 0.0722]))
    return (max(bright) + 0.05) / (min(bright) + 0.05)


def test_an_audit_of_other_predictions_has_the_page_without_the_model(browser, tmp_path):
    audit = eh.audit(None, TEST.y, named(TEST), min_count=10)
    page = eh.write_report(tmp_path / "audit.html", audit, title="Audit of a model")
    seen = visit(browser, page)
    assert seen.messages == []
    assert seen.text("h1") == "Audit of a model"
    assert "four-fifths rule" in seen.text("main")
    assert "Proof" not in seen.text("main")
    assert seen.page.locator("#tolerance").count() == 0
    seen.page.context.close()


def test_the_data_in_the_page_are_those_of_the_library(opened, curve):
    island = json.loads(opened.page.evaluate("document.getElementById('data').textContent"))
    assert island["points"][0]["accuracy"] == curve.points[0].accuracy.value
    assert island["curves"] == ["blind", "aware"]


WIDE = """() => [...document.querySelectorAll('table, img, svg, dl, p, figcaption')].filter((node) => {
  const box = node.getBoundingClientRect(), around = node.closest('.scroll');
  const edge = (around ?? node).getBoundingClientRect().right;
  return box.right > window.innerWidth && edge > window.innerWidth;
}).map((node) => node.outerHTML.slice(0, 80))"""
OUTSIDE = """(root) => {
  const box = root.getBoundingClientRect();
  return [...root.querySelectorAll('text')].filter((text) => {
    const at = text.getBoundingClientRect();
    return at.left < box.left - 1 || at.right > box.right + 1
      || at.top < box.top - 1 || at.bottom > box.bottom + 1;
  }).map((text) => text.textContent);
}"""
OVERLAPPING = """(root) => {
  const texts = [...root.querySelectorAll('text')].filter((text) => text.textContent.trim());
  const boxes = texts.map((text) => text.getBoundingClientRect());
  return texts.flatMap((text, i) => texts.slice(0, i).flatMap((other, k) => {
    const a = boxes[i], b = boxes[k];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return across > 1 && down > 4 ? [`${text.textContent} on ${other.textContent}`] : [];
  }));
}"""
DRAWN = """(source) => {
  const parsed = new DOMParser().parseFromString(new TextDecoder().decode(
    Uint8Array.from(atob(source.split(',')[1]), (c) => c.charCodeAt(0))), 'image/svg+xml');
  const place = document.createElement('div');
  place.append(document.importNode(parsed.documentElement, true));
  document.body.append(place);
  place.firstChild.style.maxWidth = 'none';
  return place.firstChild;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_page_and_no_word_is_cut(browser, report, width, scheme):
    seen = visit(browser, report, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = seen.page
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(WIDE) == []
    moved = page.evaluate(
        "[...document.querySelectorAll('.scroll')].map((e) => e.scrollWidth - e.clientWidth)"
    )
    assert max(moved) > 0 if width == 390 else max(moved) == 0
    assert page.evaluate(f"({OUTSIDE})(document.getElementById('plot'))") == []
    for picture in page.locator("img").all():
        drawn = page.evaluate_handle(DRAWN, picture.get_attribute("src"))
        assert page.evaluate(OUTSIDE, drawn) == []
        assert page.evaluate(OVERLAPPING, drawn) == []
    page.context.close()


def test_the_page_begins_with_what_was_asked_what_holds_and_what_it_cost(opened):
    page = opened.page
    first = page.evaluate("document.querySelector('main').firstElementChild.querySelector('dl').className")
    assert first == "summary"
    assert page.locator(".summary dt").all_inner_texts() == ["What was asked", "What holds", "What it cost"]
    asked, holds, cost = page.locator(".summary dd").all_inner_texts()
    assert "no group differs from everyone by more than 0.05" in asked
    assert "demographic parity within 0.05" in holds.lower()
    assert cost.startswith("Accuracy is 0.")
    assert "by the same probabilities without the requirement" in cost


def test_measures_without_a_tolerance_have_no_verdict(opened):
    page = opened.page
    rows = page.locator("section[aria-labelledby=further] tbody tr")
    assert not page.locator("section[aria-labelledby=further] table").is_visible()
    page.click("summary")
    texts = rows.all_inner_texts()
    assert texts
    assert all("four-fifths rule" in text and "0.8" in text for text in texts)
    assert page.locator("section[aria-labelledby=further] .verdict").count() == 0
    judged = page.locator("section[aria-labelledby=achieved] tbody th").all_inner_texts()
    assert judged == ["demographic parity"]


def test_the_line_of_the_plot_is_monotone(opened):
    for name in ("blind", "aware"):
        opened.page.select_option("#curve", name)
        x, y = line(opened.page, "#plot .curve.on").T
        assert (np.diff(x) >= -1e-6).all()
        assert (np.diff(y) <= 1e-6).all()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_axes_of_the_plot_begin_end_and_are_marked_at_round_numbers(browser, report, width):
    seen = visit(browser, report, viewport={"width": width, "height": 900})
    marks = [
        (node.text_content(), *(float(node.get_attribute(key)) for key in "xy"))
        for node in seen.page.locator("#plot .mark").all()
    ]
    lines = [
        [float(node.get_attribute(key)) for key in ("x1", "x2", "y1", "y2")]
        for node in seen.page.locator("#plot .axis").all()
    ]
    across = [(text, x) for text, x, y in marks if y == marks[0][2]]
    up = [(text, -y) for text, x, y in marks[len(across) :]]
    for axis, extent in (
        (across, np.ptp([one[:2] for one in lines])),
        (up, np.ptp([one[2:] for one in lines])),
    ):
        values, places = np.array(axis, float).T
        [step] = set(np.round(np.diff(values), 9))
        assert f"{step:e}".startswith(("1.0", "2.0", "5.0"))
        assert len({len(text) for text, _ in axis}) == 1
        assert len(axis) >= 3
        assert np.ptp(places) == pytest.approx(extent)
    assert float(across[0][0]) == 0
    seen.page.context.close()


def test_a_page_about_a_curve_begins_with_the_curve(explored, curve):
    seen = explored
    headings = seen.page.locator("main h2").all_inner_texts()
    assert headings[:2] == ["Summary", "The trade-off"]
    assert re.search(
        rf"blind clearly satisfies .* of {len(curve.curve('blind'))} tolerances", seen.text(".summary")
    )
    assert not seen.page.locator("section[aria-labelledby=further] table").is_visible()
    assert seen.page.locator(".verdict").count() == 0


def test_a_ratio_is_fairer_on_the_left_too(browser, tmp_path):
    fair = eh.FairPostprocessor(
        LogisticRegression(), eh.DemographicParity(ratio=0.8), posteriors=eh.CrossFit(2)
    )
    curve = eh.frontier(fair, TRAIN.X, TRAIN.y, sensitive_features=named(TRAIN), tolerances=4)
    audit = eh.audit(None, TEST.y, named(TEST))
    seen = visit(browser, eh.write_report(tmp_path / "ratio.html", audit, frontier=curve))
    assert seen.messages == []
    x, y = line(seen.page, "#plot .curve.on").T
    assert (np.diff(x) > 0).all()  # from parity on the left, as in the chart below
    assert (np.diff(y) < 0).all()
    marks = [
        (float(node.text_content()), float(node.get_attribute("x")))
        for node in seen.page.locator("#plot .mark[text-anchor=middle]").all()
    ]
    values, _ = np.array(sorted(marks, key=lambda mark: mark[1])).T
    assert values[0] == 1
    assert (np.diff(values) < 0).all()
    assert "← fairer" in seen.page.locator("#plot").text_content()
    move(seen.page, "fair", 2)
    assert f"A ratio lower by 0.01 would gain {curve.points[2].price:.4f}" in seen.text("#state")
    assert "(selected)" in seen.text("#state") or "(refused)" in seen.text("#state")
    seen.page.context.close()


def test_the_page_prints(opened):
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.querySelector('.controls')).display") == "none"
    assert len(opened.page.pdf()) > 10_000

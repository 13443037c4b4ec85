"""Charts: what they show, what they refuse, and that pictures are self-contained."""

import itertools
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from altair.utils.schemapi import debug_mode

import evenhand as eh
from evenhand import charts
from evenhand.charts import look
from evenhand.charts.records import plain_text
from evenhand.exceptions import InputError, MissingExtraError

NAN = float("nan")
ODD = [
    "<script>alert(1)</script>",
    "say \"hi\" and 'bye' & co",
    "نساء",
    "👩🏽‍🦱 women",
    "a.b[c]\\d",
    "line\nbreak",
    "\u202eturned",
    "",
    "y" * 80 + " one",
    "y" * 80 + " two",
    "y" * 80 + " two",
]


def frontier(groups):
    curve = [
        {"curve": "blind", "tolerance": t / 50, "accuracy": 0.8 + t / 200, "disparity": t / 50}
        | {"accuracy_low": 0.79, "accuracy_high": 0.86, "disparity_low": t / 60, "disparity_high": t / 40}
        for t in range(9)
    ]
    others = [
        {"curve": group, "accuracy": 0.7 + k / 100, "disparity": 0.02 * k, "kind": "point"}
        for k, group in enumerate(groups)
    ]
    return [*curve, *others]


def rates(groups):
    return [
        {"group": group, "quantity": quantity, "when": when, "value": 0.3 + k / 500, "low": 0.2, "high": 0.5}
        for k, group in enumerate(["everyone", *groups])
        for quantity in ("selection rate", "true-positive rate")
        for when in ("before", "after")
    ]


def actions(groups):
    shares = {"approve": 0.6, "decline": 0.4}
    return [{"group": g, "quantity": one, "value": part} for g in groups for one, part in shares.items()]


def thresholds(groups):
    return [{"group": g, "threshold": 0.3 + k / 500} for k, g in enumerate(groups)]


def prices(groups):
    return [
        {"tolerance": t / 100, "group": g, "price": (k + 1) * (4 - t) / 1000}
        for k, g in enumerate(groups)
        for t in range(5)
    ]


def calibration(groups):
    return [
        {"group": g, "predicted": b / 5, "observed": b / 5, "low": 0, "high": 1, "n": 10 * k + 10}
        for k, g in enumerate(groups)
        for b in range(5)
    ]


ALL = [frontier, rates, actions, thresholds, prices, calibration]
NUMBER = {
    "frontier": "accuracy",
    "rates": "value",
    "actions": "value",
    "thresholds": "threshold",
    "prices": "price",
    "calibration": "observed",
}


@pytest.fixture(params=ALL, ids=lambda make: make.__name__)
def make(request):
    return request.param


def draw(make, records, **options):
    with debug_mode(False):  # a chart is checked against the schema as a whole, not also each of its parts
        return getattr(charts, f"{make.__name__}_chart")(records, **options)


def texts(picture):
    """Every text of a picture; the lines of one that is broken are joined."""
    found = [part for part in ET.fromstring(picture).iter() if part.tag.endswith("}text")]  # noqa: S314
    return [text for part in found if (text := "".join(part.itertext()))]


def rows_of(chart):
    """Every row of data that a chart holds."""
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


@pytest.mark.parametrize(
    "groups",
    [["F"], ["F", "M"], ODD, [f"g{k}" for k in range(50)]],
    ids=["one", "two", "odd", "fifty"],
)
def test_every_chart_is_valid_and_has_a_description(make, groups):
    chart = draw(make, make(groups))
    definition = chart.to_dict()  # checked against the schema
    assert len(definition["description"]) > 20
    assert re.search(r"\d\.\d", definition["description"])
    assert definition["title"]["text"]
    assert definition["config"]["background"] == look.PAPER
    json.dumps(definition, allow_nan=False)


def test_names_are_only_text(make):
    chart = draw(make, make(ODD[:6]))
    picture = charts.to_svg(chart)
    root = ET.fromstring(picture)  # noqa: S314
    assert not [part for part in root.iter() if part.tag.lower().endswith(("script", "image", "a"))]
    assert root.get("aria-label") == chart.description
    drawn = " ".join(texts(picture))
    for name in ("alert(1)", "say \"hi\" and 'bye'", "line\\nbreak"):
        assert name in drawn or make is prices
    assert set(re.findall(r"https?://[^\"'<> ]+", picture)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_files_of_altair_hold_no_address_but_the_schema(make, tmp_path):
    chart, path = draw(make, make(["F", "M"])), tmp_path / "chart.json"
    chart.save(path)
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"https?://[^\"]+", text) == [json.loads(text)["$schema"]]


@pytest.mark.parametrize("nothing", [None, NAN, math.inf])
def test_a_missing_number_is_never_drawn_as_zero(make, nothing):
    records = make(["F", "M", "X"])
    key = NUMBER[make.__name__]
    for record in records:
        if record.get("group", record.get("curve")) == "X":
            record[key] = nothing
    chart = draw(make, records)
    assert all(row.get(key) is None for row in rows_of(chart) if row.get("group", row.get("curve")) == "X")
    picture = charts.to_svg(chart)
    if make in (rates, thresholds, calibration):
        assert "no value" in texts(picture)


def test_a_chart_without_numbers_says_so(make):
    records = [{**record, NUMBER[make.__name__]: None} for record in make(["F", "M"])]
    assert "no value" in draw(make, records).description


def test_no_records_is_an_error(make):
    with pytest.raises(InputError, match="there are no records to draw"):
        draw(make, [])


@pytest.mark.parametrize("make", [rates, actions, thresholds, calibration])
def test_groups_that_are_not_drawn_are_counted(make):
    options = {} if make is thresholds else {"max_groups": 4}
    drawn = options.get("max_groups", 60)
    chart = draw(make, make([f"g{k}" for k in range(drawn + 5)]), **options)
    assert any("5 " in line and "not drawn" in line for line in [" ".join(chart.title.subtitle)])
    assert (
        len({row["group"] for row in rows_of(chart) if row.get("group", "everyone") != "everyone"}) == drawn
    )
    if options:
        with pytest.raises(InputError, match="max_groups is 0"):
            draw(make, make(["F"]), max_groups=0)


def test_rates_are_sorted_by_the_current_first_quantity():
    found = {"low": (0.9, 0.1), "high": (0.1, 0.8), "mid": (0.5, 0.5)}
    records = [
        {"group": group, "quantity": "selection rate", "when": when, "value": value}
        for group, values in found.items()
        for when, value in zip(("before", "after"), values, strict=True)
    ]
    shown = texts(charts.to_svg(charts.rates_chart(records)))
    assert [text for text in shown if text in found] == ["high", "mid", "low"]


def test_subtitles_name_the_confidence():
    for chart in (
        charts.rates_chart(rates(["F"]), confidence=0.95),
        charts.calibration_chart(calibration(["F"]), confidence=0.95),
    ):
        assert "Bars: 95 % intervals." in " ".join(chart.title.subtitle)
    curve = charts.frontier_chart(frontier([]), confidence=0.95)
    assert "Points: test rows, 95 % intervals." in " ".join(curve.title.subtitle)


def test_everyone_alone_is_drawn_as_a_group():
    chart = charts.rates_chart([{"group": "everyone", "quantity": "selection rate", "value": 0.2}])
    assert "0.200 (everyone)" in chart.description


def layers(chart, kind):
    """The rows of every layer with such a mark."""
    return [row for layer in chart.layer if layer.mark.type == kind for row in layer.data.values]


def test_curves_show_expected_values_and_test_points_are_not_joined():
    counted = [(0.0, 0.80, 0.02), (0.1, 0.83, 0.09), (0.2, 0.82, 0.07)]  # zigzags
    records = [
        {"curve": "blind", "tolerance": t, "accuracy": accuracy, "disparity": disparity}
        | {"expected_accuracy": 0.8 + t / 5, "expected_disparity": t}
        for t, accuracy, disparity in counted
    ]
    trained = [{"curve": "trained", "tolerance": 0.1, "accuracy": 0.81, "disparity": 0.1}]
    chart = charts.frontier_chart([*records, *trained])
    lines, dots = layers(chart, "line"), layers(chart, "point")
    assert [row["disparity"] for row in lines] == [0, 0.1, 0.2]
    assert [row["accuracy"] for row in lines] == pytest.approx([0.8, 0.82, 0.84])
    assert {row["curve"] for row in dots} == {"blind", "trained"}
    assert [row["disparity"] for row in dots if row["curve"] == "blind"] == [0.02, 0.07, 0.09]
    words = " ".join(chart.title.subtitle)
    assert "Curves: optimum by the posteriors. Points: test rows." in words
    assert "Curves:" not in " ".join(charts.frontier_chart(trained).title.subtitle)


def test_test_points_of_a_curve_have_intervals_and_do_not_overlap():
    """Both curves are dense and lie on top of each other; the second takes the places that are left."""
    records = [
        {"curve": name, "tolerance": t / 500, "accuracy": 0.8 + t / 1000, "disparity": t / 500}
        | {"accuracy_low": 0.79, "accuracy_high": 0.86, "disparity_low": t / 600, "disparity_high": t / 400}
        | {"expected_accuracy": 0.8 + t / 1000, "expected_disparity": t / 500}
        for name in ("blind", "aware")
        for t in range(50)
    ]
    chart = charts.frontier_chart(records)
    dots, bars = layers(chart, "point"), layers(chart, "rule")
    own = {name: [row["tolerance"] for row in dots if row["curve"] == name] for name in ("blind", "aware")}
    assert own["blind"][0] == 0
    assert own["blind"][-1] == 49 / 500
    assert all(3 <= len(places) <= 7 for places in own.values())
    assert len(bars) == 2 * len(dots)  # of accuracy and of disparity
    definition = chart.to_dict()["layer"][-1]["encoding"]
    (x0, x1), (y0, y1) = (definition[axis]["scale"]["domain"] for axis in "xy")
    pixels = [
        (560 * (row["disparity"] - x0) / (x1 - x0), 380 * (row["accuracy"] - y0) / (y1 - y0)) for row in dots
    ]
    assert min(math.dist(a, b) for a, b in itertools.combinations(pixels, 2)) >= 40


def test_an_interval_that_says_nothing_does_not_squeeze_the_curve():
    records = frontier([])
    records[3] |= {"disparity_low": 0.0, "disparity_high": 1.0, "accuracy_low": 0.0, "accuracy_high": 1.0}
    definition = charts.frontier_chart(records).to_dict()["layer"][-1]["encoding"]
    assert definition["x"]["scale"]["domain"] == pytest.approx([0, 0.2])
    assert definition["y"]["scale"]["domain"] == pytest.approx([0.79, 0.85])


def test_all_points_of_a_curve_without_expected_values_are_drawn():
    chart = charts.frontier_chart(frontier([]))
    assert [row["tolerance"] for row in layers(chart, "point")] == [t / 50 for t in range(9)]
    assert layers(chart, "line") == []


NOT_ROUND = [0.0007, 0.0491, 0.1503, 0.3337, 0.8999, 0.9513]
AXES = {"accuracy", "disparity", "tolerance", "price", "value", "low", "high", "threshold"}


@pytest.mark.parametrize("top", [1, 0.1, 0.017])
@pytest.mark.parametrize("make", [frontier, rates, thresholds, prices, calibration])
def test_axes_are_marked_at_round_numbers(make, top):
    """Marks are 1, 2 or 5 times a power of ten apart, and all of an axis have as many decimals."""
    numbers = itertools.cycle(number * top for number in NOT_ROUND)
    records = make([f"group {k}" for k in range(6)])
    chart = draw(make, [{**one, **{key: next(numbers) for key in AXES & one.keys()}} for one in records])
    axes = list(number_axes(charts.to_svg(chart)))
    assert axes
    for labels, ends, whole in axes:
        values = [float(text.strip("%")) for text in labels]
        steps = {float(f"{abs(b - a):.6g}") for a, b in itertools.pairwise(values)}
        assert len(steps) == 1
        assert f"{steps.pop():e}".startswith(("1.0", "2.0", "5.0"))
        assert len({len(text.partition(".")[2]) for text in labels}) == 1
        assert 3 <= len(labels) <= 11
        if make is not thresholds:  # which has space for numbers at both ends
            assert ends == pytest.approx(whole, abs=0.6)


def number_axes(picture):
    """Texts along each axis of numbers, the positions of the first and last, and of both ends of the axis."""
    for axis in ET.fromstring(picture).iter():  # noqa: S314
        parts = {part.get("class", "").rpartition("role-axis-")[2]: part for part in axis}
        if not {"label", "domain"} <= parts.keys():
            continue
        labels, (line,) = [*parts["label"]], parts["domain"]
        words = ["".join(label.itertext()).replace("\u2212", "-") for label in labels]
        if any("group" in text for text in words):
            continue
        across = float(line.get("x2")) != 0
        places = [position(part)[0 if across else 1] for part in (*labels, line)]
        extent = sorted([places[-1], places[-1] + float(line.get("x2" if across else "y2"))])
        # texts stand 4 pixels below the middle of their marks on a vertical axis
        yield words, sorted(place - (0 if across else 4) for place in (places[0], places[-2])), extent


def position(part):
    return [float(number) for number in re.findall(r"-?[\d.]+", part.get("transform"))[:2]]


def test_only_the_six_highest_prices_are_drawn():
    chart = charts.prices_chart(prices([f"g{k}" for k in range(9)]))
    assert {row["group"] for row in rows_of(chart)} == {f"g{k}" for k in range(3, 9)}
    assert "3 groups with lower prices are not drawn." in " ".join(chart.title.subtitle)


def test_prices_of_a_group_at_one_tolerance_are_added():
    """The axis shows twice the highest price of one of them."""
    tops = []
    for records in (prices(["F"]), [*prices(["F"]), *prices(["F"])]):
        [*_, (labels, *_)] = number_axes(charts.to_svg(charts.prices_chart(records)))
        tops.append(max(map(float, labels)))
    assert tops == pytest.approx([0.004, 0.008])


def test_groups_that_never_bind_are_only_counted():
    records = [*prices(["F"]), {"tolerance": 0.01, "group": "M", "price": 0}]
    chart = charts.prices_chart(records)
    assert "Groups that never bind: 1." in " ".join(chart.title.subtitle)
    assert {row["group"] for row in rows_of(chart)} == {"F"}
    assert charts.prices_chart(records[-1:]).description.startswith("The highest price is 0.0000")


def test_thresholds_beyond_0_and_1_widen_the_axis_and_notes_stand_for_others():
    records = [{"group": "F", "threshold": 1.7}, {"group": "M", "threshold": None, "note": "randomised"}]
    chart = charts.thresholds_chart(records, unconstrained=0.5)
    ends = chart.to_dict()["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert ends[0] <= 0
    assert ends[1] >= 1.7
    assert {"1.700", "randomised"} <= set(texts(charts.to_svg(chart)))
    assert "Dashed line: without the requirement." in " ".join(chart.title.subtitle)


def test_long_names_are_shortened_in_the_middle_alike_in_all_charts():
    names = [f"{'y' * 40} {'z' * 40} {k}" for k in range(3)]
    for make in (rates, thresholds, prices):
        shown = {text for text in texts(charts.to_svg(draw(make, make(names)))) if text.startswith("y")}
        assert shown == {f"{'y' * 27}…{'z' * 12} {k}" for k in range(3)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(missing)"),
        ("", "(empty)"),
        (3, "3"),
        ("a\x00b", "a\\x00b"),
        ("👩🏽‍🦱", "👩🏽‍🦱"),
        ("\ud800", "\\ud800"),
    ],
)
def test_text_is_made_printable(value, text):
    assert plain_text(value) == text


def contrast(one, other):
    """Contrast of two colours as WCAG 2 defines it, from 1 to 21."""
    bright = []
    for colour in (one, other):
        rgb = re.findall(r"\d+", colour) if colour.startswith("rgb") else bytes.fromhex(colour[1:])
        parts = [int(part) / 255 for part in rgb]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        bright.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(bright) + 0.05) / (min(bright) + 0.05)


def test_colours_have_enough_contrast():
    assert min(contrast(colour, look.PAPER) for colour in look.COLOURS) >= 3
    assert min(contrast(colour, look.PAPER) for colour in (look.INK, look.FAINT)) >= 4.5


def test_points_of_a_frontier_are_named_in_the_legend():
    names = ["logistic regression", "reweighing", "reduction", "threshold optimizer"]
    points = [{"curve": name, "accuracy": 0.8, "disparity": 0.1, "kind": "point"} for name in names]
    shown = texts(charts.to_svg(charts.frontier_chart([*frontier([]), *points])))
    assert [text for text in shown if text in ("blind", *names)] == ["blind", *names]


def test_a_legend_names_every_classifier():
    names = [f"model {k}" for k in range(45)]
    assert set(names) <= set(texts(charts.to_svg(charts.frontier_chart(frontier(names)))))


def test_altair_saves_charts_without_a_network(tmp_path):
    charts.thresholds_chart(thresholds(["F"])).save(tmp_path / "chart.png", scale_factor=2)
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_data_from_elsewhere_are_refused():
    import altair as alt

    chart = alt.Chart(alt.UrlData("https://example.org/data.csv")).mark_point().encode(x="a:Q")
    with pytest.raises(ValueError, match=r"(?i)allowed|url|external"):
        charts.to_svg(chart)


def test_without_altair_the_extra_is_named():
    code = "import sys; sys.modules['altair'] = None; from evenhand.charts import rates_chart"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert "MissingExtraError: this needs the package 'altair'" in done.stderr
    assert "evenhand[report]" in done.stderr


def test_without_vl_convert_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtraError, match=r"'vl-convert-python'.*evenhand\[report\]"):
        charts.to_svg(charts.thresholds_chart(thresholds(["F"])))


def test_the_table_of_an_audit_can_be_drawn():
    found = eh.audit([0, 1, 1, 0, 1], [0, 1, 0, 1, 1], {"sex": ["F", "F", "M", "M", "M"]})
    table = found.to_frame(backend="polars").to_dicts()
    chart = charts.rates_chart([row for row in table if row["quantity"].endswith("rate")])
    assert chart.description.startswith("Selection rate: 0.500 (sex=F) to 0.667 (sex=M), everyone 0.600.")


def test_bounds_are_dotted_lines_in_the_panel_of_their_rate():
    records = [
        {"group": group, "quantity": quantity, "value": value}
        for group, value in (("a", 0.2), ("b", 0.4))
        for quantity in ("selection rate", "error rate")
    ]
    limits = [{"quantity": "selection rate", "value": 0.9}, {"quantity": "precision", "value": 0.5}]
    chart = charts.rates_chart(records, limits=limits)
    dotted = re.findall(r"<line [^>]*stroke-dasharray=\"2,3\"", charts.to_svg(chart))
    assert len(dotted) == 1
    assert "Dotted lines: bounds." in " ".join(chart.title.subtitle)


def test_fairer_is_on_the_left_of_differences_and_of_ratios():
    records = [
        {"curve": "blind", "tolerance": t, "accuracy": 0.8 - t / 10, "disparity": t} for t in (0.8, 0.9, 1)
    ]
    for measure, reversed_ in (("difference", None), ("ratio", True), ("bound", None)):
        x = charts.frontier_chart(records, measure=measure).to_dict()["layer"][-1]["encoding"]["x"]
        assert x["scale"].get("reverse") == reversed_
        assert x["title"].startswith("← fairer") == (measure != "bound")
        shown = charts.prices_chart([{"tolerance": 0.9, "group": "F", "price": 0.002}], measure=measure)
        x = shown.to_dict()["layer"][0]["encoding"]["x"]
        assert x["scale"].get("reverse") == reversed_
    assert "0.0020 of accuracy for a bound easier by 0.01" in shown.description
    lower = charts.prices_chart([{"tolerance": 0.9, "group": "F", "price": 0.002}], measure="ratio")
    assert "0.0020 of accuracy for a ratio lower by 0.01" in lower.description
    assert lower.to_dict()["title"]["text"] == "What a lower ratio would gain"


def test_the_axis_of_accuracy_begins_where_the_points_do():
    """A layer without limits of its own would stretch the axis down to 0."""
    point = {"curve": "blind", "tolerance": 0.1, "accuracy": 0.85, "disparity": 0.1}
    around = {"accuracy_low": 0.84, "accuracy_high": 0.86, "disparity_low": 0.08, "disparity_high": 0.12}
    layers = charts.frontier_chart([point | around]).to_dict()["layer"]
    assert len(layers) > 3
    assert all(layer["encoding"]["y"]["scale"]["domain"][0] > 0.8 for layer in layers)
    assert all("domain" in layer["encoding"]["x"]["scale"] for layer in layers)


def test_calibration_has_a_panel_for_each_group_with_a_short_heading():
    names = [f"{'long ' * 100}{end}" for end in ("a  b", "a b")]
    chart = charts.calibration_chart(
        {"group": name, "predicted": 0.2, "observed": 0.3, "n": 50} for name in names
    )
    picture = chart.as_svg()
    assert picture.count(">50 people<") == 2
    assert int(re.search(r'height="(\d+)"', picture)[1]) < 520

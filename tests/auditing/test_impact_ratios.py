"""The tables of Local Law 144, against figures computed by hand."""

import csv
import datetime
import io
import json
import math

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.exceptions import InputError, PooledGroupsWarning

# sex, race, applicants, selected; None is unknown
COUNTS = [
    ("Male", "White", 200, 100),
    ("Male", "Black", 100, 40),
    ("Male", "Asian", 4, 4),
    ("Female", "White", 150, 60),
    ("Female", "Black", 40, 10),
    ("Female", "Asian", 3, 0),
    ("Male", None, 10, 7),
    (None, "Black", 5, 1),
    (None, None, 2, 2),
]


def people(counts=COUNTS):
    rows = [(sex, race, int(k < selected)) for sex, race, n, selected in counts for k in range(n)]
    return pd.DataFrame(rows, columns=["sex", "race", "d"])


def tables(found):
    return {
        title: (
            {
                ", ".join(one.group.values): (one.applicants, one.selected, one.rate, one.ratio)
                for one in found.categories
                if one.table == title
            },
            unknown,
        )
        for title, unknown in found.unknown.items()
    }


def audited(missing="exclude", counts=COUNTS, **settings):
    data = people(counts)
    return eh.audit(None, data["d"], data[["sex", "race"]], missing=missing, **settings)


@pytest.mark.parametrize("missing", ["exclude", "category"])
def test_figures_by_hand(missing):
    """Every number here is written out, not computed by the library's formulas."""
    found = tables(audited(missing).impact_ratios())
    sex, unknown = found["sex"]
    assert unknown == 7
    assert sex["Female"] == pytest.approx((193, 70, 0.36269430, 0.75421199), abs=1e-8)
    assert sex["Male"] == pytest.approx((314, 151, 0.48089172, 1.0), abs=1e-8)
    race, unknown = found["race"]
    assert unknown == 12
    assert race["White"] == pytest.approx((350, 160, 0.45714286, 1.0), abs=1e-8)
    assert race["Black"] == pytest.approx((145, 51, 0.35172414, 0.76939655), abs=1e-8)
    assert race["Asian"][:3] == pytest.approx((7, 4, 0.57142857), abs=1e-8)
    assert math.isnan(race["Asian"][3])  # 7 of 502 are less than 2 %, though their rate is the highest
    both, unknown = found["sex x race"]
    assert unknown == 17
    assert both["Male, White"] == (200, 100, 0.5, 1.0)
    assert both["Male, Black"] == (100, 40, 0.4, 0.8)
    assert both["Female, White"] == (150, 60, 0.4, 0.8)
    assert both["Female, Black"] == (40, 10, 0.25, 0.5)
    assert both["Male, Asian"][:3] == (4, 4, 1.0)
    assert math.isnan(both["Male, Asian"][3])
    assert both["Female, Asian"][:3] == (3, 0, 0.0)


def test_all_categories_can_be_kept():
    found = tables(audited().impact_ratios(min_share=0))
    assert found["race"][0]["Asian"][3] == 1.0
    assert found["race"][0]["White"][3] == pytest.approx(0.8)
    assert found["sex x race"][0]["Female, Asian"][3] == 0.0


def test_a_category_of_exactly_two_percent_is_kept():
    counts = [("F", "A", 2, 1), ("M", "A", 98, 49)]
    sex = audited(counts=counts).impact_ratios().categories[:2]
    assert [one.left_out for one in sex] == [False, False]
    sex = audited(counts=[("F", "A", 2, 1), ("M", "A", 99, 49)]).impact_ratios().categories[:2]
    assert [one.left_out for one in sex] == [True, False]


def test_one_and_three_features():
    data = people().dropna()
    one = eh.audit(None, data["d"], data[["sex"]]).impact_ratios()
    assert list(one.unknown) == ["sex"]
    more = data.assign(age=np.where(np.arange(len(data)) % 2, "old", "young"))
    three = eh.audit(None, more["d"], more[["sex", "race", "age"]]).impact_ratios()
    assert list(three.unknown) == ["sex", "race", "age", "sex x race x age"]


# Scores

SCORES = {"F": [1, 2, 3, 3], "M": [3, 4, 5, 6], None: [3, 9]}


def scored():
    pairs = [(sex, score) for sex, scores in SCORES.items() for score in scores]
    return pd.DataFrame(pairs, columns=["sex", "score"])


@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
def test_scoring_rates_by_hand(dtype):
    """The median of the ten scores is 3; above it are none of 4 women, 3 of 4 men, and one unknown."""
    data = scored()
    found = eh.audit(None, data["score"].astype(dtype), data[["sex"]], threshold="median", missing="exclude")
    assert found.terms.threshold == 3.0
    assert "above the median of all rows, 3." in " ".join(str(found).split())
    ratios = found.impact_ratios()
    assert tables(ratios) == {"sex": ({"F": (4, 0, 0.0, 0.0), "M": (4, 3, 0.75, 1.0)}, 2)}
    assert "scoring rate" in str(ratios)
    assert ratios.to_dict()["median"] == 3.0


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow", "duckdb", "dask"])
def test_the_median_of_a_table_is_that_of_its_rows(kind):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"score": rng.normal(size=200).round(1), "sex": rng.choice(["F", "M"], 200)})
    given = {
        "polars": lambda: frame,
        "lazy": frame.lazy,
        "pandas": frame.to_pandas,
        "pyarrow": frame.to_arrow,
        "duckdb": lambda: duckdb.from_arrow(frame.to_arrow()),
        "dask": lambda: pytest.importorskip("dask.dataframe").from_pandas(frame.to_pandas(), npartitions=2),
    }[kind]()
    found = eh.audit(None, "score", "sex", data=given, threshold="median")
    expected = eh.audit(None, frame["score"], frame.select("sex"), threshold="median")
    assert found.terms == expected.terms
    assert tables(found.impact_ratios()) == tables(expected.impact_ratios())


@pytest.mark.parametrize(
    ("scores", "settings", "message"),
    [
        ([0.1, math.nan, 0.3], {}, r"y_pred has 1 of 3 scores that are NaN"),
        ([0, 1, 1], {}, r"threshold='median' is for scores, but y_pred holds decisions"),
        (["a", "b", "a"], {}, r"threshold='median' is for scores"),
        ([0.1, 0.2, 0.3], {"before": [0, 1, 1]}, "omit before"),
        ([0.1, 0.2, 0.3], {"threshold": "mean"}, "finite number or 'median', got 'mean'"),
    ],
    ids=["nan", "decisions", "text", "before", "mean"],
)
def test_scores_without_a_median_are_refused(scores, settings, message):
    with pytest.raises(InputError, match=message):
        eh.audit(None, scores, {"sex": ["F", "M", "M"]}, **{"threshold": "median", **settings})
    if "before" not in settings and "threshold" not in settings:
        table = pl.DataFrame({"y_pred": scores, "sex": ["F", "M", "M"]})
        with pytest.raises(InputError, match=message.replace("y_pred", "prediction 'y_pred'")):
            eh.audit(None, "y_pred", "sex", data=table, threshold="median")


# Refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_count": 5}, "min_count hides small numbers"),
        ({"sample_weight": [1.0, 2.0, 1.0, 1.0]}, "audit without sample_weight"),
    ],
    ids=["min_count", "weights"],
)
def test_audits_that_do_not_count_people_are_refused(settings, message):
    found = eh.audit(None, [0, 1, 1, 0], {"sex": ["F", "M", "M", "F"]}, **settings)
    with pytest.raises(InputError, match=message):
        found.impact_ratios()


def test_pooled_and_randomised_audits_and_wrong_parameters_are_refused():
    with pytest.warns(PooledGroupsWarning):
        pooled = audited(min_size=5)
    with pytest.raises(InputError, match="min_size pools small categories"):
        pooled.impact_ratios()
    drawn = eh.audit(None, [0.2, 0.5, 1.0], {"sex": ["F", "M", "M"]})
    with pytest.raises(InputError, match=r"threshold='median' for scoring rates"):
        drawn.impact_ratios()
    for share in (0.05, -0.1, True, "2 %"):
        with pytest.raises(InputError, match=r"min_share must be a number from 0 to 0.02"):
            audited().impact_ratios(min_share=share)


def test_nobody_selected_and_only_small_categories_have_no_ratio():
    none = eh.audit(None, [0, 0, 0, 0], {"sex": ["F", "M", "M", "F"]}).impact_ratios()
    assert all(math.isnan(one.ratio) for one in none.categories)
    assert "undefined" in str(none)
    many = eh.audit(None, [0, 1] * 60, {"area": [f"a{k:03}" for k in range(120)]}).impact_ratios()
    assert all(one.left_out for one in many.categories)


# Output


def test_the_text_says_what_the_law_asks_for():
    found = audited().impact_ratios(date=datetime.date(2026, 3, 1), source="applications <2026>")
    text = " ".join(str(found).split())
    assert "Date of the data: 2026-03-01. Source: applications <2026>." in text
    assert "an independent auditor" in text
    assert "intervals are an addition that the law does not ask for" in text
    assert "sex x race: 17 of 514 people have an unknown category and are not in the table." in text
    assert "race=Asian (1.4 %). Justification: " in text
    assert "Source: not given" in str(audited().impact_ratios())
    page = found._repr_html_()
    assert "applications &lt;2026&gt;" in page
    assert page.count("<table>") == 3
    assert repr(found) == "<ImpactRatios of 514 people by sex, race, sex x race>"


def test_csv_and_tables(tmp_path):
    found = audited().impact_ratios(date=2026, source="a file")
    path = tmp_path / "ll144.csv"
    text = found.to_csv(path)
    assert path.read_text() == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == (2 + 1) + (3 + 1) + (6 + 1)
    unknown = {row["table"]: row["applicants"] for row in rows if row["group"] == "(unknown)"}
    assert unknown == {"sex": "7", "race": "12", "sex x race": "17"}
    assert [row["table"] for row in rows] == ["sex"] * 3 + ["race"] * 4 + ["sex x race"] * 7
    line = next(row for row in rows if row["group"] == "sex=Female, race=Black")
    assert (line["applicants"], line["selected"]) == ("40", "10")
    assert (float(line["rate"]), float(line["ratio"])) == (0.25, 0.5)
    asian = next(row for row in rows if row["group"] == "race=Asian")
    assert (asian["ratio"], asian["left_out"]) == ("", "True")
    assert isinstance(found.to_frame(), pd.DataFrame)
    stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert stored["groups"][3]["group"] == "race=Asian"
    assert stored["unknown"] == {"sex": 7, "race": 12, "sex x race": 17}
    assert (stored["date"], stored["source"]) == ("2026", "a file")


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_tables_have_whole_numbers(backend):
    frame = audited().impact_ratios().to_frame(backend=backend)
    applicants, selected = (nw.from_native(frame)[name] for name in ("applicants", "selected"))
    assert applicants.dtype == selected.dtype == nw.Int64
    assert applicants.to_list()[:3] == [193, 314, 7]
    assert selected.is_null().to_list()[:3] == [False, False, True]


def test_intervals_contain_the_figures_and_are_those_of_the_four_fifths_rule():
    data = people().dropna()
    audit = eh.audit(None, data["d"], data[["sex"]])
    categories = audit.impact_ratios().categories
    for one in categories:
        assert one.rate_low < one.rate < one.rate_high
        assert one.ratio_low <= one.ratio <= one.ratio_high
    worst = min(categories, key=lambda one: one.ratio)
    rule = audit["four-fifths rule"]
    assert (worst.ratio, worst.ratio_low, worst.ratio_high) == pytest.approx(
        (rule.value, rule.low, rule.high)
    )


def test_a_section_of_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.report.page._charts", lambda _: iter(()))
    audit = audited()
    page = eh.write_report(tmp_path / "a.html", audit, impact_ratios=audit.impact_ratios(source="a<b"))
    text = page.read_text()
    assert "Impact ratios by Local Law 144" in text
    assert "Source: a&lt;b." in text
    assert '<th scope="row">Female, Black</th><td class="num">40</td><td class="num">10</td>' in text
    assert "Local Law 144" not in eh.write_report(tmp_path / "b.html", audit).read_text()

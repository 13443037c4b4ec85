"""The benchmark's machinery on two splits of COMPAS, and each peer that it rebuilds against its own claim."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper import as_printed, bias_score, linear_post
from benchmarks.paper.__main__ import main
from benchmarks.paper.asked import Asked
from benchmarks.paper.comparison import Verdict, between, coin, hull, mean_curve, on_hull, verdicts
from benchmarks.paper.intervals import interval, jackknife_half
from benchmarks.paper.kept import CELLS, Kept
from benchmarks.paper.methods import Task
from benchmarks.paper.page import TITLES, write_page
from benchmarks.paper.pictures import _without_outlier
from benchmarks.paper.plan import Choice, planned
from benchmarks.paper.published import MULTIPLIERS, ROWS
from benchmarks.paper.rows import beside
from benchmarks.paper.tables import TABLES

import evenhand as eh
from evenhand.datasets import GaussianProblem

ROOT = Path(__file__).parents[2]
TABLE = "COMPAS, race x sex"
FAIRLEARN = ("ThresholdOptimizer", "ExponentiatedGradient")
PROBLEM = GaussianProblem.random(levels=(2,), seed=5)


@pytest.fixture(scope="module")
def drawn():
    """Rows of two groups whose posteriors are known."""
    drawn = PROBLEM.sample(4_000, seed=0)
    groups, codes = eh.Groups.fit(drawn.sensitive)
    return PROBLEM.posteriors(drawn.X), drawn.y, codes, groups


def optimum(p, tolerance, groups):
    return eh.solve(p, eh.DemographicParity(difference=tolerance), groups=groups).certificate.objective


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.2])
def test_the_linear_program_is_optimal_for_the_difference_of_two_groups(drawn, tolerance):
    """Two groups a apart are at most a times the larger's share away from everyone."""
    p, _, _, groups = drawn
    larger = p.sum(axis=2).mean(axis=0).max()
    found = linear_post.fit(p, "DP", tolerance, seed=0)
    assert found.risk == pytest.approx(optimum(p, tolerance * larger, groups), abs=2e-4)
    selection = found.selection(p, seed=0)
    rates = np.einsum("nmy,n->m", p, selection) / p.sum(axis=(0, 2))
    assert abs(rates[0] - rates[1]) <= tolerance + 0.005


def test_a_bias_score_is_optimal_for_the_disparity_that_it_has(drawn):
    p, y, codes, groups = drawn
    shares = p.sum(axis=(0, 2)) / len(p)
    score = bias_score.fit(p, y, codes, "DP", tolerances=[0.1], seed=0)
    for tolerance in (0.02, 0.1):
        selection = score.selection(p, tolerance)
        eta = p[:, :, 1].sum(axis=1)
        risk = np.where(selection == 1, 1 - eta, eta).mean() / 2
        rate = np.einsum("nmy,n->m", p, selection) / len(p) / shares
        attained = abs(rate - selection.mean()).max()
        assert risk == pytest.approx(optimum(p, attained, groups), abs=1e-3)
        rates = eh.cell_rates(y, selection, {"group": codes})
        [parity] = eh.DemographicParity(difference=tolerance).measure(rates)
        assert parity.difference <= tolerance + 1e-9


def test_both_algorithms_as_printed_trade_accuracy_for_fairness():
    table = TABLES["COMPAS, race, logistic"]
    found = dict(as_printed.as_printed(Task(table, 0, False, *table.halves(0))))
    [(plain, unfair)] = found["no constraint"]["points"]
    for name in ("Algorithm 1", "Algorithm 2"):
        first, last = found[name]["points"][0], found[name]["points"][-1]
        assert first[1] < unfair / 3
        assert first[0] < last[0] <= plain + 0.02


@pytest.mark.parametrize("aware", [False, True])
def test_the_algorithms_as_printed_have_the_kept_digits(aware):
    table, setting = TABLES["COMPAS, race, logistic"], "aware" if aware else "blind"
    kept = Kept.read(CELLS).cells
    for what, cell in as_printed.as_printed(Task(table, 0, aware, *table.halves(0))):
        expected = kept[table.name, "as printed", setting, what, 0]["points"]
        np.testing.assert_allclose(cell["points"], expected, atol=6e-6)


def test_the_paper_prints_34_rows():
    assert len(ROWS) == 34
    assert sum(row.runs == 10 for row in ROWS) == 10
    assert len({(row.table, row.method, row.setting) for row in ROWS}) == len(MULTIPLIERS) == 8


def test_a_plain_model_reaches_a_printed_row_alone_or_mixed_with_one_answer(tmp_path):
    """Of 0.5936 @ 0.1096: fairer and more accurate; then less fair, but above the line to one answer."""
    kept = Kept(tmp_path / "cells", {})
    for points, word in (([0.6, 0.1], "plain"), ([0.68, 0.2], "plain, mixed"), ([0.6, 0.2], "")):
        for seed in range(2):
            kept.cells[TABLE, "post", "blind", "DP by difference", seed] = {"points": [[0.62, 0.1]]}
            kept.cells[TABLE, "plain trees", "blind", "DP by difference", seed] = {"points": [points]}
        first = beside(kept)[0]
        assert (first.row.accuracy, first.by_plain) == (0.5936, word)
        assert first.word == "reached, interval above"


def test_a_hull_leaves_out_what_lots_between_others_would_beat():
    corners = hull([(0.8, 0.1), (0.7, 0.05), (0.9, 0.2), (0.6, 0.3)], (0.0, 0.5))
    assert corners.tolist() == [[0.0, 0.5], [0.05, 0.7], [0.1, 0.8], [0.2, 0.9]]
    assert on_hull(corners, 0.15) == pytest.approx(0.85)
    assert on_hull(hull([(0.62, 0.1), (0.9, 0.2)], (0.0, 0.5)), 0.1) == pytest.approx(0.7)


def test_an_interval_allows_for_the_rows_that_splits_share():
    """Results 1, 2, 3: s^2 = 1, t(0.975, 2) = 4.302653, and 1/3 + 1 in place of 1/3."""
    mean, half = interval([1.0, 2.0, 3.0])
    assert mean == 2
    assert half == pytest.approx(4.302653 * (4 / 3) ** 0.5, abs=1e-5)
    assert jackknife_half(2.0, [2.5, 2.0, 1.5]) == pytest.approx(half)  # means without each
    # of the largest of 1, 2, 4: pseudo-values 4, 4, and 3 * 4 - 2 * 2 = 8, with s^2 = 16 / 3
    assert jackknife_half(4.0, [4.0, 4.0, 2.0]) == pytest.approx(4.302653 * (4 / 3 * 16 / 3) ** 0.5, abs=1e-5)
    assert np.isnan(interval([1.0])[1])


def cells(kept, method, shift, seeds=5):
    """Curves with noise that both methods share."""
    for seed in range(seeds):
        noise = np.random.default_rng(seed).normal(0, 0.02)
        own = np.random.default_rng([seed, len(method)]).normal(0, 0.001)
        points = [(0.62 + noise + own + shift, 0.05), (0.66 + noise + own + shift, 0.2)]
        kept.cells[TABLE, method, "blind", "DP by difference", seed] = {"points": points}


@pytest.mark.parametrize(("shift", "word"), [(0.01, "ahead"), (0.0, "undecided"), (-0.01, "behind")])
def test_a_verdict_is_about_splits_in_pairs(tmp_path, shift, word):
    kept = Kept(tmp_path / "cells", {})
    cells(kept, "post", shift)
    cells(kept, "LinearPost", 0.0)
    [found] = verdicts(kept)
    assert (found.word, found.splits) == (word, 5)
    assert found.mean == pytest.approx(shift, abs=0.002)


def test_a_cut_line_is_measured_again_and_others_are_not(tmp_path):
    path = tmp_path / CELLS.name
    choice = Choice((TABLE,), ("plain trees",), ("DP", "EO"), ("difference",), ("blind",), 1)
    [unit] = planned(choice, Kept.read(path))
    assert [str(one) for one in unit.asked] == ["DP by difference", "EO by difference"]
    Kept.read(path).add(unit.key("DP by difference"), {"points": [], "of": unit.fingerprint})
    path.write_text(path.read_text() + '[["cut of')
    [rest] = planned(choice, Kept.read(path))
    assert [str(one) for one in rest.asked] == ["EO by difference"]
    line = json.loads(path.read_text().splitlines()[0])
    line[1]["of"] = "other settings"
    path.write_text(json.dumps(line) + "\n")
    [again] = planned(choice, Kept.read(path))
    assert len(again.asked) == 2


@pytest.fixture(scope="module")
def reduced(tmp_path_factory) -> Path:
    """Two splits of COMPAS."""
    folder = tmp_path_factory.mktemp("paper")
    arguments = ["--tables", TABLE, "--notions", "DP", "--measures", "difference", "--splits", "2"]
    methods = ["post", "in", "plain trees", "LinearPost", "bias score", "ThresholdOptimizer", "noise"]
    methods += ["LinearPost, our posteriors", "noise apart"]
    main([*arguments, "--jobs", "1", "--into", str(folder), "--methods", *methods])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["blind", "aware"])
@pytest.mark.parametrize("method", ["post", "in"])
def test_our_curve_is_above_the_line_from_no_constraint_to_no_model(reduced, method, setting):
    """On the whole: a single point of two splits, with groups of 240 rows, may fall below.

    Blind parity is hardly better than that line for any method here, and a single classifier that is asked
    for exact parity may be below it.
    """
    kept, asked = Kept.read(reduced / CELLS.name), Asked("DP")
    plain = mean_curve(kept, TABLE, "plain trees", setting, str(asked))
    line = hull(plain, coin(TABLE, asked))
    curve = mean_curve(kept, TABLE, method, setting, str(asked))
    above = [accuracy - on_hull(line, disparity) for accuracy, disparity in curve]
    assert np.mean(above) > (-0.002 if method == "post" else -0.01)
    assert min(above) > -0.05


@pytest.mark.slow
def test_the_pages_show_what_was_measured(reduced):
    full = {path.stem: path.read_text("utf-8") for path in (reduced / "reproduction").glob("*.md")}
    assert "0.5936 @ 0.1096" in full["published"]
    assert full["published"].count("0.5369 @ 0.0890") == 2
    assert full["verdicts"].count(f"| {TABLE} | DP by difference |") == 6
    assert "e=0.1, tolerance 0.05" in full["parts"]
    assert "It is not the price of fairness" in full["parts"]
    assert (reduced / "reproduction" / "compas-race-x-sex.svg").stat().st_size > 10_000
    page = (reduced / "reproduction.md").read_text("utf-8")
    assert f"| {TABLE} | post | aware | 8 |" in page
    assert set(re.findall(r"\]\(reproduction/(\w+)\.md", page)) == set(full)


@pytest.mark.slow
@pytest.mark.usefixtures("acs_folder")
def test_the_pages_are_those_of_the_kept_cells(tmp_path):
    """All but the line that says when and with which versions they were written."""
    write_page(Kept.read(CELLS), tmp_path)
    for name in ("reproduction.md", *(f"reproduction/{name}.md" for name in TITLES)):
        fresh, told = ((folder / name).read_text("utf-8") for folder in (tmp_path, ROOT / "docs"))
        assert re.sub("^Written by .*", "", fresh, flags=re.M) == re.sub(
            "^Written by .*", "", told, flags=re.M
        )


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["blind", "aware"])
def test_the_linear_program_on_our_posteriors_is_level_with_post_processing(reduced, setting):
    kept, asked = Kept.read(reduced / CELLS.name), Asked("DP")
    ours = ("post", str(asked))
    found = between(kept, TABLE, asked, setting, ours=ours, peer="LinearPost, our posteriors")
    assert found is not None
    assert abs(found[1]) < 0.01


@pytest.mark.slow
def test_a_finished_run_has_nothing_left_to_do(reduced):
    choice = Choice((TABLE,), ("post", "noise"), ("DP",), ("difference",), ("blind", "aware"), 2)
    assert planned(choice, Kept.read(reduced / CELLS.name)) == []


def test_the_overview_tells_what_the_page_tells():
    """Counts of verdicts and rows change when cells are measured again."""
    page, overview, readme = (
        " ".join(text.split()) if number else text
        for number, text in enumerate(
            (ROOT / name).read_text("utf-8")
            for name in ("docs/reproduction.md", "docs/evidence/index.md", "README.md")
        )
    )
    counts = {
        (ours, peer): np.array(numbers.split(" | "), int)
        for ours, peer, numbers in re.findall(
            r"^\| `(.*?)` \| ([^|]*) \| ([\d| ]+) \| [\d.]+ \|$", page, re.M
        )
    }
    peers = ("ThresholdOptimizer", "LinearPost", "bias score", "ExponentiatedGradient")
    told = {
        (ours, peer): [int(number) for number in numbers.split(" | ")]
        for ours, peer, numbers in re.findall(r"\| ([\w -]*?) ?\| ([\w() ]+?) \| ([\d| ]+\d) \|", overview)
    }
    expected = {
        ("", f"{peer} (fairlearn)" if peer in FAIRLEARN else peer): counts["post", peer] for peer in peers
    }
    expected["post-processing", "ThresholdOptimizer (fairlearn)"] = expected.pop(
        ("", "ThresholdOptimizer (fairlearn)")
    )
    for name, ours in (("in-processing", "in"), ("its mixture", "in, mixture")):
        expected[name, "all four"] = sum(counts[ours, peer] for peer in peers)
    assert told == {name: [numbers[k] for k in (0, 1, 2, 4, 6)] for name, numbers in expected.items()}
    assert re.search(r"in-processing takes [\d.]+ on average, .* ExponentiatedGradient 28\.\d", page)
    rows = re.search(
        r"results: (\d+) of (\d+) are reached, .* reaches (\d+); mixed .* constant, (\d+)\.", page
    )
    assert rows is not None
    assert rows[1] == rows[2]
    told = f"It reproduces all {rows[2]} published results; {rows[3]} of them need no constraint at all"
    assert f"{told} ({rows[4]} if a plain model is mixed with a constant)." in overview
    fairlearn = sum(counts["post", peer] for peer in FAIRLEARN)
    assert f"in {fairlearn[1]} of {fairlearn[0]} comparisons" in readme
    assert fairlearn[6] == 0
    assert "behind in none" in readme


@pytest.mark.parametrize(
    ("mean", "half", "splits", "shown"),
    [
        (0.0, 0.0062, 3, ("no worse", "no worse")),  # one-sided: 0.0062 * 2.920 / 4.303 = 0.0042
        (0.0, 0.0080, 3, ("", "no worse")),
        (0.0, 0.0062, 10, ("", "no worse")),  # 0.0062 * 1.833 / 2.262 = 0.0050
        (-0.02, 0.01, 5, ("worse", "worse")),
        (-0.01, 0.02, 5, ("", "")),
        (0.5, float("nan"), 1, ("", "")),
        (0.0, 0.0, 3, ("", "")),
    ],
)
def test_non_inferiority_is_by_one_sided_limits(mean, half, splits, shown):
    one = Verdict(TABLE, Asked("DP"), "blind", "in", "LinearPost", splits, mean, half, 0.0, 0.0)
    assert (one.shows(0.005), one.shows(0.01)) == shown


def test_pictures_leave_out_only_what_would_hide_the_others():
    near, far = ({"method": "plain logistic", "accuracy": height} for height in (0.78, 0.6))
    others = [{"method": "post", "accuracy": height} for height in (0.8, 0.85)]
    assert _without_outlier([*others, near]) == [*others, near]
    assert _without_outlier([*others, far]) == others
    assert _without_outlier([far]) == [far]

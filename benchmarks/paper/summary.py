"""What the page says first: counts of verdicts, what is shown within a margin, and where ours is behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from benchmarks.paper.comparison import PEERS, Verdict
from benchmarks.paper.kept import Kept
from benchmarks.paper.markdown import markdown_table, points_apart
from benchmarks.paper.methods import OURS
from benchmarks.paper.rows import beside, reached
from benchmarks.paper.tables import TABLES

__all__ = ["summary"]

SAME = "LinearPost, our posteriors"
HALVES = ("LinearPost", "bias score")
"""Methods of others that learn posteriors from half of the rows."""
OTHERS = ("ThresholdOptimizer", *HALVES, "ExponentiatedGradient")
MARGINS = (0.5, 1.0)
"""Points of a hundred of accuracy by which ours may be worse and still count as no worse."""


def summary(found: list[Verdict], kept: Kept) -> Iterable[str]:
    """The first section."""
    yield "## In short\n"
    yield "\n".join([_rows(kept), *_accuracy(found), *_fairest(found), *_fits(kept), _limits(found)]) + "\n"
    yield from _within_margins(found)
    behind = [one for one in found if "behind" in (one.word, one.reach)]
    other = sum(one.peer == "plain trees" and TABLES[one.table].learner == "logistic" for one in behind)
    yield (
        "Every comparison in which ours is behind, by accuracy or by how fair it gets, in points of a "
        f"hundred. In {other} of them ours has logistic models inside and the peer is plain trees, another "
        'learner. What else is known of the reasons is under "What made the difference".\n'
    )
    rows = [
        [
            f"`{one.ours}`",
            one.peer,
            one.table,
            str(one.asked),
            one.setting,
            _marked(points_apart(one.mean, one.half), one.word),
            _marked(points_apart(one.lower, one.lower_half), one.reach),
        ]
        for one in sorted(behind, key=lambda one: (OURS.index(one.ours), PEERS.index(one.peer)))
    ]
    yield markdown_table(["ours", "peer", "table", "asked", "setting", "accuracy", "fairest"], rows)


def _rows(kept: Kept) -> str:
    return f"- Published rows: {reached(beside(kept))}."


def _accuracy(found: list[Verdict]) -> Iterable[str]:
    post = [one for one in found if one.ours == "post"]
    others = [one for one in post if one.peer in OTHERS]
    halves = [one for one in others if one.peer in HALVES and one.word == "ahead"]
    leads = [100 * one.mean for one in halves if one.asked.measure == "difference"]
    same = [one for one in post if one.peer == SAME]
    yield (
        f"- Post-processing against {', '.join(OTHERS[:-1])} and {OTHERS[-1]}, at the same disparity on test "
        f"rows: {told(one.word for one in others)}, of {len(others)} comparisons."
        + (
            f" Of those ahead, {len(halves)} are against {' and '.join(HALVES)}, which learn posteriors from "
            "half of the training rows as in the paper's protocol and know no ratios. By differences it is "
            f"ahead there by {min(leads):.1f} to {max(leads):.1f} points, which cross-fitting makes."
            if leads
            else ""
        )
    )
    if same:
        yield (
            "- On equal posteriors no difference is seen: against LinearPost with the cross-fitted, "
            f"calibrated posteriors of post-processing, {told(one.word for one in same)}; the differences "
            f"have a median of {100 * float(np.median([one.mean for one in same])):+.2f} points. What it has "
            "beyond are a proof of optimality, requirements that the linear program does not know (ratios, "
            "accuracy parity), and the time of its solver."
        )
    single, mixture = (
        told(one.word for one in found if one.ours == ours and one.peer in OTHERS)
        for ours in ("in", "in, mixture")
    )
    plain = [one for one in found if one.peer == "plain trees"]
    yield (
        f"- In-processing against the same four: one classifier {single}; the mixture {mixture}. All against "
        f"plain trees, at the disparity that these have: {told(one.word for one in plain)}."
    )


def _fits(kept: Kept) -> Iterable[str]:
    """What training takes, where both were measured."""
    peers = {
        (table, *rest): cell["fits"]
        for (table, method, *rest), cell in kept.cells.items()
        if method == "ExponentiatedGradient"
    }
    both = [
        (cell["fits"], peers[table, *rest])
        for (table, method, *rest), cell in kept.cells.items()
        if method == "in" and (table, *rest) in peers
    ]
    if both:
        ours, theirs = np.mean(both, axis=0)
        yield (
            f"- Fits: in-processing takes {ours:.1f} on average, those of the posteriors included, and "
            f"ExponentiatedGradient {theirs:.1f} ({len(both)} cells that both have)."
        )


def _fairest(found: list[Verdict]) -> Iterable[str]:
    counts = [f"`{ours}` {told(one.reach for one in found if one.ours == ours)}" for ours in OURS]
    yield f"- How fair they get, against peers that were asked for parity: {'; '.join(counts)}."


def _within_margins(found: list[Verdict]) -> Iterable[str]:
    """Non-inferiority, for each of ours against each peer."""
    yield (
        '"Undecided" is no proof of equality. What is shown is in this table: that ours is less accurate by '
        f"no more than a margin of {MARGINS[0]} or {MARGINS[1]} points of a hundred, at the same disparity. "
        "It is shown in a comparison if the lower one-sided 95 % confidence limit of the difference, "
        "mean - t(0.95, J - 1) · sqrt((1 / J + n_test / n_train) · s²), is above minus the margin. Here J is "
        "the number of splits that both methods were measured on, and s² the variance over them of the "
        "pseudo-values of the paired difference (next section). In comparisons that are worse by more, the "
        "upper limit is below minus the margin. Where two curves are equal or meet in one point "
        "the interval has no width, and nothing counts as shown. Each comparison has its own level of 5 %, "
        "without a correction for their number.\n"
    )
    rows = []
    for ours in OURS:
        for peer in (*OTHERS, SAME):
            some = [one for one in found if (one.ours, one.peer) == (ours, peer) and one.word != "too few"]
            if some:
                shown = [sum(one.shows(margin / 100) == "no worse" for one in some) for margin in MARGINS]
                worse = sum(one.shows(MARGINS[0] / 100) == "worse" for one in some)
                half = f"{100 * float(np.median([one.half for one in some])):.2f}"
                words = Counter(one.word for one in some)
                counts = [words[word] for word in ("ahead", "undecided", "behind")]
                rows.append([f"`{ours}`", peer, len(some), *shown, worse, *counts, half])
    heads = [f"no worse by more than {margin}" for margin in MARGINS]
    heads += [
        f"worse by more than {MARGINS[0]}",
        "ahead",
        "undecided",
        "behind",
        "median half of the interval",
    ]
    yield markdown_table(["ours", "peer", "comparisons", *heads], rows)


def _limits(found: list[Verdict]) -> str:
    judged = sum(word not in ("", "too few") for one in found for word in (one.word, one.reach))
    return (
        "- Limits: intervals are over splits of the same few tables, and wide, because splits share rows; "
        f'"undecided" means that these splits do not tell, not that methods are equal. There are {judged} '
        "verdicts of both kinds and no correction for their number. A 95 % interval may miss to one side in "
        "2.5 % of cases, but comparisons share tables, splits and curves, so that counts of verdicts cannot "
        "be held against that rate. Some choices of ours were made with some of these figures in view "
        '("How to read this").'
    )


def told(words: Iterable[str]) -> str:
    """How many are ahead, undecided and behind."""
    counted = Counter(filter(None, words))
    known = ", ".join(f"{word} {counted[word]}" for word in ("ahead", "undecided", "behind"))
    return known + (f", too few splits {counted['too few']}" if counted["too few"] else "")


def _marked(text: str, word: str) -> str:
    return "" if not word else f"**{text}**" if word == "behind" else text

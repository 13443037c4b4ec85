"""Counts of verdicts, what is shown within a margin, and where ours is behind."""

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

__all__ = ["behind", "in_short", "within_margins"]

SAME = "LinearPost, our posteriors"
HALVES = ("LinearPost", "bias score")
"""Methods of others that learn posteriors from half of the rows."""
OTHERS = ("ThresholdOptimizer", *HALVES, "ExponentiatedGradient")
MARGINS = (0.5, 1.0)
"""Points of a hundred of accuracy by which ours may be worse and still count as no worse."""


def in_short(found: list[Verdict], kept: Kept) -> Iterable[str]:
    """The first section."""
    yield "\n".join([_rows(kept), *_accuracy(found), *_fairest(found), *_fits(kept), _limits(found)]) + "\n"


def behind(found: list[Verdict]) -> Iterable[str]:
    """Every comparison that is lost."""
    yield "## Where ours is behind\n"
    lost = [one for one in found if "behind" in (one.word, one.reach)]
    other = sum(one.peer == "plain trees" and TABLES[one.table].learner == "logistic" for one in lost)
    yield (
        "Every comparison in which ours is behind, by accuracy or by how fair it gets, in points of a "
        f"hundred. In {other} of them ours has logistic models inside and the peer is plain trees, another "
        "learner. What else is known of the reasons is [among the parts](parts.md).\n"
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
        for one in sorted(lost, key=lambda one: (OURS.index(one.ours), PEERS.index(one.peer)))
    ]
    yield markdown_table(["ours", "peer", "table", "asked", "setting", "accuracy", "fairest"], rows)


def _rows(kept: Kept) -> str:
    return f"- Published results: {reached(beside(kept))}"


def _accuracy(found: list[Verdict]) -> Iterable[str]:
    post = [one for one in found if one.ours == "post"]
    others = [one for one in post if one.peer in OTHERS]
    halves = [one for one in others if one.peer in HALVES and one.word == "ahead"]
    leads = [100 * one.mean for one in halves if one.asked.measure == "difference"]
    same = [one for one in post if one.peer == SAME]
    yield (
        f"- Post-processing against {', '.join(OTHERS[:-1])} and {OTHERS[-1]}, accuracy at the same "
        f"disparity on test rows: {told(one.word for one in others)}, of {len(others)} comparisons."
        + (
            f" Of those ahead, {len(halves)} are against {' and '.join(HALVES)}, which learn posteriors from "
            "half of the training rows and know no ratios. By difference the lead there is "
            f"{min(leads):.1f} to {max(leads):.1f} points, and comes from cross-fitting."
            if leads
            else ""
        )
    )
    if same:
        yield (
            "- On equal posteriors no difference is seen: against LinearPost with the posteriors of "
            f"post-processing, {told(one.word for one in same)}, with a median of "
            f"{100 * float(np.median([one.mean for one in same])):+.2f} points. Post-processing adds the "
            "proof, ratios and accuracy parity, and a faster solver."
        )
    single, mixture = (
        told(one.word for one in found if one.ours == ours and one.peer in OTHERS)
        for ours in ("in", "in, mixture")
    )
    plain = [one for one in found if one.peer == "plain trees"]
    yield (
        f"- In-processing against the same four: one classifier {single}; the mixture {mixture}. All of ours "
        f"against plain trees, at the disparity of plain trees: {told(one.word for one in plain)}."
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
    yield f"- Smallest disparity reached, against methods that were asked for parity: {'; '.join(counts)}."


def within_margins(found: list[Verdict]) -> Iterable[str]:
    """Non-inferiority, for each of ours against each peer."""
    yield (
        '"Undecided" is no proof of equality. This table counts the comparisons in which ours is shown to be '
        f"less accurate by at most {MARGINS[0]} or {MARGINS[1]} points at the same disparity "
        "(non-inferiority): the lower one-sided 95 % confidence limit of the paired difference over splits "
        f"is above minus the margin. In those that are over {MARGINS[0]} worse, the upper limit is below "
        f"minus {MARGINS[0]}. Where two curves are equal or meet in one point, the interval has no width "
        "and nothing counts as shown. Each comparison has its own level of 5 %. "
        "[Every comparison](reproduction/verdicts.md), with those in which ours is behind.\n"
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
    heads = [f"at most {margin} worse" for margin in MARGINS]
    heads += [
        f"over {MARGINS[0]} worse",
        "ahead",
        "undecided",
        "behind",
        "median half-width",
    ]
    yield markdown_table(["ours", "peer", "comparisons", *heads], rows)


def _limits(found: list[Verdict]) -> str:
    judged = sum(word not in ("", "too few") for one in found for word in (one.word, one.reach))
    return (
        '- Limits: intervals are over splits of the same few tables, and wide. "Undecided" means that these '
        f"splits do not tell, not that methods are equal. There are {judged:,} verdicts without a correction "
        "for their number, and they share tables, splits and curves. Some choices of ours were made with "
        "some of these figures in view "
        "([which](reproduction/protocol.md#choices-that-were-made-with-figures-in-view))."
    )


def told(words: Iterable[str]) -> str:
    """How many are ahead, undecided and behind."""
    counted = Counter(filter(None, words))
    known = ", ".join(f"{word} {counted[word]}" for word in ("ahead", "undecided", "behind"))
    return known + (f", too few splits {counted['too few']}" if counted["too few"] else "")


def _marked(text: str, word: str) -> str:
    return "" if not word else f"**{text}**" if word == "behind" else text

"""docs/reproduction.md and the full tables beside it, written from what is kept."""

from __future__ import annotations

import datetime
import os
import platform
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import evenhand as eh
from benchmarks.paper.comparison import Verdict, verdicts
from benchmarks.paper.full import claims, cost, cost_in_short, every_verdict, multipliers
from benchmarks.paper.kept import Kept
from benchmarks.paper.parts import parts, same_posteriors
from benchmarks.paper.pictures import draw
from benchmarks.paper.plan import current
from benchmarks.paper.rows import as_printed, as_printed_in_short, published, published_in_short
from benchmarks.paper.summary import behind, in_short, within_margins

__all__ = ["write_page"]

DOCS = Path(__file__).parents[2] / "docs"
NOTES = Path(__file__).parent / "notes"
PACKAGES = ("scikit-learn", "fairlearn", "numpy", "scipy")
PICTURE = "adult-sex-x-race.svg"
TITLES = {
    "protocol": "How the paper's experiments were measured",
    "published": "Published results",
    "as_printed": "Both algorithms exactly as printed",
    "verdicts": "Comparisons with other methods",
    "parts": "What each part is worth",
    "cost": "Fits and time of every method",
    "curves": "Curves",
}
CONTENTS = {
    "protocol": "splits, intervals, other methods, and choices that were made with figures in view",
    "published": "every printed row beside ours and beside a plain model; claims of the text; multipliers",
    "as_printed": "the paper's two algorithms with nothing of ours, row by row",
    "verdicts": "every comparison with its interval, and every one in which ours is behind",
    "parts": "ablations, and what made the difference",
    "cost": "by table and setting",
    "curves": "accuracy against disparity, one picture for each table",
}


def write_page(kept: Kept, folder: Path = DOCS) -> Path:
    """Write the page, the full tables and the pictures."""
    kept = current(kept)
    found = verdicts(kept)
    beside = folder / "reproduction"
    beside.mkdir(exist_ok=True)
    full = {
        "protocol": [_notes("protocol")],
        "published": [*published(kept), *claims(kept), *multipliers(kept)],
        "as_printed": as_printed(kept),
        "verdicts": [*every_verdict(found), *behind(found)],
        "parts": [_notes("parts"), *parts(kept), *same_posteriors(kept)],
        "cost": cost(kept),
        "curves": draw(kept, beside),
    }
    back = "Part of [the paper's experiments, and other methods](../reproduction.md); written with it.\n"
    for name, sections in full.items():
        _write(beside / f"{name}.md", [f"# {TITLES[name]}\n", back, *sections])
    path = folder / "reproduction.md"
    _write(path, _page(kept, found, beside))
    counted = Counter(one.word for one in found)
    print(f"{len(found)} comparisons: {', '.join(f'{n} {word}' for word, n in counted.most_common())}")
    print(f"written: {path}")
    return path


def _page(kept: Kept, found: list[Verdict], beside: Path) -> Iterable[str]:
    """What a person reads."""
    yield "# The paper's experiments, and other methods\n"
    yield _head(kept)
    yield "## In short\n"
    yield from in_short(found, kept)
    if (beside / PICTURE).exists():
        yield f"![Accuracy against disparity on Adult, by sex and race](reproduction/{PICTURE})\n"
    yield "## How it was measured\n"
    yield _notes("how")
    yield "## Published results\n"
    yield from published_in_short(kept)
    yield "## Beside other methods\n"
    yield from within_margins(found)
    yield "## The paper's algorithms as printed\n"
    yield from as_printed_in_short(kept)
    yield "## What made the difference\n"
    yield _notes("difference")
    yield "## What failed\n"
    yield _notes("failed")
    yield "## Cost\n"
    yield (
        "Model fits per tolerance (for post-processing, per curve), and processor time for a whole curve as "
        "a multiple of post-processing's on the same splits. Fits of in-processing were counted before its "
        "classifiers were trained on halves; it now takes 13 to 19. "
        "[By table and setting](reproduction/cost.md).\n"
    )
    yield cost_in_short(kept)
    yield "## Run it again\n"
    yield _notes("rerun")
    yield "## Full tables\n"
    yield "".join(
        f"- [{title}](reproduction/{name}.md): {CONTENTS[name]}\n" for name, title in TITLES.items()
    )


def _head(kept: Kept) -> str:
    packages = ", ".join([f"evenhand {eh.__version__}", *(f"{name} {version(name)}" for name in PACKAGES)])
    return (
        f"Written by `python -m benchmarks.paper` on {datetime.date.today().isoformat()} from "
        f"{len(kept.cells):,} cells in `benchmarks/results/paper-cells.jsonl` (Python "
        f"{platform.python_version()}, {os.cpu_count()} cores; {packages}).\n"
    )


def _notes(name: str) -> str:
    return (NOTES / f"{name}.md").read_text("utf-8")


def _write(path: Path, sections: Iterable[str]) -> None:
    path.write_text("\n".join(sections).rstrip() + "\n", encoding="utf-8")

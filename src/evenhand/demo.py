"""A plain classifier on the bundled Adult data, and what it does to groups by sex and race."""

from __future__ import annotations

import sys
from pathlib import Path

from evenhand.columns import show
from evenhand.datasets import load_adult
from evenhand.exceptions import MissingExtraError
from evenhand.groups import Mode
from evenhand.measurement import Measurement
from evenhand.notions import (
    NOTIONS,
    AccuracyParity,
    DemographicParity,
    EqualOpportunity,
    PredictiveEquality,
)
from evenhand.rates import CellRates, cell_rates

try:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
except ImportError:
    raise MissingExtraError("rich", "demo") from None


def main(page: Path = Path("evenhand-demo.html")) -> None:
    """Train, measure, print, and write the same as a page."""
    console = Console(record=True, width=110, highlight=False)
    console.print("[bold]evenhand demo[/bold]: a plain classifier on Adult, by sex and race\n")
    rates = plain_classifier()
    console.print(group_table(rates))
    console.print(disparity_table(rates))
    console.print(
        "Difference: the largest gap between a group and everybody; 0 is parity.\n"
        "Ratio: the smallest quotient of a group and everybody, of the rate or its complement; 1 is parity.\n"
        "Intersectional compares every combination of sex and race; independent, each feature by itself."
    )
    console.save_html(str(page))
    console.print(f"\nThe same as a page: {page}")


def plain_classifier() -> CellRates:
    """Fit boosted trees that do not see sex and race on one half, and count decisions on the other."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415  (a second to import)
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    adult = load_adult("all")
    X, _ = adult.one_hot()
    X_train, X_test, y_train, y_test, _, groups = train_test_split(
        X, adult.label.to_numpy(), adult.sensitive, test_size=0.5, random_state=0
    )
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X_train, y_train)
    return cell_rates(y_test, model.predict(X_test), groups)


def group_table(rates: CellRates) -> Table:
    """Rows, selection rate, true- and false-positive rate and error rate of each group."""
    table = Table(title="What happens to each group (held-out half)", title_justify="left", box=SIMPLE_HEAD)
    for feature in rates.groups.features:
        table.add_column(feature)
    for heading in ("people", "earn >50K", "selected", "true pos.", "false pos.", "errors"):
        table.add_column(heading, justify="right")
    statistics = (DemographicParity, EqualOpportunity, PredictiveEquality, AccuracyParity)
    columns = [kind(difference=0).measure(rates)[0].values for kind in statistics]
    for m, key in enumerate(rates.groups.keys):
        mass = rates.mass[m]
        table.add_row(
            *(escape(show(value)) for value in key),
            f"{mass.sum():,.0f}",
            f"{mass[1] / mass.sum():.3f}",
            *(f"{column[m]:.3f}" for column in columns),
        )
    return table


def disparity_table(rates: CellRates) -> Table:
    """Mean difference and mean ratio of every notion, with the group that sets it."""
    table = Table(title="How unequal that is", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("notion", "groups"):
        table.add_column(heading)
    for measure in ("difference", "ratio"):
        table.add_column(measure, justify="right")
        table.add_column("set by")
    modes: tuple[Mode, ...] = ("intersectional", "independent")
    for kind in NOTIONS:
        for mode in modes:
            by_difference = kind(difference=0, groups=mode).measure(rates)
            by_ratio = kind(ratio=1, groups=mode).measure(rates)
            worst_difference = max(by_difference, key=lambda found: found.difference)
            worst_ratio = min(by_ratio, key=lambda found: found.ratio)
            table.add_row(
                kind.label if mode == "intersectional" else "",
                mode,
                f"{worst_difference.difference:.3f}",
                _who(worst_difference),
                f"{worst_ratio.ratio:.3f}",
                _who(worst_ratio),
            )
    return table


def _who(found: Measurement) -> str:
    return "" if found.worst is None else escape(", ".join(show(value) for value in found.worst.values))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))

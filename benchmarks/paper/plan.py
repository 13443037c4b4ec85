"""What is to be measured, and measuring it: in several processes, cell by cell."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple, dataclass, replace
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.paper import as_printed, bias_score
from benchmarks.paper import asked as asking
from benchmarks.paper import methods as doing
from benchmarks.paper.ablations import ABLATIONS
from benchmarks.paper.asked import Asked
from benchmarks.paper.kept import Kept, Key, fingerprint_of
from benchmarks.paper.methods import METHODS, Task
from benchmarks.paper.tables import ACS, TABLES, Table, fingerprint

__all__ = ["Choice", "Unit", "asked_of", "current", "planned", "run"]

WITHOUT_ALL_RATIOS = ("Adult, sex",)
"""Tables where accuracy parity and equalized odds are not asked for by ratio, for the time it takes."""


@dataclass(frozen=True)
class Choice:
    """A part of all cells."""

    tables: tuple[str, ...]
    methods: tuple[str, ...]
    notions: tuple[str, ...]
    measures: tuple[str, ...]
    settings: tuple[str, ...]
    splits: int
    fresh: bool = False


@dataclass(frozen=True)
class Unit:
    """What is measured at a time: one method on one split."""

    table: str
    method: str
    setting: str
    seed: int
    asked: tuple[Asked, ...] = ()

    def key(self, what: str) -> Key:
        """Under which a cell is kept."""
        return (self.table, self.method, self.setting, what, self.seed)

    @property
    def fingerprint(self) -> str:
        """All settings that the result depends on; not the code, for which there is ``--fresh``."""
        table = TABLES[self.table]
        shared = [astuple(table)[:-2], fingerprint(table)]
        if self.method.startswith("ExponentiatedGradient"):
            rounds = doing.UNLIMITED if self.method.endswith("unlimited") else doing.ROUNDS
            return fingerprint_of(*shared, doing.reduced(table), rounds)
        if self.method == "ThresholdOptimizer":
            return fingerprint_of(*shared, doing.THRESHOLD_TOLERANCES)
        if self.method == "bias score":
            return fingerprint_of(
                *shared, asking.DIFFERENCES, bias_score.CANDIDATES, bias_score.STEPS, bias_score.MOST_ROWS
            )
        if self.method == "as printed":
            return fingerprint_of(*shared, *as_printed.SETTINGS)
        if self.method in ("in", "in, mixture"):
            return fingerprint_of(*shared, asking.FEW_DIFFERENCES, asking.FEW_RATIOS)
        return fingerprint_of(*shared, asking.DIFFERENCES, asking.RATIOS)


def asked_of(table: Table) -> list[Asked]:
    """What the paper asks on a table, and equalized odds."""
    if table.survey:
        return [Asked("DP")]
    skipped = ("AP", "odds") if table.name in WITHOUT_ALL_RATIOS else ()
    ratios = [Asked(notion, "ratio") for notion in asking.NOTIONS if notion not in skipped]
    return [Asked(notion) for notion in asking.NOTIONS] + ratios


def planned(choice: Choice, kept: Kept) -> list[Unit]:
    """What was chosen and is not kept yet, split after split, so that a part of a run is of use."""
    units = []
    absent = [name for name in choice.tables if not TABLES[name].there]
    if absent:
        print(f"left out, because {ACS} is not there: {', '.join(absent)}")
    tables = [TABLES[name] for name in choice.tables if TABLES[name].there]
    for seed in range(choice.splits):
        for method in choice.methods:
            for table in tables:
                for setting in choice.settings:
                    unit = _unit(table, method, setting, seed, choice=choice, kept=kept)
                    if unit is not None:
                        units.append(unit)
    return units


def _unit(table: Table, method: str, setting: str, seed: int, *, choice: Choice, kept: Kept) -> Unit | None:
    if method in ABLATIONS:
        _, tables, settings, splits = ABLATIONS[method]
        unit = Unit(table.name, method, setting, seed)
        wanted = table.name in tables and setting in settings and seed < splits
        there = not choice.fresh and kept.has(unit.key("done"), unit.fingerprint)
        return unit if wanted and not there else None
    made_for = METHODS[method]
    if setting not in made_for.settings or seed >= min(table.splits, made_for.splits):
        return None
    whole = Unit(table.name, method, setting, seed)
    asked = tuple(
        one
        for one in asked_of(table)
        if one.notion in choice.notions
        and one.notion in made_for.notions
        and one.measure in choice.measures
        and (choice.fresh or not kept.has(whole.key(str(one)), whole.fingerprint))
    )
    return Unit(table.name, method, setting, seed, asked) if asked else None


def current(kept: Kept) -> Kept:
    """Give what was measured with the settings of now."""
    known: dict[Key, str] = {}
    cells = {}
    for (table, method, setting, what, seed), cell in kept.cells.items():
        if table in TABLES and (method in METHODS or method in ABLATIONS) and TABLES[table].there:
            which = (table, method)
            known.setdefault(which, Unit(table, method, setting, seed).fingerprint)
            if cell["of"] == known[which]:
                cells[table, method, setting, what, seed] = cell
    return Kept(kept.path, cells)


def measure(unit: Unit) -> list[tuple[Key, dict[str, Any]]]:
    """Measure the cells of a unit."""
    table = TABLES[unit.table]
    task = Task(table, unit.seed, unit.setting == "aware", *table.halves(unit.seed))
    found: list[tuple[Key, dict[str, Any]]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if unit.method in ABLATIONS:
            for name, cell in ABLATIONS[unit.method][0](task):
                found.append((unit.key(name), cell))
            found.append((unit.key("done"), {"points": []}))
        else:
            for one, curve in METHODS[unit.method].run(task, list(unit.asked)):
                for method, other in {unit.method: curve, **curve.also}.items():
                    cell = {"points": other.points, "fits": other.fits, "cpu": round(other.seconds, 3)}
                    found.append((replace(unit, method=method).key(str(one)), cell))
    return [(key, {**_rounded(cell), "of": unit.fingerprint}) for key, cell in found]


def run(units: Iterable[Unit], kept: Kept, *, jobs: int) -> None:
    """Measure units, in several processes if there are to be several, and keep each as soon as it is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    todo = list(units)
    with Progress(*columns) as progress:
        bar = progress.add_task("measuring", total=len(todo))
        for unit, cells in _measured(todo, jobs):
            for key, cell in cells:
                kept.add(key, cell)
            progress.update(bar, advance=1, description=f"{unit.table}: {unit.method}")
    kept.tidy()


def _measured(units: list[Unit], jobs: int) -> Iterator[tuple[Unit, list[tuple[Key, dict[str, Any]]]]]:
    if jobs == 1:
        for unit in units:
            yield unit, measure(unit)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(measure, unit): unit for unit in units}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _rounded(cell: dict[str, Any]) -> dict[str, Any]:
    """Five digits are more than test rows tell."""
    points = {
        name: [[round(value, 5) for value in point] for point in cell[name]]
        for name in ("points", "by feature")
        if name in cell
    }
    return {**cell, **points}

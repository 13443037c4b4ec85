"""Several actions: random problems against a full program, and how fast the optimum is found.

Run: ``python -m benchmarks.actions`` (about a quarter of an hour).
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import polars as pl
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron, vstack
from sklearn.ensemble import HistGradientBoostingClassifier

import evenhand as eh
from benchmarks.record import write
from evenhand.exceptions import CertificateError, EvenhandWarning, InfeasibleError
from evenhand.optimum.action_problem import ActionsProblem
from evenhand.requirements.requirement import AllOf

RANDOM, ROWS, FULL_ROWS = 2000, 1_000_000, 100_000
LIMIT = 1500
"""Seconds after which a program of all rows is given up."""


def random_requirement(rng: np.random.Generator, M: int, names: tuple[Any, ...]) -> Any:
    """One to three notions and bounds."""
    parts = []
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(0, 6)
        if kind < 4:
            slack = float(rng.choice([0.0, 0.01, 0.05, 0.2]))
            tolerance = {"difference": slack} if rng.random() < 0.6 else {"ratio": 1 - slack}
            against = [{"group": int(rng.integers(M))}, "groups", "population"][rng.integers(3)]
            action: Any = None
            if kind in (0, 3) and rng.random() < 0.5:
                chosen = [name for name in names if rng.random() < 0.5] or [names[0]]
                action = (
                    chosen
                    if rng.random() < 0.7
                    else dict(zip(names, rng.random(len(names)).tolist(), strict=True))
                )
            notion = [eh.DemographicParity, eh.EqualOpportunity, eh.AccuracyParity, eh.EqualizedOdds][kind]
            parts.append(notion(**tolerance, against=against, action=action))
            continue
        low, high = np.sort(rng.random(2)).round(3).tolist()
        bounds = [{"at_least": 0.4 * low}, {"at_most": 0.3 + 0.7 * high}][rng.integers(2)]
        rate = "accuracy" if kind == 4 else names[rng.integers(len(names))]
        parts.append(eh.RateBound(rate, **bounds, groups=["population", "intersectional"][rng.integers(2)]))
    return parts[0] if len(parts) == 1 else AllOf(parts)


def population(rng: np.random.Generator, n: int, M: int, L: int) -> np.ndarray:
    """Posteriors in which groups have labels of different frequencies."""
    x = rng.normal(size=(n, 6))
    groups = np.exp(0.7 * x @ rng.normal(size=(6, M)))
    labels = np.exp((x @ rng.normal(size=(6, L)))[:, None] + rng.normal(size=(M, L)))
    joint = groups[:, :, None] / groups.sum(axis=1)[:, None, None]
    return np.asarray(joint * (labels / labels.sum(axis=2, keepdims=True)))


def random_problem(seed: int, most_rows: int) -> ActionsProblem:
    """Up to six groups, labels and actions; some with ties, weights, and actions that cost the same."""
    rng = np.random.default_rng(seed)
    M, L, K = (int(size) for size in rng.integers(2, 7, 3))
    rows = population(rng, int(rng.integers(20, most_rows)), M, L)
    if rng.random() < 0.3:
        rows = np.round(8 * rows) / 8 + 1e-3
        rows /= rows.sum(axis=(1, 2), keepdims=True)
    costs = rng.random((L, K)) if rng.random() < 0.7 else np.round(3 * rng.random((L, K)))
    if rng.random() < 0.1:
        costs[:, -1] = costs[:, 0]
    names = tuple(f"action {a}" for a in range(K))
    table = {name: dict(enumerate(costs[:, a].tolist())) for a, name in enumerate(names)}
    weights = rng.random(len(rows)) if rng.random() < 0.5 else None
    asked = random_requirement(rng, M, names)
    return ActionsProblem.of(rows, asked, cost=eh.Costs(table), sample_weight=weights)


def full_program(problem: ActionsProblem, method: str = "highs") -> float | None:
    """The smallest expected cost, with a variable for each row, action and scalar; None if infeasible."""
    rows, K, S = problem.rows, problem.rows.n_actions, problem.program.scalars
    n, D = rows.n_rows, rows.width
    P = n * rows.weights_of(slice(None))[:, None] * rows.matrix
    tables = problem.program.A[:, : D * K].reshape(-1, D, K)
    worth = np.stack([P @ tables[:, :, a].T for a in range(K)], axis=1).reshape(n * K, -1)
    matrix = np.hstack([worth.T, n * problem.program.A[:, D * K :]])
    gain = np.append((P @ problem.program.gain[: D * K].reshape(D, K)).ravel(), np.zeros(S))
    one = hstack([kron(eye_array(n), np.ones((1, K))), csr_array((n, S))]).tocsr()
    limits = n * np.concatenate([problem.program.hi, -problem.program.lo])
    both = np.vstack([matrix, -matrix])[np.isfinite(limits)]
    found = linprog(-gain, both, limits[np.isfinite(limits)], one, np.ones(n), bounds=(0, 1), method=method)
    if found.status == 2:
        return None
    if found.status != 0:
        raise ArithmeticError(f"the other solver failed: {found.message}")
    return float(problem.unit * found.fun / n)


def correctness(seeds: range = range(RANDOM)) -> dict[str, Any]:
    """How many of the random problems are solved wrongly, and how far off they are."""
    wrong = infeasible = unproven = differs = 0
    worst = {"objective": 0.0, "violation": 0.0, "gap": 0.0}
    for seed in seeds:
        problem = random_problem(seed, 600 if seed % 4 == 1 else 150)
        expected = full_program(problem)
        try:
            certificate = problem.solve(tol=1e-8, advise=False).certificate
        except InfeasibleError:
            infeasible += 1
            if expected is not None:
                wrong += 1
                print(f"seed {seed} can be satisfied: {problem.constraint}")
            continue
        except CertificateError:
            unproven += 1
            print(f"seed {seed} is not proven, {expected}: {problem.constraint}")
            continue
        off = np.inf if expected is None else abs(certificate.objective - expected)
        differs += certificate.shipped_differs
        if off > 1e-7 * max(1.0, problem.unit):
            wrong += 1
            print(f"seed {seed} is off by {off:g}: {problem.constraint}")
            continue
        worst["objective"] = max(worst["objective"], off)
        worst["violation"] = max(worst["violation"], certificate.violation)
        worst["gap"] = max(worst["gap"], abs(certificate.gap))
    return {
        "random problems": len(seeds),
        "of which nothing satisfies": infeasible,
        "wrong (goal: 0)": wrong,
        "not proven to 1e-8": unproven,
        "the rule that is shipped attains something else": differs,
        "worst difference from the full program": worst["objective"],
        "worst violation": worst["violation"],
        "worst certified gap": worst["gap"],
    }


def cpu_seconds(work: Any) -> tuple[float, Any]:
    """CPU time of one run, which other processes disturb less than the clock, and its result."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def speed(n: int = ROWS) -> dict[str, Any]:
    """Solves of five labels, actions and groups, in products of the posteriors with a matrix of 25 x 5."""
    results: dict[str, Any] = {}
    parity, opportunity = eh.DemographicParity(difference=0.01), eh.EqualOpportunity(difference=0.01)
    asked = {"parity": parity, "opportunity": opportunity, "both": parity & opportunity}
    rows = population(np.random.default_rng(0), n, 5, 5)
    flat, table = rows.reshape(n, -1), np.random.default_rng(1).random((25, 5))
    product = min(cpu_seconds(lambda: flat @ table)[0] for _ in range(5))
    for name, constraint in asked.items():
        problem = ActionsProblem.of(rows, constraint)
        took, solution = cpu_seconds(lambda problem=problem: problem._optimal(_accepted()))
        results[name] = {
            "CPU seconds": round(took, 2),
            "products (goal: 30)": round(took / product, 1),
            "gap": abs(solution.certificate.gap),
        }
    return {"rows": n, "CPU seconds of a product": round(product, 4), **results}


def _accepted() -> Any:
    from evenhand.solver.optimize import Accepted  # noqa: PLC0415

    return Accepted(1e-9)


def against_full(n: int = FULL_ROWS) -> dict[str, Any]:
    """The same problem by a program of all rows, by HiGHS's simplex and interior points, in one thread."""
    problem = ActionsProblem.of(
        population(np.random.default_rng(0), n, 5, 5), eh.DemographicParity(difference=0.01)
    )
    solves = [cpu_seconds(lambda: problem.solve(tol=1e-9)) for _ in range(5)]
    own, solution = sorted(solves, key=lambda found: found[0])[2]
    found: dict[str, Any] = {"rows": n, "CPU seconds here": round(own, 3)}
    program, finished = highs_program(problem), []
    for method in ("simplex", "ipm"):
        took, expected = cpu_seconds(lambda method=method: solved_by_highs(program, method))
        if expected is not None:
            finished.append(took)
            found[f"difference of the optima, {method}"] = abs(
                problem.unit * expected / n - solution.certificate.objective
            )
        found[f"CPU seconds of the full program, {method}"] = (
            round(took, 2) if expected is not None else f"not finished after {took:.0f}"
        )
    if finished:
        found["times faster than the faster one (goal: 100)"] = round(min(finished) / own, 1)
    return found


def highs_program(problem: ActionsProblem) -> highspy.HighsLp:
    """A variable for each row, action and scalar, and a row with two ends for each bound."""
    rows, K, S = problem.rows, problem.rows.n_actions, problem.program.scalars
    n, D = rows.n_rows, rows.width
    P = n * rows.weights_of(slice(None))[:, None] * rows.matrix
    tables = problem.program.A[:, : D * K].reshape(-1, D, K)
    worth = np.stack([P @ tables[:, :, a].T for a in range(K)], axis=1).reshape(n * K, -1)
    bounds = hstack([csr_array(worth.T), csr_array(n * problem.program.A[:, D * K :])])
    one = hstack([kron(eye_array(n), np.ones((1, K))), csr_array((n, S))])
    A = vstack([bounds, one]).tocsc()
    gain = np.append((P @ problem.program.gain[: D * K].reshape(D, K)).ravel(), np.zeros(S))
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = A.shape
    program.col_cost_ = -gain
    program.col_lower_, program.col_upper_ = np.zeros(len(gain)), np.ones(len(gain))
    program.row_lower_ = np.append(n * problem.program.lo, np.ones(n))
    program.row_upper_ = np.append(n * problem.program.hi, np.ones(n))
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_, program.a_matrix_.index_ = A.indptr, A.indices
    program.a_matrix_.value_ = A.data
    return program


def solved_by_highs(program: highspy.HighsLp, method: str) -> float | None:
    """The optimum by HiGHS; None if it takes longer than `LIMIT`."""
    highs = highspy.Highs()
    for name, value in {
        "output_flag": False,
        "solver": method,
        "threads": 1,
        "time_limit": float(LIMIT),
    }.items():
        highs.setOptionValue(name, value)
    highs.passModel(program)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return float(highs.getInfo().objective_function_value)


def linear_post(rows: np.ndarray, tolerance: float) -> Any:
    """LinearPost of Xian and Zhao (2024) from its formulas: parity by a linear program over all rows.

    The share of group m that gets action a, mean(g[:, m] pi[:, a]) with g = P(S=m | x) / P(S=m), lies within
    half the tolerance of a number q[a]. Multipliers of the program give the rule: the least risk after
    each group's term.

    Returns
    -------
    function
        Selection of new rows.
    """
    n, M, L = rows.shape
    masses = rows.sum(axis=2).mean(axis=0)
    g, risk = rows.sum(axis=2) / masses, 1 - rows.sum(axis=1)
    shares = kron(csr_array(g.T), eye_array(L))
    levels = kron(csr_array(np.ones((M, 1))), -n * eye_array(L))
    both = vstack([hstack([shares, levels]), hstack([-shares, -levels])]).tocsr()
    one = hstack([kron(eye_array(n), np.ones((1, L))), csr_array((n, L))]).tocsr()
    bounds = np.full(2 * M * L, n * tolerance / 2)
    found = linprog(
        np.append(risk.ravel(), np.zeros(L)), both, bounds, one, np.ones(n), bounds=(0, 1), method="highs"
    )
    upper, lower = found.ineqlin.marginals.reshape(2, M, L)

    def selection(new: np.ndarray) -> np.ndarray:
        score = 1 - new.sum(axis=1) - (new.sum(axis=2) / masses) @ (upper - lower)
        return np.eye(L)[score.argmin(axis=1)]

    return selection


def income_classes() -> dict[str, Any]:
    """ACS income in five classes, blind to four groups of sex and race: what parity costs on new rows.

    One classifier learns all pairs of group and class on a third of the rows, rules are found on the second
    third, and measured on the last.
    """
    path = Path(os.environ.get("EVENHAND_DATA", "../shared/data")) / "acs_income_14states_2018.parquet"
    if not path.exists():
        return {"skipped": f"{path.name} is not there"}
    rows = pl.read_parquet(path).sample(fraction=1.0, shuffle=True, seed=0)
    income = rows["PINCP"].to_numpy()
    label = np.searchsorted(np.quantile(income, [0.2, 0.4, 0.6, 0.8]), income, side="left")
    code = 2 * (rows["SEX"].to_numpy() == 2) + (rows["RAC1P"].to_numpy() != 1)
    X = rows.select("AGEP", "COW", "SCHL", "MAR", "OCCP", "RELP", "WKHP").to_numpy()
    third = len(rows) // 3
    learn, find, test = slice(0, third), slice(third, 2 * third), slice(2 * third, None)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    model.fit(X[learn], 5 * code[learn] + label[learn])
    found, new = (model.predict_proba(X[part]).reshape(-1, 4, 5) for part in (find, test))
    results: dict[str, Any] = {"rows that rules are found on": len(found)}

    def told(name: str, took: float, selection: Any) -> None:
        own, chosen = selection(found), selection(new)
        shares = found.sum(axis=2) / found.sum(axis=(0, 2))
        results[name] = {
            "accuracy by the posteriors": round(float((own * found.sum(axis=1)).sum(axis=1).mean()), 5),
            "largest difference of two groups by the posteriors": round(_largest(shares.T @ own), 5),
            "accuracy on new rows": round(float(chosen[np.arange(len(chosen)), label[test]].mean()), 4),
            "largest difference of two groups on new rows": round(
                _largest(np.array([chosen[code[test] == m].mean(axis=0) for m in range(4)])), 4
            ),
            "CPU seconds": round(took, 2),
        }

    for name, asked in {
        "unconstrained": eh.RateBound("accuracy", at_least=0.0),
        "parity of every class within 0.04": eh.DemographicParity(difference=0.04, against="groups"),
        "right classes within 0.1": eh.EqualOpportunity(difference=0.1, against="groups"),
    }.items():
        took, solution = cpu_seconds(lambda asked=asked: eh.solve(found, asked))
        told(name, took, solution.rule.selection)
    told("parity of every class within 0.04, LinearPost", *cpu_seconds(lambda: linear_post(found, 0.04)))
    return results


def _largest(rates: np.ndarray) -> float:
    """Largest difference of two groups, of all actions; shape (groups, actions)."""
    return float(np.ptp(rates, axis=0).max())


def main() -> None:
    warnings.simplefilter("ignore", EvenhandWarning)
    results = {
        "correctness": correctness(),
        "speed": speed(),
        "speed at 1.66 million rows": speed(1_660_000),
        "against the full program": against_full(),
        "ACS income in five classes": income_classes(),
    }
    write("actions", results, ["evenhand", "numpy", "scipy", "highspy"])


if __name__ == "__main__":
    main()

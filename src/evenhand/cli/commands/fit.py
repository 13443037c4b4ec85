"""``evenhand fit``: a fair classifier, tested on held-out rows and saved."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import evenhand as eh
from evenhand.cli.exit_codes import exit_code
from evenhand.cli.messages import in_options
from evenhand.cli.options import (
    Aware,
    Batches,
    Bounds,
    Comparison,
    Learning,
    RunOptions,
    Tolerance,
    column_names,
    columns_in,
    control_names,
    read_aware,
)
from evenhand.cli.output import print_note, print_result, visible
from evenhand.cli.paths import check_paths
from evenhand.cli.required import requirement, with_nearest_options
from evenhand.cli.table_rows import FitRows, Fitted, Part, distinct_values, read_rows
from evenhand.exceptions import InfeasibleError, InputError

if TYPE_CHECKING:
    from evenhand.auditing.result import Audit
    from evenhand.files.recertify import Claim
    from evenhand.guarantee.guarantee import GuaranteeResult

__all__ = ["fit"]


def fit(
    table: Path,
    *,
    learning: Learning,
    out: Path,
    aware: Aware = None,
    compared: Comparison = Comparison(),
    tolerance: Tolerance = Tolerance(),
    bounds: Bounds = Bounds(),
    objective: Literal["risk", "minimax"] = "risk",
    randomize: bool = False,
    confidence: float | None = None,
    report: Path | None = None,
    batches: Batches = Batches(),
    run: RunOptions = RunOptions(),
) -> int:
    """Fit a fair classifier, audit it on held-out rows, and save it.

    A file that is larger than a quarter of the available memory is read in batches: models learn from a
    sample of its rows, and the rule is found and proven on all of them.

    Exit code: that of an audit of the test rows; also 4 if the held-out rows do not support the guarantee of
    --confidence. The model is saved in any case.

    Parameters
    ----------
    table
        CSV or Parquet file to learn from. Categories and missing values need no preprocessing.
    out
        File for the model.
    aware
        Let decisions use the sensitive features, or those that are named.
    objective
        Minimise the risk; or the largest risk of a group, and then the risk.
    randomize
        With --method in: a mixture of trained classifiers, one of which decides each person.
    confidence
        Guarantee that the requirement holds on new data, with this confidence.
    report
        HTML file for the report.
    """
    from evenhand.cli.large_files import is_read_in_batches  # noqa: PLC0415  (start-up time)
    from evenhand.data.checks import check_fraction  # noqa: PLC0415

    constraint = requirement(compared, tolerance, bounds, table)
    if constraint is None:
        raise InputError(
            "no tolerance: pass --difference or --ratio, or a bound such as --capacity 0.2 or --floor "
            "'true-positive rate=0.6'."
            + (" --difference 1 requires nothing more." if objective != "risk" else "")
        )
    if compared.given and not constraint.controls:
        raise InputError("--given is about --difference and --ratio: pass one of them, or leave it out.")
    of_method = _settings_of_method(learning.method, objective, randomize=randomize)
    if confidence is not None:
        check_fraction("--confidence", confidence)
    check_paths([table, learning.test, run.config], [out, report], force=run.force)
    learning.check(table)
    aware_features = read_aware(aware, column_names(learning.sensitive, columns_in(table)))
    codes = learning.codes(table, control_names(compared, table))
    settings: dict[str, Any] = {
        "constraint": constraint,
        "aware": aware_features,
        "missing": compared.missing_policy,
        "guarantee": confidence,
        **of_method,
    }
    with in_options():
        in_batches = is_read_in_batches(table, batches)
        if batches.scratch is not None and not in_batches:
            raise InputError(
                f"--scratch is for a file that is read in batches, and {table.name} is read as a whole: pass "
                "--in-batches, or leave it out."
            )
        try:
            done = _fit(table, learning, codes, settings, batches if in_batches else None)
        except InfeasibleError as error:
            raise with_nearest_options(error, constraint) from error
    eh.save(done.model, out, overwrite=run.force, source=done.source)
    _print(done, out=out, as_json=run.as_json)
    if report is not None:
        with in_options():
            eh.write_report(
                report, done.audit, model=done.model, test=done.test, title=f"Model of {table.name}"
            )
        print_note(f"Report: {report}")
    return exit_code(done.audit, done.model.guarantee_)


def _settings_of_method(method: str, objective: str, *, randomize: bool) -> dict[str, Any]:
    """Settings that only one of the two methods has."""
    if objective != "risk" and method != "post":
        raise InputError(f"--objective {objective!r} needs --method post.")
    if randomize and method != "in":
        raise InputError("--randomize is for --method in: post-processing randomises where it has to.")
    return {"objective": objective} if method == "post" else {"randomize": randomize}


def _fit(
    table: Path, learning: Learning, codes: list[str], settings: dict[str, Any], batches: Batches | None
) -> Fitted:
    """Fit a model to a file, read in batches or (None) as a whole, and audit it on held-out rows."""
    from evenhand.cli import table_files  # noqa: PLC0415  (start-up time
    from evenhand.cli.large_files import Tested, rows_in_batches  # noqa: PLC0415

    whole = batches is None
    rows = _rows_in_memory(table, learning, codes) if whole else rows_in_batches(table, learning, codes)
    for note in learning.notes(table, rows.first, "rows" if whole else "rows at the start"):
        print_note(f"evenhand: {note}")
    model: Any = learning.classifier(rows.first, rows.labels, **settings)
    options: dict[str, Any] = {}
    if batches is not None:
        model.set_params(posteriors__max_samples=batches.max_samples)
        options = {} if batches.scratch is None else {"scratch": batches.scratch}
    test = [_decidable(part, model) for part in rows.test] if whole else rows.test
    model.fit(*rows.train, **options)
    tested, policy = Tested(model, learning.target, rows.reported), model.settings().missing
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        decided = Path(folder) / "decisions.parquet"
        table_files.write_pieces(decided, tested.decide(test))
        learned = len(rows.train[1]) if whole else model.fitted_to_.rows
        found = eh.audit(
            learning.target,
            tested.column("decision"),
            model.sensitive_features,
            data=table_files.scan(decided),
            control_features=list(model.strata_.features) if model.strata_ else None,
            constraint=model.constraint,
            pos_label=model.pos_label_,
            before=tested.column("before") if tested.compares else None,
            missing="exclude" if policy == "impute" else policy,
            min_size=math.ceil(learning.min_group_size * tested.rows / learned),
        )
        decisions = distinct_values(table_files.scan(decided), tested.column("decision"))
    constant = decisions[0] if len(decisions) == 1 else None
    count = learned + (tested.rows if learning.test is None else 0)
    source = rows.source or learning.source(table, rows=count, in_batches=True)
    return Fitted(model, found, constant, tested.sample(), source)


def _rows_in_memory(table: Path, learning: Learning, codes: list[str]) -> FitRows:
    from evenhand.data.fingerprint import digest_of, unordered_digest  # noqa: PLC0415  (start-up time)

    rows = read_rows(table, codes)
    digests = {"labels": digest_of(rows.get_column(learning.target)), "unordered": unordered_digest(rows)}
    source = learning.source(table, rows=len(rows), **digests)
    del rows
    train, test = learning.parts(table, codes)
    return FitRows((train.X, train.y), [test], first=train.X, labels=train.y, source=source)


def _decidable(test: Part, model: Any) -> Part:
    """Test rows without those that lack a sensitive feature which decisions use."""
    import numpy as np  # noqa: PLC0415  (start-up time)

    from evenhand.groups.sensitive import read_columns  # noqa: PLC0415

    if model.settings().missing != "exclude" or model.aware is False:
        return test
    used = model.sensitive_features if model.aware is True else model.aware
    columns = read_columns(test.X.select(used), max_levels=None).values()
    whole = np.flatnonzero(np.all([codes >= 0 for _, codes in columns], axis=0))
    lacking = len(test.y) - len(whole)
    if not len(whole):
        raise InputError("no test row has the sensitive features that decisions use: choose other test rows.")
    if lacking:
        print_note(
            f"evenhand: {lacking:,} of {len(test.y):,} test rows lack a sensitive feature that decisions "
            "use, and are not decided."
        )
    return Part(test.X[whole], test.y[whole], None if test.ids is None else test.ids[whole])


def _print(done: Fitted, *, out: Path, as_json: bool) -> None:
    from evenhand.auditing.exclusion import Excluded  # noqa: PLC0415  (start-up time)
    from evenhand.files.recertify import claimed  # noqa: PLC0415

    proof, guarantee = claimed(done.model), done.model.guarantee_
    if as_json:
        constant = done.constant is not None
        print_result(json.dumps(_as_dict(proof, guarantee, done.audit, constant=constant), indent=1))
        return
    print_result(f"{done.audit}\n")
    excluded = Excluded.of_groups(done.model.groups_)
    if excluded is not None:
        print_result(visible(f"fit: {excluded}"))
    print_result(visible(f"proof: {proof}."))
    print_result(guarantee or "No guarantee for new data; pass --confidence 0.95.")
    if done.constant is not None:
        print_result(visible(f"constant: this model decides {done.constant!s} for every test row."))
    note = "" if guarantee is None or guarantee.holds else ", saved although its guarantee does not hold"
    print_result(visible(f"model: {out}{note}"))


def _as_dict(
    proof: Claim, guarantee: GuaranteeResult | None, found: Audit, *, constant: bool
) -> dict[str, Any]:
    return {
        "proof": {
            "text": str(proof),
            "requirement": repr(proof.requirement),
            "asked": repr(proof.asked),
            "minimised": proof.minimised,
            "risk": proof.risk,
            "bound": proof.bound,
            "violation": proof.violation,
        },
        "guarantee": None if guarantee is None else {"holds": guarantee.holds, "text": str(guarantee)},
        "constant": constant,
        "audit": found.to_dict(),
    }

"""``evenhand fit``: a fair classifier, tested on held-out rows and saved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import evenhand as eh
from evenhand.cli.exit_codes import FailOn, exit_code, requested
from evenhand.cli.messages import in_options
from evenhand.cli.options import Integer, Learning, Required, RunOptions
from evenhand.cli.output import check_paths, print_note, print_result
from evenhand.display.progress import waiting
from evenhand.display.text import show
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.cli.fitting import Fitted
    from evenhand.guarantee.forecast import Expected


def fit(
    table: Path,
    *,
    learning: Learning,
    out: Path,
    required: Required = Required(),
    objective: Literal["risk", "minimax"] = "risk",
    randomize: bool = False,
    confidence: float | None = None,
    margin: float | Literal["forecast"] = 0.0,
    fail_on: FailOn | None = None,
    report: Path | None = None,
    max_samples: Integer = 1_000_000,
    run: RunOptions = RunOptions(),
) -> int:
    """Fit a fair classifier, audit it on held-out rows, and save it.

    A file with more than --max-samples rows is read in batches: models learn from a sample of that size, and
    the rule is found and proven on all rows.

    Exit code: 0 if a model was saved. With --fail-on, that of an audit of the test rows; the model is saved
    in any case.

    Parameters
    ----------
    table
        CSV or Parquet file to learn from. Categories and missing values need no preprocessing.
    out
        File for the model.
    objective
        Minimise the risk; or the largest risk of a group, and then the risk.
    randomize
        With --method in: a mixture of trained classifiers; each person is decided by one of them.
    confidence
        Guarantee that the requirement holds on new data, with this confidence.
    margin
        Tighten the requirement inside by so many standard errors of each group, so that it is kept on average
        on new data; "forecast" takes as many as the forecast needs. For --method post.
    fail_on
        Exit with 3 if the test rows violate a requirement; or also with 4 if they do not decide it, or do not
        support the guarantee of --confidence.
    report
        File for the report: HTML, or Markdown for a model card if it ends in .md.
    max_samples
        Largest number of rows to learn from. A file with more is read in batches, and all rows are scored.
    """
    from evenhand.cli.fitting import fit_file  # noqa: PLC0415  (start-up time)
    from evenhand.cli.required import in_file, requirement  # noqa: PLC0415
    from evenhand.data.checks import check_fraction  # noqa: PLC0415

    constraint = requirement(required, table)
    if constraint is None:
        raise InputError(
            "no tolerance: pass --difference or --ratio, or a bound such as --capacity 0.2 or --floor "
            "'true-positive rate=0.6'."
            + (" --difference 1 requires nothing more." if objective != "risk" else "")
        )
    if required.given and not constraint.controls:
        raise InputError("--given is about --difference and --ratio: pass one of them, or leave it out.")
    of_method = _settings_of_method(learning.method, objective, margin, randomize=randomize)
    if confidence is not None:
        check_fraction("--confidence", confidence)
    check_paths([table, learning.test, run.config], [out, report], force=run.force)
    constraint, file = in_file(required, learning, table)
    settings = {
        "constraint": constraint,
        "aware": file.usable,
        "missing": required.missing,
        "guarantee": confidence,
        **of_method,
    }
    with in_options():
        rows = file.labels[1]
        done = fit_file(file, settings, max_samples, report=report is not None)
    eh.save(done.model, out, overwrite=run.force, source=file.source)
    if rows > max_samples:
        print_note(
            f"evenhand: {table.name} has {rows:,} rows, and models learned from at most "
            f"{max_samples:,} of them; --max-samples sets that number."
        )
    _print(done, out=out, as_json=run.as_json)
    if report is not None:
        with in_options(), waiting("writing the report"):
            audits: dict[str, Any] = {"audit": done.audit} | done.as_decided
            eh.write_report(
                report, model=done.model, test=done.test, title=f"Model of {table.name}", **audits
            )
        print_note(f"Report: {report}")
    return 0 if fail_on is None else exit_code(done.audit, done.model.guarantee_, fail_on=fail_on)


def _settings_of_method(method: str, objective: str, margin: Any, *, randomize: bool) -> dict[str, Any]:
    """Settings that only one of the two methods has."""
    if method == "post":
        if randomize:
            raise InputError("--randomize is for --method in: post-processing randomises where it has to.")
        return {"objective": objective, "margin": margin}
    if objective != "risk" or margin:
        raise InputError("--objective and --margin need --method post.")
    return {"randomize": randomize}


def _print(done: Fitted, *, out: Path, as_json: bool) -> None:
    from evenhand.auditing.group_rates import Excluded  # noqa: PLC0415  (start-up time)
    from evenhand.files.recertify import claimed  # noqa: PLC0415

    proof, guarantee = claimed(done.model), done.model.guarantee_
    if as_json:
        numbers = {name: getattr(proof, name) for name in ("minimised", "risk", "bound", "violation")}
        texts = {"requirement": repr(proof.requirement), "asked": repr(proof.asked)}
        shown = {
            "proof": {"text": str(proof), **texts, **numbers},
            "guarantee": None if guarantee is None else guarantee.to_dict(),
            "constant": done.constant is not None,
            "audit": done.audit.to_dict(),
            "forecast": [asdict(one) for one in _expected(done)],
        }
        print_result(json.dumps(shown, indent=1))
        return
    print_result(f"{done.audit}\n")
    for line in _forecasts(done):
        print_result(show(line))
    excluded = Excluded.of_groups(done.model.groups_)
    if excluded is not None:
        print_result(show(f"fit: {excluded}"))
    print_result(show(f"proof: {proof}."))
    print_result(guarantee or "No guarantee for new data; pass --confidence 0.95.")
    if done.constant is not None:
        print_result(show(f"constant: this model decides {done.constant!s} for every test row."))
    note = "" if guarantee is None or guarantee.holds else ", saved although its guarantee does not hold"
    print_result(show(f"model: {out}{note}"))


def _expected(done: Fitted) -> list[Expected]:
    """What as many new rows as there are test rows were likely to show."""
    rows = done.audit.groups[0].rows
    found = done.model.forecast_.on(round(rows)).expected if rows else ()
    return [one for one in found if one.value == one.value]  # defined


def _forecasts(done: Fitted) -> Iterator[str]:
    """Asked, forecast and measured of each requirement."""
    measured = {(one.notion, one.tolerance): one.value for one in reversed(requested(done.audit))}
    for one in _expected(done):
        if (one.notion, one.asked) in measured:
            rows, found = f"{done.audit.groups[0].rows:,.0f} test rows", measured[one.notion, one.asked]
            says = f"forecast for {rows}: {one.value:.3f}; measured: {found:.3f}"
            yield f"{one.notion}: asked for {one.asked_text}; {says}."
    margin = done.model.forecast_
    if margin.margin:
        yield f"margin: {margin.margin:.2f} standard errors, which cost a risk of {margin.cost:.4f}."

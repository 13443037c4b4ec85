"""``evenhand verify``: whether a model file is intact, and whether its proof can be confirmed."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evenhand as eh
from evenhand.cli.exit_codes import FAILED, VIOLATED
from evenhand.cli.messages import with_options
from evenhand.cli.options import Json, Names
from evenhand.cli.output import print_result
from evenhand.display.text import show
from evenhand.exceptions import InputError

if TYPE_CHECKING:
    from evenhand.files.persistence import FileReport


def verify(model: Path, /, *, data: Path | None = None, trusted: Names = (), as_json: Json = False) -> int:
    """Check that a model file is complete and unaltered, and describe it; with the data, check its proof.

    Exit code: 0 if all is well, 2 if something is wrong with the file or the call, 3 if the data do not
    confirm the proof.

    Parameters
    ----------
    model
        File of a model.
    data
        The CSV or Parquet file that `evenhand fit` learned from. Posteriors are learned again, and the risk
        and the bound of the proof are computed from them without the solver.
    trusted
        Full name of a class or function of your own in the model, such as mybank.features.Ratios; may be
        repeated. It is imported and run: never take it from the file, or from a message about it.
    as_json
        Print JSON instead of text.
    """
    found = eh.verify(model, trusted=trusted)
    if found.ok and data is not None:
        found = _with_proof(found, model, data, trusted)
    if as_json:
        print_result(json.dumps(asdict(found), indent=1))
    else:
        for name, text in _lines(found).items():
            if text:
                print_result(show(f"{name:<13} {text}"))
    if not found.ok:
        return FAILED
    return 0 if found.proof is None or found.proof.confirmed else VIOLATED


def _with_proof(found: FileReport, model: Path, data: Path, trusted: Names) -> FileReport:
    """The report with the proof checked on the rows of the fit."""
    from evenhand.cli.table_rows import rows_of_fit  # noqa: PLC0415  (start-up time)
    from evenhand.files.recertify import Proof  # noqa: PLC0415

    with warnings.catch_warnings(category=UserWarning, action="ignore"):  # the first eh.verify has warned
        fitted: Any = eh.load(model, trusted=trusted)
        rows = rows_of_fit(data, found.source, fitted)
        try:
            return eh.verify(model, data=rows, trusted=trusted)
        except InputError as error:  # about these rows
            return replace(found, proof=Proof(False, f"not confirmed: {error}", fitted.certificate_))


def _lines(found: FileReport) -> dict[str, str | None]:
    return {
        "file": "complete and unaltered" if found.ok else with_options(str(found.problem)),
        "model": found.model,
        "requirement": found.requirement,
        "guarantee": found.guarantee,
        "learned from": found.source.file if found.source else None,
        "written with": ", ".join(f"{name} {number}" for name, number in found.versions.items()),
        **{
            f"differs ({name})": f"was {then} and is {now or 'not installed'}"
            for name, (then, now) in found.differences.items()
        },
        "proof": found.proof.verdict if found.proof else None,
    }

"""Messages of the library in the words of the command line.

The library names its parameters in what it raises and warns of; a user of the command line knows options.
One table translates whole words, so names in quotes, files (``y_true.csv``) and groups (``before=yes``) stay.
It is a table and not an attribute of the errors because one message may name several parameters, in
mid-sentence.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from evenhand.exceptions import EvenhandError

PARAMETERS = {
    "y_true": "--label",
    "y_pred": "--prediction",
    "sample_weight": "--weight",
    "pos_label": "--positive",
    "min_size": "--min-group-size",
    "max_samples": "--max-samples",
    "aware=True": "--aware",
    "groups='independent'": "--groups independent",
    "against='groups'": "--against groups",
    "scratch=": "the environment variable TMPDIR",
    "missing='category'": "--missing category",
    "missing='exclude'": "--missing exclude",
    "missing='impute'": "--missing impute",
    "aware=False": "no --aware",
    "control_features": "--given",
    "margin='forecast' of FairPostprocessor": "--margin forecast",
    "given names": "--given names",
    "unseen='pooled'": "unseen='pooled' in Python",  # there is no such option
}


def audit_parameters(*, label: str | None, prediction: str | None, before: str | None) -> dict[str, str]:
    """What errors of an audit of a table call its columns and parameters, and the options for them.

    Elsewhere "label", "prediction" and "threshold" are ordinary words.

    Examples
    --------
    >>> parameters = audit_parameters(label="y", prediction="p", before=None)
    >>> with_options("label 'y' has only one class; a label has two.", parameters)
    '--label has only one class; a label has two.'
    """
    return {
        **PARAMETERS,
        "confidence": "--confidence",
        "threshold": "--threshold",
        "threshold='median'": "--threshold median",
        "min_count": "--min-count",
        f"label {label!r}": "--label",
        f"prediction {prediction!r}": "--prediction",
        f"earlier prediction {before!r}": "--before",
    }


@contextlib.contextmanager
def in_options(parameters: Mapping[str, str] = PARAMETERS) -> Iterator[None]:
    """Let errors of the library name options instead of parameters."""
    try:
        yield
    except EvenhandError as error:
        error.args = (with_options(str(error), parameters),)
        raise


def with_options(text: str, parameters: Mapping[str, str] = PARAMETERS) -> str:
    """A message of the library, with options instead of parameters.

    Examples
    --------
    >>> with_options("y_true has 3 missing values; aware=True may help.")
    '--label has 3 missing values; --aware may help.'
    >>> with_options("More rows, or margin='forecast' of FairPostprocessor would help.")
    'More rows, or --margin forecast would help.'
    >>> with_options("pos_label='7' is not a value of y_true (see 'y_true' of y_true.csv).")
    "--positive '7' is not a value of --label (see 'y_true' of y_true.csv)."
    """
    text = re.sub(r"trusted=\['(.*?)'\] to save and to load", r"--trusted \1", text)
    text = text.replace("pos_label=", "pos_label ").replace("max_samples=", "max_samples ")
    names = "|".join(map(re.escape, parameters))
    whole = rf"(?<![^\s(])(?:{names})(?=[(),.:;]*(?:\s|$))"
    return re.sub(whole, lambda found: parameters[found[0]], text)

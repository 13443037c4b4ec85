"""The text format of a rule: JSON that is checked in full when it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.exceptions import InputError
from evenhand.solver.thresholds import Steps

if TYPE_CHECKING:
    from evenhand.optimum.action_rule import ActionRule
    from evenhand.optimum.rule import Rule

_FORMAT, _ACTIONS = "evenhand rule", "evenhand action rule"
_VERSION = 1


def write(rule: Rule | ActionRule) -> str:
    """Text of a rule.

    Parameters
    ----------
    rule : Rule or ActionRule

    Returns
    -------
    str
    """
    fields = {name: _plain(value) for name, value in vars(rule).items()}
    kind = _ACTIONS if "actions" in fields else _FORMAT
    try:
        return json.dumps({"format": kind, "version": _VERSION, **fields}, allow_nan=False)
    except (TypeError, ValueError):
        names = fields.get("actions")
        raise InputError(f"names of actions must be text or numbers to be written, got {names!r}.") from None


def _plain(value: Any) -> Any:
    """A field of a rule as JSON can hold it."""
    if isinstance(value, Steps):
        return {name: [row.tolist() for row in rows] for name, rows in vars(value).items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def of_actions(text: str) -> bool:
    """Whether a text has the format of rules for several actions."""
    return f'"{_ACTIONS}"' in text[:100]


def read(text: str, *, actions: bool = False) -> dict[str, Any]:
    """Fields of the rule that a text holds.

    Parameters
    ----------
    text : str
    actions : bool, default=False
        Whether it is for several actions.

    Returns
    -------
    dict
        Arguments of ``Rule``, or of ``ActionRule``.
    """
    kind = _ACTIONS if actions else _FORMAT
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
        if content["format"] != kind:
            raise InputError(f"this text is not a rule: its format is {content['format']!r}.")
        if content["version"] != _VERSION:
            raise InputError(
                f"this rule has version {content['version']!r}; only version {_VERSION} can be read."
            )
        return _fields(content, content["actions"] if actions else None)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"this text is not a rule: {type(error).__name__}: {error}") from None


def _fields(content: dict[str, Any], actions: Any) -> dict[str, Any]:
    """Arguments of ``Rule``, or of ``ActionRule`` if there are names of actions."""
    table = _floats(content["table"], (None, 2) if actions is None else (None, None, len(actions)))
    ties, atoms, chances = (content[name] for name in ("ties", "atoms", "chances"))
    found: dict[str, Any] = {
        "table": table,
        "ties": None if ties is None else _floats(ties, table.shape),
        "atoms": None if atoms is None else _floats(atoms, (None, *table.shape[:2])),
        "key": str(content["key"]),
        **{name: float(_floats(content[name], ())) for name in ("unit", "resolution")},
    }
    count = 0 if atoms is None else len(atoms)
    if actions is None:
        steps = content["steps"]
        found["steps"] = None if steps is None else _steps(steps["edges"], steps["chances"], len(table))
        found["reach"] = float(_floats(content["reach"], ()))
        found["chances"] = None if chances is None else _chances(chances, count)
        return found
    if not all(one is None or isinstance(one, str | int | float) for one in actions):
        raise InputError("this text is not a rule: names of actions are text or numbers.")
    found |= {"costs": _floats(content["costs"], table.shape[1:]), "actions": tuple(actions)}
    if chances is not None:
        found["chances"] = _floats(chances, (count, len(actions)))
        if (found["chances"] < 0).any() or not np.allclose(found["chances"].sum(axis=1), 1.0):
            raise InputError("this text is not a rule: probabilities of actions do not sum to 1.")
    return found


def _refuse_constant(name: str) -> float:
    raise InputError(f"this text is not a rule: it holds {name}.")


def _floats(values: Any, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    if shape and not array.size:
        array = array.reshape([size or 0 for size in shape])
    fits = len(array.shape) == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError(f"this text is not a rule: numbers have shape {array.shape}, not {shape}.")
    if not np.isfinite(array).all():
        raise InputError("this text is not a rule: a number is not finite.")
    return array


def _chances(values: Any, count: int) -> NDArray[np.float64]:
    array = _floats(values, (count,))
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        raise InputError("this text is not a rule: a probability is outside [0, 1].")
    return array


def _steps(edges: Any, chances: Any, n_groups: int) -> Steps:
    if len(edges) != n_groups or len(chances) != n_groups:
        raise InputError(f"this text is not a rule: it has steps for {len(edges)} groups, not {n_groups}.")
    at = tuple(_floats(row, (None,)) for row in edges)
    if any((np.diff(row) <= 0).any() for row in at):
        raise InputError("this text is not a rule: the edges of its steps do not increase.")
    return Steps(at, tuple(_chances(row, len(a) + 1) for row, a in zip(chances, at, strict=True)))

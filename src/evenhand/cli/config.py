"""Options from a TOML file, for repeated runs."""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from cyclopts import App
from cyclopts.config import Dict

from evenhand.exceptions import InputError

_COMMANDS = ("audit", "fit", "frontier")
_ALTERNATIVES = (("difference", "ratio"), ("test", "test-share"))
"""If the call has one of a pair, the file's other one is ignored."""
_KINDS: dict[Any, tuple[str, Any]] = {
    bool: ("true or false", bool),
    int: ("an integer", int),
    float: ("a number", (int, float)),
}


def fill_from_file(app: App, commands: tuple[str, ...], arguments: Any) -> None:
    """Fill options that are missing in the call from the file that ``--config`` names.

    The file has a table for each command, such as ``[fit]``, with the names of its options as keys.
    """
    in_call = {name: argument for argument in arguments if argument.tokens for name in argument.names}
    for name, argument in in_call.items():
        if int in _kinds(argument) and not re.fullmatch(r"[+-]?\d+", argument.tokens[-1].value):
            raise InputError(f"{name} must be an integer, got {argument.tokens[-1].value}.")
    if "--config" not in in_call:
        return
    path = Path(in_call["--config"].tokens[-1].value)
    options = dict(_table(path, commands[0]))
    for pair in _ALTERNATIVES:
        if any(f"--{name}" in in_call for name in pair):
            options = {key: value for key, value in options.items() if key.replace("_", "-") not in pair}
    for key, value in options.items():
        for argument in arguments:
            if f"--{key.replace('_', '-')}" in argument.names:
                _check_kind(f"{key} in {path}", value, _kinds(argument))
    Dict(options, source=str(path), use_commands_as_keys=False)(app, commands, arguments)


def _kinds(argument: Any) -> tuple[Any, ...]:
    """The types that an option may have; for a choice, the choice."""
    return get_args(argument.hint) or (argument.hint,)


def _check_kind(what: str, value: Any, kinds: tuple[Any, ...]) -> None:
    """Raise an InputError for a value that would be turned into another: 2.7 into 3, "0.9" into 0.9."""
    choices = [choice for kind in kinds for choice in get_args(kind)]
    for kind, (called, types) in _KINDS.items():
        right = isinstance(value, types) and (kind is bool or not isinstance(value, bool))
        if kind in kinds and not right and value not in choices:
            shown = str(value).lower() if isinstance(value, bool) else repr(value)
            raise InputError(f"{what} must be {called}, got {shown}.")


def _table(path: Path, command: str) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from None
    for name, table in tables.items():
        if name not in _COMMANDS or not isinstance(table, dict):
            close = get_close_matches(name, _COMMANDS, n=1)
            hint = f"did you mean [{close[0]}]?" if close else f"options of {command} go below [{command}]."
            raise InputError(f"{path} has {name!r} where a table of a command is expected: {hint}")
    if command not in tables:
        raise InputError(f"{path} has no table [{command}].")
    options: dict[str, Any] = tables[command]
    return options

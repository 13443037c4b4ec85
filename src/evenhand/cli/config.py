"""Options from a TOML file, for repeated runs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from cyclopts import App
from cyclopts.config import Dict

from evenhand.exceptions import InputError

_COMMANDS = ("alternatives", "audit", "fit", "frontier", "monitor")


def fill_from_file(app: App, commands: tuple[str, ...], arguments: Any) -> None:
    """Fill options that are missing in the call from the file that ``--config`` names.

    The file has a table for each command, such as ``[fit]``, with the names of its options as keys.
    """
    in_call = {name: argument for argument in arguments if argument.tokens for name in argument.names}
    if "--config" not in in_call:
        return
    path = Path(in_call["--config"].tokens[-1].value)
    options = _table(path, commands[0])
    Dict(options, source=str(path), use_commands_as_keys=False)(app, commands, arguments)


def _table(path: Path, command: str) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from None
    for name, table in tables.items():
        if name not in _COMMANDS or not isinstance(table, dict):
            raise InputError(
                f"{path} has {name!r} where a table of a command is expected: options of {command} go below "
                f"[{command}]."
            )
    if command not in tables:
        raise InputError(f"{path} has no table [{command}].")
    options: dict[str, Any] = tables[command]
    return options

"""How the command line is run: errors and warnings are one sentence, and exit codes tell them apart."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from evenhand.exceptions import EvenhandError, MissingExtraError

try:
    from cyclopts import CycloptsError
except ImportError:
    raise MissingExtraError("cyclopts", "cli") from None

from evenhand.cli.codes import FAILED, INTERRUPTED, UNDECIDED, UNREAD, VIOLATED
from evenhand.cli.commands import app
from evenhand.cli.telling import drop_output, open_streams, tell, with_options

__all__ = ["FAILED", "UNDECIDED", "VIOLATED", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and end the process with its exit code."""
    open_streams()
    warnings.showwarning = _one_line
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except (CycloptsError, EvenhandError) as error:
        _one_line(str(error))
        code = FAILED
    except BrokenPipeError:  # help that nobody reads to its end
        code = UNREAD
        drop_output()
    except OSError as error:  # a full disk, say
        _one_line(str(error))
        code = FAILED
        drop_output()
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def _one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    """Errors name options already; warnings of the library name its parameters."""
    said = with_options(str(message)) if isinstance(message, Warning) else message
    tell(f"evenhand: {said}")

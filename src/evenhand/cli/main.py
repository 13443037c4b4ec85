"""Entry point: errors and warnings as one sentence each, and an exit code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from evenhand.exceptions import EvenhandError, EvenhandWarning, MissingExtraError

try:
    from cyclopts import CycloptsError
except ImportError:
    raise MissingExtraError("cyclopts", "cli") from None

from evenhand.cli.commands import app
from evenhand.cli.exit_codes import FAILED, INTERRUPTED, PIPE_CLOSED
from evenhand.cli.messages import with_options
from evenhand.cli.output import discard, print_note, replace_closed_streams


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    replace_closed_streams()
    warnings.showwarning = _print_warning
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except (CycloptsError, EvenhandError) as error:
        print_note(f"evenhand: {error}")
        code = FAILED
    except ModuleNotFoundError as error:  # by a command
        print_note(f"evenhand: {MissingExtraError(error.name or 'polars', 'cli')}")
        code = FAILED
    except BrokenPipeError:  # from the help, which is not printed by print_result
        code = PIPE_CLOSED
        discard(sys.stdout)
    except OSError as error:  # such as a full disk
        print_note(f"evenhand: {error}")
        code = FAILED
        discard(sys.stdout)
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    ours = isinstance(message, EvenhandWarning)
    print_note(f"evenhand: {with_options(str(message)) if ours else message}")

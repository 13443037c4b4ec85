"""Progress of long computations: a bar in a terminal, nothing when output is piped."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(steps: Iterable[T], *, what: str, total: int, verbose: bool) -> Iterator[T]:
    """Iterate over steps and show the progress.

    Parameters
    ----------
    steps : iterable
    what : str
        What is being done, shown beside the bar.
    total : int
        The number of steps.
    verbose : bool
        Whether to show anything. If rich is not installed, a line is printed per step.

    Yields
    ------
    object
        The steps, unchanged.

    Examples
    --------
    >>> list(track([1, 2], what="folds", total=2, verbose=False))
    [1, 2]
    """
    if not verbose or sys.stderr is None or not sys.stderr.isatty():
        yield from steps
        return
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import Progress  # noqa: PLC0415
    except ImportError:
        for done, step in enumerate(steps, start=1):
            print(f"{what}: {done} of {total}", file=sys.stderr)
            yield step
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        for step in steps:
            bar.advance(task)
            yield step


@contextlib.contextmanager
def waiting(what: str, *, verbose: bool = True) -> Iterator[None]:
    """Show that something is being done whose steps are not counted.

    Parameters
    ----------
    what : str
    verbose : bool, default=True
        Whether to show anything.

    Examples
    --------
    >>> with waiting("drawing the page"):
    ...     pass
    """
    with contextlib.ExitStack() as shown:
        if verbose and sys.stderr is not None and sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                from rich.console import Console  # noqa: PLC0415

                shown.enter_context(Console(stderr=True).status(what))
        yield


def note(text: str, *, verbose: bool) -> None:
    """Print a line to the terminal if progress is shown.

    Parameters
    ----------
    text : str
    verbose : bool
        Whether to show anything.
    """
    if verbose and sys.stderr is not None and sys.stderr.isatty():
        print(text, file=sys.stderr)

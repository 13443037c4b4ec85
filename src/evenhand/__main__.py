"""``evenhand`` and ``python -m evenhand``: the command line, or what to install for it."""

from __future__ import annotations

import sys

from evenhand.exceptions import MissingExtraError


def main() -> None:
    """Run the command line."""
    try:
        from evenhand.cli.main import main as run  # noqa: PLC0415  (its packages may be missing)
    except MissingExtraError as error:
        sys.exit(f"evenhand: {error}")
    run()


if __name__ == "__main__":
    main()

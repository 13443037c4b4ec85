"""Mathematics without a network: one script of MathJax, which draws SVG and needs no fonts."""

from __future__ import annotations

import shutil
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

SCRIPT = "tex-svg.js"


def find_script() -> Path:
    """The script in the package that carries MathJax.

    The folder of that package has a hyphen in its name, so it cannot be imported.
    """
    [found] = [file for file in files("sphinx-mathjax-offline") or () if file.name == SCRIPT]
    return Path(str(found.locate()))


def use_script(app: Sphinx, config: Config) -> None:
    """Have pages with formulas load the script of the site."""
    config.mathjax_path = SCRIPT


def copy_script(app: Sphinx) -> None:
    """Put the script beside the other static files."""
    if app.builder.format == "html":
        static = Path(app.outdir, "_static")
        static.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(find_script(), static / SCRIPT)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("config-inited", use_script)
    app.connect("builder-inited", copy_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The documentation site: script/docs builds it, without a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import evenhand

project = "evenhand"
author = "The evenhand authors"
project_copyright = "The evenhand authors, MIT licence"
version = release = evenhand.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "cyclopts.ext.sphinx",
    # in _ext
    "charts",
    "mathematics",
    "repository_links",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_ext", "gallery_src", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
smartquotes_action = "qe"  # no dashes, because options begin with two

linkcheck_ignore = ["https?://"]  # nothing here needs a network

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Reference: one page for each public name. Types stand in the docstrings, so signatures stay short.
autosummary_generate = True
autosummary_imported_members = False
autosummary_filename_map = {  # `Audit` and `audit` would be one file where names of files have no case
    "evenhand.audit": "evenhand.audit-function",
    "evenhand.frontier": "evenhand.frontier-function",
}
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False  # the template lists them
python_use_unqualified_type_names = True
default_role = "literal"  # a name in single backquotes is a parameter

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "gallery_src",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("charts.save_picture",),
    "reset_modules": (),
    "capture_repr": ("_repr_html_", "__repr__"),
    "doc_module": ("evenhand",),
    "backreferences_dir": "gallery/backreferences",
    "abort_on_example_error": False,  # all are tried, and any failure fails the build
    "download_all_examples": False,
    "thumbnail_size": (640, 440),
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1_000_000,
    "remove_config_comments": True,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "evenhand"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}

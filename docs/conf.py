"""Sphinx configuration: pages, a gallery that runs, the reference; nothing from the network."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import matplotlib

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src"), str(HERE.parent)]
matplotlib.use("Agg")
gc.set_threshold(100_000, 50, 100)  # pages stay: to look for what may go takes a quarter of a build

from maxent import __version__, typing  # noqa: E402

project = "maxent"
author = "The maxent developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "matplotlib.sphinxext.plot_directive",
    "myst_plot",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "reference",
    "results",
    "finishing",
    "sidebar",
    "naming",
]
if tags.has("quick"):  # noqa: F821 -- the build of the tests: no sources, plots or examples
    extensions.remove("sphinx.ext.viewcode")
exclude_patterns = ["_build", "gallery/*/*.rst", "gallery/*.rst"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"maxent {__version__}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"top_of_page_buttons": []}
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("Array", "Rows", *typing.__all__)}
autodoc_preserve_defaults = True
add_module_names = False
toc_object_entries = False  # the reference has its own lists; in the sidebar they would be endless

plot_formats = [("png", 110)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = True
plot_rcparams = {"figure.figsize": (7.0, 3.2), "figure.constrained_layout.use": True}
plot_apply_rcparams = True

for made in HERE.glob("auto_gallery/*/plot_*.rst"):  # of examples that have another name now
    if not (HERE / "gallery" / made.parent.name / made.name).with_suffix(".py").exists():
        made.unlink()

READERS = ("ecologist", "engineer", "researcher", "contributor")
sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "subsection_order": [f"gallery/{who}" for who in READERS],
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "auto_gallery/uses",
    "doc_module": ("maxent",),
    "parallel": 2,
    "matplotlib_animations": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 0,
    "write_computation_times": False,
    "remove_config_comments": True,
    "nested_sections": False,
    "thumbnail_size": (400, 280),
}

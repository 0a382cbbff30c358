"""Configuration of the documentation site. The build needs no network."""

import sys
import warnings
from pathlib import Path

from docutils import nodes
from docutils.utils import unescape

import sklearn_sparsepost

sys.path.insert(0, str(Path(__file__).parent))  # for gallery_pictures
sys.path.insert(1, str(Path(__file__).parents[1] / "benchmarks"))

from figures import Results, measured  # noqa: E402

# A gallery script on one thread may meet a warning that says nothing about the docs.
warnings.filterwarnings("ignore", message="Matplotlib is currently using agg")

# ---------------------------------------------------------------------- project

project = "sklearn_sparsepost"
author = "The sklearn_sparsepost developers"
copyright = "2026, the sklearn_sparsepost developers (BSD-3-Clause)"
version = release = sklearn_sparsepost.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "**.ipynb_checkpoints", "user_guide/_*.rst"]
templates_path = ["_templates"]
default_role = "literal"
nitpicky = False
show_warning_types = True
toc_object_entries_show_parents = "hide"

# ---------------------------------------------------------------------- API reference

autosummary_generate = True
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# ---------------------------------------------------------------------- gallery

SECTIONS = ("topics", "choosing", "mixtures", "large")
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"plot_",
    "image_scrapers": ("gallery_pictures",),
    "subsection_order": [
        f"../examples/{part}" for part in ("topics", "choosing", "mixtures", "large")
    ],
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (800, 480),
    "backreferences_dir": "api/generated/backreferences",
    "doc_module": ("sklearn_sparsepost",),
    "reference_url": {"sklearn_sparsepost": None},
    "matplotlib_animations": False,
    "remove_config_comments": True,
    "show_memory": False,
    "download_all_examples": False,
    "min_reported_time": 1,
}

# ---------------------------------------------------------------------- theme

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_sparsepost"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "sklearn_sparsepost", "image_light": "_static/logo.svg"},
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "auto_examples/index": []},
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
html_sidebars = {"install": [], "changelog": [], "references": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# ---------------------------------------------------------------------- scikit-learn's names

SKLEARN = "https://scikit-learn.org/stable"
SKLEARN_SECTIONS = {
    "metadata_routing": "metadata_routing.html",
    "df_output_transform": "modules/df_output_transform.html",
    "sphx_glr_auto_examples_miscellaneous_plot_set_output": (
        "auto_examples/miscellaneous/plot_set_output.html"
    ),
}


def resolve_sklearn(app, env, node, contnode):
    """Link inherited docstrings to scikit-learn's site without reading its inventory."""
    kind, target = node.get("reftype"), node.get("reftarget", "")
    if kind == "term":
        url = f"glossary.html#term-{target.replace(' ', '-')}"
    elif kind == "ref":
        # Labels, unlike names, may be ours and mistyped: only known ones pass.
        url = next((u for k, u in SKLEARN_SECTIONS.items() if target.startswith(k)), None)
    elif target.startswith("sklearn.") and target.count(".") > 1:
        url = f"modules/generated/{target}.html"
    else:
        url = None
    if url is None:
        return None
    reference = nodes.reference("", "", internal=False, refuri=f"{SKLEARN}/{url}")
    reference += contnode
    return reference


# ---------------------------------------------------------------------- figures that were measured

RESULTS = Results()


def measured_role(name, rawtext, text, lineno, inliner, options=None, content=()):
    """A figure of the benchmarks' results, so that prose says what tables say."""
    try:
        return [nodes.Text(measured(unescape(text), RESULTS))], []
    except Exception as error:  # an expression may fail in any way
        message = inliner.reporter.error(f"{name}: {error}", line=lineno)
        return [inliner.problematic(rawtext, rawtext, message)], [message]


def setup(app):
    """Register links and roles."""
    app.add_role("measured", measured_role)
    app.connect("missing-reference", resolve_sklearn)
    Path(app.srcdir, "api", "generated", "backreferences").mkdir(parents=True, exist_ok=True)

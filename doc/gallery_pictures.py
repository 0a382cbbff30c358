"""Pictures of the gallery, described by the text above their program for who cannot see them."""

import ast
import re
from pathlib import Path

from sphinx_gallery.scrapers import matplotlib_scraper

MOST_LETTERS = 300


def text_above(path, line):
    """The text that leads to a program of a gallery script: of the last part, or the script's."""
    source = path.read_text(encoding="utf-8")
    parts = re.findall(r"^# %%\n((?:#.*\n)+)", "\n".join(source.splitlines()[:line]), flags=re.M)
    text = (
        re.sub(r"^# ?", "", parts[-1], flags=re.M)
        if parts
        else ast.get_docstring(ast.parse(source))
    )
    text = re.sub(r"\n([=\-])\1{3,}$", ":", text, flags=re.M)  # rules below headings
    text = re.sub(r":[\w:]+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text)  # roles
    text = " ".join(re.sub(r"[`*]", "", text).split()).rstrip(":")
    return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS].rsplit(" ", 1)[0] + " ..."


def described_pictures(block, block_vars, gallery_conf):
    """As sphinx-gallery's scraper of matplotlib, with texts in place of titles of axes."""
    rst = matplotlib_scraper(block, block_vars, gallery_conf)
    if not rst:
        return rst
    alt = text_above(Path(block_vars["src_file"]), block[2])
    return re.sub(r"^( *:alt:) .*$", lambda found: f"{found[1]} {alt}", rst, flags=re.M)


def _get_sg_image_scraper():
    return described_pictures

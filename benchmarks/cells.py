"""Tables of results, and what their cells say."""

from typing import NamedTuple

import numpy as np


class Table(NamedTuple):
    """A title, what to know of it, names of columns, and rows of cells that are ready to print."""

    title: str
    note: str
    header: list
    rows: list


def number(value, digits=3):
    """Some significant digits, and never an exponent."""
    if not np.isfinite(value):
        return "never"
    decimals = max(0, digits - 1 - int(np.floor(np.log10(max(abs(value), 1e-9)))))
    return f"{value:,.{decimals}f}"


def score_cell(value):
    """A score, or a dash where there is none."""
    return "-" if np.isnan(value) else f"{value:.3f}"


def corpus_title(name):
    """Corpus and number of topics of a key."""
    corpus, _, topics = name.rpartition("-")
    return f"{corpus}, {topics} topics"

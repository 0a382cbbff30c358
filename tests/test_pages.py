"""The programs of the documentation's pages run, but for those that need another machine."""

import builtins
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_sparsepost import GibbsCTM, SparseLDA
from sklearn_sparsepost.datasets import make_lda_corpus

PAGES = Path(__file__).parents[1] / "doc"
BLOCK = re.compile(r"^( *)\.\. code-block:: python\n\n((?:\1   .*\n|\n)+)", re.MULTILINE)
# A cluster's address, and models of libraries that are not installed for the tests.
NEEDS_OTHERS = re.compile(r"scheduler:8786|import (pyLDAvis|topicwizard|skops)|gensim|model\.k\b")


def programs():
    """Pages, and the text of each of their programs."""
    for page in [*sorted(PAGES.glob("*.rst")), *sorted(PAGES.glob("user_guide/*.rst"))]:
        for number, (_, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            if not NEEDS_OTHERS.search(text):
                yield pytest.param(page.stem, textwrap.dedent(text), id=f"{page.stem}-{number}")


@pytest.fixture(scope="module")
def at_hand():
    """What a reader has before a program begins."""
    rng = np.random.default_rng(0)
    X, _, _ = make_lda_corpus(1000, 120, 6, random_state=0)
    names = np.array([f"word{v}" for v in range(120)])
    words = [f"{first}{second}" for first in ("ba", "do", "ki", "lu") for second in names[:15]]
    dense = {"X": rng.normal(size=(400, 4)), "X_test": rng.normal(size=(50, 4))}
    counts = {
        "X": X,
        "vectorizer": SimpleNamespace(get_feature_names_out=lambda: names),
        "lda": SparseLDA(5, max_iter=1, random_state=0).fit(X),
        "ctm": GibbsCTM(16, max_iter=2, random_state=0).fit(X),
        "abstracts": [" ".join(rng.choice(words, 6)) for _ in range(2500)],
    }
    return {"sparse_mixture": dense}, counts


@pytest.mark.filterwarnings("ignore:n_components=")
@pytest.mark.parametrize("page, text", list(programs()))
def test_programs_of_the_pages_run(page, text, at_hand, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "print", lambda *args, **kwargs: None)
    rows = np.random.default_rng(0).normal(size=(1500, 8)).astype(np.float32)
    np.save("descriptors.npy", rows)
    by_page, counts = at_hand
    text = text.replace("graph.to_networkx()", "graph")  # it may be missing
    exec(compile(text, page, "exec"), dict(by_page.get(page, counts)))

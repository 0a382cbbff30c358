"""The programs of the documentation's pages run, but for those that need another machine."""

import ast
import builtins
import re
import textwrap
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from sklearn_sparsepost import GibbsCTM, SparseLDA
from sklearn_sparsepost.datasets import make_lda_corpus

PAGES = Path(__file__).parents[1] / "doc"
BLOCK = re.compile(r"^( *)\.\. code-block:: python\n\n((?:\1   .*\n|\n)+)", re.MULTILINE)
# A cluster's address, and models of libraries that are not installed for the tests.
NEEDS_OTHERS = re.compile(r"scheduler:8786|import (pyLDAvis|topicwizard|skops)|gensim|model\.k\b")


# What new users tried to do and to find out, in the order of the page "Where is ...", and where the
# program is that answers it: of the page itself, or, where that needs other programs, in a test.
QUESTIONS = {
    "a column of a DataFrame as input": "column_of_text",
    "printing topics": "print_topics",
    "the documents of a topic": "documents_of_a_topic",
    "saving and loading a model": "save_and_load",
    "comparing three numbers of topics": "choosing_k",
    "going on with new documents": "new_documents",
    "200,000 abstracts": "many_abstracts",
    "a million descriptors": "many_descriptors",
    "reviews in pandas, and their other columns": "beside_columns",
    "how many topics there are": "choosing_k",
    "seeing topics": "see_topics",
    "naming topics": "name_topics",
    "comparing two models by their topics": "compare_models",
    "deploying a model": "production",
    "an interactive view": "interactive_views",
    "a cluster": "on_a_cluster",
}
ELSEWHERE = {"interactive_views": "test_views.py", "on_a_cluster": "test_collections.py"}


def links(page):
    """The pages that a page links to, by names and by tables of contents."""
    text = page.read_text(encoding="utf-8")
    names = re.findall(r":doc:`(?:[^`<]*<)?([\w/]+)>?`", text)
    for block in re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", text, re.MULTILINE):
        names += re.findall(r"^   (\w[\w/]*)$", block, re.MULTILINE)
    found = {(page.parent / f"{name}.rst").resolve() for name in names}
    return {one for one in found if one.exists()}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_answered_within_two_clicks_by_a_program_that_runs(question):
    label = QUESTIONS[question]
    landing, guide = PAGES / "index.rst", (PAGES / "user_guide/index.rst").resolve()
    first = links(landing)
    listed = guide.read_text(encoding="utf-8").split(".. _where_is:")[1]
    assert guide in first
    assert re.search(rf"\* - {re.escape(question)}\n     - :ref:`{label}`", listed)
    (page,) = (p for p in PAGES.glob("user_guide/*.rst") if f".. _{label}:" in p.read_text("utf-8"))
    assert page.resolve() in first | set().union(*map(links, first))
    section = re.split(r"\n\.\. _\w+:\n", page.read_text("utf-8").split(f".. _{label}:")[1])[0]
    runs = ">>> " in section or any(
        not NEEDS_OTHERS.search(text) for _, text in BLOCK.findall(section)
    )
    if label in ELSEWHERE:
        test = (Path(__file__).parent / ELSEWHERE[label]).read_text("utf-8")
        assert re.search("pyLDAvis|dask", test)
        assert BLOCK.search(section)
    else:
        assert runs


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
        "model": SimpleNamespace(  # as of tomotopy
            **{"k": 2, "alpha": [0.1, 0.1], "eta": 0.01, "used_vocabs": ["cat", "dog"]},
            docs=[SimpleNamespace(words=[0, 1, 0], topics=[0, 1, 0])],
        ),
        "abstracts": [" ".join(rng.choice(words, 6)) for _ in range(2500)],
    }
    return {"sparse_mixture": dense}, counts


@pytest.mark.parametrize(
    "path", sorted(PAGES.parent.glob("examples/**/*.py")), ids=lambda p: p.stem
)
def test_code_of_the_gallery_is_as_wide_as_its_pages(path):
    source = path.read_text(encoding="utf-8")
    first = ast.parse(source).body[0].end_lineno  # the text above the code
    long = [line for line in source.splitlines()[first:] if len(line) > 79 and line[0] != "#"]
    assert not long


@pytest.mark.parametrize("page", sorted(PAGES.glob("**/user_guide/*.rst")), ids=lambda p: p.stem)
def test_code_of_the_pages_is_as_wide_as_they_are(page):
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", text, re.MULTILINE)
    for indent, block in BLOCK.findall(text):
        lines += [line[len(indent) + 3 :] for line in block.splitlines()]
    assert not [line for line in lines if len(line) > 82]


@pytest.mark.parametrize("page", ["index", "user_guide/tutorial"])
def test_pages_show_the_topics_that_their_programs_print(page, capsys):
    text = (PAGES / f"{page}.rst").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:>>>|\.\.\.) (.*)$", text, re.MULTILINE)
    (last,) = (place for place, line in enumerate(lines) if line.startswith("print("))
    exec(compile("\n".join(lines[: last + 1]), page, "exec"), {})
    row = re.compile(r"^ *(\d+) +([\d.]+)%  (.*)$", re.MULTILINE)
    printed = {topic: rest for topic, *rest in row.findall(capsys.readouterr().out)}
    shown = row.findall(text)
    assert len(shown) > 2
    for topic, size, words in shown:  # docstrings differ from version to version
        assert abs(float(printed[topic][0]) - float(size)) < 0.7
        words = set(re.findall(r"\w+", words))
        assert len(words & set(re.findall(r"\w+", printed[topic][1]))) > 0.6 * len(words)


# What fits of programs leave, of whatever model.
LEARNED = ("components_", "means_", "weights_", "topic_weights_", "covariances_")


@pytest.fixture
def own_dask_config():
    """Take back what a program says to Dask, which is for the whole process."""
    pytest.importorskip("distributed", reason="needs the dask extra")  # which adds its defaults
    told = pytest.importorskip("dask.config").config
    before = deepcopy(told)
    yield
    told.clear()
    told.update(before)


@pytest.mark.filterwarnings("ignore:n_components=")
@pytest.mark.parametrize("page, text", list(programs()))
def test_programs_of_the_pages_run(page, text, at_hand, tmp_path, monkeypatch, own_dask_config):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "print", lambda *args, **kwargs: None)
    rows = np.random.default_rng(0).normal(size=(1500, 8)).astype(np.float32)
    np.save("descriptors.npy", rows)
    by_page, counts = at_hand
    text = text.replace("graph.to_networkx()", "graph")  # it may be missing
    made = dict(by_page.get(page, counts))
    exec(compile(text, page, "exec"), made)
    for value in made.values():
        for name in LEARNED if isinstance(value, BaseEstimator) else ():
            assert np.isfinite(getattr(value, name, 0)).all()

"""The type stubs are in the package, and say what docstrings and signatures say."""

import runpy
from pathlib import Path

import pytest

import sklearn_sparsepost

ROOT = Path(sklearn_sparsepost.__file__).parent
WRITER = runpy.run_path(str(Path(__file__).parents[1] / ".ci/write_stubs.py"))
NAMES = {"Corpus", "Chunk"}  # classes that a hint may name


@pytest.mark.parametrize("path, text", WRITER["texts"]().items(), ids=str)
def test_stubs_are_those_of_the_docstrings(path, text):
    found = (ROOT / path).read_text(encoding="utf-8")
    assert found == text, "write them anew: python .ci/write_stubs.py"
    compile(found, path, "exec")


def test_the_package_says_that_it_has_types():
    assert (ROOT / "py.typed").exists()


@pytest.mark.parametrize(
    "text, hint",
    [
        ("int or None, default=8", "int | None"),
        ('{"bayes", "map"}, default="map"', 'Literal["bayes", "map"]'),
        ('float, "auto" or array-like of shape (n,)', 'float | Literal["auto"] | ArrayLike'),
        ("ndarray of shape (a, b) or (c,), float64", "NDArray[Any]"),
        ("{array-like, sparse matrix} of shape (n_samples, n)", "ArrayLike | spmatrix | sparray"),
        ("list of Corpus, default=()", "list[Corpus]"),
        ("dict of str to ndarray or float", "dict[str, NDArray[Any] | float]"),
        ("something else", "Any"),
    ],
)
def test_hints_of_numpydoc_types(text, hint):
    assert WRITER["hint_of"](text, NAMES) == hint


def test_what_is_not_typed_is_little():
    every = "".join(WRITER["texts"]().values())
    hints = [line for line in every.splitlines() if ": " in line and not line.startswith("class")]
    untyped = [line for line in hints if line.strip().split(": ")[1].startswith("Any")]
    assert len(untyped) < 0.15 * len(hints), untyped

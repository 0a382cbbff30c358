"""Files of estimators: whole or not at all, verified, and read without running code."""

import hashlib
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from test_failures import ESTIMATORS, N_PASSES, fit, seen

from sklearn_sparsepost import SparseLDA, __version__
from sklearn_sparsepost.callbacks import Checkpoint
from sklearn_sparsepost.persistence import SEAL, load, save

TEXTS = ["a file of words", "words of a file", "and numbers besides", "more numbers and words"] * 3


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.model"


@pytest.fixture
def saved(path):
    """The bytes of a file, the estimator that is in it, and its place."""
    lda = fit(clone(ESTIMATORS["LDA memoized"]))
    save(lda, path)
    return path.read_bytes(), lda


# ---------------------------------------------------------------------- what is written is read


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
def test_goes_on_from_a_file(name, path):
    whole = fit(clone(ESTIMATORS[name]))
    begun = fit(clone(ESTIMATORS[name]).set_params(max_iter=1, warm_start=True))
    save(begun, path)
    read = load(path)
    assert seen(read) == seen(begun)
    fit(read.set_params(max_iter=N_PASSES - 1)).set_params(max_iter=N_PASSES, warm_start=False)
    assert seen(read) == seen(whole)


def arrays_of(value, place="", seen=None):
    """Arrays that something holds, by where they are."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return
    seen[id(value)] = value  # held, or another would get its number
    if isinstance(value, np.ndarray):
        yield place, value
        return
    parts = dict(enumerate(value)) if isinstance(value, (list, tuple)) else value
    for name, part in (
        parts if isinstance(parts, dict) else getattr(value, "__dict__", {})
    ).items():
        yield from arrays_of(part, f"{place}.{name}", seen)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_arrays_lie_as_they_do_when_they_are_read(name):
    """Powers and logarithms of what lies otherwise may have other last bits (AVX-512)."""
    estimator = fit(clone(ESTIMATORS[name]))
    here = dict(arrays_of(vars(estimator)))
    there = dict(arrays_of(vars(pickle.loads(pickle.dumps(estimator)))))
    shared = here.keys() & there.keys()
    assert len(shared) > 3
    wrong = [
        place
        for place in shared
        if here[place].size > 1 and here[place].strides != there[place].strides
    ]
    assert wrong == []


def test_logits_on_disk(path, tmp_path):
    ctm = fit(clone(ESTIMATORS["ctm"]).set_params(memmap_folder=str(tmp_path)))
    save(ctm, path)
    assert seen(load(path)) == seen(ctm)


@pytest.mark.parametrize("random_state", [None, 3, np.random.RandomState(3)])
def test_pipeline(random_state, path):
    lda = SparseLDA(2, max_iter=2, random_state=random_state)
    pipeline = make_pipeline(CountVectorizer(), lda).fit(TEXTS)
    save(pipeline, path)
    assert np.array_equal(load(path).transform(TEXTS), pipeline.transform(TEXTS))


def test_joblib_reads_it(saved, path):
    assert seen(joblib.load(path)) == seen(saved[1])


# ---------------------------------------------------------------------- verified


def test_any_other_byte_is_noticed(saved, path):
    content, _ = saved
    rng = np.random.default_rng(0)
    end = np.arange(len(content) - 150, len(content))  # the seal and a bit before
    for at in [*rng.integers(len(content), size=100), *end]:
        changed = bytearray(content)
        changed[at] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"a\.model' is not read: it (has not|is)"):
            load(path)


def test_a_part_is_noticed(saved, path):
    content, _ = saved
    for size in [0, 1, *np.random.default_rng(0).integers(len(content), size=100)]:
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="is cut off"):
            load(path)
    path.write_bytes(content + content[-120:])
    with pytest.raises(ValueError, match="is not read"):
        load(path)


def test_another_version_is_refused(path, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr("sklearn_sparsepost.persistence.__version__", "0.0.1")
        save(fit(clone(ESTIMATORS["LDA batch"])), path)
    with pytest.raises(ValueError, match=r"of version 0\.0\.1, and this is"):
        load(path)


# ---------------------------------------------------------------------- no code is run


class Evil:
    """What runs a program when it is unpickled."""

    def __init__(self, function, *args):
        self.made = function, args

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize(
    "function",
    [os.mkdir, Path.touch, eval, exec, getattr, __import__, subprocess.call, pickle.loads, save],
)
def test_code_is_not_run(function, path, tmp_path):
    before = sorted(tmp_path.iterdir())
    victim = tmp_path / "evil"
    argument = f"__import__('os').mkdir({str(victim)!r})" if function in (eval, exec) else victim
    lda = fit(clone(ESTIMATORS["LDA batch"]))
    save(lda.set_params(random_state=Evil(function, argument)), path)
    with pytest.raises(ValueError, match="which is not trusted"):
        load(path)
    assert sorted(tmp_path.iterdir()) == [*before, path]


def sealed(stream):
    """A pickle of somebody else's, sealed as `save` does."""
    digest = hashlib.sha256(stream).hexdigest()
    return stream + SEAL.format(version=__version__, digest=digest, size=len(stream)).encode()


@pytest.mark.parametrize(
    "name",
    [
        "sklearn_sparsepost._lda SparseLDA.from_topics",
        "sklearn_sparsepost.persistence os.remove",
        "sklearn_sparsepost.persistence save",
        "sklearn_sparsepost.persistence Path",
        "sklearn.utils Bunch",
        "numpy load",
        "scipy.sparse load_npz",
        "joblib load",
    ],
)
def test_names_that_lead_elsewhere(name, path):
    module, attribute = name.encode().split()
    names = (b"\x8c" + bytes([len(part)]) + part for part in (module, attribute))
    path.write_bytes(sealed(b"\x80\x04" + b"".join(names) + b"\x93."))
    with pytest.raises(ValueError, match="which is not trusted"):
        load(path)


class Shouting:
    """A tokenizer of somebody's own."""

    def __call__(self, text):
        return text.upper().split()


def test_trusted(path):
    counts = CountVectorizer(tokenizer=Shouting(), token_pattern=None, lowercase=False)
    pipeline = make_pipeline(counts, SparseLDA(2, max_iter=1, random_state=0)).fit(TEXTS)
    save(pipeline, path)
    with pytest.raises(ValueError, match=r"Shouting, which is not trusted; .* `trusted`"):
        load(path)
    read = load(path, trusted=[Shouting])
    assert np.array_equal(read.transform(TEXTS), pipeline.transform(TEXTS))


# ---------------------------------------------------------------------- whole or not at all

FULL_DISK = """
import resource, sys
from sklearn_sparsepost.datasets import make_lda_corpus
from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.callbacks import Checkpoint
X = make_lda_corpus(60, 30, 4, doc_length=20, random_state=0)[0]
lda = SparseLDA(5, max_iter=2, random_state=0).set_callbacks(Checkpoint("a.model")).fit(X)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    lda.fit(X)
except OSError as error:
    print(error.errno, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limit there")
def test_full_disk(tmp_path, path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "'a.model' could not be written; the file of that name is as it was" in done.stdout
    assert load(path).n_iter_ == 2
    assert list(tmp_path.iterdir()) == [path]


def killed_after(seconds, call):
    """Make a call in a child that is killed after some time; whether it was before the end."""
    child = os.fork()
    if not child:
        try:
            call()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", ["LDA memoized", "HDP of rows", "mixture moves", "alias", "ctm"])
def test_killed_at_any_moment(name, path):
    whole = clone(ESTIMATORS[name]).set_params(max_iter=6)
    begun = time.perf_counter()
    want = seen(fit(whole))
    length = time.perf_counter() - begun
    rng = np.random.default_rng(0)
    for _ in range(3):
        path.unlink(missing_ok=True)
        fitted = clone(whole).set_callbacks(Checkpoint(path))
        killed_after(rng.uniform(0.2, 1.2) * length, lambda e=fitted: fit(e))
        read = load(path) if path.exists() else clone(whole).set_params(max_iter=1)
        left = 6 - getattr(read, "n_iter_", 0)
        if left:
            fit(read.set_params(max_iter=left, warm_start=True))
        assert seen(read.set_params(max_iter=6, warm_start=False)) == want


def test_skops_reads_a_pipeline_as_the_page_says(tmp_path):
    skops = pytest.importorskip("skops.io")
    page = Path(__file__).parents[1] / "doc/user_guide/recipes.rst"
    program = page.read_text("utf-8").split("      import skops.io\n")[1].split("\n   There ")[0]
    (trusted,) = re.findall(r"trusted = \[\"(.*)\"\]", program)
    model = make_pipeline(CountVectorizer(), SparseLDA(2, max_iter=2, random_state=0)).fit(TEXTS)
    skops.dump(model, tmp_path / "topics.skops")
    assert skops.get_untrusted_types(file=tmp_path / "topics.skops") == [trusted]
    again = skops.load(tmp_path / "topics.skops", trusted=[trusted])
    np.testing.assert_array_equal(again.transform(TEXTS), model.transform(TEXTS))

"""The benchmarks' data can be made by anybody, and are looked for before anything runs."""

import importlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = ("places", "corpora", "prepare")


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """The modules of the benchmarks, their data in an empty folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("SPARSEPOST_DATA", str(tmp_path))
    monkeypatch.delenv("SPARSEPOST_JUDGE", raising=False)
    yield [importlib.import_module(name) for name in NAMES]
    for name in NAMES:
        sys.modules.pop(name, None)


def test_stand_ins_are_made_loaded_and_judged(modules, tmp_path, monkeypatch):
    places, corpora, prepare = modules
    assert places.missing(["kos", "digits", "kos", "nips"]) == ["kos", "nips"]
    with pytest.raises(FileNotFoundError, match="kos. Set the environment variable"):
        corpora.load("kos")
    monkeypatch.setitem(prepare.N_DOCUMENTS, "kos", 800)
    assert "stand-in" in prepare.make("kos", stand_in=True)
    assert places.missing(["kos", "nips"]) == ["nips"]
    assert "docstrings" in (tmp_path / "kos" / "SOURCE.txt").read_text()
    train, test = corpora.load("kos")
    assert (test.shape[0], test.dtype) == (500, np.int32)
    assert train.shape[0] + 500 == sp.load_npz(tmp_path / "kos/X.npz").shape[0]
    words = np.asarray(train.sum(axis=0), dtype=float)
    judge = corpora.judge()
    assert judge.score(words + 0.1, test) > judge.score(np.ones_like(words), test)
    assert len(corpora.words("kos")) == train.shape[1]
    (tmp_path / "kos/vocab.txt").unlink()
    assert corpora.words("kos") is None
    again = corpora.load("kos")[1]
    assert (again != test).nnz == 0


def test_photographs_have_a_stand_in(modules):
    pytest.importorskip("PIL")
    places, corpora, prepare = modules
    prepare.make("bsds500", stand_in=True)
    assert not places.missing(["bsds500"])
    X = corpora.patches("train", 1000)
    assert X.shape == (1000, 64)
    assert abs(X.mean(axis=1)).max() < 1e-5


def test_bags_of_words_of_uci(modules):
    read = modules[2].read_docword
    X = read(io.StringIO("3\n4\n3\n1 2 5\n3 2 1\n3 4 2\n"))
    np.testing.assert_array_equal(X.toarray(), [[5, 0], [1, 2]])
    with pytest.raises(ValueError, match="docword has 1 entries, but says that it has 3"):
        read(io.StringIO("3\n4\n3\n1 2 5\n"))


def test_what_is_missing_is_said_once_and_before_the_first_run(modules, tmp_path):
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--out", str(tmp_path / "out")]
    command += ["--only", "curves/", "mixture/"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stdout == ""
    (message,) = found.stderr.splitlines()
    for name in ("newsgroups20", "nips", "kos", "bsds500", "SPARSEPOST_DATA", "prepare.py"):
        assert message.count(name) >= 1
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_made_is_said(modules, monkeypatch, capsys):
    prepare = modules[2]
    monkeypatch.setattr(sys, "argv", ["prepare.py", "kos"])

    def no_network(url):
        raise OSError(f"{url} cannot be reached")

    monkeypatch.setattr(prepare.urllib.request, "urlopen", no_network)
    with pytest.raises(SystemExit, match="not made: kos. With --stand-in"):
        prepare.main()
    assert "kos: " in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["prepare.py", "koss"])
    with pytest.raises(SystemExit):
        prepare.main()
    assert "no corpus 'koss'" in capsys.readouterr().err


def test_every_file_and_experiment_is_in_the_readme():
    told = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert not [path.name for path in BENCHMARKS.glob("*.py") if f"`{path.name}`" not in told]
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--list"]
    keys = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    experiments = {key.split("/")[0].split(",")[0] for key in keys}
    assert not {name for name in experiments if f"`{name}`" not in told}


def test_fits_are_the_same_wherever_sums_are(tmp_path):
    pytest.importorskip("distributed", reason="needs the dask extra")
    (tmp_path / "kos").mkdir()
    counts = sp.csr_matrix(np.random.default_rng(0).poisson(0.1, (700, 300)))
    sp.save_npz(tmp_path / "kos" / "X.npz", counts)
    options = {"learning_method": "memoized", "n_batches": 4}
    spec = {"kind": "cluster", "corpus": "kos", "n_topics": 5, "n_workers": 2, "options": options}

    def bound(**more):
        command = [sys.executable, str(BENCHMARKS / "measure.py"), json.dumps({**spec, **more})]
        told = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, **where}
        )
        return json.loads(told.stdout.splitlines()[-1])["bound"]

    where = {"SPARSEPOST_DATA": str(tmp_path)}
    want = bound()
    assert bound(sums="there alone") == want
    assert bound(sums="here alone") == want

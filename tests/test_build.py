"""What was compiled in, which kernels run, and that all of them compute the same."""

import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sklearn_sparsepost
from sklearn_sparsepost import SparseLDA, _base, _kernels
from sklearn_sparsepost._kernels._cpu import build_info, max_threads

SCRIPT = """
import sys
import numpy as np
from sklearn_sparsepost import SparseLDA, _kernels
from sklearn_sparsepost.datasets import make_bars
X = make_bars(300, doc_topic_prior=0.1, random_state=0)[0].astype(np.float64)
start = np.random.default_rng(0).gamma(1, 1, (10, 25)) + 0.1
lda = SparseLDA(10, sparsity_level=4, init=start, max_iter=3, tol=0, mean_change_tol=1e-6,
                max_doc_update_iter=2000, restarts=0, random_state=0).fit(X)
np.save(sys.argv[1], lda.components_)
print(_kernels.vector_unit)
"""


def run(unit, *args):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, args)],
        env={**os.environ, "SPARSEPOST_VECTOR_UNIT": unit},
        capture_output=True,
        text=True,
    )


def test_show_versions_says_what_was_found(capsys):
    sklearn_sparsepost.show_versions()
    out = capsys.readouterr().out
    for line in ("sklearn_sparsepost:", "scikit-learn:", "compiler:", "OpenMP:", "bounds checks:"):
        assert line in out
    assert f"kernels in use: {_kernels.vector_unit}" in out


def test_every_vector_unit_computes_the_same(tmp_path):
    units = build_info()["vector units"]
    if build_info()["bounds checks"]:
        units = ["baseline"]  # the debug build has no others
    results = []
    for unit in units:
        done = run(unit, tmp_path / f"{unit}.npy")
        assert done.stdout.strip() == unit, done.stderr
        results.append(np.load(tmp_path / f"{unit}.npy"))
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-4, atol=1e-4)


def test_a_vector_unit_that_is_not_there_is_an_error():
    done = run("mmx", "unused")
    assert done.returncode != 0 and "SPARSEPOST_VECTOR_UNIT='mmx'" in done.stderr


@pytest.mark.parametrize("wanted", ["1", "3"])
def test_threads_follow_omp_num_threads(wanted):
    script = "from sklearn_sparsepost._run.threads import local_threads as t; print(t(), t(1))"
    out = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "OMP_NUM_THREADS": wanted},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    threads = int(wanted) if build_info()["openmp"] else 1
    assert out.split() == [str(threads), "1"]
    assert max_threads() >= 1


def test_what_says_the_version_and_the_requirements_says_the_same():
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    recipe = (root / "conda/recipe.yaml").read_text(encoding="utf-8")
    version = sklearn_sparsepost.__version__
    assert f'version: "{version}"' in recipe
    assert f"version: {version}" in (root / "CITATION.cff").read_text().replace('"', "")
    run, host = recipe.split("  run:")[1], recipe.split("  host:")[1].split("  run:")[0]
    for part, wanted in (
        (run, project["project"]["dependencies"]),
        (host, project["build-system"]["requires"]),
    ):
        for requirement in wanted:
            assert f"- {requirement.lower().replace('>=', ' >=')}\n" in part


def test_html_links_to_the_site_if_there_is_one(monkeypatch):
    monkeypatch.setattr(_base, "documentation_address", lambda: "")
    assert "api/generated" not in SparseLDA()._repr_html_()
    monkeypatch.setattr(_base, "documentation_address", lambda: "https://site.example")
    link = "https://site.example/api/generated/sklearn_sparsepost.SparseLDA.html"
    assert link in SparseLDA()._repr_html_()


@pytest.fixture
def of_setup(monkeypatch):
    """What setup.py defines."""
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    root = Path(__file__).parents[1]
    if not (root / "setup.py").exists():
        pytest.skip("not in a checkout")
    monkeypatch.chdir(root)
    # As multiprocessing runs it in a process that translates, by default from Python 3.14 on.
    return runpy.run_path("setup.py", run_name="__mp_main__")


def test_processes_that_begin_with_setup_build_nothing(of_setup):
    assert "translated" not in of_setup
    assert of_setup["extensions"]()


def test_addresses_are_those_of_the_repository_that_builds(of_setup, tmp_path):
    addresses, packed = of_setup["addresses"], tmp_path / "PKG-INFO"
    assert addresses({}, packed) == {}
    known = {"GITHUB_REPOSITORY": "Some-One/name", "GITHUB_SERVER_URL": "https://github.com"}
    found = addresses(known, packed)
    assert found["Documentation"] == "https://some-one.github.io/name"
    assert found["Source"] == "https://github.com/Some-One/name"
    lines = "".join(f"Project-URL: {name}, {url}\n" for name, url in found.items())
    packed.write_text(f"Metadata-Version: 2.4\nName: sklearn-sparsepost\n{lines}\nText.\n")
    assert addresses({}, packed) == found


@pytest.mark.parametrize("refused", ["-fsplit-loops", "-fno-such-flag"])
def test_flags_that_clang_does_not_know_are_left_out_there(refused, of_setup):
    class Compiler:
        """As clang, which ends with an error."""

        def compile(self, sources, output_dir, extra_postargs):
            if refused in extra_postargs:
                raise OSError(f"unknown argument: {refused!r}")
            return sources

        def link_executable(self, objects, name, extra_postargs):
            pass

    known_to_gcc = of_setup["OF_GCC"]
    left_out = of_setup["unknown_flags"](Compiler())
    assert left_out == (known_to_gcc if refused in known_to_gcc else [])
    if not of_setup["MSVC"]:
        assert set(known_to_gcc) <= set(of_setup["FAST"])

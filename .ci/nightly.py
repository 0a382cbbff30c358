"""Random inputs for every estimator: ``python .ci/nightly.py [--seconds 3600] [--jobs 2]``.

hypothesis draws an estimator, its parameters from the constraints that it declares (legal, at their
ends, beyond them, of other types), data (sparse and dense, of every type, read-only, mapped from
disk, empty rows, NaN, negative, fractional and huge values, one row, one column) and the methods to
be called. What may come of it are finite numbers, or a ValueError or TypeError that this package or
scikit-learn's validation raises; a warning of numpy's, an error from the depths, NaN or a crash are
findings. Shards run in processes of their own, so that a crash is one, too. What has run is written
to a folder, and the next call goes on from there, with seeds that were not tried; what failed is
tried first.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from numbers import Integral
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture

ESTIMATORS = {made.__name__: made for made in (SparseLDA, SparseHDP, SparseMixture, AliasLDA)}
ESTIMATORS["GibbsCTM"] = GibbsCTM
METHODS = ["transform", "predict", "predict_proba", "score", "score_samples", "perplexity", "bound"]
# Examples of a round of hypothesis: the clock is looked at between rounds.
ROUND = 200
# No fit of such data takes longer, unless it hangs.
MOST_SECONDS = 120
# They say how much work there is, or how many threads.
SMALL = {"max_iter": 3, "n_components": 7, "n_init": 2, "max_components": 9, "n_factors": 9}
SMALL |= {"n_mh_steps": 3, "n_sweeps": 3, "burn_in": 3, "n_logit_steps": 3}
SMALL |= {"max_doc_update_iter": 9}
FIXED = {"n_jobs": 1, "verbose": 0, "random_state": 0, "memmap_folder": None}
# Fitted values that are NaN where nothing was computed.
MAY_BE_NAN = ("bound_history", "log_likelihood_history", "restart", "lower_bound")
WRONG = [None, -1, 0, "no", float("nan"), float("inf"), [], True, np.float32(2), 1.5, "auto"]


# ---------------------------------------------------------------------- what is drawn


# Strategies are made once: hypothesis looks at each that is new.
@cache
def values_of(estimator, name):
    """Values of an estimator's parameter: most of them legal."""
    constraints, found = ESTIMATORS[estimator]._parameter_constraints[name], []
    for constraint in constraints:
        if isinstance(constraint, StrOptions):
            found += 4 * [st.sampled_from(sorted(constraint.options))]
        elif isinstance(constraint, Interval) and constraint.type is Integral:
            left = max(constraint.left, -3)
            found += 4 * [st.integers(left, SMALL.get(name, left + 8))]
            if name not in SMALL:
                found.append(st.sampled_from([1000, np.int8(3), 2**31 - 1]))
        elif isinstance(constraint, Interval):
            low, high = max(constraint.left, -1e300), min(constraint.right or 1e300, 1e300)
            middle = [v for v in (0.0, 0.01, 0.3, 0.7, 1.0, 5.0, 100.0) if low < v < high]
            found += 3 * [st.sampled_from(middle)] + [st.sampled_from([float(low), float(high)])]
        elif constraint is None:
            found.append(st.none())
        elif constraint == "boolean":
            found.append(st.booleans())
        elif constraint == "array-like":
            found.append(arrays())
    if name == "moves":
        found.append(st.lists(st.sampled_from(["birth", "merge", "delete"]), max_size=3))
    return st.one_of(*found) if found else st.none()


@st.composite
def arrays(draw):
    """Arrays of few dimensions, some of which fit."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    value = draw(st.sampled_from([1.0, 0.1, 0.1, 1e-30, 1e30, 0.0, -1.0, np.nan, 1e-300]))
    made = np.full(shape, value)
    made.flat[0] = draw(st.sampled_from([1.0, 2.0, value]))
    return made.astype(draw(st.sampled_from([np.float64, np.float32])))


@cache
def chosen_of(estimator):
    """Which of an estimator's parameters are drawn."""
    names = sorted({*ESTIMATORS[estimator]._parameter_constraints} - {*FIXED, "max_iter"})
    return st.lists(st.sampled_from(names), max_size=4, unique=True)


@st.composite
def estimators(draw):
    """An estimator's name and parameters, mostly defaults."""
    name = draw(st.sampled_from(sorted(ESTIMATORS)))
    chosen = draw(chosen_of(name))
    params = {each: draw(values_of(name, each)) for each in chosen}
    params.setdefault("n_components", draw(st.integers(1, 7)))
    if chosen and draw(st.integers(0, 9)) == 0:
        params[chosen[0]] = draw(st.sampled_from(WRONG))
    return name, {**params, "max_iter": draw(st.integers(0, 3))}


CELLS = {
    "counts": [0, 0, 0, 1, 1, 2, 7],
    "few": [0, 0, 0, 0, 0, 0, 1],
    "large": [0, 1, 1000, 30000],
    "fractions": [0.0, 0.25, 1.5, 1e-9, 3.0],
    "rows": [0.0, -1.5, 0.3, 2.0, 1e-3, 1.0],
    "huge": [0.0, 1.0, 1e30, 1e18, 1e-300, 1e300],
    "zero": [0],
    "negative": [0, 1, -1],
    "bad": [0.0, 1.0, float("nan"), float("inf")],
}
TYPES = ["bool", "uint8", "int8", "int32", "int64", "uint64", "float16", "float32", "float64"]
TYPES += ["object", "complex128", "longdouble"]
FORMS = ["dense", "csr", "csc", "coo", "array", "fortran", "read-only", "mapped", "wide indices"]
FORMS += ["stored zeros", "list"]


@cache
def cells_of(kind, n_rows, width):
    """Rows of values of a kind."""
    row = st.lists(st.sampled_from(CELLS[kind]), min_size=width, max_size=width)
    return st.lists(row, min_size=n_rows, max_size=n_rows)


@st.composite
def tables(draw):
    """Values, their type, and the form in which they are given."""
    kinds = ["counts"] * 6 + ["rows"] * 3 + sorted(CELLS)
    kind = draw(st.sampled_from(kinds))
    n_rows = draw(st.sampled_from([1, 2, 3, 8, 8, 20, 20, 20, 0]))
    width = draw(st.sampled_from([1, 2, 4, 4, 6, 6, 6, 0]))
    few = min(n_rows, 4)
    made = draw(cells_of(kind, few, width))
    values = np.array(made, dtype=np.float64).reshape(few, width)
    if few:  # more rows are turns of these
        values = np.stack([np.roll(values[i % few], i // few) for i in range(n_rows)])
    types = ["float64", "float64", "float32", "int64", *TYPES]
    return values, draw(st.sampled_from(types)), draw(st.sampled_from(["dense", "csr", *FORMS]))


CALLS = st.lists(st.sampled_from(METHODS), max_size=3, unique=True)
TABLES, DRAWN = tables(), estimators()
OTHERS = st.one_of(st.none(), TABLES)


@st.composite
def trials(draw):
    """All that a trial is made of, in one picklable value."""
    calls = draw(CALLS)
    first = draw(st.sampled_from(["fit", "fit", "fit", "partial_fit", "none"]))
    again = draw(st.sampled_from(["", "", "fit", "partial_fit", "warm"]))
    other = draw(OTHERS)
    weighted = draw(st.sampled_from([None, None, None, 1.0, 0.0, 2.5, -1.0, float("nan")]))
    name, params = draw(DRAWN)
    return name, params, draw(TABLES), other, first, again, calls, weighted


# ---------------------------------------------------------------------- what is made of it


def as_given(table, folder, file="X.npy"):
    """Data in the form that they are to be given in."""
    values, dtype, form = table
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = values.astype(dtype)
    if form in ("csr", "csc", "coo", "array", "wide indices", "stored zeros"):
        if X.dtype in (np.float16, object, np.longdouble):
            X = values
        if form == "stored zeros":
            n_rows, width = X.shape
            indptr = np.arange(n_rows + 1) * width
            return sp.csr_matrix((X.ravel(), np.tile(np.arange(width), n_rows), indptr), X.shape)
        made = sp.csr_array(X) if form == "array" else sp.csr_matrix(X)
        if form == "wide indices":
            made.indices, made.indptr = made.indices.astype("q"), made.indptr.astype("q")
            made.data.flags.writeable = False
        return made.asformat(form) if form in ("csc", "coo") else made
    if form == "fortran":
        return np.asfortranarray(X)
    if form == "read-only":
        X.flags.writeable = False
    if form == "mapped" and X.dtype != object and X.size:
        np.save(folder / file, X)
        return np.load(folder / file, mmap_mode="r")
    return X.tolist() if form == "list" else X


def is_clear(error):
    """Whether an error comes from this package, or from what checks its input, with a word."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = frames[-1].filename.replace(os.sep, "/")
    ours = "sklearn_sparsepost" in inner or "sklearn/" in inner or inner.endswith("/.ci/nightly.py")
    return bool(str(error).strip()) and ours


def finite(values):
    """Whether the numbers of a result are finite, and there."""
    values = values.data if sp.issparse(values) else np.asarray(values)
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def attempt(trial, folder):
    """Make one trial; raises an AssertionError for what must not be.

    Parameters
    ----------
    trial : tuple
        As :func:`trials` draws it.
    folder : Path
        For data that are mapped.

    Returns
    -------
    fitted : bool
        Whether there was a model in the end, and not errors alone.
    """
    name, params, table, other, first, again, calls, weighted = trial
    X = as_given(table, folder)
    Y = X if other is None else as_given(other, folder, "Y.npy")  # or it would write over X
    made = ESTIMATORS[name]
    fixed = {each: value for each, value in FIXED.items() if each in made._parameter_constraints}
    estimator = made(**{**fixed, **params})

    def weights(data):
        if weighted is None or name not in ("SparseMixture", "SparseLDA", "SparseHDP"):
            return {}
        n_rows = len(data) if isinstance(data, list) else data.shape[0]
        return {"sample_weight": np.full(n_rows, weighted)}

    steps = [] if first == "none" else [(first, X, weights(X))]
    if again:
        steps.append(("fit" if again == "warm" else again, Y, weights(Y)))
    steps += [(call, Y if call != "bound" else X, {}) for call in calls]
    for step, data, given_beside in steps:
        if again == "warm":
            estimator.set_params(warm_start=True)
        method = getattr(estimator, step, None)
        if method is None:
            continue
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", UndefinedMetricWarning)
                result = method(data, **given_beside)
        except (ValueError, TypeError) as error:
            assert is_clear(error), f"{step}: an error from the depths"
            continue
        # A score of nothing is NaN, with a word.
        undefined = any(issubclass(each.category, UndefinedMetricWarning) for each in told)
        if result is not estimator and not undefined:
            assert finite(result), f"{step}: not finite"
    for attribute, value in vars(estimator).items():
        if attribute.endswith("_") and not attribute.startswith(MAY_BE_NAN):
            parts = value if isinstance(value, tuple) else (value,)
            assert all(map(finite, parts)), f"{attribute}: not finite"
    return hasattr(estimator, "n_features_in_") and hasattr(estimator, "n_iter_")


# ---------------------------------------------------------------------- shards


def round_of(number, folder, last, n_examples):
    """Try some examples of a seed; the last one is on disk before it is tried."""
    tried, fitted = [], []

    @seed(number)
    @settings(
        max_examples=n_examples,
        deadline=None,
        database=DirectoryBasedExampleDatabase(folder / "examples"),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )
    @given(trials())
    def run(trial):
        last.write_bytes(pickle.dumps(trial))
        tried.append(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            fitted.append(attempt(trial, last.parent))

    try:
        run()
    except Exception as error:
        told = "".join(traceback.format_exception(error)[-12:])
        finding = {"trial": repr(pickle.loads(last.read_bytes())), "error": told}
        return len(tried), sum(fitted), finding
    return len(tried), sum(fitted), None


def shard(number, seconds, folder, own):
    """Rounds of seeds of one shard until the time is up, each written down."""
    begun, at = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        # Seeds of shards do not meet.
        found = round_of(number * 100_000 + at, folder, own / "last", ROUND)
        at += 1
        told = dict(zip(("examples", "fitted", "finding"), found, strict=True))
        note(folder, {"shard": number, "round": at, **told})


def note(folder, line):
    """Write down a round."""
    with (folder / "log.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n")


def lines_of(folder):
    """What has been written down."""
    path = folder / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def watched(number, seconds, folder):
    """Run a shard in a process of its own until its time is up, and note how it ended."""
    with tempfile.TemporaryDirectory() as own:
        last = Path(own) / "last"
        options = ["--shard", str(number), "--seconds", str(seconds), "--own", own]
        process = subprocess.Popen([sys.executable, __file__, "--folder", str(folder), *options])
        try:
            end = None
            while process.poll() is None:
                time.sleep(1)
                if last.exists() and time.time() - last.stat().st_mtime > MOST_SECONDS:
                    end = f"hangs for {MOST_SECONDS} s"
                    process.kill()
                    process.wait()
            if process.returncode:
                trial = repr(pickle.loads(last.read_bytes())) if last.exists() else ""
                end = end or f"ends with {process.returncode}"
                finding = {"trial": trial, "error": end}
                none = {"shard": number, "round": 0, "examples": 0, "fitted": 0}
                note(folder, {**none, "finding": finding})
        finally:
            process.kill()


def main():
    """Run shards for some time; exits with 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--folder", type=Path, default=Path(".nightly"))
    parser.add_argument("--shard", type=int, help="run this one alone, here")
    parser.add_argument("--own", type=Path, help="a folder of the shard's own")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.shard is not None:
        shard(arguments.shard, arguments.seconds, folder, arguments.own)
        return
    before = lines_of(folder)
    first = 1 + max((line["shard"] for line in before), default=-1)
    stop = time.monotonic() + arguments.seconds

    def work(job):
        number = first + job
        while (left := stop - time.monotonic()) > 1:  # a new one where one has crashed
            watched(number, left, folder)
            number += arguments.jobs

    with ThreadPoolExecutor(arguments.jobs) as jobs:
        list(jobs.map(work, range(arguments.jobs)))
    lines = lines_of(folder)
    found = [line for line in lines[len(before) :] if line["finding"]]
    for line in found:
        told = line["finding"]
        print(f"shard {line['shard']}, round {line['round']}:\n{told['trial']}\n{told['error']}")
    tried = sum(line["examples"] for line in lines)
    fitted = sum(line["fitted"] for line in lines)
    print(f"{tried:,} examples in all, of {fitted:,} a model; {len(found)} findings in this call")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

"""Mixtures: training curves, starts, weights for each photograph, sparse responsibilities."""

from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from time import perf_counter, process_time

import corpora
import numpy as np
import peers
import scipy.sparse as sp


def mixture(
    corpus,
    n_topics,
    method,
    *,
    n_samples=None,
    dtype="float64",
    options=None,
    passes=5,
    threads=1,
    seed=0,
    score=True,
    coordinates=False,
):
    """Train a mixture of zero-mean Gaussians on image patches.

    Parameters
    ----------
    corpus : str
        Must be "bsds500".
    n_topics : int
        Number of components.
    method : {"sparsepost", "sklearn"}
        SparseMixture, or scikit-learn's GaussianMixture, whose means are free.
    n_samples : int, default=None
        How many patches, None for all.
    dtype : {"float64", "float32"}
        Type of the data.
    options : dict, default=None
        Options of SparseMixture.
    passes, threads, seed : int
        Passes over the data, workers, and the seed.
    score : bool, default=True
        Whether to score after each pass, or after the last only.
    coordinates : bool, default=False
        Whether patches are given in coordinates that leave out their mean.

    Returns
    -------
    result : dict
        Seconds and held-out log-likelihood a patch after each pass, and the peak of memory.
    """
    assert corpus == "bsds500"
    X = corpora.patches("train", n_samples).astype(dtype)
    X_test = corpora.patches("val", 20_000 if score else 100).astype(dtype)
    if coordinates:
        X, X_test = corpora.without_mean(X), corpora.without_mean(X_test)
    train = _scikit_learns_mixture if method == "sklearn" else _our_mixture
    rows = train(X, X_test, n_topics, passes, threads, seed, options or {})
    return {"checkpoints": rows, "peak_bytes": peers.peak_bytes(), "n_samples": len(X)}


def _our_mixture(X, X_test, n_components, passes, threads, seed, options):
    from sklearn_sparsepost import SparseMixture
    from sklearn_sparsepost.callbacks import HeldoutMonitor

    monitor = HeldoutMonitor(X_test)
    options = {"assume_centered": True, "tol": 0, "max_iter": passes, **options}
    model = SparseMixture(n_components, n_jobs=threads, random_state=seed, **options)
    model.set_callbacks(monitor).fit(X)
    return [
        {"passes": row["n_iter"], "seconds": row["seconds"], "score": row["score"]}
        for row in monitor.get_logs()
    ]


def _scikit_learns_mixture(X, X_test, n_components, passes, threads, seed, options):
    """EM step by step, since a fit of one iteration makes more than one step."""
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(n_components=n_components, reg_covar=1e-6, random_state=seed)
    rng = np.random.default_rng(seed)
    centres = X[rng.choice(len(X), n_components, replace=False)]
    nearest = (X @ centres.T - 0.5 * (centres**2).sum(axis=1)).argmax(axis=1)
    begun = perf_counter()
    model._initialize(X, np.eye(n_components, dtype=X.dtype)[nearest])
    rows, seconds = [], perf_counter() - begun
    for i in range(passes):
        begun = perf_counter()
        model._m_step(X, model._e_step(X)[1])
        seconds += perf_counter() - begun
        score = float(model.score(X_test))
        rows.append({"passes": i + 1, "seconds": seconds, "score": score})
    return rows


def mixture_start(corpus, n_topics, method, *, options=None, passes=10, seed=0):
    """Score what a few passes make of one start of a mixture.

    Parameters
    ----------
    corpus : str
        As for :func:`corpora.rows`.
    n_topics : int
        Number of components.
    method : str
        The start, `init_params`.
    options : dict, default=None
        Options of SparseMixture.
    passes, seed : int
        Passes over the data, and the seed.

    Returns
    -------
    result : dict
        Held-out log-likelihood a row, and seconds of CPU of the fit and of finding its start: the
        median of two before the fit and two after it, so that slow moments of a machine tell less.
    """
    from sklearn_sparsepost import SparseMixture
    from sklearn_sparsepost._run.dispatch import Corpus
    from sklearn_sparsepost._starts.rows import first_responsibilities

    X, X_test = corpora.rows(corpus)
    params = {"random_state": seed, "init_params": method, "n_jobs": 1, "tol": 0, **(options or {})}
    shape = "spherical" if "observation" in params else "full"
    data, rng = Corpus(X, np.dtype(np.float64), 1), np.random.default_rng(seed)
    seconds = {"start": [], "fit": []}
    for step in ("start", "start", "start", "fit", "start", "start"):  # the first warms up
        begun = process_time()
        if step == "start":
            first_responsibilities(data, n_topics, method, None, shape, rng)
        else:
            model = SparseMixture(n_topics, max_iter=passes, **params).fit(X)
        seconds[step].append(process_time() - begun)
    start, (fit,) = float(np.median(seconds["start"][1:])), seconds["fit"]
    return {"score": model.score(X_test), "start_seconds": start, "seconds": fit}


def patches_by_image(corpus, n_topics, method, *, n_each=500, options=None, seed=0, threads=1):
    """Train zero-mean Gaussians on patches of photographs, with weights for each or for all.

    Parameters
    ----------
    corpus : str
        Must be "bsds500".
    n_topics : int
        Number of components to begin with.
    method : {"hdp", "mixture"}
        SparseHDP with photographs as groups, or SparseMixture with a Dirichlet process.
    n_each : int, default=500
        Patches of each photograph.
    options : dict, default=None
        Of the estimator.
    seed, threads : int
        The seed, and workers.

    Returns
    -------
    result : dict
        Passes, seconds, components, and the log-likelihood of a patch of other photographs: given
        four fifths of its photograph for "hdp".
    """
    from sklearn_sparsepost import SparseHDP, SparseMixture

    assert corpus == "bsds500"
    X, groups = corpora.patches_by_image("train", n_each)
    X_test, groups_test = corpora.patches_by_image("val", n_each, seed=1)
    options = {"assume_centered": True, "max_iter": 25, "tol": 0, **(options or {})}
    options |= {"random_state": seed, "n_jobs": threads}
    if method == "hdp":
        model, beside = SparseHDP(n_topics, observation="gaussian", **options), {"groups": groups}
        beside_test = {"groups": groups_test}
    else:
        kind = "dirichlet_process"
        model = SparseMixture(n_topics, weight_concentration_prior_type=kind, **options)
        beside, beside_test = {}, {}
    begun = perf_counter()
    model.fit(X, **beside)
    row = {"passes": model.n_iter_, "seconds": perf_counter() - begun}
    row["score"] = float(model.score(X_test, **beside_test))
    row["n_topics"] = int(model.n_components_)
    return {"checkpoints": [row], "n_samples": len(X), "peak_bytes": peers.peak_bytes()}


def responsibilities(corpus, n_topics, method, *, n_samples, dtype, passes=5, threads=1):
    """How far L-sparse responsibilities are from dense ones, the components being the same.

    Parameters
    ----------
    corpus, n_topics, method, n_samples, dtype, passes, threads
        As for :func:`mixture`.

    Returns
    -------
    result : dict
        For each L half the sum of absolute differences, a mean over held-out patches: at most 1.
    """
    assert (corpus, method) == ("bsds500", "sparsepost")
    from sklearn_sparsepost import SparseMixture

    X = corpora.patches("train", n_samples).astype(dtype)
    X_test = corpora.patches("val", 20_000).astype(dtype)
    options = {"learning_method": "batch", "assume_centered": True, "max_iter": passes, "tol": 0}
    mixture = SparseMixture(
        n_topics, sparsity_level=None, n_jobs=threads, random_state=0, **options
    )
    dense = mixture.fit(X).predict_proba(X_test)
    distance = {}
    for level in (1, 2, 4, 8, 16, 32):
        resp = mixture.set_params(sparsity_level=level).predict_proba(X_test)
        distance[level] = float(0.5 * np.abs(resp - dense).sum(axis=1).mean())
    return {"distance": distance}


def parts_of_a_pass(corpus, n_topics, method, *, n_samples, passes=5, level=4, threads=1):
    """Seconds of what a pass over all data consists of, in double and in single precision.

    Each part is measured in both, one right after the other, of a machine whose speed changes.

    Parameters
    ----------
    corpus, n_topics, method, n_samples, passes, threads
        As for :func:`mixture`.
    level : int, default=4
        L.

    Returns
    -------
    result : dict
        Medians of 15 by type: of turning rows to the principal axes, of the search for the largest
        weights, of the same by what the pass before has found, of weighing no more than L
        components a row, of statistics, and of new components.
    """
    assert (corpus, method, threads) == ("bsds500", "sparsepost", 1)
    from sklearn_sparsepost._run.threads import single_blas

    X = corpora.patches("train", n_samples)
    steps = {
        dtype: _steps_of_a_pass(X.astype(dtype), n_topics, passes, level)
        for dtype in ("float64", "float32")
    }
    seconds = {dtype: {name: [] for name in steps[dtype]} for dtype in steps}
    with single_blas():
        for _ in range(15):
            for name in steps["float64"]:
                for dtype in steps:
                    begun = perf_counter()
                    steps[dtype][name]()
                    seconds[dtype][name].append(perf_counter() - begun)
    return {
        "seconds": {
            dtype: {name: float(np.median(values)) for name, values in by_name.items()}
            for dtype, by_name in seconds.items()
        }
    }


def _steps_of_a_pass(X, n_topics, passes, level):
    """The parts of a pass over data after some passes, by name, in chunks as fits have them."""
    from sklearn_sparsepost import SparseMixture
    from sklearn_sparsepost._models.mixture import as_csr
    from sklearn_sparsepost.models import Corpus

    options = {"learning_method": "batch", "assume_centered": True, "max_iter": passes, "tol": 0}
    options["warm_start"] = True
    mixture = SparseMixture(n_topics, sparsity_level=level, n_jobs=1, random_state=0, **options)
    mixture.fit(X)
    state, length = mixture._fit_state, 65_536 // X.itemsize
    rows = [X[i : i + length] for i in range(0, len(X), length)]
    corpus = Corpus(X, X.dtype)
    model = mixture._model(X.dtype, n_topics, corpus)
    globals_ = model.globals_of(state)
    observation, table = globals_.observation, globals_.table
    search, alone = table["search"], {**table, "neighbours": np.arange(n_topics)[:, None]}
    alone["neighbours"] = alone["neighbours"].astype(np.int32)
    white = [observation.prepare(part) for part in rows]
    kept = [search(part, table, level)[0] for part in white]
    found = [search.again(part, table, level, k)[3] for part, k in zip(white, kept, strict=True)]
    mixture.set_params(max_iter=1).fit(X)
    later = mixture._model(X.dtype, n_topics, corpus).globals_of(mixture._fit_state).table

    def again(part, k, lengths):
        later["search"].again(part, later, level, k, lengths)

    shares = [as_csr(index, np.full(index.shape, 1 / level), n_topics) for index in kept]

    def update():
        model._last = None
        model.globals_of(state)

    def each(function, *lists):
        return lambda: [function(*items) for items in zip(*lists, strict=True)]

    return {
        "axes": each(observation.prepare, rows),
        "search": each(lambda part, k: search(part, table, level, k), white, kept),
        "again": each(again, white, kept, found),
        "weights": each(lambda part, k: observation.best(part, alone, 0.0, level, k), white, kept),
        "statistics": each(observation.summarise, white, shares),
        "components": update,
    }


class _Turns:
    """A callback: of two fits that are made at the same time one stops while the other passes.

    A turn is of some passes, in the first of which the processor's caches hold the other's data.
    """

    LENGTH = 4

    def __init__(self, own, other):
        self.own, self.other = own, other
        self.seconds = []

    def setup(self, estimator, context):
        """Nothing."""

    def on_fit_task_begin(self, estimator, context):
        """Note the pass before, and wait for the next turn if one has ended."""
        if context.task_name != "pass":
            return
        if context.task_id:
            self._note()
        if context.task_id % self.LENGTH == 0:
            if context.task_id:
                self.other.release()
            self.own.acquire()
        self._begun = perf_counter()

    def on_fit_task_end(self, estimator, context):
        """Nothing: what is done between two passes is of the first one."""

    def teardown(self, estimator, context):
        """End the last turn."""
        self._note()
        self.other.release()

    def _note(self):
        self.seconds.append(perf_counter() - self._begun)

    def medians(self):
        """Median seconds of a pass of each turn but the first, its first pass left out."""
        turns = np.reshape(self.seconds, (-1, self.LENGTH))[1:, 1:]
        return np.median(turns, axis=1).tolist()


def precisions(corpus, n_topics, method, *, n_samples, passes=244, level=4, threads=1):
    """Seconds of passes in double and in single precision, of fits that take turns.

    A machine whose speed changes while it is measured changes both.

    Parameters
    ----------
    corpus, n_topics, method, n_samples, passes, threads
        As for :func:`mixture`; passes fill turns.
    level : int, default=4
        L.

    Returns
    -------
    result : dict
        Median seconds of a pass of each turn, by type; one is of the same moment as the other. And
        the median over these of how many times as long double precision takes.
    """
    assert (corpus, method) == ("bsds500", "sparsepost")
    from sklearn_sparsepost import SparseMixture

    X = corpora.patches("train", n_samples)
    options = {"learning_method": "batch", "assume_centered": True, "max_iter": passes, "tol": 0}
    turn = Semaphore(1), Semaphore(0)
    turns = {"float64": _Turns(*turn), "float32": _Turns(*turn[::-1])}

    def fit(dtype):
        mixture = SparseMixture(
            n_topics, sparsity_level=level, n_jobs=threads, random_state=0, **options
        )
        mixture.set_callbacks(turns[dtype]).fit(X.astype(dtype))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fit, turns))
    seconds = {dtype: turn.medians() for dtype, turn in turns.items()}
    ratio = np.median(np.divide(seconds["float64"], seconds["float32"]))
    return {"seconds": seconds, "ratio": float(ratio)}


def single_sums(corpus, n_topics, method, *, n_samples, passes=5, level=4, threads=1):
    """What sums of x x^T in single precision make of components, beside those in double.

    Parameters
    ----------
    corpus, n_topics, method, n_samples, passes, threads
        As for :func:`mixture`; the data are in single precision.
    level : int, default=4
        L.

    Returns
    -------
    result : dict
        Of rows as they are ("raw ...") and as a fit sums them, in the principal axes of the data:
        by how much of itself a component's variance in some direction changes at most, the median
        over components and the largest; and how many components' sums are not positive definite
        where `reg_covar` adds nothing to them, which those in double are.
    """
    assert (corpus, method) == ("bsds500", "sparsepost")
    from sklearn_sparsepost import SparseMixture

    X = corpora.patches("train", n_samples).astype(np.float32)
    options = {"learning_method": "batch", "assume_centered": True, "max_iter": passes, "tol": 0}
    mixture = SparseMixture(
        n_topics, sparsity_level=level, n_jobs=threads, random_state=0, **options
    ).fit(X)
    resp = sp.csr_array(mixture.predict_proba(X).astype(np.float64)).T.tocsr()
    observation = mixture._observation
    found = {}
    for name, rows, prior, unit in (
        ("raw ", X, mixture.covariance_prior_, np.ones(X.shape[1])),
        ("", observation.prepare(X), observation.scale, observation.coordinates.unit()),
    ):
        lost, changes = 0, []
        for sums, count in zip(_sums(rows, resp), resp.sum(axis=1), strict=True):
            exact, single = sums + prior
            assert _has_root(exact)
            lost += not _has_root(single)
            added = np.diag(mixture.reg_covar * count * unit)
            root = np.linalg.inv(np.linalg.cholesky(exact + added))
            ratio = np.linalg.eigvalsh(root @ (single + added) @ root.T)
            changes.append(float(np.abs(ratio - 1).max()))
        found |= {f"{name}lost": lost, f"{name}change": float(np.median(changes))}
        found[f"{name}largest"] = max(changes)
    return found


def _sums(rows, resp):
    """Sums of x x^T of each component in double and in single precision, (2, D, D)."""
    from sklearn_sparsepost._kernels import matrices

    n_components, n_features = resp.shape[0], rows.shape[1]
    found = np.empty((2, n_components, n_features, n_features))
    lists = [resp.indptr.astype(np.int32), resp.indices.astype(np.int32), resp.data]
    packed = np.empty((n_components, n_features * (n_features + 1) // 2))
    for single in (False, True):
        matrices.scatter(rows, *lists, packed, np.empty((0, n_features)), single=single)
        matrices.fill_squares(packed, found[int(single)])
    return found.swapaxes(0, 1)


def _has_root(matrix):
    """Whether a symmetric matrix is positive definite."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True

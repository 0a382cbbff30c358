"""One measurement in a process of its own: ``python measure.py '{"kind": ..., ...}'`` prints JSON.

The process is fresh so that no measurement inherits another's memory, threads or caches. run.py
sets the number of threads in its environment, since libraries read it when they are imported.
"""

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from time import perf_counter, process_time

import clusters
import corpora
import numpy as np
import peers
import scipy.sparse as sp

from sklearn_sparsepost import __version__, _kernels

PACKAGES = ("numpy", "scipy", "scikit-learn", "tomotopy", "gensim", "lda", "pyrmallet")


def machine():
    """What the figures depend on besides the code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return {
        "processor": name,
        "cores": os.cpu_count(),
        "vector unit": _kernels.vector_unit,
        "system": platform.system(),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": _versions(),
    }


def _versions():
    found = {"sklearn-sparsepost": __version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def curve(
    corpus,
    n_topics,
    method,
    *,
    options=None,
    threads=1,
    seed=0,
    score="every",
    own_score=False,
    coherent=False,
    share=1,
    tree=(),
    **limits,
):
    """Train one method and note time, passes and score at checkpoints.

    Parameters
    ----------
    corpus, n_topics, method
        What to train, a key of `peers.METHODS`.
    options : dict, default=None
        Options of the method.
    threads, seed : int
        Handed on.
    score : {"every", "last", "none"}, default="every"
        Which checkpoints the judge scores.
    own_score : bool, default=False
        Whether to score by the estimator's own `score` in the end.
    coherent : bool, default=False
        Whether to compute the coherence of the topics that are there in the end.
    share : int, default=1
        One in how many training documents to take, from the first on.
    tree : sequence of int, default=()
        Numbers of clusters to cut a tree of the topics into, two of them, the smaller one first.
    **limits
        `budget`, `passes`, `at_least` of the clock.

    Returns
    -------
    result : dict
        The checkpoints and what else there is to tell.
    """
    X, X_test = corpora.load(corpus)
    X = X if share == 1 else X[: X.shape[0] // share]
    judge = corpora.judge()
    clock = peers.Clock(
        None if score == "none" else lambda topics: float(judge.score(topics, X_test)),
        only_last=score == "last",
        **limits,
    )
    model = peers.METHODS[method](X, n_topics, clock, threads=threads, seed=seed, **(options or {}))
    result = {
        "checkpoints": clock.rows,
        "start_seconds": clock.start_seconds,
        "peak_bytes": clock.peak or peers.peak_bytes(),
        "n_documents": X.shape[0],
        "n_tokens": int(X.sum(dtype=np.int64)),
    }
    if own_score:
        result["own_score"] = model.score(X_test)
    if coherent:
        from sklearn_sparsepost.metrics import coherence

        result["coherence"] = {
            measure: float(coherence(model.components_, X, measure=measure).mean())
            for measure in ("npmi", "umass")
        }
    if tree:
        result["tree"] = _clusters(model, corpora.words(corpus), *tree)
    return result


def _clusters(model, words, n_clusters, n_finer):
    """Words, number of topics, and words of finer clusters, of clusters of correlated topics."""
    found = model.topic_tree(feature_names=words)
    coarse, fine = found.cut(n_clusters), found.cut(n_finer)
    finer = found.cluster_labels(n_finer)
    return {
        "linkage": found.linkage.tolist(),
        "clusters": [
            [
                label,
                int((coarse == c).sum()),
                [finer[f] for f in np.unique(fine[coarse == c])],
            ]
            for c, label in enumerate(found.cluster_labels(n_clusters))
        ],
    }


def bars(corpus, n_topics, *, seeds=5, options=None, threads=1):
    """How many of ten noisy bars are found, and how soon (Hughes, Kim & Sudderth 2015, sec. 6.1).

    Parameters
    ----------
    corpus : str
        Not used: images are drawn, 1,000 of 30 x 30 pixels and 200 tokens, from one to three bars
        that are 6 pixels wide, and 5 % noise.
    n_topics : int
        Topics to begin with.
    seeds : int, default=5
        Of data and fits.
    options : dict, default=None
        Of SparseHDP.
    threads : int, default=1
        Threads.

    Returns
    -------
    result : dict
        Numbers of topics, passes and seconds, a list each.
    """
    from sklearn_sparsepost import SparseHDP

    result = {"topics": [], "passes": [], "seconds": []}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        images = np.zeros((10, 30, 30))
        for i in range(5):
            images[i, 6 * i : 6 * i + 6] = images[5 + i, :, 6 * i : 6 * i + 6] = 1
        topics = images.reshape(10, -1)
        topics = 0.95 * topics / topics.sum(axis=1, keepdims=True) + 0.05 / 900
        X = np.empty((1000, 900), dtype=np.int32)
        for row in X:
            held = rng.choice(10, rng.integers(1, 4), replace=False)
            row[:] = rng.multinomial(200, rng.dirichlet(np.ones(len(held))) @ topics[held])
        hdp = SparseHDP(n_topics, max_iter=40, random_state=seed, **(options or {}))
        begun = perf_counter()
        hdp.fit(sp.csr_matrix(X))
        result["seconds"].append(perf_counter() - begun)
        result["topics"].append(hdp.n_components_)
        result["passes"].append(hdp.n_iter_)
    return result


def far_blobs(n_blobs, n_features, seed):
    """Gaussian clouds of different sizes and shapes, far from each other.

    Parameters
    ----------
    n_blobs : int
        How many.
    n_features : int
        Dimensions.
    seed : int
        Of all that is drawn.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        About 400 rows a cloud, the largest clouds four times the smallest; standard deviations
        from 0.4 to 1.4 along axes of their own, and centres at least 9 apart.
    """
    rng = np.random.default_rng((n_blobs, n_features, seed))
    share = rng.uniform(1, 4, n_blobs)
    centres = np.zeros((0, n_features))
    while len(centres) < n_blobs:
        centre = rng.normal(scale=6 * n_blobs ** (1 / n_features), size=(1, n_features))
        if (np.linalg.norm(centres - centre, axis=1) > 9).all():
            centres = np.concatenate([centres, centre])
    parts = []
    for centre, size in zip(centres, 400 * n_blobs * share / share.sum(), strict=True):
        axes = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
        rows = rng.normal(size=(int(size), n_features)) * rng.uniform(0.4, 1.4, n_features)
        parts.append(centre + rows @ axes)
    return rng.permutation(np.concatenate(parts))


def blobs(corpus, n_topics, *, begun=1, seeds=5, options=None, threads=1):
    """How many of some far Gaussian clouds a Dirichlet process finds, in 2, 4 and 8 dimensions.

    Parameters
    ----------
    corpus : str
        Not used: clouds are drawn by :func:`far_blobs`.
    n_topics : int
        Clouds.
    begun : int, default=1
        Components to begin with.
    seeds : int, default=5
        Of data and fits, in each number of dimensions.
    options : dict, default=None
        Of SparseMixture.
    threads : int, default=1
        Threads.

    Returns
    -------
    result : dict
        Numbers of components in use, passes and seconds, a list each.
    """
    from sklearn_sparsepost import SparseMixture

    result = {"topics": [], "passes": [], "seconds": []}
    for n_features in (2, 4, 8):
        for seed in range(seeds):
            X = far_blobs(n_topics, n_features, seed)
            mixture = SparseMixture(
                begun,
                weight_concentration_prior_type="dirichlet_process",
                covariance_prior=np.eye(n_features),
                random_state=seed,
                **(options or {}),
            )
            started = perf_counter()
            mixture.fit(X)
            result["seconds"].append(perf_counter() - started)
            result["topics"].append(mixture.n_components_)
            result["passes"].append(mixture.n_iter_)
    return result


class SampledDirichlet:
    """Dirichlet topic weights by Gibbs sampling, as `complete_documents` asks for them.

    So that correlated topics, whose weights are sampled, are not compared with mean field alone.
    All documents are sampled side by side, position by position.
    """

    def __init__(self, alpha, burn_in=20, n_samples=100):
        self.alpha, self.burn_in, self.n_samples = alpha, burn_in, n_samples

    def weights(self, chunk, table, key=None):
        """Posterior means of the weights of a chunk's documents."""
        rng, n_documents = np.random.default_rng(0), chunk.n_rows
        count = chunk.data.astype(int)
        row = np.repeat(np.repeat(np.arange(n_documents), np.diff(chunk.indptr)), count)
        word = np.repeat(table.position[chunk.indices], count)
        length = np.bincount(row, minlength=n_documents)
        place = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
        steps = [np.flatnonzero(place == i) for i in range(length.max(initial=0))]
        topics = rng.integers(len(self.alpha), size=len(row))
        held = np.zeros((n_documents, len(self.alpha)))
        np.add.at(held, (row, topics), 1)
        total = np.zeros_like(held)
        for sweep in range(self.burn_in + self.n_samples):
            for at in steps:
                held[row[at], topics[at]] -= 1
                sums = ((held[row[at]] + self.alpha) * table.rows[0][word[at]]).cumsum(axis=1)
                u = rng.random((len(at), 1)) * sums[:, -1:]
                topics[at] = (u >= sums[:, :-1]).sum(axis=1)
                held[row[at], topics[at]] += 1
            if sweep >= self.burn_in:
                total += held
        weights = total / self.n_samples + self.alpha
        return weights / weights.sum(axis=1, keepdims=True)


def completion(
    corpus, n_topics, method, *, passes, options=None, threads=1, seed=0, shares=(0.8, 0.2, 0.1)
):
    """Hidden words of documents predicted by models of a sampler's own: topics and prior.

    Parameters
    ----------
    corpus, n_topics, method, options, threads, seed
        As for :func:`curve`, of a sampler of ours.
    passes : int
        Sweeps, the second half of which is averaged.
    shares : sequence of float, default=(0.8, 0.2, 0.1)
        Shares of a document's distinct words that are seen.

    Returns
    -------
    result : dict
        Seconds of the training, the judge's score of the topics, and the model's own at each
        share; of LDA also that with sampled weights in place of mean field.
    """
    from sklearn_sparsepost.metrics._heldout import complete_documents

    X, X_test = corpora.load(corpus)
    clock = peers.Clock(None, passes=passes)
    options = {"burn_in": passes // 2, **(options or {})}
    model = peers.METHODS[method](X, n_topics, clock, threads=threads, seed=seed, **options)
    topics = model.topic_word_distr_.astype(np.float64)
    result = {"seconds": clock.seconds, "judge": float(corpora.judge().score(topics, X_test))}
    inferences = {"own": model._inference().dense()}
    if hasattr(model, "doc_topic_prior_"):
        inferences["sampled"] = SampledDirichlet(model.doc_topic_prior_)
    for name, inference in inferences.items():
        result[name] = {
            f"{share:g}": complete_documents(
                topics, X_test, inference, observed=share, n_jobs=threads
            )
            for share in shares
        }
    return {**result, "peak_bytes": peers.peak_bytes()}


def approximations(corpus, n_topics, method, *, n_draws=100_000, threads=1):
    """How far stand-ins for PG(N, tilt) are from it, and the logits drawn with them (Fig. 3).

    Parameters
    ----------
    corpus, n_topics, method, threads
        Not used: no corpus is asked for.
    n_draws : int, default=100_000
        Draws of each distribution.

    Returns
    -------
    result : dict
        Largest differences of distribution functions from exact sums of N draws, by N and tilt, for
        the gamma distribution with their mean and variance, which the package takes, a normal one,
        and one scaled draw of PG(1, tilt), which the paper takes; `logit` is of logits drawn with
        them given the figure's other numbers. Two exact samples differ by `noise`.
    """
    from scipy.stats import ks_2samp

    from sklearn_sparsepost._kernels import logits as kernels

    rng = np.random.default_rng(0)

    def polya_gamma(shape, tilt, seed):
        return kernels.draw_numbers("polya-gamma", np.tile([shape, tilt, 0.0], (n_draws, 1)), seed)

    def logits_given(weight, tokens, tilt):
        precision = 1 / 0.31 + weight
        mean = (0.40 / 0.31 + 19 - tokens / 2 + weight * 5.35) / precision
        return mean + rng.standard_normal(n_draws) / np.sqrt(precision)

    found = {}
    for tokens, tilt in ((17, 0.0), (17, -4.19), (60, 0.0), (300, -4.19), (1155, -4.19)):
        exact, other = (
            sum(polya_gamma(1, tilt, seed) for seed in range(first, first + tokens))
            for first in (0, tokens)
        )
        one = polya_gamma(1, tilt, 2 * tokens)
        scaled = exact.mean() + (one - one.mean()) * exact.std() / one.std()
        normal = rng.normal(exact.mean(), exact.std(), size=n_draws)
        samples = {"gamma": polya_gamma(tokens, tilt, 9), "normal": normal, "scaled": scaled}
        distance = {name: float(ks_2samp(exact, x).statistic) for name, x in samples.items()}
        want = logits_given(exact, tokens, tilt)
        distance["logit"] = {
            name: float(ks_2samp(want, logits_given(x, tokens, tilt)).statistic)
            for name, x in samples.items()
            if (tilt, tokens) == (-4.19, 1155)
        }
        distance["noise"] = float(ks_2samp(exact, other).statistic)
        found[f"{tokens}, {tilt:g}"] = distance
    return {"distance": found}


def logits(corpus, n_topics, method, *, passes, options=None, threads=1, seed=0):
    """The range of a long chain's logits.

    Parameters
    ----------
    corpus, n_topics, method, options, threads, seed
        As for :func:`curve`.
    passes : int
        Sweeps.

    Returns
    -------
    result : dict
        Least and largest logit every tenth of the sweeps, and whether all that is fitted is finite.
    """
    assert method == "gibbsctm"
    from sklearn_sparsepost import GibbsCTM

    X, _ = corpora.load(corpus)
    step = max(1, passes // 10)
    options = {"max_iter": step, "evaluate_every": 0, **(options or {})}
    ctm = GibbsCTM(n_topics, warm_start=True, random_state=seed, n_jobs=threads, **options)
    rows = []
    for _ in range(passes // step):
        held = ctm.fit(X)._fit_state.logits
        rows.append({"passes": ctm.n_iter_, "least": float(held.min()), "most": float(held.max())})
    fitted = ctm.components_, ctm.mean_, ctm.covariance_
    return {"range": rows, "finite": all(bool(np.isfinite(part).all()) for part in fitted)}


def transform(corpus, n_topics, *, threads=1, passes=8):
    """Documents a second of `transform`, ours and scikit-learn's, with the same fitted topics."""
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.decomposition._online_lda_fast import _dirichlet_expectation_2d

    from sklearn_sparsepost import SparseLDA

    X, _ = corpora.load(corpus)
    alpha = peers.ALPHA / n_topics
    topics = SparseLDA(n_topics, topic_word_prior=peers.ETA, max_iter=passes, random_state=0)
    components = topics.fit(X).components_.astype(np.float64)
    dense = LatentDirichletAllocation(
        n_topics, doc_topic_prior=alpha, topic_word_prior=peers.ETA, n_jobs=threads
    )
    dense._init_latent_vars(X.shape[1])
    dense.n_features_in_ = X.shape[1]
    dense.components_ = components
    dense.exp_dirichlet_component_ = np.exp(_dirichlet_expectation_2d(components))
    models = {"scikit-learn": (dense, X.astype(np.float64), 1)}
    # In its usual precision for counts of integers.
    for name, level in (("L=8", 8), ("dense", None)):
        model = SparseLDA.from_topics(
            components.astype(np.float32), sparsity_level=level, doc_topic_prior=alpha
        )
        models[name] = model, X, 3
    seconds, weights = {}, {}
    for name, (model, counts, repeats) in models.items():
        times = []
        for _ in range(repeats):
            begun = perf_counter()
            weights[name] = model.transform(counts)
            times.append(perf_counter() - begun)
        seconds[name] = float(np.median(times))
    return {
        "documents_per_second": {name: X.shape[0] / value for name, value in seconds.items()},
        "mean_l1": {
            f"{a} and {b}": float(np.abs(weights[a] - weights[b]).sum(axis=1).mean())
            for a, b in (("L=8", "scikit-learn"), ("dense", "scikit-learn"), ("L=8", "dense"))
        },
    }


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
        Held-out log-likelihood a row, and seconds of CPU of the fit and of finding its start.
    """
    from sklearn_sparsepost import SparseMixture
    from sklearn_sparsepost._run.dispatch import Corpus
    from sklearn_sparsepost._starts.rows import first_responsibilities

    X, X_test = corpora.rows(corpus)
    params = {"random_state": seed, "init_params": method, "n_jobs": 1, "tol": 0, **(options or {})}
    data, rng = Corpus(X, X.dtype, 1), np.random.default_rng(seed)
    seconds = []
    for step in ("start", "start", "fit"):  # the first warms up
        begun = process_time()
        if step == "start":
            first_responsibilities(data, n_topics, method, None, "full", rng)
        else:
            model = SparseMixture(n_topics, max_iter=passes, **params).fit(X)
        seconds.append(process_time() - begun)
    return {"score": model.score(X_test), "start_seconds": seconds[1], "seconds": seconds[2]}


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


def stream(corpus, n_topics, method, *, passes, seed=0, threads=1):
    """What a stream after a fit does to the held-out score.

    Parameters
    ----------
    corpus, n_topics, method, seed, threads
        As for :func:`curve`.
    passes : int
        Passes of the fits.

    Returns
    -------
    result : dict
        The judge's scores after a fit of four fifths of the documents, after the others have come
        in batches, and after a fit of all.
    """
    assert method == "sparsepost"
    from copy import deepcopy

    from sklearn_sparsepost import SparseLDA

    X, X_test = corpora.load(corpus)
    X = X[np.random.default_rng(seed).permutation(X.shape[0])]
    n_first = X.shape[0] * 4 // 5
    judge = corpora.judge()
    params = {"max_iter": passes, "random_state": seed, "n_jobs": threads}
    first = SparseLDA(n_topics, **params).fit(X[:n_first])
    scores = {"fit of four fifths": first, "fit of all": SparseLDA(n_topics, **params).fit(X)}
    for size in (50, 500):
        for total_samples in (None, 1e6):
            lda = deepcopy(first).set_params(total_samples=total_samples)
            for start in range(n_first, X.shape[0], size):
                lda.partial_fit(X[start : start + size])
            thought = "" if total_samples is None else ", total_samples=1e6"
            scores[f"the rest in batches of {size}{thought}"] = lda
    scores = {
        label: float(judge.score(lda.topic_word_distr_, X_test)) for label, lda in scores.items()
    }
    return {"scores": scores, "n_streamed": X.shape[0] - n_first}


def minibatch(
    corpus,
    n_topics,
    method,
    *,
    options=None,
    n_words=None,
    size=100,
    n_batches=30,
    seed=0,
    threads=1,
):
    """Milliseconds that `partial_fit` needs for a batch of a stream, after two passes of a fit.

    Parameters
    ----------
    corpus, n_topics, method, options, seed, threads
        As for :func:`curve`.
    n_words : int, default=None
        How many of the most frequent words to keep, None for all.
    size : int, default=100
        Documents a batch.
    n_batches : int, default=30
        How many, after as many that are not timed.

    Returns
    -------
    result : dict
        The median in milliseconds, tokens a batch, and the share of words in topics that have a
        count by then.
    """
    assert method == "sparsepost"
    from sklearn_sparsepost import SparseLDA

    X, _ = corpora.load(corpus)
    X = X[np.random.default_rng(seed).permutation(X.shape[0])]
    if n_words is not None:
        X = X[:, np.sort(np.argsort(-X.sum(axis=0).A1, kind="stable")[:n_words])]
    options = options or {}
    lda = SparseLDA(
        n_topics,
        learning_method="online",
        max_iter=2,
        evaluate_every=0,
        random_state=seed,
        n_jobs=threads,
        **{**options, "sparsity_level": 8},  # two dense passes would take minutes
    ).fit(X)
    lda.set_params(**options)
    seconds, tokens = [], []
    for i in range(2 * n_batches):
        batch = X[i * size % (X.shape[0] - size) :][:size]
        begun = perf_counter()
        lda.partial_fit(batch)
        seconds.append(perf_counter() - begun)
        tokens.append(int(batch.sum()))
    return {
        "milliseconds": float(np.median(seconds[n_batches:]) * 1e3),
        "tokens": float(np.mean(tokens[n_batches:])),
        "share_stored": float((lda.components_ > 0.1).mean()),
        "peak_bytes": peers.peak_bytes(),
    }


KINDS = {
    "approximations": approximations,
    "bars": bars,
    "blobs": blobs,
    "cluster": clusters.cluster,
    "completion": completion,
    "curve": curve,
    "logits": logits,
    "minibatch": minibatch,
    "stream": stream,
    "transform": transform,
    "mixture": mixture,
    "mixture_start": mixture_start,
    "patches by image": patches_by_image,
    "responsibilities": responsibilities,
    "machine": machine,
}

if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    print(json.dumps({**KINDS[spec.pop("kind")](**spec), "versions": _versions()}))

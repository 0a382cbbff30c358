"""Topic models: training curves, transform, streams, small batches."""

from time import perf_counter

import corpora
import numpy as np
import peers


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
    split=0,
    tree=(),
    end_only=False,
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
    split : int, default=0
        Of documents into those of training and testing.
    tree : sequence of int, default=()
        Numbers of clusters to cut a tree of the topics into, two of them, the smaller one first.
    end_only : bool, default=False
        Whether the last checkpoint is all that is told, where passes are thousands.
    **limits
        `budget`, `passes`, `at_least` of the clock.

    Returns
    -------
    result : dict
        The checkpoints and what else there is to tell.
    """
    X, X_test = corpora.load(corpus, split)
    X = X if share == 1 else X[: X.shape[0] // share]
    judge = corpora.judge()
    clock = peers.Clock(
        None if score == "none" else lambda topics: float(judge.score(topics, X_test)),
        only_last=score == "last",
        **limits,
    )
    model = peers.METHODS[method](X, n_topics, clock, threads=threads, seed=seed, **(options or {}))
    result = {
        "checkpoints": clock.rows[-1:] if end_only else clock.rows,
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

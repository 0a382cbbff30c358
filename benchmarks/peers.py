"""Every way to learn topics that is compared, driven pass by pass under one clock.

A method is a function ``method(X, n_topics, clock, *, threads, seed, **options)``. It converts the
documents to its own input format, starts the clock, trains, and offers its topics to the clock's
checkpoints until the clock says stop. All get the same documents, a total mass of `ALPHA` for the
prior of a document's topics, and `ETA` for the prior of a topic's words.
"""

import itertools
import logging
import math
import resource
import sys
import tempfile
from time import perf_counter

import numpy as np

ALPHA = 0.5
ETA = 0.1


class Clock:
    """A stopwatch for training that stands still while topics are evaluated.

    Parameters
    ----------
    evaluate : callable or None
        ``evaluate(topics) -> float``, the score; None leaves it out.
    budget : float, default=None
        Training seconds after which to stop.
    passes : int, default=None
        Passes after which to stop; 0 stops before the first (where a method has a start).
    at_least : int, default=0
        Passes to make whatever the budget.
    only_last : bool, default=False
        Whether to evaluate the last checkpoint only.
    """

    def __init__(self, evaluate, *, budget=None, passes=None, at_least=0, only_last=False):
        if budget is None and passes is None:
            raise ValueError("a clock needs a budget or a number of passes")
        self.evaluate = evaluate
        self.budget = math.inf if budget is None else budget
        self.passes = math.inf if passes is None else passes
        self.at_least = at_least
        self.only_last = only_last
        self.rows = []
        self.start_seconds = None  # until the first pass began, where a method tells
        self.peak = None  # memory before the first evaluation, which needs some too
        self.reset()

    def reset(self):
        """Back to 0, standing still."""
        self.seconds = self.scored = 0.0
        self._since = None

    def start(self):
        """Let the clock run."""
        self._since = perf_counter()

    def stop(self):
        """Let the clock stand still."""
        if self._since is not None:
            self.seconds += perf_counter() - self._since
            self._since = None

    def checkpoint(self, passes, topics):
        """Note where the training stands, and whether it is to go on; off the clock.

        Parameters
        ----------
        passes : int
            Passes made so far.
        topics : callable or None
            Returns the topics, (n_topics, n_features), smoothed by their prior; None where nothing
            is evaluated.

        Returns
        -------
        go_on : bool
            Whether to go on; if so the clock is running again.
        """
        self.stop()
        # A sampler cuts its last stretch to the budget, and may be short of it by a little.
        in_time = self.seconds < 0.97 * self.budget
        go_on = passes < self.passes and (in_time or passes < self.at_least)
        row = {"passes": passes, "seconds": self.seconds}
        # Scoring a long curve takes longer than training: a tenth more time is a new point.
        due = self.seconds >= 1.1 * self.scored and not self.only_last
        if self.evaluate is not None and (due or not go_on):
            if self.peak is None:
                self.peak = peak_bytes()
            found = topics()
            row["score"], row["n_topics"] = self.evaluate(found), len(found)
            self.scored = self.seconds
        self.rows.append(row)
        if go_on:
            self.start()
        return go_on

    def next_stop(self, done):
        """Where a sampler checks next: 1, 2, 5, 10, 20, 40, ... sweeps, the last at the budget."""
        stop = next((n for n in (1, 2, 5, 10) if n > done), 2 * done)
        if len(self.rows) > 1 and done >= self.at_least:
            last, now = self.rows[-2:]
            rate = (now["passes"] - last["passes"]) / max(now["seconds"] - last["seconds"], 1e-9)
            stop = min(stop, done + max(1, math.ceil((self.budget - self.seconds) * rate)))
        return int(min(stop, self.passes))


def peak_bytes():
    """The most memory this process ever had, pages of mapped files included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


# ---------------------------------------------------------------------- ours


class _Started(Exception):
    """Ends a fit of which only the start is wanted."""


class _Pause:
    """Callback that notes the start and stops the clock at the end of a pass.

    It asks for no `fitted_estimator`, whose making would be on the clock if it did.
    """

    def __init__(self, clock):
        self.clock = clock

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        if context.task_name != "pass":
            self.begun = perf_counter()
        elif self.clock.start_seconds is None:
            self.clock.start_seconds = perf_counter() - self.begun
            if self.clock.passes == 0:
                raise _Started

    def on_fit_task_end(self, estimator, context):
        self.clock.stop()


class _Note(_Pause):
    """Callback that comes after `_Pause` and notes the pass, where nothing is scored.

    Fitted attributes, dense topics among them, would not be on the clock, but the next pass would
    find its own data gone from the processor's caches, which no peer's does.
    """

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name != "pass":
            return False
        return not self.clock.checkpoint(context.task_id + 1, None)


class _Evaluate(_Note):
    """The same, which offers the topics to the clock."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name != "pass":
            return False
        return not self.clock.checkpoint(
            context.task_id + 1, lambda: fitted_estimator.topic_word_distr_
        )


def sparsepost(X, n_topics, clock, *, threads, seed=0, **options):
    """SparseLDA with any parameters; the start is on the clock, the bound is left out."""
    from sklearn_sparsepost import SparseLDA

    return _fit_ours(SparseLDA, X, n_topics, clock, seed, {"tol": 0, **options})


def aliaslda(X, n_topics, clock, *, threads, seed=0, init_passes=0, inferred=False, **options):
    """AliasLDA with any parameters; samples are averaged after 30 sweeps, the start is timed.

    With `init_passes` it starts at the topics of so many passes of SparseLDA, on the clock; if
    `inferred`, with the seeds of SparseLDA and documents that are inferred under them first.
    """
    from sklearn_sparsepost import AliasLDA, SparseLDA

    if init_passes:
        first = SparseLDA(
            n_topics,
            topic_word_prior=ETA,
            max_iter=init_passes,
            evaluate_every=0,
            random_state=seed,
        )
        clock.start()
        options["init"] = first.fit(X).topic_word_distr_
        clock.stop()
    kind = AliasLDA
    if inferred:
        kind = type("Inferred", (AliasLDA,), {"_infers_first": True, "_seeding": {}})
    return _fit_ours(kind, X, n_topics, clock, seed, {"burn_in": 30, **options})


def gibbsctm(X, n_topics, clock, *, threads, seed=0, mapped=False, **options):
    """GibbsCTM with any parameters; samples are averaged after 30 sweeps, the start is timed.

    With `mapped` its logits are in a temporary file.
    """
    from sklearn_sparsepost import GibbsCTM

    options = {"burn_in": 30, **options}
    if not mapped:
        return _fit_ours(GibbsCTM, X, n_topics, clock, seed, options)
    with tempfile.TemporaryDirectory() as folder:
        options["memmap_folder"] = folder
        return _fit_ours(GibbsCTM, X, n_topics, clock, seed, options)


def sparsehdp(X, n_topics, clock, *, threads, seed=0, by_frequency=None, **options):
    """SparseHDP with any parameters, begun with `n_topics`; the start is on the clock.

    With `by_frequency` the prior of the topics' words is that of the corpus's frequencies, so much
    a word on average.
    """
    from sklearn_sparsepost import SparseHDP

    if by_frequency is not None:
        frequency = np.asarray(X.sum(axis=0)).ravel() + 1.0
        options["topic_word_prior"] = by_frequency * frequency / frequency.mean()
    return _fit_ours(SparseHDP, X, n_topics, clock, seed, {"tol": 0, **options})


def _fit_ours(estimator, X, n_topics, clock, seed, options):
    defaults = {
        "topic_word_prior": ETA,
        "max_iter": 1_000_000 if math.isinf(clock.passes) else max(1, clock.passes),
        "evaluate_every": 0,
        "random_state": seed,
    }
    if "doc_topic_prior" in estimator().get_params():
        defaults["doc_topic_prior"] = ALPHA / n_topics
    lda = estimator(n_topics, **{**defaults, **options})
    note = _Note if clock.evaluate is None else _Evaluate
    lda.set_callbacks(_Pause(clock), note(clock))
    clock.start()
    try:
        lda.fit(X)
    except _Started:
        clock.stop()
    return lda


# ---------------------------------------------------------------------- variational peers


def sklearn(X, n_topics, clock, *, threads, seed=0, learning_method="batch"):
    """scikit-learn's LatentDirichletAllocation, by the private steps that its `fit` consists of.

    It has no callback, and `partial_fit` makes online steps only. In double precision, as it
    computes for counts of integers: in single precision its constant `eps` is no longer small.
    """
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.utils import gen_batches

    lda = LatentDirichletAllocation(
        n_topics,
        doc_topic_prior=ALPHA / n_topics,
        topic_word_prior=ETA,
        learning_method=learning_method,
        evaluate_every=-1,
        n_jobs=threads,
        random_state=seed,
    )
    n_samples = X.shape[0]
    X = X.astype(np.float64)
    clock.start()
    lda._init_latent_vars(X.shape[1])
    for passes in itertools.count(1):
        if learning_method == "batch":
            lda._em_step(X, total_samples=n_samples, batch_update=True)
        else:
            for rows in gen_batches(n_samples, lda.batch_size):
                lda._em_step(X[rows], total_samples=n_samples, batch_update=False)
        if not clock.checkpoint(passes, lambda: lda.components_):
            return lda


class _Stop(Exception):
    """Ends the training of a peer that offers no other way."""


def gensim(X, n_topics, clock, *, threads, seed=0, learn_priors=False):
    """gensim's LdaModel, online in chunks of 2000 documents, in single precision as by default.

    All passes are made in one call, watched by a metric: every new call of `update` adds its
    documents to the size of the corpus, so that calls a pass would weigh the data ever more.
    """
    from gensim.models import LdaModel
    from gensim.models.callbacks import Metric

    logging.getLogger("gensim").setLevel(logging.ERROR)
    passes = itertools.count(1)

    class Watch(Metric):
        logger = "none"
        title = "watch"

        def get_value(self, *, model, **kwargs):
            if not clock.checkpoint(next(passes), model.get_topics):
                raise _Stop

    documents = [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(X.indptr)
    ]
    words = {v: str(v) for v in range(X.shape[1])}
    clock.start()
    model = LdaModel(
        id2word=words,
        num_topics=n_topics,
        # Learned priors begin where gensim has them begin: it takes no start for "auto".
        alpha="auto" if learn_priors else np.full(n_topics, ALPHA / n_topics, dtype=np.float32),
        eta="auto" if learn_priors else ETA,
        passes=1_000_000,
        eval_every=None,
        callbacks=[Watch()],
        random_state=seed,
    )
    try:
        model.update(documents)
    except _Stop:
        return model


def gensim_hdp(X, n_topics, clock, *, threads, seed=0):
    """gensim's HdpModel cut at `n_topics`, concentrations as ours, in its own chunks of 256.

    It trains in its constructor, watched where it asks whether to stop, and without the topics that
    it writes to its log meanwhile. Its topics are read off the clock: most words of a chunk are
    updated when they are next met.
    """
    from gensim.models import HdpModel

    logging.getLogger("gensim").setLevel(logging.ERROR)
    documents = [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(X.indptr)
        if a < b
    ]
    words = {v: str(v) for v in range(X.shape[1])}

    class Watched(HdpModel):
        passes = 0

        def print_topics(self, *args, **kwargs):
            pass

        def current_topics(self):
            self.update_expectations()
            return self.get_topics()

        def update_finished(self, start_time, chunks_processed, docs_processed):
            if docs_processed < (self.passes + 1) * len(documents):
                return False
            self.passes += 1
            return not clock.checkpoint(self.passes, self.current_topics)

    clock.start()
    return Watched(
        documents,
        words,
        K=min(15, n_topics),
        T=n_topics,
        alpha=ALPHA,
        gamma=10.0,
        eta=ETA,
        random_state=seed,
    )


# ---------------------------------------------------------------------- samplers


def tomotopy(X, n_topics, clock, *, threads, seed=0, learn_alpha=False):
    """tomotopy's LDAModel; `learn_alpha` learns one alpha a topic every 10 sweeps after 20.

    Its vector unit and the way it parallelises are its own choice. Documents are added off the
    clock, but the tables, made by the first call of `train`, are on it. Later calls go on.
    """
    import tomotopy as tp

    model = tp.LDAModel(k=n_topics, alpha=ALPHA / n_topics, eta=ETA, seed=seed)
    model.optim_interval = 10 if learn_alpha else 0
    model.burn_in = 20
    return _train_tomotopy(model, X, n_topics, clock, threads)


def tomotopy_ctm(X, n_topics, clock, *, threads, seed=0):
    """tomotopy's CTModel with its own defaults but for the topics' prior of words."""
    import tomotopy as tp

    model = tp.CTModel(k=n_topics, smoothing_alpha=ALPHA / n_topics, eta=ETA, seed=seed)
    return _train_tomotopy(model, X, n_topics, clock, threads)


def tomotopy_hdp(X, n_topics, clock, *, threads, seed=0):
    """tomotopy's HDPModel begun with so many topics, concentrations as ours; its live topics."""
    import tomotopy as tp

    model = tp.HDPModel(initial_k=n_topics, alpha=ALPHA, gamma=10.0, eta=ETA, seed=seed)
    return _train_tomotopy(model, X, None, clock, threads)


def _train_tomotopy(model, X, n_topics, clock, threads):
    """Train a model of so many topics, or of those that live."""
    names = np.array([str(v) for v in range(X.shape[1])], dtype=object)
    for a, b in itertools.pairwise(X.indptr):
        if a < b:
            model.add_doc(np.repeat(names[X.indices[a:b]], X.data[a:b]).tolist())

    def topics():
        which = range(model.k if n_topics is None else n_topics)
        if n_topics is None:
            which = [k for k in which if model.is_live_topic(k)]
        rows = np.array([model.get_topic_word_dist(k) for k in which])
        return _in_columns(rows, model.used_vocabs, X.shape[1])

    done, go_on = 0, True
    clock.start()
    while go_on:
        stop = clock.next_stop(done)
        model.train(stop - done, workers=threads)
        done = stop
        go_on = clock.checkpoint(done, topics)
    return model


def pyrmallet(X, n_topics, clock, *, threads, seed=0, learn_priors=False):
    """pyrmallet, the sparse sampler of Mallet in Rust; it has one thread.

    Topics are seen at the end of a training only, and no training can be continued, so that every
    checkpoint is a training of its own; they agree up to there, since the seed is the same. The
    last quarter of the sweeps is averaged in 5 samples, as it does by default in its own way.
    """
    from pyrmallet import _rust_mallet as mallet

    # Its tokens are letters only: "qaaab" is word 1.
    letters = ["".join(word) for word in itertools.product("abcdefghij", repeat=5)]
    names = np.array(["q" + word for word in letters[: X.shape[1]]], dtype=object)
    documents = [
        " ".join(np.repeat(names[X.indices[a:b]], X.data[a:b]))
        for a, b in itertools.pairwise(X.indptr)
    ]
    corpus = mallet.Corpus.from_strings(
        documents,
        doc_ids=[str(d) for d in range(len(documents))],
        stopwords=[],
        min_doc_freq=1,
        max_doc_fraction=1.0,
    )
    column = {name: str(v) for v, name in enumerate(names)}
    words = [column[name] for name in corpus.vocabulary]
    done, go_on = 0, True
    while go_on:
        done = clock.next_stop(done)
        samples, interval = (5, max(1, done // 20)) if done >= 10 else (1, 1)
        clock.reset()
        clock.start()
        model = mallet.train(
            corpus,
            num_topics=n_topics,
            iterations=done - samples * interval,
            num_samples=samples,
            sample_interval=interval,
            alpha_sum=ALPHA,
            beta=ETA,
            burn_in=20,
            optimize_interval=10 if learn_priors else 0,
            seed=seed,
        )
        go_on = clock.checkpoint(
            done,
            lambda model=model: _in_columns(np.array(model.topic_word_matrix()), words, X.shape[1]),
        )
    return model


def _in_columns(rows, words, n_features):
    """Topics over a peer's own vocabulary in the columns of X.

    A word that no training document has gets what the topic gives to words that it never used,
    which is its least probability, the smoothing.
    """
    topics = np.repeat(rows.min(axis=1, keepdims=True), n_features, axis=1).astype(np.float64)
    topics[:, [int(word) for word in words]] = rows
    return topics


def lda(X, n_topics, clock, *, threads, seed=0):
    """The package lda, collapsed Gibbs sampling on one thread, by the steps of its `fit`.

    Without the log-likelihood that `fit` computes every 10 sweeps. The documents are turned into
    its lists beforehand, since its own way of doing so takes longer than some trainings.
    """
    import lda as package

    logging.getLogger("lda").setLevel(logging.ERROR)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    lists = tuple(np.repeat(ids, X.data).astype(np.intc) for ids in (X.indices, rows))
    package.utils.matrix_to_lists = lambda X: lists
    model = package.LDA(n_topics, alpha=ALPHA / n_topics, eta=ETA, random_state=seed)
    random_state = package.utils.check_random_state(seed)
    rands = model._rands.copy()
    done, go_on = 0, True
    clock.start()
    model._initialize(X)
    while go_on:
        stop = clock.next_stop(done)
        for _ in range(stop - done):
            random_state.shuffle(rands)
            model._sample_topics(rands)
        done = stop
        go_on = clock.checkpoint(done, lambda: model.nzw_ + ETA)
    return model


METHODS = {
    "sparsepost": sparsepost,
    "aliaslda": aliaslda,
    "gibbsctm": gibbsctm,
    "sparsehdp": sparsehdp,
    "sklearn": sklearn,
    "gensim": gensim,
    "gensim_hdp": gensim_hdp,
    "tomotopy": tomotopy,
    "tomotopy_ctm": tomotopy_ctm,
    "tomotopy_hdp": tomotopy_hdp,
    "pyrmallet": pyrmallet,
    "lda": lda,
}

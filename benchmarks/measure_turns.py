"""Sweeps on one thread and on several in turns, so that both meet the same moments of a machine."""

from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from time import perf_counter

import corpora
import peers


class _InTurn:
    """Callback that makes a pass when its turn has come, and times it."""

    def __init__(self):
        self.turn, self.other, self.seconds = Semaphore(0), None, []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        self.other.turn.release(1_000_000)  # it may be that an error has ended this fit

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "pass":
            self.turn.acquire()
            self.begun = perf_counter()

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "pass":
            self.seconds.append(perf_counter() - self.begun)
            self.other.turn.release()
        return False


def turns(corpus, n_topics, *, passes, threads, options=None, seed=0):
    """Seconds of sweeps of two fits that differ in their threads alone, one sweep each in turns.

    A machine that is shared changes its pace within seconds, and more so with all its cores in use.
    Fits one after the other then differ by more than their threads make, neighbours hardly.

    Parameters
    ----------
    corpus, n_topics, options, seed
        As for :func:`measure_topics.curve`, of AliasLDA.
    passes : int
        Sweeps of each.
    threads : int
        Of the second; the first has one.

    Returns
    -------
    result : dict
        `seconds` of the sweeps of either, the first and the last left out; both have the same
        topics in every sweep.
    """
    from sklearn_sparsepost import AliasLDA

    X, _ = corpora.load(corpus)
    one, several = _InTurn(), _InTurn()
    one.other, several.other = several, one
    priors = {"doc_topic_prior": peers.ALPHA / n_topics, "topic_word_prior": peers.ETA}
    settings = {**priors, "max_iter": passes, "evaluate_every": 0, "random_state": seed}

    def fit(n_jobs, callback):
        model = AliasLDA(n_topics, n_jobs=n_jobs, **{**settings, **(options or {})})
        return model.set_callbacks(callback).fit(X)

    one.turn.release()
    with ThreadPoolExecutor(2) as pool:
        fits = [pool.submit(fit, 1, one), pool.submit(fit, threads, several)]
        first, second = (each.result() for each in fits)
    assert (first.components_ == second.components_).all()
    return {"seconds": {"1": one.seconds[1:-1], f"{threads}": several.seconds[1:-1]}}

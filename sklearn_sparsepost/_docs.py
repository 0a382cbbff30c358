"""Texts of parameters and attributes that several estimators have, each told once."""

import re

TEXTS = {
    "learning_method": """learning_method : {"memoized", "online", "batch"}, default="memoized"
        How the components move.

        - "memoized": a global step after every one of `n_batches` batches, whose old statistics
          are replaced exactly by the new ones: no step size, and the bound of the whole data.
        - "online": stochastic variational inference on random batches of `batch_size` samples,
          with steps of ``(learning_offset + t) ** -learning_decay``.
        - "batch": coordinate ascent, one global step a pass.""",
    "n_batches": """n_batches : int or "auto", default="auto"
        Batches a pass of memoized learning, at most one a sample. Each keeps its statistics.
        "auto" takes 10, and 4 where `X` is a Dask array of several blocks, whose workers wait for
        each other after every batch.""",
    "learning_decay": """learning_decay : float, default=0.7
        Decay of the online step size, in (0.5, 1] for convergence; kappa in the literature.""",
    "total_samples": """total_samples : float, default=None
        Number of samples that a stream is thought to have, for :meth:`partial_fit` only. By
        default a million; after a :meth:`fit`, as many as have been seen by then, its own
        included.""",
    "warm_start": """warm_start : bool, default=False
        Whether :meth:`fit` goes on from the present fit. On the same data it goes on exactly: 5
        and 5 passes give the same bytes as 10, and an interrupted fit can be finished.""",
    "n_jobs": """n_jobs : int, default=None
        Cores to use; 1 is one thread. None is the number of workers that `joblib.parallel_config`
        gives, if it gives more than one, and else as many threads as OMP_NUM_THREADS or the cores
        of this machine allow. Results do not depend on it.""",
    "workers": """Workers take chunks of samples; they are threads unless a backend (loky, dask,
        ray) is named there. BLAS has one thread in each.""",
    "random_state": """random_state : int, RandomState instance or None, default=None
        Seeds the start and every other draw. The same integer gives the same bytes for any number
        of workers and threads.""",
    "verbose": """verbose : int, default=0
        Whether to print a line a pass.""",
    "n_batch_iter_": """n_batch_iter_ : int
        Number of steps made in online learning and by :meth:`partial_fit`.""",
    "n_samples_seen_": """n_samples_seen_ : int
        Number of samples of the last :meth:`fit`, and of :meth:`partial_fit` since.""",
    "features": """n_features_in_ : int
        Number of features seen during :term:`fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during :term:`fit`. Defined only when `X` has feature names that
        are all strings.""",
}


def with_shared_texts(cls):
    """Put the texts where a class's docstring names them, as ``{name}`` on a line of its own."""
    if cls.__doc__:  # there is none under python -OO
        cls.__doc__ = re.sub(
            r"^( +)\{(\w+)\}$", lambda found: found[1] + TEXTS[found[2]], cls.__doc__, flags=re.M
        )
    return cls

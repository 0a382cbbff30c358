"""Measurements of data on worker processes, and of fits that are killed or interrupted."""

# How often what is compared in seconds is measured.
ROUNDS = 3
# Memoized learning waits for all workers once a batch: in as many as "auto" takes of a Dask array,
# and of an array.
LEARNING = {
    "memoized in 4 batches": {"learning_method": "memoized", "n_batches": 4},
    "memoized in 10 batches": {"learning_method": "memoized", "n_batches": 10},
    "batch": {"learning_method": "batch"},
}
# Chains of data here are drawn by threads: of joblib's processes there is none to be killed.
NO_WORKERS = {("loky", "AliasLDA"), ("loky", "GibbsCTM")}
# And chains remember no sums.
NO_WORKERS |= {("dask, sums", "AliasLDA"), ("dask, sums", "GibbsCTM")}


def on_clusters(quick=False):
    """Data on worker processes and on threads of one, as :func:`experiments`."""
    found = []
    words = {"corpus": "kos", "n_topics": 20} if quick else {"corpus": "arxiv300k", "n_topics": 500}
    patches = {"corpus": "bsds500", "n_topics": 20 if quick else 800}
    if quick:
        patches["n_samples"] = 2000
    n_rounds = 1 if quick else ROUNDS
    for spec in (words, patches):
        for learning, options in LEARNING.items():
            name = f"cluster/{spec['corpus']}-{spec['n_topics']}/{learning}"
            _on_workers(found, name, {**spec, "options": options}, n_rounds)
    # Sums that are dense, and many: what it saves a client to have no room for them.
    name = f"cluster/bsds500-{patches['n_topics']}/memoized in 40 batches"
    options = {"learning_method": "memoized", "n_batches": 40}
    spec = {"kind": "cluster", **patches, "options": options, "n_workers": 2}
    seconds = {"2 workers": {}, "2 workers, sums there alone": {"sums": "there alone"}}
    _in_turns(found, name, spec, seconds, n_rounds)
    return found


def _on_workers(found, name, spec, n_rounds):
    """Add what is measured of one fit: bytes, and seconds on one thread, two, and workers."""
    spec = {"kind": "cluster", **spec}
    found.append((f"{name}, bytes", {**spec, "n_workers": 2, "counts": True}))
    seconds = {
        "1 thread": {"n_workers": 0},
        "2 threads": {"n_workers": 0, "threads": 2},
        "1 worker": {"n_workers": 1},
        "1 worker of 2 threads": {"n_workers": 1, "threads": 2},
        "2 workers": {"n_workers": 2},
    }
    if not name.endswith("10 batches"):
        seconds["2 workers, Dask as it comes"] = {"n_workers": 2, "quiet": False}
    if name.endswith("4 batches"):
        for where in ("there alone", "here alone"):
            seconds[f"2 workers, sums {where}"] = {"n_workers": 2, "sums": where}
    _in_turns(found, name, spec, seconds, n_rounds)
    if name.endswith("/batch"):  # to see how far the simulation of more is right
        found.append((f"{name}, 4 workers", {**spec, "n_workers": 4}))


def _in_turns(found, name, spec, seconds, n_rounds):
    """Add fits that take turns, since machines have better and worse hours."""
    for number in range(n_rounds):
        of = f"#{number}" if number else ""
        found += [(f"{name}, {label}{of}", {**spec, **more}) for label, more in seconds.items()]


def after_faults(quick=False):
    """Fits that are killed, interrupted or out of disk, as :func:`experiments`."""
    found = []
    # What is tried of how many moments, in how many measurements of other moments each.
    tried = {"checkpoint": (50, 4), "interrupt": (250, 4), "full disk": (50, 4)}
    tried |= {"dask": (20, 10), "loky": (20, 10), "dask, sums": (20, 5)}
    every = [
        (repeat, fault, n_moments)
        for repeat in range(1 if quick else 10)
        for fault, (n_moments, n_repeats) in tried.items()
        if repeat < n_repeats
    ]
    for repeat, fault, n_moments in every:
        for estimator in ("SparseLDA", "SparseHDP", "SparseMixture", "AliasLDA", "GibbsCTM"):
            if (fault, estimator) in NO_WORKERS:
                continue
            corpus = "bsds500" if estimator == "SparseMixture" else "kos"
            spec = {"kind": "faults", "corpus": corpus, "n_topics": 20, "estimator": estimator}
            spec |= {"fault": fault, "n_moments": 4 if quick else n_moments, "seed": repeat}
            key = f"faults/{corpus}-20/{estimator}, {fault}"
            found.append((f"{key}#{repeat}" if repeat else key, spec))
    return found

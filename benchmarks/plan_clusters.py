"""Measurements of data on worker processes, and of fits that are killed or interrupted."""

# How often what is compared in seconds is measured.
ROUNDS = 3
# Memoized learning waits for all workers once a batch: besides the default, fewer are measured.
FEW_BATCHES = 4
# Chains of data here are drawn by threads: of joblib's processes there is none to be killed.
NO_WORKERS = {("loky", "AliasLDA"), ("loky", "GibbsCTM")}


def on_clusters(quick=False):
    """Data on worker processes and on threads of one, as :func:`experiments`."""
    found = []
    words, topics = ("kos", 20) if quick else ("arxiv300k", 500)
    for method in ("memoized", "batch"):
        spec = {"corpus": words, "n_topics": topics, "options": {"learning_method": method}}
        name = f"cluster/{words}-{topics}/{method}"
        _on_workers(found, name, spec, 1 if quick else ROUNDS)
        profiled = {"kind": "cluster", "n_workers": 2, "profiled": True}
        found.append((f"{name}, 2 workers, profiled", {**spec, **profiled}))
    _in_few_batches(found, {"corpus": words, "n_topics": topics}, quick)
    spec = {"corpus": "bsds500", "n_topics": 20 if quick else 800}
    if quick:
        spec["n_samples"] = 2000
    for method in ("memoized", "batch"):
        spec = {**spec, "options": {"learning_method": method}}
        name = f"cluster/bsds500-{spec['n_topics']}/{method}"
        _on_workers(found, name, spec, 1 if quick else ROUNDS)
    _in_few_batches(found, spec, quick)
    return found


def _in_few_batches(found, spec, quick):
    """Add memoized learning in few batches."""
    spec = {**spec, "options": {"n_batches": FEW_BATCHES}}
    name = f"cluster/{spec['corpus']}-{spec['n_topics']}/memoized in {FEW_BATCHES} batches"
    _on_workers(found, name, spec, 1 if quick else ROUNDS)


def _on_workers(found, name, spec, n_rounds):
    """Add what is measured of one fit: bytes, and seconds on one thread, two, and workers."""
    spec = {"kind": "cluster", **spec}
    found.append((f"{name}, bytes", {**spec, "n_workers": 2, "counts": True}))
    seconds = {
        "1 thread": {"n_workers": 0},
        "2 threads": {"n_workers": 0, "threads": 2},
        "1 worker": {"n_workers": 1},
        "2 workers": {"n_workers": 2},
    }
    for number in range(n_rounds):  # in turns, since machines have better and worse hours
        of = f"#{number}" if number else ""
        found += [(f"{name}, {label}{of}", {**spec, **more}) for label, more in seconds.items()]
    if name.endswith("/batch"):  # to see how far the simulation of more is right
        found.append((f"{name}, 4 workers", {**spec, "n_workers": 4}))


def after_faults(quick=False):
    """Fits that are killed, interrupted or out of disk, as :func:`experiments`."""
    found = []
    # What is tried of how many moments, in how many measurements of other moments each.
    tried = {"checkpoint": (50, 4), "interrupt": (250, 4), "full disk": (50, 4)}
    tried |= {"dask": (20, 10), "loky": (20, 10)}
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

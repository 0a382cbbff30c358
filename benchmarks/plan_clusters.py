"""Measurements of data on worker processes, and of fits that are killed or interrupted."""

# Chains of data here are drawn by threads: of joblib's processes there is none to be killed.
NO_WORKERS = {("loky", "AliasLDA"), ("loky", "GibbsCTM")}


def on_clusters(quick=False):
    """Data on worker processes and on threads of one, as :func:`experiments`."""
    found = []
    words, topics = ("kos", 20) if quick else ("arxiv300k", 500)
    for method in ("memoized", "batch"):
        spec = {"corpus": words, "n_topics": topics, "options": {"learning_method": method}}
        name = f"cluster/{words}-{topics}/{method}"
        _on_workers(found, name, spec)
        profiled = {"kind": "cluster", "n_workers": 2, "profiled": True}
        found.append((f"{name}, 2 workers, profiled", {**spec, **profiled}))
    spec = {"corpus": "bsds500", "n_topics": 20 if quick else 800}
    if quick:
        spec["n_samples"] = 2000
    _on_workers(found, f"cluster/bsds500-{spec['n_topics']}/memoized", spec)
    spec["options"] = {"learning_method": "batch"}
    _on_workers(found, f"cluster/bsds500-{spec['n_topics']}/batch", spec)
    # Every batch of memoized learning visits all blocks: fewer of them cost less.
    few = [(f"{key} in 4 blocks,{of}", spec) for key, of, spec in _memoized(found)]
    return found + [(key, {**spec, "n_blocks": 4}) for key, spec in few]


def _memoized(found):
    """Keys, without what is measured, of seconds of memoized learning, what that is, and specs."""
    for name, spec in found:
        key, _, label = name.partition(",")
        if key.endswith("/memoized") and not spec.get("counts") and not spec.get("profiled"):
            yield key, label, spec


def _on_workers(found, name, spec):
    """Add what is measured of one fit: bytes, and seconds on one thread, two, and workers."""
    spec = {"kind": "cluster", **spec}
    found.append((f"{name}, bytes", {**spec, "n_workers": 2, "counts": True}))
    found.append((f"{name}, 1 thread", {**spec, "n_workers": 0}))
    found.append((f"{name}, 2 threads", {**spec, "n_workers": 0, "threads": 2}))
    found.append((f"{name}, 1 worker", {**spec, "n_workers": 1}))
    found.append((f"{name}, 2 workers", {**spec, "n_workers": 2}))
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

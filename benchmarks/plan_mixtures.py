"""Measurements of mixtures: passes, neighbours, threads, starts."""


def mixtures(quick=False):
    """The measurements of mixtures, as :func:`experiments` returns them."""
    found = []

    def add(key, n_components, label, method="sparsepost", kind="mixture", **spec):
        spec = {"kind": kind, "corpus": "bsds500", "method": method, **spec}
        found.append((f"{key}/bsds500-{n_components}/{label}", {"n_topics": n_components, **spec}))

    n_samples, sizes = (5000, (20, 40)) if quick else (100_000, (200, 400, 800, 1600))
    few = sizes[0]
    neighbours = {"sparsity_level": 4, "n_neighbors": 8, "learning_method": "batch"}
    # Enough passes to go on for as long as scikit-learn's few take.
    maximum = {"sparsity_level": 8, "estimation": "ml"}
    for dtype in ("float64", "float32"):
        spec = {"n_samples": n_samples, "dtype": dtype}
        add("mixture", few, f"scikit-learn {dtype}", "sklearn", **spec)
        for level in (1, 4, 8, 16, None):
            label = f"{'dense' if level is None else f'L={level}'} {dtype}"
            options = {"sparsity_level": level, "learning_method": "batch"}
            add("mixture", few, label, options=options, **spec)
        add("mixture", few, f"L=4, 8 neighbours {dtype}", options=neighbours, **spec)
        for learning in ("batch", "memoized"):
            label = f"L=8, ml, {learning} {dtype}"
            options = {**maximum, "learning_method": learning}
            add("mixture", few, label, options=options, passes=40, **spec)
    add("mixture-parts", few, "turns", kind="parts of a pass", n_samples=n_samples)
    for unit in ("avx2", "avx512"):
        spec = {"kind": "precisions", "n_samples": n_samples, "vector_unit": unit}
        add("mixture-precisions", few, unit, **spec)
    add("mixture-single", few, "sums", kind="single sums", n_samples=n_samples)
    spec = {"n_samples": n_samples, "dtype": "float64"}
    add("mixture-distance", few, "dense", kind="responsibilities", **spec)
    for k in sizes:
        for dtype in ("float64", "float32"):
            spec = {"n_samples": n_samples, "dtype": dtype, "score": False}
            for more in ({}, {"n_neighbors": 8}):
                label = "8 neighbours" if more else "exact"
                options = {"learning_method": "batch", **more}
                add("mixture-size", k, f"{label}, {dtype}", options=options, **spec)
    for repeat in range(5):
        for dtype in ("float64", "float32"):
            for threads in (1, 2):
                spec = {"n_samples": n_samples, "dtype": dtype, "score": False}
                options = {"learning_method": "batch"}
                label = f"{threads}" + (f"#{repeat}" if repeat else "")
                key = f"mixture threads, {dtype}"
                add(key, few, label, options=options, threads=threads, **spec)
    spec = {"n_samples": n_samples if quick else None, "dtype": "float32", "threads": 2}
    found.extend(mixture_starts(quick))
    add("mixture-all", few if quick else 800, "memoized", passes=3 if quick else 10, **spec)
    return found


def mixture_starts(quick=False):
    """Starts of mixtures, and the time to scikit-learn's level, as :func:`experiments` does."""
    found = []
    likely = {"estimation": "ml"}
    data = [("bsds500", 100, likely), ("digits", 30, {}), ("newsgroups20", 50, {})]
    data += [("blobs", 20, {}), ("tails", 20, {}), ("photographs", 50, likely)]
    data += [
        ("bits", 30, {"observation": "bernoulli"}),
        ("kos", 20, {"observation": "multinomial"}),
    ]
    starts = ("agglomerative", "k-means++", "kmeans", "random_from_data", "random")
    of_counts = ("agglomerative", "k-means++", "random")  # the others are for dense rows
    spec = {"kind": "mixture_start", "passes": 2 if quick else 10}
    for corpus, k, options in data[1::6] if quick else data:
        for start in of_counts if corpus == "kos" else starts:
            for seed in range(2 if quick else 5):
                key = f"mixture-start/{corpus}-{k}/{start} {seed}"
                more = {"method": start, "options": options, "seed": seed}
                found.append((key, {"corpus": corpus, "n_topics": k, **spec, **more}))
        if corpus == "bsds500":  # what priors do to the same data
            for seed in range(2 if quick else 5):
                key = f"mixture-start/{corpus}-{k}/agglomerative, bayes {seed}"
                more = {"method": "agglomerative", "options": {}, "seed": seed}
                found.append((key, {"corpus": corpus, "n_topics": k, **spec, **more}))
    n_samples, sizes = (3000, (10,)) if quick else (40_000, (100, 200))
    spec = {"kind": "mixture", "corpus": "bsds500", "n_samples": n_samples, "coordinates": True}
    for k in sizes:
        options = {"assume_centered": False, **likely}
        for label, method, passes in (("scikit-learn", "sklearn", 15), ("ours", "sparsepost", 30)):
            key = f"mixture-level/bsds500-{k}/{label}"
            more = {"method": method, "options": options, "passes": passes}
            found.append((key, {"n_topics": k, **spec, **more}))
    return found

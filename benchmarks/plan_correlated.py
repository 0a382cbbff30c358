"""Measurements of correlated topics."""


def correlated(quick=False):
    """The measurements of correlated topics, as :func:`experiments` returns them."""
    found = []

    def add(key, corpus, n_topics, label, method="gibbsctm", **spec):
        spec = {"kind": "curve", "method": method, "corpus": corpus, **spec}
        found.append((f"{key}/{corpus}-{n_topics}/{label}", {**spec, "n_topics": n_topics}))

    few, passes = (20, 4) if quick else (50, 400)
    factors = {"covariance_type": "factor", "n_factors": 4 if quick else 16}
    plan = [("kos", few)] if quick else [("kos", 50), ("newsgroups20", 100), ("ohsumed", 100)]
    learned = {"doc_topic_prior": "auto"}
    for corpus, k in plan:
        n = passes if corpus == "kos" else 200
        spec = {"kind": "completion", "passes": n}
        add("completion", corpus, k, "AliasLDA", "aliaslda", options=learned, **spec)
        for label, options in (
            ("full", {}),
            ("factor", factors),
            ("diag", {"covariance_type": "diag"}),
            ("Polya-Gamma", {"logit_sampler": "polya-gamma"}),
        ):
            add("completion", corpus, k, label, options=options, **spec)

    budget = 2 if quick else 60
    for label, method, options in (
        ("GibbsCTM", "gibbsctm", {}),
        ("AliasLDA", "aliaslda", learned),
        ("SparseLDA", "sparsepost", learned),
        ("tomotopy, correlated", "tomotopy_ctm", {}),
    ):
        # Seeds differ by as much as models whose tokens are drawn alike.
        for seed in range(3 if method in ("gibbsctm", "aliaslda") and not quick else 1):
            name = f"{label}, seed {seed}" if seed else label
            spec = {"options": options, "budget": budget, "seed": seed}
            add("correlated", "kos", few, name, method, **spec)

    for k in (10, 20) if quick else (50, 100, 200, 400, 1000):
        for label, options in (("full", {}), ("factor", factors)):
            add("ctm sweeps", "kos", k, label, options=options, passes=6, score="none")
    for label, options in (("full", {}), ("factor", factors)):
        for repeat in range(5):
            for threads in (1, 2):
                spec = {"options": options, "threads": threads, "passes": 30, "score": "none"}
                key = f"{threads}#{repeat}" if repeat else f"{threads}"
                add(f"ctm threads, {label}", *plan[-1], key, **spec)

    for corpus, k in plan[:1] if quick else [("kos", 100), ("newsgroups20", 100)]:
        add("logits", corpus, k, "full", kind="logits", passes=10 if quick else 1000, threads=2)

    n_draws = 2_000 if quick else 100_000
    add("polya-gamma", "none", 0, "distance", kind="approximations", n_draws=n_draws)

    # Figures 5 and 6 of the paper: over topics; over sweeps and steps; over the prior.
    for k in (10, 20) if quick else (20, 40, 60, 80, 100):
        spec = {"kind": "completion", "passes": 4 if quick else 150}
        add("ctm over topics", "kos", k, "full", **spec)
    for steps in (1, 2) if quick else (1, 2, 4, 8, 16):
        spec = {"options": {"n_logit_steps": steps}, "budget": 1 if quick else 20}
        add("ctm over steps", "kos", few, f"{steps}", **spec)
    for strength in (1, 256) if quick else (1, 4, 16, 64, 256, 1024):
        options = {
            "mean_precision_prior": strength,
            "degrees_of_freedom_prior": strength + few - 1,
        }
        spec = {"kind": "completion", "passes": 4 if quick else 150, "options": options}
        add("ctm over priors", "kos", few, f"{strength}", **spec)

    corpus, k = ("kos", 20) if quick else ("arxiv300k", 500)
    options = {**factors, "mapped": True, "max_iter": 20}
    spec = {"options": options, "threads": 2, "passes": 3 if quick else 20, "score": "none"}
    spec["tree"] = (3, 6) if quick else (12, 48)
    add("arxiv", corpus, k, "GibbsCTM, factor, mapped", **spec)
    return found

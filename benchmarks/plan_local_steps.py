"""Measurements of local steps: point estimates, posteriors, sampled steps."""

GIBBS = {"local_step": "gibbs"}
LOCAL_STEPS = [
    ("map", "sparsepost", {"estimation": "map"}),
    ("map, no restarts", "sparsepost", {"estimation": "map", "restarts": 0}),
    ("bayes", "sparsepost", {"estimation": "bayes"}),
    ("gibbs", "sparsepost", GIBBS),
    ("map, online", "sparsepost", {"estimation": "map", "learning_method": "online"}),
    ("gibbs, online", "sparsepost", {"local_step": "gibbs", "learning_method": "online"}),
    ("AliasLDA", "aliaslda", {}),
    ("tomotopy", "tomotopy", {}),
]
SWEEPS = [
    ("AliasLDA", "aliaslda", {}),
    ("memoized", "sparsepost", GIBBS),
    ("batch", "sparsepost", {**GIBBS, "learning_method": "batch"}),
    ("online", "sparsepost", {**GIBBS, "learning_method": "online"}),
    ("memoized, 5 and 5", "sparsepost", {**GIBBS, "burn_in": 5, "n_sweeps": 5}),
]
RESTARTS = [
    ("none", {"restarts": 0}),
    ("above 0", {"restarts_above": 0}),
    ("above 3", {"restarts_above": 3}),
    ("above 4", {"restarts_above": 4}),
    ("prior", {}),
]


def restarts(quick=False):
    """Which documents restarts are for, on splits and seeds that nothing else is reported on."""
    plan = [
        ("kos", 50, (1, 2, 3), {"passes": 20}),
        ("ohsumed", 100, (1, 2), {"passes": 20}),
        ("newsgroups20", 200, (1, 2), {"passes": 20}),
        ("nips", 200, (1, 2), {"passes": 20}),
        ("arxiv300k", 300, (1,), {"passes": 12, "share": 10}),
        ("arxiv300k", 500, (1,), {"passes": 6}),
    ]
    found = []
    for corpus, k, splits, limits in [("kos", 20, (1,), {"passes": 3})] if quick else plan:
        for label, options in RESTARTS:
            for split in splits:
                spec = {"corpus": corpus, "n_topics": k, "method": "sparsepost", "split": split}
                spec |= {"options": options, "seed": split, "threads": 2, "score": "last", **limits}
                key = f"restarts/{corpus}-{k}/{label}, split {split}"
                found.append((key, {"kind": "curve", **spec}))
    return found


def local_steps(quick=False):
    """The measurements of local steps, as :func:`experiments` returns them."""
    found = []

    def add(key, corpus, n_topics, label, method="sparsepost", **spec):
        spec = {"kind": "curve", "method": method, **spec}
        found.append((f"{key}/{corpus}-{n_topics}/{label}", {"corpus": corpus, **spec}))
        found[-1][1]["n_topics"] = n_topics

    # Drawn topics are averaged after about half of the passes that there is time for.
    plan = [
        ("kos", 50, 20, 10),
        ("newsgroups20", 200, 30, 8),
        ("newsgroups20", 800, 20, 3),
        ("nips", 200, 20, 4),
    ]
    for corpus, k, budget, after in [("kos", 20, 2, 3)] if quick else plan:
        for label, method, options in LOCAL_STEPS:
            for seed in range(2 if quick else 3):
                averages = {"average_after": after} if label == "gibbs" else {}
                spec = {"options": {**options, **averages}, "budget": budget, "seed": seed}
                if "online" in label:
                    spec["coherent"] = True
                add("local steps", corpus, k, f"{label}, seed {seed}", method, **spec)
    corpus, k, budget = ("kos", 20, 2) if quick else ("arxiv300k", 500, 90)
    for label, method, options in LOCAL_STEPS:
        if label in ("bayes", "AliasLDA", "tomotopy"):
            continue
        options = {**options, "average_after": 2} if label == "gibbs" else options
        long = 1
        if "online" in label:
            # A step's cost is that of its words' rows of topics: for both alike, larger batches.
            # Drawn topics are slower here: longer than the others, to see whether they catch up.
            options, long = {**options, "batch_size": 2048}, 3
            if label == "gibbs, online":  # chosen on a quarter of the corpus, split otherwise
                options |= {"burn_in": 16, "n_sweeps": 1}
        spec = {"options": options, "budget": long * budget, "threads": 2, "coherent": long > 1}
        add("local steps, 2 threads", corpus, k, label, method, **spec)
        if "online" in label:  # a step that forgets sooner helped both on another split
            spec["options"] = {**options, "learning_decay": 0.6}
            add("local steps, 2 threads", corpus, k, f"{label}, decay 0.6", method, **spec)

    # Tokens that are drawn a second: AliasLDA's settle over more passes.
    for repeat in range(2 if quick else 3):
        for label, method, options in SWEEPS:
            spec = {"options": options, "passes": 60 if method == "aliaslda" else 10}
            label = f"{label}#{repeat}" if repeat else label
            corpus, k = ("kos", 20) if quick else ("newsgroups20", 200)
            add("drawn tokens", corpus, k, label, method, score="none", **spec)

    corpus = "kos" if quick else "newsgroups20"
    for k in (10, 20) if quick else (200, 400, 800, 1600, 3200):
        for label, options in (
            ("gibbs", {"local_step": "gibbs"}),
            ("gibbs, bayes", {"local_step": "gibbs", "estimation": "bayes"}),
            ("L=8", {}),
            ("dense", {"sparsity_level": None}),
        ):
            add("minibatch", corpus, k, label, kind="minibatch", options=options)
    k = 20 if quick else 800
    for n_words in (2000, 5000) if quick else (2500, 5000, 10000, 20000):
        spec = {"kind": "minibatch", "options": {"local_step": "gibbs"}, "n_words": n_words}
        add("minibatch over words", corpus, k, f"{n_words}", **spec)
    return found

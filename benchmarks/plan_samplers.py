"""Measurements of samplers: their sweeps, starts, Pitman-Yor topics, Dirichlet processes."""

# The first ten or so are slower than all that follow: documents have many topics then.
SWEEPS = 30
# Over topics and over the size of a corpus; the last takes what "auto" does.
COMPARED = ("alias", "sparse", "by_word")
PROCESS_DOCUMENTS = {"doc_topic_prior_type": "dirichlet_process", "doc_topic_prior": None}
PITMAN_YOR = {"topic_word_prior_type": "pitman_yor"}
# With a `burn_in` to speak of the first sweeps of Pitman-Yor topics would be those of LDA.
SEATED = {"burn_in": 1, "sample_every": 1000}


def samplers(quick=False):
    """The measurements of samplers alone, as :func:`experiments` returns them."""
    found = []

    def add(key, corpus, n_topics, label, method="aliaslda", *, repeat=0, **spec):
        key = f"{key}/{corpus}-{n_topics}/{label}" + (f"#{repeat}" if repeat else "")
        spec = {"kind": "curve", "method": method, "score": "none", **spec}
        found.append((key, {"corpus": corpus, "n_topics": n_topics, **spec}))

    news, arxiv = ("kos", "kos") if quick else ("newsgroups20", "arxiv300k")
    few, some, many = (10, 20, 40) if quick else (200, 800, 3200)

    for k in (few, some, many):
        for repeat in range(3):
            # The others need many seconds a sweep with many topics.
            once = () if k == many and repeat else ("sparse", "cycle", "dense")
            for sampler in ("auto", "alias", *once):
                passes = 10 if sampler == "dense" else SWEEPS  # it weighs all topics at any time
                spec = {"options": {"sampler": sampler}, "passes": passes, "repeat": repeat}
                add("sweeps", news, k, sampler, **spec)
            for method in ("tomotopy",) if repeat else ("tomotopy", "pyrmallet"):
                if k < many:
                    spec = {"budget": 1 if quick else 15, "repeat": repeat}
                    add("sweeps", news, k, method, method, **spec)

    # Does "auto" take the fastest?
    for k in (4, 8) if quick else (4, 50, 400, 1600):
        for repeat in range(3):
            dense = ("dense",) if k < 400 else ()
            for sampler in ("auto", "alias", "sparse", *dense):
                spec = {"options": {"sampler": sampler}, "passes": SWEEPS, "repeat": repeat}
                add("sweeps", news, k, sampler, **spec)

    # A small corpus and few topics.
    for repeat in range(0 if quick else 3):
        add("sweeps", "kos", 50, "tomotopy", "tomotopy", budget=8, repeat=repeat)
        add("sweeps", "kos", 50, "auto", passes=100, repeat=repeat)

    for k in (few, 5 * few):
        for label, options in (
            ("LDA", {}),
            ("Pitman-Yor", SEATED | PITMAN_YOR),
            ("HDP, sampled", PROCESS_DOCUMENTS),
        ):
            for repeat in range(1 if quick else 3):
                key = f"sweep threads/{news}-{k}/{label}" + (f"#{repeat}" if repeat else "")
                spec = {"kind": "turns", "corpus": news, "n_topics": k, "options": options}
                found.append((key, {**spec, "threads": 2, "passes": 2 * SWEEPS}))

    # Li et al. 2014 show the time of a sweep over topics and over the size of the corpus.
    for repeat in range(1 if quick else 3):
        for k in (8, 16) if quick else (256, 512, 1024, 2048, 4096):
            for sampler in COMPARED:
                spec = {"options": {"sampler": sampler}, "passes": 5, "repeat": repeat}
                add("over topics", news, k, sampler, **spec)
        for share in (32, 8, 2):
            for sampler in COMPARED:
                spec = {"options": {"sampler": sampler}, "passes": 5, "repeat": repeat}
                k, label = few if quick else 1000, f"{sampler} 1:{share}"
                add("over size", arxiv, k, label, share=share, **spec)

    budget = 2 if quick else 30
    for label, options in (
        ("random", {"init": "random"}),
        ("k-means++", {}),
        ("k-means++, inferred", {"inferred": True}),
        ("anchor", {"init": "anchor"}),
        ("array", {"init_passes": 3}),
    ):
        add("starts", news, few, label, options=options, budget=budget, score="every")
    for corpus, k in () if quick else (("kos", 50), ("ohsumed", 100), ("nips", 200)):
        for label, options in (("k-means++", {}), ("k-means++, inferred", {"inferred": True})):
            add("starts", corpus, k, label, options=options, budget=budget, score="every")

    for sampler in ("auto", "alias", "sparse", "cycle", "dense"):
        options = {"sampler": sampler}
        add("samplers", news, few, sampler, options=options, budget=budget, score="every")

    k = few if quick else 1000
    spec = {"options": {"max_iter": 20}, "threads": 2, "passes": 20}
    add("arxiv", arxiv, k, "AliasLDA", **{**spec, "score": "last"})
    add("arxiv", arxiv, k, "AliasLDA memory", **spec)
    return found


def power_laws(quick=False):
    """The measurements of topics from Pitman-Yor processes, as :func:`experiments` returns them."""
    found = []
    models = (
        ("LDA", {"doc_topic_prior": "auto"}),
        ("LDA, learned words", {"doc_topic_prior": "auto", "topic_word_prior": "auto"}),
        ("Pitman-Yor", {"doc_topic_prior": "auto", **PITMAN_YOR}),
        ("Pitman-Yor, learned", {"doc_topic_prior": "auto", "concentration": "auto", **PITMAN_YOR}),
        (
            "Dirichlet process, learned",
            {"doc_topic_prior": "auto", "discount": 0.0, "concentration": "auto", **PITMAN_YOR},
        ),
    )
    plan = [("newsgroups20", 200), ("nips", 200), ("kos", 50), ("ohsumed", 100)]
    for corpus, k in [("kos", 20)] if quick else plan:
        for label, options in models:
            spec = {"kind": "curve", "method": "aliaslda", "options": {"burn_in": 45, **options}}
            spec |= {"corpus": corpus, "n_topics": k, "budget": 2 if quick else 45}
            found.append((f"power laws/{corpus}-{k}/{label}", spec))
    # The same from other seeds, which are no less apart than models: scored at the end.
    for seed in (1,) if quick else (1, 2, 3):
        for corpus, k in [("kos", 20)] if quick else plan:
            for label, options in (models[0], models[2]):
                spec = {"kind": "curve", "method": "aliaslda", "score": "last", "end_only": True}
                spec |= {"options": {"burn_in": 45, **options}, "budget": 2 if quick else 45}
                spec |= {"corpus": corpus, "n_topics": k, "seed": seed}
                found.append((f"power law seeds/{corpus}-{k}/{label}#{seed}", spec))
    for k in (20,) if quick else (200, 1000):
        corpus = "kos" if quick else "newsgroups20"
        for repeat in range(3):
            for label, topics in (("LDA", {}), ("Pitman-Yor", PITMAN_YOR)):
                key = f"power law sweeps/{corpus}-{k}/{label}" + (f"#{repeat}" if repeat else "")
                spec = {"kind": "curve", "method": "aliaslda", "options": topics | SEATED}
                spec |= {"passes": SWEEPS, "score": "none"}
                found.append((key, {"corpus": corpus, "n_topics": k, **spec}))
    return found


def process_sweeps(quick=False):
    """The measurements of a sweep with Dirichlet processes over documents, and without."""
    found = []
    corpus = "kos" if quick else "newsgroups20"
    for k in (20,) if quick else (200, 1000):
        for repeat in range(1 if quick else 3):
            for label, options in (("LDA", {}), ("HDP, sampled", PROCESS_DOCUMENTS)):
                spec = {"kind": "curve", "method": "aliaslda", "options": options, "corpus": corpus}
                spec |= {"n_topics": k, "passes": SWEEPS, "score": "none"}
                key = f"process sweeps/{corpus}-{k}/{label}"
                found.append((f"{key}#{repeat}" if repeat else key, spec))
    return found

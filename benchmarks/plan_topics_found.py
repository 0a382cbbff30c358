"""Measurements of models that find how many topics there are."""

from plan_clusters import after_faults, on_clusters
from plan_samplers import PROCESS_DOCUMENTS, process_sweeps

BIRTHS = {"moves": ["birth", "merge", "delete"]}


def topics_found(quick=False):
    """The measurements of models that find how many topics there are, as :func:`experiments`."""
    found = []
    plan = [("kos", 100, 20), ("nips", 200, 40), ("newsgroups20", 200, 60)]
    for corpus, k, budget in [("kos", 20, 2)] if quick else plan:
        for label, method, options in (
            ("HDP", "sparsehdp", {}),
            ("HDP, no restarts", "sparsehdp", {"restarts": 0}),
            ("HDP, no restarts, no moves", "sparsehdp", {"restarts": 0, "moves": False}),
            ("HDP, bayes", "sparsehdp", {"estimation": "bayes"}),
            ("LDA, no restarts", "sparsepost", {"restarts": 0}),
            ("HDP, sampled", "aliaslda", PROCESS_DOCUMENTS),
            ("LDA, sampled", "aliaslda", {"doc_topic_prior": "auto"}),
            ("tomotopy HDP", "tomotopy_hdp", {}),
            ("gensim HDP", "gensim_hdp", {}),
        ):
            for seed in range(3 if method.startswith("sparse") and not quick else 1):
                spec = {"kind": "curve", "method": method, "options": options, "seed": seed}
                # A pass of gensim's takes tens of seconds.
                longer = max(budget, 100) if method == "gensim_hdp" and not quick else budget
                spec |= {"corpus": corpus, "n_topics": k, "budget": longer}
                found.append((f"topics found/{corpus}-{k}/{label}, seed {seed}", spec))
    found.extend(moves_or_not(quick))
    found.extend(hdp_seconds(quick))
    found.extend(on_clusters(quick))
    found.extend(after_faults(quick))
    found.extend(patches_by_image(quick))
    for k in (20,) if quick else (50, 100):
        for init in ("k-means++", "random"):
            spec = {
                "kind": "bars",
                "corpus": "bars",
                "n_topics": k,
                "options": {"init": init, "restarts": 0},
            }
            found.append((f"topics found/bars-{k}/{init}", {**spec, "seeds": 1 if quick else 5}))
    found.extend(process_sweeps(quick))
    spec = {"kind": "bars", "corpus": "bars", "n_topics": 1, "seeds": 1 if quick else 5}
    found.append(("topics found/bars-1/births", {**spec, "options": {"restarts": 0, **BIRTHS}}))
    for n_blobs in (3,) if quick else (3, 10, 30):
        for begun in (1, n_blobs, 4 * n_blobs):
            for label, options in (("merge and delete", {}), ("births", BIRTHS)):
                spec = {"kind": "blobs", "corpus": "blobs", "n_topics": n_blobs, "begun": begun}
                spec |= {"options": options, "seeds": 1 if quick else 5}
                found.append((f"topics found/blobs-{n_blobs}/from {begun}, {label}", spec))
    return found


def moves_or_not(quick=False):
    """Scores of HDPs by passes, with moves, without, and with births, as :func:`experiments`."""
    found = []

    def add(corpus, k, label, options, passes, seeds, **more):
        for seed in range(1 if quick else seeds):
            spec = {"kind": "curve", "method": "sparsehdp", "options": options, "seed": seed}
            spec |= {"corpus": corpus, "n_topics": k, "passes": 4 if quick else passes}
            found.append((f"moves/{corpus}-{k}/{label}, seed {seed}", {**spec, **more}))

    plan = [("kos", 100, 3, {}), ("newsgroups20", 200, 3, {}), ("nips", 200, 2, {})]
    plan.append(("arxiv300k", 200, 1, {"share": 10}))
    for corpus, k, seeds, more in [("kos", 20, 1, {})] if quick else plan:
        for label, moves in (("moves", True), ("no moves", False)):
            options = {"restarts": 0, "moves": moves}
            add(corpus, k, label, options, 30, seeds, score="last", **more)
    corpus, k = ("kos", 10) if quick else ("newsgroups20", 20)
    for label, more in (("births", {}), ("births, prior by frequency", {"by_frequency": 0.04})):
        options = {"restarts": 0, **BIRTHS, **more}
        add(corpus, k, label, options, 16, 2 if more else 1, score="last")
    return found


def hdp_seconds(quick=False):
    """Seconds of a pass of HDPs and of LDA, threads, and a large corpus, as :func:`experiments`."""
    found = []

    def add(key, corpus, k, label, method="sparsehdp", **spec):
        spec = {"kind": "curve", "method": method, "corpus": corpus, "n_topics": k, **spec}
        found.append((f"{key}/{corpus}-{k}/{label}", spec))

    corpus, k = ("kos", 20) if quick else ("newsgroups20", 200)
    for repeat in range(1 if quick else 3):
        last = f"#{repeat}" if repeat else ""
        spec = {"passes": 4 if quick else 16, "score": "none"}
        add("hdp passes", corpus, k, f"LDA{last}", "sparsepost", **spec)
        add("hdp passes", corpus, k, f"HDP{last}", **spec)
        add("hdp passes", corpus, k, f"HDP, no moves{last}", options={"moves": False}, **spec)
        add("hdp threads", corpus, k, f"1{last}", **spec)
        add("hdp threads", corpus, k, f"2{last}", threads=2, **spec)
        for n in (1, 2):
            add("hdp threads", corpus, k, f"LDA, {n}{last}", "sparsepost", threads=n, **spec)
    corpus, k = ("kos", 20) if quick else ("arxiv300k", 500)
    spec = {"threads": 2, "budget": 2 if quick else 110, "score": "last"}
    add("arxiv", corpus, k, "HDP", **spec)
    return found


def patches_by_image(quick=False):
    """The measurements of Gaussians with weights for each photograph, as :func:`experiments`."""
    found = []
    k, n_each = (20, 50) if quick else (100, 500)
    for method, kind in (("hdp", "HDP"), ("mixture", "Dirichlet process")):
        for estimation in ("bayes", "map"):
            options = {"estimation": estimation}
            options |= {"max_iter": 3} if quick else {}
            for seed in range(1 if quick else 3):
                spec = {"kind": "patches by image", "corpus": "bsds500", "n_topics": k}
                spec |= {"method": method, "n_each": n_each, "options": options, "seed": seed}
                label = f"{kind}, {estimation}, seed {seed}"
                found.append((f"patches by image/bsds500-{k}/{label}", spec))
    return found

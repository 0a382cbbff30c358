"""Tables of correlated topics: what correlations predict, and what they cost."""

import numpy as np
from runs import read


def _completion(name, labels, table):
    """The model's own predictions from ever fewer words."""
    shares = sorted(next(iter(labels.values()))["own"], key=float, reverse=True)
    header = ["model", "sweeps", "judge", *(f"{float(share):.0%} seen" for share in shares)]
    rows = []
    for label, found in labels.items():
        told = [str(found["spec"]["passes"]), f"{found['judge']:.3f}"]
        rows.append([label, *told, *(f"{found['own'][share]:.3f}" for share in shares)])
        if "sampled" in found:
            values = (f"{found['sampled'][share]:.3f}" for share in shares)
            rows.append([f"{label}, sampled weights", "", "", *values])
    corpus, _, k = name.rpartition("-")
    note = (
        "Nats a hidden token, higher is better: the judge's score of the topics, and each model's "
        "own prediction from a share of a document's distinct words. AliasLDA learns its prior."
    )
    return table(f"Own completion: {corpus}, {k} topics", note, header, rows)


def _grouped(runs, experiment, wanted):
    """Results of an experiment that have what is wanted: {corpus-topics: {label: result}}."""
    found = {}
    for key, result in runs.items():
        if key.startswith(f"{experiment}/") and wanted in result:
            _, name, label = key.split("/")
            found.setdefault(name, {})[label] = result
    return found


def _against_time(runs, table):
    """Scores of the judge, and how soon tomotopy's best is reached."""
    tables = []
    for name, labels in read(runs, "correlated").items():
        peer = labels.get("tomotopy, correlated")
        level = None if peer is None else peer.scores[peer.known].max()
        seeds = {}
        for label, run in labels.items():
            seeds.setdefault(label.partition(", seed")[0], []).append(run)
        rows = []
        for label, of_label in seeds.items():
            best = [run.scores[run.known].max() for run in of_label]
            told = [
                f"{np.median([run.seconds[-1] for run in of_label]):.0f}",
                f"{np.median([run.passes[-1] for run in of_label]):.0f}",
                f"{np.mean(best):.3f}",
                f"{np.ptp(best):.3f}" if len(best) > 1 else "",
                ""
                if level is None
                else f"{np.median([run.time_to(level) for run in of_label]):.1f}",
            ]
            rows.append([label, *told])
        corpus, _, k = name.rpartition("-")
        note = (
            "The judge's best score of the topics in nats a token, a mean over seeds where there "
            "is a range, and the seconds after which a score is at least tomotopy's best."
        )
        header = ["model", "seconds", "sweeps", "best", "range", "s to tomotopy's best"]
        tables.append(table(f"Against time: {corpus}, {k} topics", note, header, rows))
    return tables


def _sweeps(runs, table):
    """Seconds of a sweep by topics, and how they grow."""
    found = {}
    for name, labels in read(runs, "ctm sweeps").items():
        for label, run in labels.items():
            found.setdefault(label, {})[int(name.rpartition("-")[2])] = run.pass_seconds
    if not found:
        return []
    sizes = sorted({k for times in found.values() for k in times})
    rows = [
        [
            label,
            *(f"{1e3 * times[k]:.0f}" if k in times else "" for k in sizes),
            f"{times[sizes[-1]] / times[sizes[0]]:.1f} x" if sizes[-1] in times else "",
        ]
        for label, times in found.items()
    ]
    note = f"Milliseconds of a sweep over kos, one thread; topics grow {sizes[-1] / sizes[0]:g} x."
    header = ["covariance", *map(str, sizes), "growth"]
    return [table("A sweep of GibbsCTM by topics", note, header, rows)]


def _threads(runs, table):
    """Seconds of a sweep on one and two threads."""
    rows = []
    for kind in ("full", "factor"):
        for name, labels in read(runs, f"ctm threads, {kind}").items():
            if labels.keys() >= {"1", "2"}:
                one, two = (labels[n].pass_seconds for n in ("1", "2"))
                corpus, _, k = name.rpartition("-")
                told = [f"{1e3 * one:.0f}", f"{1e3 * two:.0f}", f"{one / two:.2f} x"]
                rows.append([f"{corpus}, {k} topics, {kind}", *told])
    note = "Milliseconds of a sweep: medians of runs that took turns."
    return [table("Threads, GibbsCTM", note, ["corpus", "1", "2", "ratio"], rows)] * bool(rows)


def _large(runs, table):
    """A large corpus: time, memory, and the tree of its topics."""
    tables = []
    for key, result in runs.items():
        if not key.startswith("arxiv/") or "tree" not in result:
            continue
        _, name, label = key.split("/")
        last, peak = result["checkpoints"][-1], result["peak_bytes"] / 2**30
        corpus, _, k = name.rpartition("-")
        note = (
            f"{label}: {last['passes']} sweeps over {result['n_documents']:,} documents in "
            f"{last['seconds']:.0f} s on {result['spec']['threads']} threads, in {peak:.1f} GiB at "
            "the peak. The tree of its topics, cut at two heights: clusters, how many topics they "
            "hold, and the finer clusters within."
        )
        rows = [[words, str(n), "; ".join(finer)] for words, n, finer in result["tree"]["clusters"]]
        header = ["cluster", "topics", "finer clusters"]
        tables.append(table(f"Tree of topics: {corpus}, {k} topics", note, header, rows))
    return tables


def _figures(runs, table):
    """Figs. 3, 5a, 6a and 6c of the paper, as tables."""
    tables = []
    for labels in _grouped(runs, "polya-gamma", "distance").values():
        found = labels["distance"]["distance"]
        names = ["gamma", "normal", "scaled", "noise"]
        rows = [[case, *(f"{x[name]:.3f}" for name in names)] for case, x in found.items()]
        for case, x in found.items():
            if x["logit"]:
                values = [f"{x['logit'][name]:.3f}" for name in names[:-1]]
                rows.append([f"logit given {case}", *values, ""])
        note = (
            "Largest difference of distribution functions from the exact one; two exact samples "
            "differ by the noise. The package draws gamma numbers, the paper scaled ones."
        )
        title = "Stand-ins for Polya-Gamma numbers (Fig. 3)"
        tables.append(table(title, note, ["N and tilt", *names], rows))
    for experiment, title in (
        ("ctm over topics", "Over topics (Fig. 5)"),
        ("ctm over priors", "Over the prior's strength (Fig. 6c)"),
    ):
        rows = [
            [name, label, *(f"{result['own'][share]:.3f}" for share in ("0.8", "0.2"))]
            for name, labels in _grouped(runs, experiment, "own").items()
            for label, result in labels.items()
        ]
        if rows:
            header = ["corpus and topics", "setting", "80% seen", "20% seen"]
            tables.append(table(title, "Own completion, nats a token.", header, rows))
    for name, labels in read(runs, "ctm over steps").items():
        rows = [
            [
                label,
                *(f"{x:.0f}" for x in (run.seconds[-1], run.passes[-1])),
                f"{run.scores[run.known].max():.3f}",
            ]
            for label, run in labels.items()
        ]
        header = ["steps", "seconds", "sweeps", "judge"]
        tables.append(table(f"Steps over logits (Fig. 6a): {name}", "The judge.", header, rows))
    return tables


def correlated_tables(runs, table):
    """Tables of the experiments on correlated topics.

    Parameters and what comes back are those of :func:`report_local_steps.local_step_tables`.
    """
    completions = _grouped(runs, "completion", "own")
    tables = [_completion(name, labels, table) for name, labels in completions.items()]
    tables += _against_time(runs, table)
    tables += [*_sweeps(runs, table), *_threads(runs, table), *_large(runs, table)]
    for name, labels in _grouped(runs, "logits", "range").items():
        rows = [
            [str(row["passes"]), f"{row['least']:.1f}", f"{row['most']:.1f}"]
            for row in labels["full"]["range"]
        ]
        note = "Of all documents and topics."
        tables.append(table(f"Range of logits: {name}", note, ["sweeps", "least", "most"], rows))
    return tables + _figures(runs, table)


def draw_tree(runs, path):
    """Draw the tree of a large corpus's topics, from its clusters on.

    Parameters
    ----------
    runs : dict
        Results by key.
    path : Path
        Of the picture.

    Returns
    -------
    text : str
        What shows the picture in the user guide; nothing if there is no tree.
    """
    import matplotlib.pyplot as plt
    from scipy.cluster.hierarchy import dendrogram

    trees = [run["tree"] for key, run in runs.items() if key.startswith("arxiv/") and "tree" in run]
    if not trees:
        return ""
    linkage = np.array(trees[0]["linkage"])
    n_clusters = len(trees[0]["clusters"])
    labels = [words for _, _, finer in trees[0]["clusters"] for words in finer]
    fig, ax = plt.subplots(figsize=(8, 0.2 * len(labels)), layout="constrained")
    dendrogram(
        linkage,
        p=len(labels),
        truncate_mode="lastp",
        orientation="left",
        color_threshold=linkage[-(n_clusters - 1), 2] - 1e-9,
        above_threshold_color="0.7",
        ax=ax,
    )
    ax.set_yticklabels(labels, fontsize=8)
    ax.set_xlabel("1 - correlation")
    ax.spines[["top", "right", "left"]].set_visible(False)
    fig.savefig(path, dpi=110)
    return (
        f"\n.. figure:: ../../benchmarks/results/{path.name}\n"
        f"   :alt: A tree of {len(linkage) + 1} topics, cut into {len(labels)} clusters.\n\n"
        f"   The same tree above its {len(labels)} finer clusters, in {n_clusters} colours.\n"
    )

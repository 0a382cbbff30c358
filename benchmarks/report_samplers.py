"""Tables and pictures of the samplers of topics."""

import numpy as np
from cells import Table, corpus_title, number, score_cell
from plan_samplers import COMPARED
from runs import read, turns


def sampler_tables(runs):
    """Tables of the experiments `sweeps`, `sweep threads`, `over ...`, `starts`, `samplers`."""
    return [*_sweeps(runs), *_threads(runs), *_growth_tables(runs), *_starts(runs)]


def _n_topics(name):
    return int(name.rpartition("-")[2])


def _sweeps(runs):
    """Millions of tokens a second of the samplers, by topics."""
    found = read(runs, "sweeps")
    names = sorted(found, key=_n_topics)
    corpora = list(dict.fromkeys(name.rpartition("-")[0] for name in sorted(found, reverse=True)))
    tables = []
    note = "Millions of tokens a second, without the start."
    for corpus in corpora:
        by_topics = {n: found[n] for n in names if n.rpartition("-")[0] == corpus}
        samplers = list(dict.fromkeys(label for labels in by_topics.values() for label in labels))
        rows = [
            [sampler]
            + [
                number(labels[sampler].speed) if sampler in labels else ""
                for labels in by_topics.values()
            ]
            for sampler in samplers
        ]
        header = ["sampler", *(f"{_n_topics(name)} topics" for name in by_topics)]
        tables.append(Table(f"Gibbs samplers: {corpus}", note, header, rows))
    ratios = [
        [name.rpartition("-")[0], f"{_n_topics(name)}"]
        + [number(found[name]["auto"].speed / found[name]["tomotopy"].speed)]
        for corpus in corpora
        for name in names
        if name.rpartition("-")[0] == corpus and {"auto", "tomotopy"} <= found[name].keys()
    ]
    note = "Tokens a second of AliasLDA, as many times those of tomotopy."
    header = ["corpus", "topics", "times"]
    return [*tables, *[Table("Beside tomotopy", note, header, ratios)] * bool(ratios)]


def _threads(runs):
    """How much sooner a sweep ends on two threads, by models."""
    rows = []
    for name, labels in turns(runs, "sweep threads").items():
        for label, (one, two) in labels.items():
            quarter, half, most = np.percentile(one / two, [25, 50, 75])
            seconds = [f"{np.median(each):.3f}" for each in (one, two)]
            gain = f"{half:.2f} ({quarter:.2f} to {most:.2f})"
            rows.append([corpus_title(name), label, *seconds, gain])
    note = (
        "Medians of the seconds of a sweep, of fits that differ in their threads alone and make "
        "one sweep each in turns; how many times as long one thread takes as two, the median of "
        "neighbouring sweeps, and its quartiles."
    )
    header = ["corpus", "model", "1 thread", "2 threads", "times"]
    return [Table("Threads, AliasLDA", note, header, rows)] * bool(rows)


def _growth(runs):
    """Seconds of a sweep: {"topics" or "size": [(topics or tokens, {sampler: seconds})]}."""
    by_topics = [
        (int(name.rpartition("-")[2]), {label: run.pass_seconds for label, run in labels.items()})
        for name, labels in read(runs, "over topics").items()
    ]
    by_size = {}
    for labels in read(runs, "over size").values():
        for label, run in labels.items():
            row = by_size.setdefault(run.results[0]["n_tokens"], {})
            row[label.split()[0]] = run.pass_seconds
    return {
        "topics": [row for row in by_topics if row[1].keys() >= set(COMPARED)],
        "size": [row for row in sorted(by_size.items()) if row[1].keys() >= set(COMPARED)],
    }


def _growth_tables(runs):
    """Some samplers over topics and over the size of the corpus."""
    tables = []
    for what, rows in _growth(runs).items():
        experiment = f"over {what}"
        corpus, _, topics = next(iter(read(runs, experiment)), "--").rpartition("-")
        title = f"Seconds of a sweep over {what}: {corpus}"
        title += "" if what == "topics" else f", {topics} topics"
        unit = "topics" if what == "topics" else "M tokens"
        cells = [
            [
                f"{size}" if what == "topics" else number(size / 1e6),
                *(number(passes[sampler]) for sampler in COMPARED),
                number(passes["sparse"] / passes["alias"]),
            ]
            for size, passes in rows
        ]
        note = (
            "Medians of the third to fifth sweeps of three fits. Tables are built anew in each of "
            "them, and the first sweeps are slower than all that follow."
        )
        if cells:
            tables.append(Table(title, note, [unit, *COMPARED, "sparse / alias"], cells))
    return tables


def _starts(runs):
    """What each start of AliasLDA is worth, and each of its samplers."""
    tables, times = [], (3, 10, 30)
    for experiment, title, what, note in (
        (
            "starts",
            "Starts of AliasLDA",
            "init",
            "array: the topics of three passes of SparseLDA, whose time is included. inferred: the "
            "seeds of SparseLDA, and documents inferred under them before topics are drawn.",
        ),
        ("samplers", "Samplers of AliasLDA", "sampler", "All from the k-means++ start."),
    ):
        for name, labels in read(runs, experiment).items():
            rows = [
                [label, number(run.seconds[0])]
                + ["-" if t < run.seconds[0] else score_cell(run.score_at(t)) for t in times]
                for label, run in labels.items()
            ]
            header = [what, "first sweep done at s", *(f"score at {t} s" for t in times)]
            tables.append(Table(f"{title}: {corpus_title(name)}", note, header, rows))
    return tables


def draw_growth(runs, path):
    """Seconds of a sweep over topics and over tokens, as Li et al. 2014 show them."""
    import matplotlib.pyplot as plt

    panels = {what: rows for what, rows in _growth(runs).items() if rows}
    if not panels:
        return
    fig, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 3.8), squeeze=False)
    for ax, (what, rows) in zip(axes[0], panels.items(), strict=True):
        at = [size for size, _ in rows]
        for sampler, colour in zip(COMPARED, ("#0077bb", "#ee7733", "#009988"), strict=True):
            ax.plot(at, [passes[sampler] for _, passes in rows], "o-", color=colour, label=sampler)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(at, [f"{size:,}" if what == "topics" else f"{size / 1e6:.1f}" for size in at])
        low, high = ax.get_ylim()
        steps = (1, 2, 5) if high > 4 * low else range(1, 10)
        ticks = [m * 10.0**e for e in range(-3, 3) for m in steps]
        ax.set_yticks([tick for tick in ticks if low <= tick <= high])
        ax.minorticks_off()
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        corpus = next(iter(read(runs, f"over {what}")))
        ax.set_title(corpus.rpartition("-")[0] if what == "topics" else corpus_title(corpus))
        ax.set_xlabel("topics" if what == "topics" else "million tokens")
        ax.set_ylabel("seconds a sweep")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False)
    fig.tight_layout()
    fig.savefig(path, dpi=150)

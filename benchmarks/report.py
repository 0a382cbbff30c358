"""Tables and the figure from the results: ``python benchmarks/report.py [FOLDER]``.

Writes `tables.md` and the figures beside the results, and the same tables for the user guide of the
documentation.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from report_clusters import cluster_tables, draw_scale_out
from report_correlated import correlated_tables, draw_tree
from report_faults import fault_tables
from report_local_steps import local_step_tables, restart_tables
from report_mixture_starts import mixture_start_tables
from report_power_laws import power_law_tables
from report_topics_found import topics_found_tables
from runs import read

HERE = Path(__file__).resolve().parent
GUIDE = HERE.parent / "doc" / "user_guide" / "_benchmark_tables.rst"
# Pages of the guide with tables of their own: the experiments whose rows they have.
PAGES = {
    "local_step": (
        "local steps",
        "local steps, 2 threads",
        "drawn tokens",
        "minibatch",
        "minibatch over words",
    ),
    "restart": ("restarts",),
    "correlated": (
        "completion",
        "correlated",
        "ctm sweeps",
        "ctm threads, full",
        "ctm threads, factor",
        "ctm over topics",
        "ctm over steps",
        "ctm over priors",
        "logits",
        "polya-gamma",
    ),
    "topics_found": (
        "topics found",
        "moves",
        "hdp passes",
        "hdp threads",
        "process sweeps",
        "patches by image",
    ),
    "power_law": ("power laws", "power law sweeps"),
    "cluster": ("cluster",),
    "fault": ("faults",),
}
# When tomotopy's score is taken as the level to reach: nips is soon done.
TOMOTOPY_SECONDS = {"nips": 18}
SKLEARN_PASSES = 10
FAMILIES = {  # first word of a label: (name, colour)
    "L=8": ("sklearn_sparsepost", "#0077bb"),
    "dense": ("sklearn_sparsepost", "#33bbee"),
    "AliasLDA": ("sklearn_sparsepost", "#009988"),
    "tomotopy": ("tomotopy", "#ee7733"),
    "pyrmallet": ("pyrmallet", "#aa3377"),
    "lda": ("lda", "#777777"),
    "gensim": ("gensim", "#228833"),
    "sklearn": ("scikit-learn", "#cc3311"),
}
STYLES = {"online": ":", "learned": "--", "batch": "-."}


class Table(NamedTuple):
    """A title, what to know of it, names of columns, and rows of cells that are ready to print."""

    title: str
    note: str
    header: list
    rows: list


def _number(value, digits=3):
    """Some significant digits, and never an exponent."""
    if not np.isfinite(value):
        return "never"
    decimals = max(0, digits - 1 - int(np.floor(np.log10(max(abs(value), 1e-9)))))
    return f"{value:,.{decimals}f}"


def _score(value):
    return "-" if np.isnan(value) else f"{value:.3f}"


def _corpus(name):
    corpus, _, topics = name.rpartition("-")
    return f"{corpus}, {topics} topics"


# ---------------------------------------------------------------------- tables


def levels(name, runs):
    """The scores to reach: {what: score}, of the peers that there are."""
    found = {}
    if "sklearn batch" in runs:
        run = runs["sklearn batch"]
        i = min(np.searchsorted(run.passes, SKLEARN_PASSES), len(run.passes) - 1)
        found[f"scikit-learn after {run.passes[i]} passes"] = run.score_at(run.seconds[i])
    if "tomotopy" in runs:
        run = runs["tomotopy"]
        seconds = min(TOMOTOPY_SECONDS.get(name.split("-")[0], 40), run.seconds[-1])
        found[f"tomotopy after {seconds:.0f} s"] = run.score_at(seconds)
    return found


def curve_tables(runs):
    """A table a corpus: speed, best score, and how soon others' levels are reached."""
    tables = []
    for name, labels in read(runs, "curves").items():
        goals = levels(name, labels)
        rows = []
        for label, run in labels.items():
            best = int(np.nanargmax(run.scores))
            rows.append(
                [
                    label,
                    _number(run.speed),
                    _score(run.scores[best]),
                    _number(run.seconds[best]),
                    *(_number(run.time_to(level)) for level in goals.values()),
                ]
            )
        told = "; ".join(f"{what} is at {_score(level)}" for what, level in goals.items())
        header = ["method", "M tokens/s", "best score", "at s", *(f"s to {what}" for what in goals)]
        note = f"Held-out score in nats a token, higher is better. {told}."
        tables.append(Table(f"Learning curves: {_corpus(name)}", note, header, rows))
    return tables


def pass_tables(runs):
    """Seconds of a pass by topics and sparsity, a table a learning method."""
    tables = []
    by_topics = read(runs, "passes")
    for learning in ("batch", "memoized"):
        passes = {
            name: {
                label.split()[0]: run.pass_seconds
                for label, run in labels.items()
                if label.endswith(learning)
            }
            for name, labels in by_topics.items()
        }
        levels = list(dict.fromkeys(level for found in passes.values() for level in found))
        rows = []
        for name, found in passes.items():
            cells = [_number(found[level]) if level in found else "" for level in levels]
            both = {"L=8", "dense"} <= found.keys()
            ratio = _number(found["dense"] / found["L=8"]) if both else ""
            rows.append([name.rpartition("-")[2], *cells, ratio])
        if rows:
            corpus = next(iter(by_topics)).rpartition("-")[0]
            note = "Medians of the passes from the third on."
            header = ["topics", *levels, "dense / L=8"]
            tables.append(
                Table(f"Seconds of a pass, {learning} learning: {corpus}", note, header, rows)
            )
    return tables


def _n_topics(name):
    return int(name.rpartition("-")[2])


def sweep_tables(runs):
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
                _number(labels[sampler].speed) if sampler in labels else ""
                for labels in by_topics.values()
            ]
            for sampler in samplers
        ]
        header = ["sampler", *(f"{_n_topics(name)} topics" for name in by_topics)]
        tables.append(Table(f"Gibbs samplers: {corpus}", note, header, rows))
    ratios = [
        [name.rpartition("-")[0], f"{_n_topics(name)}"]
        + [_number(found[name]["auto"].speed / found[name]["tomotopy"].speed)]
        for corpus in corpora
        for name in names
        if name.rpartition("-")[0] == corpus and {"auto", "tomotopy"} <= found[name].keys()
    ]
    note = "Tokens a second of AliasLDA, as many times those of tomotopy."
    header = ["corpus", "topics", "times"]
    return [*tables, *[Table("Beside tomotopy", note, header, ratios)] * bool(ratios)]


def growth(runs):
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
    pair = {"alias", "sparse"}
    return {
        "topics": [row for row in by_topics if pair <= row[1].keys()],
        "size": [row for row in sorted(by_size.items()) if pair <= row[1].keys()],
    }


def growth_tables(runs):
    """The samplers "alias" and "sparse" over topics and over the size of the corpus."""
    tables = []
    for what, rows in growth(runs).items():
        experiment = f"over {what}"
        corpus, _, topics = next(iter(read(runs, experiment)), "--").rpartition("-")
        title = f"Seconds of a sweep over {what}: {corpus}"
        title += "" if what == "topics" else f", {topics} topics"
        unit = "topics" if what == "topics" else "M tokens"
        cells = [
            [
                f"{size}" if what == "topics" else _number(size / 1e6),
                _number(passes["alias"]),
                _number(passes["sparse"]),
                _number(passes["sparse"] / passes["alias"]),
            ]
            for size, passes in rows
        ]
        note = "Medians of the sweeps from the third on. Tables are built anew in each of them."
        if cells:
            tables.append(Table(title, note, [unit, "alias", "sparse", "sparse / alias"], cells))
    return tables


def sampler_start_tables(runs):
    """What each start of AliasLDA is worth, and each of its samplers."""
    tables, times = [], (3, 10, 30)
    for experiment, title, what, note in (
        (
            "starts",
            "Starts of AliasLDA",
            "init",
            "array: the topics of three passes of SparseLDA, whose time is included.",
        ),
        ("samplers", "Samplers of AliasLDA", "sampler", "All from the k-means++ start."),
    ):
        for name, labels in read(runs, experiment).items():
            rows = [
                [label, _number(run.seconds[0])]
                + ["-" if t < run.seconds[0] else _score(run.score_at(t)) for t in times]
                for label, run in labels.items()
            ]
            header = [what, "first sweep done at s", *(f"score at {t} s" for t in times)]
            tables.append(Table(f"{title}: {_corpus(name)}", note, header, rows))
    return tables


def start_tables(runs):
    """Seconds until the first pass."""
    rows = [
        [_corpus(name), _number(labels["start"].start)]
        for name, labels in read(runs, "start").items()
    ]
    return [Table("The start", "Until the first pass begins.", ["corpus", "s"], rows)] * bool(rows)


def seed_tables(runs):
    """How much the score depends on the seed."""
    tables = []
    for name, labels in read(runs, "seeds").items():
        scores = np.array([run.scores[-1] for run in labels.values()])
        passes = next(iter(labels.values())).passes[-1]
        spread = scores.std(ddof=1) if len(scores) > 1 else 0.0
        row = [len(scores), scores.mean(), spread, scores.min(), scores.max()]
        cells = [str(row[0]), *(f"{value:.4f}" for value in row[1:])]
        header = ["seeds", "mean score", "standard deviation", "least", "largest"]
        tables.append(Table(f"Seeds: {_corpus(name)}, {passes} passes", "", header, [cells]))
    return tables


def prior_tables(runs):
    """Fixed and learned priors by both scores."""
    rows = [
        [_corpus(name), label, _score(run.scores[-1]), _score(run.results[0]["own_score"])]
        for name, labels in read(runs, "priors").items()
        for label, run in labels.items()
    ]
    note = "The judge gives every model the same prior; the estimator's own `score` uses its own."
    header = ["corpus", "doc_topic_prior", "judge's score", "own score"]
    return [Table("Learned priors", note, header, rows)] * bool(rows)


def stream_tables(runs):
    """What a stream after a fit does to the score."""
    tables, found = [], {}
    for key, result in runs.items():
        if key.startswith("stream/") and "scores" in result:
            found.setdefault(key.split("/")[1], []).append(result)
    for name, results in found.items():
        rows = []
        for label in results[0]["scores"]:
            scores = np.array([result["scores"][label] for result in results])
            rows.append([label, _score(scores.mean()), _score(scores.min()), _score(scores.max())])
        note = (
            f"{results[0]['n_streamed']:,} documents are streamed. By default a batch after a fit "
            "counts as its share of all documents seen."
        )
        title = f"A stream after a fit: {_corpus(name)}, {len(results)} seeds"
        header = ["SparseLDA", "mean score", "least", "largest"]
        tables.append(Table(title, note, header, rows))
    return tables


def transform_tables(runs):
    """Documents a second of transform, and how far the weights are apart."""
    tables = []
    for key, result in runs.items():
        if not key.startswith("transform/") or "error" in result:
            continue
        speeds = result["documents_per_second"]
        rows = [
            [name, _number(speed), _number(speed / speeds["scikit-learn"])]
            for name, speed in speeds.items()
        ]
        apart = "; ".join(f"{pair} {value:.3f}" for pair, value in result["mean_l1"].items())
        note = f"Mean L1 distance of the documents' weights, at most 2: {apart}."
        header = ["model", "documents/s", "times scikit-learn"]
        tables.append(Table(f"transform: {_corpus(key.split('/')[1])}", note, header, rows))
    return tables


def pair_tables(runs, experiment, title, first, second):
    """Seconds of a pass one way and the other, of interleaved runs."""
    rows = [
        [
            _corpus(name),
            _number(labels[first].pass_seconds),
            _number(labels[second].pass_seconds),
            _number(labels[first].pass_seconds / labels[second].pass_seconds),
        ]
        for name, labels in read(runs, experiment).items()
        if {first, second} <= labels.keys()
    ]
    note = "Seconds of a pass: medians of runs that took turns."
    return [Table(title, note, ["corpus", first, second, "ratio"], rows)] * bool(rows)


def arxiv_tables(runs):
    """Learning from a corpus on disk."""
    tables = []
    for name, labels in read(runs, "arxiv").items():
        rows = [
            [label, str(passes), _number(seconds), _score(score)]
            for label, run in labels.items()
            if not label.endswith("memory")
            for passes, seconds, score in zip(run.passes, run.seconds, run.scores, strict=True)
            if not np.isnan(score)
        ]
        if not rows:
            continue
        memory = {
            label.split()[0]: run.results[0]["peak_bytes"] / 2**20
            for label, run in labels.items()
            if label.endswith("memory")
        }
        told = "; ".join(f"{label} {peak:,.0f} MB" for label, peak in memory.items())
        starts = [run.start for label, run in labels.items() if not label.endswith("memory")]
        note = (
            f"Memory-mapped, on two threads, the start ({_number(np.median(starts))} s) included. "
            f"Peak memory, with the pages of the mapped files: {told}."
        )
        header = ["learning", "passes", "s", "score"]
        tables.append(Table(f"Out of core: {_corpus(name)}", note, header, rows))
    return tables


def _mixtures(runs, experiment):
    """Results of an experiment with mixtures: {components: {label: result}}."""
    found = {}
    for key, result in runs.items():
        name, corpus, label = key.split("/")
        if name == experiment and "checkpoints" in result:
            found.setdefault(int(corpus.rpartition("-")[2]), {})[label] = result
    return found


def _pass_seconds(result):
    return float(np.median(np.diff([row["seconds"] for row in result["checkpoints"]])))


def mixture_tables(runs):
    """Mixtures of image patches: speed and held-out score, growth, distance from dense."""
    tables = []
    for experiment, what in (("mixture", "one thread"), ("mixture-all", "two threads")):
        for n_components, found in _mixtures(runs, experiment).items():
            tables.append(_mixture_table(n_components, found, what))
    by_size = _mixtures(runs, "mixture-size")
    labels = list(dict.fromkeys(label for found in by_size.values() for label in found))
    if labels:
        rows = [
            [f"{k}", *(_number(_pass_seconds(found[x])) if x in found else "" for x in labels)]
            for k, found in sorted(by_size.items())
        ]
        if len(rows) > 1:
            ends = by_size[min(by_size)], by_size[max(by_size)]
            growth = [_ratio(*(_pass_seconds(found[x]) for found in ends[::-1])) for x in labels]
            rows.append(["last / first", *growth])
        note = f"L = 4, {_n_samples(by_size):,} patches, one thread, the first pass left out."
        title = "Seconds of a pass by components"
        tables.append(Table(title, note, ["components", *labels], rows))
    tables.extend(_mixture_threads(runs))
    tables.extend(mixture_start_tables(runs, Table))
    for key, result in runs.items():
        if key.startswith("mixture-distance/") and "distance" in result:
            distance = result["distance"]
            note = "Half the sum of absolute differences, the components being the dense fit's."
            cells = [f"{value:.2g}" for value in distance.values()]
            title = "Responsibilities: distance of L-sparse from dense"
            tables.append(Table(title, note, [f"L={level}" for level in distance], [cells]))
    return tables


def _ratio(one, other):
    return f"{one / other:.2f} x"


def _n_samples(by_components):
    found = next(iter(by_components.values()))
    return next(iter(found.values()))["n_samples"]


def _mixture_table(n_components, found, what):
    """One table of passes and scores, beside scikit-learn's of the same precision."""
    rows = []
    peers = {dtype: found.get(f"scikit-learn {dtype}") for dtype in ("float64", "float32")}
    for label, result in found.items():
        points = result["checkpoints"]
        peer = peers.get(label.split()[-1])
        row = [
            label,
            f"{len(points)}",
            _number(_pass_seconds(result)),
            _number(points[-1]["seconds"]),
            f"{points[-1]['score']:.3f}",
        ]
        if any(peers.values()):
            end = peer["checkpoints"][-1]["seconds"]
            # The last score by the time at which scikit-learn ends.
            equal = [point["score"] for point in points if point["seconds"] <= end]
            row += [_ratio(_pass_seconds(peer), _pass_seconds(result)), f"{equal[-1]:.3f}"]
        rows.append([*row, f"{result['peak_bytes'] / 2**20:,.0f}"])
    note = (
        f"{_n_samples({0: found}):,} patches of 64 pixels, {what}; the score is held-out nats a "
        "patch. Ours has zero means and computes the bound in every pass, scikit-learn's has free "
        "means; reg_covar is the same. Seconds of a pass are medians, the first left out."
    )
    header = ["method", "passes", "s a pass", "s in all", "score"]
    if any(peers.values()):
        header += ["beside scikit-learn", "score in its time"]
    title = f"Mixtures of image patches: {n_components} components"
    return Table(title, note, [*header, "MiB"], rows)


def _mixture_threads(runs):
    """Seconds of a pass on one thread and on two, of interleaved runs."""
    rows = []
    for dtype in ("float64", "float32"):
        seconds = {"1": [], "2": []}
        for found in _mixtures(runs, f"mixture threads, {dtype}").values():
            for label, result in found.items():
                seconds[label.split("#")[0]].append(_pass_seconds(result))
        if all(seconds.values()):
            one, two = (float(np.median(values)) for values in seconds.values())
            rows.append([dtype, _number(one), _number(two), _ratio(one, two)])
    note = "200 components, L = 4. Medians of runs that took turns."
    table = Table("Threads: mixtures of image patches", note, ["", "1", "2", "ratio"], rows)
    return [table] * bool(rows)


def draw_mixtures(runs, path):
    """Held-out log-likelihood against training time, in double precision."""
    import matplotlib.pyplot as plt

    found = next(iter(_mixtures(runs, "mixture").values()), {})
    found = {label: result for label, result in found.items() if "float64" in label}
    if not found:
        return
    fig, ax = plt.subplots(figsize=(6.2, 4.4))
    colours = iter(plt.get_cmap("viridis")(np.linspace(0, 0.95, len(found))))
    for label, result in found.items():
        points = result["checkpoints"]
        colour = "#cc3311" if label.startswith("scikit") else next(colours)
        seconds, scores = zip(*((row["seconds"], row["score"]) for row in points), strict=True)
        ax.plot(seconds, scores, ".-", color=colour, label=label.replace(" float64", ""))
    lasts = [result["checkpoints"][-1]["score"] for result in found.values()]
    ax.set_ylim(min(lasts) - 6, max(lasts) + 1)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("training time (s)")
    ax.set_ylabel("held-out score (nats a patch)")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    fig.tight_layout()
    fig.savefig(path, dpi=150)


def all_tables(runs):
    """Every table for which there are results."""
    return [
        *curve_tables(runs),
        *sweep_tables(runs),
        *growth_tables(runs),
        *sampler_start_tables(runs),
        *pass_tables(runs),
        *start_tables(runs),
        *seed_tables(runs),
        *prior_tables(runs),
        *stream_tables(runs),
        *transform_tables(runs),
        *pair_tables(runs, "threads", "Threads", "1", "2"),
        *pair_tables(runs, "sweep threads", "Threads, AliasLDA", "1", "2"),
        *arxiv_tables(runs),
        *mixture_tables(runs),
        *pair_tables(runs, "native", "Built for this processor", "installed", "native"),
    ]


def about(record, experiments=None):
    """Where the figures come from: of the experiments of a page, or of all."""
    machine, found = record["machine"], {}
    for key, run in record["runs"].items():
        experiment = key.split("/")[0]
        if experiments is None or experiment in experiments:
            found.setdefault(run["processor"], set()).add(experiment)
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    times = Counter(name for names in found.values() for name in names)
    where = [
        processor if len(found) == 1 else f"{processor} ({_named(names, times)})"
        for processor, names in sorted(found.items())
    ]
    return (
        f"Measured on two cores of {'; '.join(where)}. {machine['system']}, Python "
        f"{machine['python']}; {versions}."
    )


def _named(experiments, times):
    """Names of experiments whose rows are from here, or some of them."""
    return ", ".join(
        f"some of ``{name}``" if times[name] > 1 else f"``{name}``" for name in sorted(experiments)
    )


def markdown(tables, record):
    """Tables as Markdown."""
    parts = [about(record)]
    for table in tables:
        lines = [table.header, ["---"] * len(table.header), *table.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        parts += [f"## {table.title}", *([table.note] if table.note else []), body]
    return "\n\n".join(parts) + "\n"


def rst(tables, record, experiments):
    """Tables of some experiments as reStructuredText, to be included."""
    parts = [".. Written by benchmarks/report.py: do not edit.", about(record, experiments)]
    for table in tables:
        name = re.sub("[^a-z0-9]+", "-", table.title.lower()).strip("-")
        lines = [f".. list-table:: {table.title}", "   :header-rows: 1", f"   :name: {name}", ""]
        for row in [table.header, *table.rows]:
            cells = enumerate(row)
            lines += [f"   {'*' if i == 0 else ' '} - {cell}".rstrip() for i, cell in cells]
        parts.append("\n".join(lines))
        if table.note:
            parts.append(table.note)
    return "\n\n".join(parts) + "\n"


# ---------------------------------------------------------------------- the figure


def draw_growth(runs, path):
    """Seconds of a sweep over topics and over tokens, as Li et al. 2014 show them."""
    import matplotlib.pyplot as plt

    panels = {what: rows for what, rows in growth(runs).items() if rows}
    if not panels:
        return
    fig, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 3.8), squeeze=False)
    for ax, (what, rows) in zip(axes[0], panels.items(), strict=True):
        at = [size for size, _ in rows]
        for sampler, colour in (("sparse", "#ee7733"), ("alias", "#0077bb")):
            ax.plot(at, [passes[sampler] for _, passes in rows], "o-", color=colour, label=sampler)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(at, [f"{size:,}" if what == "topics" else f"{size / 1e6:.1f}" for size in at])
        low, high = ax.get_ylim()
        ticks = [m * 10.0**e for e in range(-3, 3) for m in (1, 2, 5)]
        ax.set_yticks([tick for tick in ticks if low <= tick <= high])
        ax.minorticks_off()
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        corpus = next(iter(read(runs, f"over {what}")))
        ax.set_title(corpus.rpartition("-")[0] if what == "topics" else _corpus(corpus))
        ax.set_xlabel("topics" if what == "topics" else "million tokens")
        ax.set_ylabel("seconds a sweep")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False)
    fig.tight_layout()
    fig.savefig(path, dpi=150)


def draw(runs, path):
    """Held-out score against training time, a panel a corpus."""
    import matplotlib.pyplot as plt

    curves = read(runs, "curves")
    if not curves:
        return
    n_columns = min(2, len(curves))
    n_rows = -(-len(curves) // n_columns)
    fig, axes = plt.subplots(
        n_rows, n_columns, figsize=(6.2 * n_columns, 4.4 * n_rows), squeeze=False
    )
    for ax in axes.flat[len(curves) :]:
        ax.set_visible(False)
    lines = {}
    for ax, (name, labels) in zip(axes.flat, curves.items(), strict=False):
        bests = []
        # Ours last, so that it lies on top.
        for label, run in reversed(labels.items()):
            words = label.split()
            if words[0] not in FAMILIES:
                continue
            family, colour = FAMILIES[words[0]]
            style = next((STYLES[word] for word in words if word in STYLES), "-")
            width = 3.2 if label == "L=8" else 2 if family == "sklearn_sparsepost" else 1.5
            marker = "o" if len(run.passes) < 4 else None
            told = f"{family} {label}" if family == "sklearn_sparsepost" else label
            line = {"color": colour, "ls": style, "lw": width, "marker": marker, "ms": 3}
            known = run.known
            (lines[told],) = ax.plot(run.seconds[known], run.scores[known], **line)
            bests.append(np.nanmax(run.scores))
        # Early and failed states are far below: they may leave the panel.
        top, bottom = max(bests), max(min(bests), max(bests) - 0.5)
        pad = 0.12 * (top - bottom) + 1e-3
        ax.set_ylim(bottom - 3 * pad, top + pad)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.set_title(_corpus(name))
        ax.set_xlabel("training time (s)")
        ax.set_ylabel("held-out score (nats a word)")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    order = sorted(lines, key=lambda told: (not told.startswith("sklearn_sparsepost"), told))
    fig.tight_layout()
    fig.legend(
        [lines[told] for told in order],
        order,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=2 * n_columns - (n_columns > 1),
        frameon=False,
        handlelength=3,
    )
    fig.savefig(path, dpi=150, bbox_inches="tight")


def main():
    """Read the results of a folder and write everything."""
    import matplotlib

    matplotlib.use("Agg")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results"
    record = json.loads((folder / "results.json").read_text())
    runs = record["runs"]
    tables = {
        "local_step": local_step_tables(runs, Table),
        "restart": restart_tables(runs, Table),
        "correlated": correlated_tables(runs, Table),
        "topics_found": topics_found_tables(runs, Table),
        "power_law": power_law_tables(runs, Table),
        "cluster": cluster_tables(runs, Table),
        "fault": fault_tables(runs, Table),
    }
    pictures = {
        "correlated": draw_tree(runs, folder / "topic_tree.png"),
        "cluster": draw_scale_out(runs, folder / "cluster_scale_out.png"),
    }
    every = all_tables(runs)
    # Results of a trial do not belong in the documentation.
    guide = GUIDE.parent if folder.resolve() == HERE / "results" else folder
    elsewhere = {name for names in PAGES.values() for name in names}
    rest = {key.split("/")[0] for key in runs} - elsewhere
    (guide / GUIDE.name).write_text(rst(every, record, rest))
    for page, experiments in PAGES.items():
        text = rst(tables[page], record, experiments) + pictures.get(page, "")
        (guide / f"_{page}_tables.rst").write_text(text)
        every += tables[page]
    (folder / "tables.md").write_text(markdown(every, record))
    draw(record["runs"], folder / "heldout_against_time.png")
    draw_growth(record["runs"], folder / "sweep_seconds.png")
    draw_mixtures(record["runs"], folder / "mixtures_against_time.png")
    for key, result in record["runs"].items():
        if "error" in result:
            print(f"{key} failed: {result['error']}")


if __name__ == "__main__":
    main()

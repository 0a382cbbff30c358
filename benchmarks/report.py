"""Tables and the figure from the results: ``python benchmarks/report.py [FOLDER]``.

Writes `tables.md` and the figures beside the results, and the same tables for the user guide of the
documentation.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from cells import Table, corpus_title, number, score_cell
from report_clusters import cluster_tables, draw_scale_out
from report_correlated import correlated_tables, draw_tree
from report_faults import fault_tables
from report_local_steps import local_step_tables, restart_tables
from report_mixtures import draw_mixtures, mixture_tables
from report_power_laws import power_law_tables
from report_samplers import draw_growth, sampler_tables
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
    "power_law": ("power laws", "power law seeds", "power law sweeps"),
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
                    number(run.speed),
                    score_cell(run.scores[best]),
                    number(run.seconds[best]),
                    *(number(run.time_to(level)) for level in goals.values()),
                ]
            )
        told = "; ".join(f"{what} is at {score_cell(level)}" for what, level in goals.items())
        header = ["method", "M tokens/s", "best score", "at s", *(f"s to {what}" for what in goals)]
        note = f"Held-out score in nats a token, higher is better. {told}."
        tables.append(Table(f"Learning curves: {corpus_title(name)}", note, header, rows))
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
            cells = [number(found[level]) if level in found else "" for level in levels]
            both = {"L=8", "dense"} <= found.keys()
            ratio = number(found["dense"] / found["L=8"]) if both else ""
            rows.append([name.rpartition("-")[2], *cells, ratio])
        if rows:
            corpus = next(iter(by_topics)).rpartition("-")[0]
            note = "Medians of the passes from the third on."
            header = ["topics", *levels, "dense / L=8"]
            tables.append(
                Table(f"Seconds of a pass, {learning} learning: {corpus}", note, header, rows)
            )
    return tables


def start_tables(runs):
    """Seconds until the first pass."""
    rows = [
        [corpus_title(name), number(labels["start"].start)]
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
        tables.append(Table(f"Seeds: {corpus_title(name)}, {passes} passes", "", header, [cells]))
    return tables


def prior_tables(runs):
    """Fixed and learned priors by both scores."""
    rows = [
        [
            corpus_title(name),
            label,
            score_cell(run.scores[-1]),
            score_cell(run.results[0]["own_score"]),
        ]
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
            rows.append(
                [
                    label,
                    score_cell(scores.mean()),
                    score_cell(scores.min()),
                    score_cell(scores.max()),
                ]
            )
        note = (
            f"{results[0]['n_streamed']:,} documents are streamed. By default a batch after a fit "
            "counts as its share of all documents seen."
        )
        title = f"A stream after a fit: {corpus_title(name)}, {len(results)} seeds"
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
            [name, number(speed), number(speed / speeds["scikit-learn"])]
            for name, speed in speeds.items()
        ]
        apart = "; ".join(f"{pair} {value:.3f}" for pair, value in result["mean_l1"].items())
        note = f"Mean L1 distance of the documents' weights, at most 2: {apart}."
        header = ["model", "documents/s", "times scikit-learn"]
        tables.append(Table(f"transform: {corpus_title(key.split('/')[1])}", note, header, rows))
    return tables


def pair_tables(runs, experiment, title, first, second):
    """Seconds of a pass one way and the other, of interleaved runs."""
    rows = [
        [
            corpus_title(name),
            number(labels[first].pass_seconds),
            number(labels[second].pass_seconds),
            number(labels[first].pass_seconds / labels[second].pass_seconds),
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
            [label, str(passes), number(seconds), score_cell(score)]
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
            f"Memory-mapped, on two threads, the start ({number(np.median(starts))} s) included. "
            f"Peak memory, with the pages of the mapped files: {told}."
        )
        header = ["learning", "passes", "s", "score"]
        tables.append(Table(f"Out of core: {corpus_title(name)}", note, header, rows))
    return tables


def all_tables(runs):
    """Every table for which there are results."""
    return [
        *curve_tables(runs),
        *sampler_tables(runs),
        *pass_tables(runs),
        *start_tables(runs),
        *seed_tables(runs),
        *prior_tables(runs),
        *stream_tables(runs),
        *transform_tables(runs),
        *pair_tables(runs, "threads", "Threads", "1", "2"),
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
        ax.set_title(corpus_title(name))
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

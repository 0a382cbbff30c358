"""Tables of models that find how many topics there are."""

import numpy as np
from runs import read


def topics_found_tables(runs, table):
    """Tables of the experiment `topics found`.

    Parameters and what comes back are those of :func:`report_local_steps.local_step_tables`.
    """
    curves = {key: run for key, run in runs.items() if "checkpoints" in run}
    found = read(curves, "topics found")
    tables = [_found(name, labels, table) for name, labels in found.items()]
    tables += _times_to_others(found, table) + _moves(curves, table)
    tables += _passes(curves, table) + _sweeps(curves, table)
    return [*tables, *_bars(runs, table), *_blobs(runs, table), *_patches(runs, table)]


def _found(name, labels, table):
    """Topics and scores in the end, and seconds a pass, of one corpus."""
    found = {}
    for label, run in labels.items():
        found.setdefault(label.split(", seed")[0], []).append(run)
    rows = []
    for label, group in found.items():
        last = [run.results[0]["checkpoints"][-1] for run in group]
        scores = [row["score"] for row in last]
        numbers = sorted(row["n_topics"] for row in last)
        spread = f" ({max(scores) - min(scores):.3f})" if len(scores) > 1 else ""
        rows.append(
            [
                label,
                f"{numbers[0]}-{numbers[-1]}" if numbers[0] < numbers[-1] else str(numbers[0]),
                f"{np.mean(scores):.3f}{spread}",
                f"{np.mean([row['seconds'] / row['passes'] for row in last]):.2f}",
                f"{np.mean([row['seconds'] for row in last]):.0f}",
                str(len(group)),
            ]
        )
    corpus, _, k = name.rpartition("-")
    note = (
        f"Begun with {k} topics: how many there are in the end, held-out score in nats a token, "
        "higher is better (in brackets how far the seeds are apart), seconds a pass or sweep, the "
        "start included, and seconds in all, one thread."
    )
    header = ["model", "topics", "score", "s a pass", "s", "seeds"]
    return table(f"Topics found: {corpus}", note, header, rows)


def _times_to_others(found, table):
    """How soon SparseHDP is at the best scores of other libraries' HDPs."""
    rows = []
    for name, labels in found.items():
        ours = labels.get("HDP, no restarts, seed 0")
        for other in ("tomotopy HDP", "gensim HDP"):
            run = labels.get(f"{other}, seed 0")
            if ours is None or run is None:
                continue
            at = int(np.nanargmax(run.scores))
            soon = ours.time_to(run.scores[at])
            rows.append(
                [
                    f"{name}, {other}",
                    f"{run.scores[at]:.3f}",
                    f"{run.seconds[at]:.1f}",
                    f"{soon:.1f}",
                    f"{run.seconds[at] / soon:.0f}",
                ]
            )
    note = (
        "The best score of another library's HDP in the time it had, its seconds until then, those "
        "of SparseHDP without restarts to the same score, start included, and their ratio."
    )
    header = ["corpus and topics to begin with", "best score", "its s", "our s", "ratio"]
    return [table("Time to the best of others", note, header, rows)] * bool(rows)


def _moves(curves, table):
    """Scores with moves, without, and with births, after equally many passes."""
    rows = []
    for name, labels in read(curves, "moves").items():
        found = {}
        for label, run in labels.items():
            found.setdefault(label.split(", seed")[0], []).append(run.results[0]["checkpoints"][-1])
        for label, last in found.items():
            scores, topics = ([row[what] for row in last] for what in ("score", "n_topics"))
            rows.append(
                [
                    name,
                    label,
                    ", ".join(map(str, topics)),
                    f"{np.mean(scores):.3f}",
                    f"{np.ptp(scores):.3f}",
                    str(last[0]["passes"]),
                ]
            )
    note = (
        "How many topics there are in the end, a seed each, held-out score in nats a token, and "
        "how far the seeds are apart. Without restarts; of arxiv300k a tenth."
    )
    header = ["corpus and topics to begin with", "", "topics", "score", "apart", "passes"]
    return [table("With moves and without", note, header, rows)] * bool(rows)


def _passes(curves, table):
    """Seconds of a fit, moves included, beside those of LDA, and on two threads."""
    rows = []
    for experiment in ("hdp passes", "hdp threads"):
        for name, labels in read(curves, experiment).items():
            seconds = {label: run.seconds[-1] / run.passes[-1] for label, run in labels.items()}
            unit = "" if experiment == "hdp passes" else " threads"
            for label, value in seconds.items():
                one = label[:-1] + "1" if unit else "LDA"  # whose seconds the ratio is to
                ratio = f"{value / seconds[one]:.2f}" if one in seconds else ""
                rows.append([name, f"{label}{unit}", f"{value:.2f}", ratio])
    note = (
        "Seconds of a fit by its passes, the start and all moves included, and their ratio to LDA, "
        "or to one thread. Medians of several fits."
    )
    header = ["corpus and topics to begin with", "model", "s a pass", "ratio"]
    return [table("Seconds of a pass with moves", note, header, rows)] * bool(rows)


def _sweeps(curves, table):
    """What Dirichlet processes over documents add to a sweep."""
    rows = []
    for name, labels in read(curves, "process sweeps").items():
        if len(labels) == 2:
            lda, hdp = (labels[label].pass_seconds for label in ("LDA", "HDP, sampled"))
            rows.append([name, f"{lda:.3f}", f"{hdp:.3f}", f"{hdp / lda:.2f}"])
    note = (
        "Seconds of a sweep of AliasLDA with a number of topics and with Dirichlet processes over "
        "documents, the first two left out, medians of several fits on one thread."
    )
    header = ["corpus and topics", "LDA", "HDP", "HDP / LDA"]
    return [table("Sweeps with Dirichlet processes over documents", note, header, rows)] * bool(
        rows
    )


def _bars(runs, table):
    """How many of ten bars are found."""
    note = (
        "1,000 images of 900 pixels from 10 bars and noise, a fit for each of several seeds: "
        "topics found, passes made, and the median of the seconds with one thread."
    )
    rows = [
        [
            begun,
            ", ".join(map(str, result["topics"])),
            ", ".join(map(str, result["passes"])),
            f"{np.median(result['seconds']):.1f}",
        ]
        for _, begun, result in _counted(runs, "bars")
    ]
    return [table("Bars found", note, ["begun with", "topics", "passes", "s"], rows)] * bool(rows)


def _patches(runs, table):
    """Gaussians of image patches: weights for each photograph, and for all."""
    found = {}
    for key, run in runs.items():
        experiment, name, label = key.split("/")
        if experiment == "patches by image" and "checkpoints" in run:
            last = run["checkpoints"][-1]
            found.setdefault(name.rpartition("-")[2], {}).setdefault(
                label.split(", seed")[0], []
            ).append(last)
    tables = []
    for k, labels in found.items():
        rows = [
            [
                label,
                ", ".join(str(row["n_topics"]) for row in last),
                f"{np.mean([row['score'] for row in last]):.2f} "
                f"({np.ptp([row['score'] for row in last]):.2f})",
                f"{np.mean([row['seconds'] / row['passes'] for row in last]):.2f}",
            ]
            for label, last in labels.items()
        ]
        note = (
            f"Zero-mean Gaussians of 8 x 8 patches of 100 photographs, begun with {k}: how many "
            "there are in the end, a seed each, the log-likelihood of a patch of 30 other "
            "photographs, in nats (in brackets how far the seeds are apart), and seconds a pass, "
            "one thread. SparseHDP has weights for each photograph, inferred from four fifths of "
            "its patches for the last fifth; the Dirichlet process of SparseMixture has one set."
        )
        header = ["model", "components", "score", "s a pass"]
        tables.append(table("Patches by photograph", note, header, rows))
    return tables


def _blobs(runs, table):
    """How often all of some far clouds are found."""
    note = (
        "Gaussian clouds of different sizes and shapes in 2, 4 and 8 dimensions, about 400 points "
        "each, several seeds each: how many fits of SparseMixture with a Dirichlet process end "
        "with as many components, passes made, and the median of the seconds with one thread."
    )
    rows = []
    for n_blobs, begun, result in _counted(runs, "blobs"):
        found = [number == int(n_blobs) for number in result["topics"]]
        label = begun.partition(", ")[2]
        passes = f"{min(result['passes'])}-{max(result['passes'])}"
        seconds = f"{np.median(result['seconds']):.1f}"
        rows.append([n_blobs, label, f"{sum(found)} of {len(found)}", passes, seconds])
    header = ["clouds", "begun with", "all found", "passes", "s"]
    return [table("Clouds found", note, header, rows)] * bool(rows)


def _counted(runs, kind):
    """What there are, what a fit began with, and results, of one kind of data."""
    for key, result in runs.items():
        experiment, name, label = key.split("/")
        if experiment == "topics found" and name.startswith(f"{kind}-") and "topics" in result:
            number = name.partition("-")[2]
            yield number, f"{number}, {label}", result

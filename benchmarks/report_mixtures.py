"""Tables and a picture of mixtures."""

import numpy as np
from cells import Table, number
from report_mixture_starts import mixture_start_tables


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
            [f"{k}", *(number(_pass_seconds(found[x])) if x in found else "" for x in labels)]
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
    tables.extend(_precisions(runs))
    tables.extend(_parts(runs))
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
            number(_pass_seconds(result)),
            number(points[-1]["seconds"]),
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
    rows, medians = [], []
    for dtype in ("float64", "float32"):
        seconds = {"1": [], "2": []}
        for found in _mixtures(runs, f"mixture threads, {dtype}").values():
            for label, result in found.items():
                ends = [row["seconds"] for row in result["checkpoints"]]
                seconds[label.split("#")[0]].append(ends)
        if all(seconds.values()):
            # Repetitions as one, as wherever there are some.
            merged = (np.median(ends, axis=0) for ends in seconds.values())
            one, two = (float(np.median(np.diff(ends))) for ends in merged)
            medians.append((one, two))
            rows.append([dtype, number(one), number(two), _ratio(one, two)])
    if len(rows) == 2:
        rows.append(["ratio", *(_ratio(*pair) for pair in zip(*medians, strict=True)), ""])
    note = "Seconds of a pass, 200 components, L = 4. Medians of five runs each, which took turns."
    title = "Threads and precision: mixtures of image patches"
    table = Table(title, note, ["", "1", "2", "ratio"], rows)
    return [table] * bool(rows)


def _precisions(runs):
    """Passes of two fits that took turns, in either precision."""
    rows, n_turns = [], 0
    for key, result in runs.items():
        if key.startswith("mixture-precisions/") and "ratio" in result:
            seconds = {dtype: np.array(values) for dtype, values in result["seconds"].items()}
            ratios = seconds["float64"] / seconds["float32"]
            low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
            medians = [number(np.median(values)) for values in seconds.values()]
            unit, n_turns = key.split("/")[-1], len(ratios)
            rows.append([unit, *medians, f"{middle:.2f} x", f"{low:.2f} to {high:.2f}"])
    note = (
        f"Seconds of a pass, L = 4, one thread, by vector unit: medians of {n_turns} turns of some "
        "passes, each beside one of the other precision, so that a machine whose speed changes "
        "does so to both. Quartiles of these pairs' ratios."
    )
    header = ["", "float64", "float32", "ratio", "quartiles"]
    return [Table("Precision: passes in turns", note, header, rows)] * bool(rows)


def _parts(runs):
    """What a pass consists of in either precision."""
    found = [
        result["seconds"]
        for key, result in runs.items()
        if key.startswith("mixture-parts/") and "seconds" in result
    ]
    if not found:
        return []
    names = {
        "axes": "turning rows",
        "search": "search for L weights, up to the fifth pass",
        "again": "the same by what was found before",
        "weights": "of which weighing L a row",
        "statistics": "statistics",
        "components": "new components",
    }
    double, single = found[0]["float64"], found[0]["float32"]
    apart = "search", "weights"  # of other passes, and a part of a part
    whole = [
        sum(value for name, value in seconds.items() if name not in apart)
        for seconds in (double, single)
    ]
    parts = [(label, double[name], single[name]) for name, label in names.items()]
    parts.append(("all, from the sixth pass on", *whole))
    rows = [[label, *map(number, pair), _ratio(*pair)] for label, *pair in parts]
    note = (
        "Seconds for 100,000 patches, 200 components, L = 4, one thread. Bounds are always "
        "integers, and components always double."
    )
    return [Table("Parts of a pass", note, ["", "float64", "float32", "ratio"], rows)]


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

"""Tables of fits to data on worker processes."""

import numpy as np
from simulate_cluster import CORES, GBIT, LOCAL, Network, efficiency, pass_seconds, pieces_of

# What is shown of the simulation: tokens, workers, and networks by name.
TOKENS, WORKERS = 1e9, (1, 2, 4, 8, 16, 32, 64, 128)
NETWORKS = {"10 Gbit/s": Network(), "1 Gbit/s": Network(bandwidth=GBIT)}


def cluster_tables(runs, table):
    """Tables of the experiment `cluster`.

    Parameters and what comes back are those of :func:`report_local_steps.local_step_tables`.
    """
    fits = _fits(runs)
    return [*_seconds(fits, table), *_bytes(fits, table), *_simulated(fits, table)]


def _fits(runs):
    """Results by data and kind of learning, and what was measured."""
    fits = {}
    for key, run in runs.items():
        experiment, _, rest = key.partition("/")
        if experiment == "cluster" and "error" not in run:
            name, _, label = rest.partition("#")[0].partition(", ")
            fit = fits.setdefault(name, {})
            if label in fit:  # once more
                run = {**fit[label], "seconds": fit[label]["seconds"] + run["seconds"]}
            fit[label] = run
    return fits


def _pieces(fits):
    """What a simulation needs, of each fit that has it."""
    for name, fit in fits.items():
        if "1 thread" in fit and "pieces" in fit.get("bytes", ()) and name.endswith("/batch"):
            yield name, fit, pieces_of(fit["bytes"], fit["1 thread"])


def _simulated(fits, table):
    """Seconds of a pass as simulated, and as measured where there are processes."""
    checked, rows = [], []
    for name, fit, pieces in _pieces(fits):
        for n_workers in (1, 2, 4):
            label = f"{n_workers} worker{'s' * (n_workers > 1)}"
            if label in fit:
                found = np.median(fit[label]["seconds"])
                options = {"network": LOCAL, "n_blocks": 8, "cores": CORES}
                model = pass_seconds(pieces, n_workers, **options)
                row = [name, str(n_workers), f"{found:.2f}", f"{model:.2f}"]
                checked.append([*row, f"{100 * (model / found - 1):+.0f} %"])
        for n_workers in WORKERS:
            row = [name, str(n_workers)]
            for network in NETWORKS.values():
                share, seconds = efficiency(pieces, n_workers, TOKENS, network)
                row += [f"{seconds:,.1f}", f"{100 * share:.0f} %"]
            if name.startswith(("arxiv", "kos")):  # whose units are tokens
                rows.append(row)
    note = (
        "Seconds of a pass on worker processes of this machine's two cores, measured and simulated "
        "from the compute of one thread, the bytes that travel and the seconds to pack and join "
        "them (benchmarks/simulate_cluster.py), at 1 GB/s and 0.2 ms a message between processes."
    )
    header = ["data, components, learning", "workers", "measured", "simulated", "difference"]
    tables = [table("The simulation beside processes", note, header, checked)] * bool(checked)
    note = (
        f"Simulated, not measured: seconds of a pass of batch learning over {TOKENS:.0e} tokens on "
        "workers of one core like this machine's, four blocks each whose seconds differ by 5 %, at "
        "0.5 ms a message and 1 ms a task; and efficiency, the time of one worker over that of all "
        "and their number. Sums of more tokens are larger by the power that those of more and of "
        "fewer blocks of the measured corpus tell, up to dense tables."
    )
    header = ["data, components, learning", "workers"]
    for name in NETWORKS:
        header += [f"seconds, {name}", "efficiency"]
    return tables + [table("A pass on a cluster, simulated", note, header, rows)] * bool(rows)


def draw_scale_out(runs, path):
    """Draw how many times faster a simulated pass is on many workers.

    Parameters
    ----------
    runs : dict
        Results by key.
    path : Path
        Of the picture.

    Returns
    -------
    text : str
        What shows the picture in the user guide; nothing without results.
    """
    import matplotlib.pyplot as plt

    found = [(name, pieces) for name, _, pieces in _pieces(_fits(runs)) if "bsds" not in name]
    if not found:
        return ""
    fig, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    ax.plot(WORKERS, WORKERS, color="0.7", lw=1, label="ideal")
    for name, pieces in found:
        for (label, network), style in zip(NETWORKS.items(), ("o-", "s--"), strict=True):
            gains = [w * efficiency(pieces, w, TOKENS, network)[0] for w in WORKERS]
            ax.plot(WORKERS, gains, style, ms=4, lw=1.6, label=f"{name}, {label}")
    ax.set(xscale="log", yscale="log", xlabel="workers", ylabel="times faster than one worker")
    ax.set_xticks(WORKERS, WORKERS)
    ax.set_yticks(WORKERS, WORKERS)
    ax.minorticks_off()
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=110)
    plt.close(fig)
    return (
        f"\n.. figure:: ../../benchmarks/results/{path.name}\n"
        "   :alt: Simulated speed of a pass on up to 128 workers, beside the ideal.\n\n"
        "   A pass of batch learning over 10\\ :sup:`9` tokens: simulated.\n"
    )


def _seconds(fits, table):
    """Seconds of a pass on threads and on workers: a table for each processor."""
    labels = ["1 thread", "2 threads", "1 worker", "2 workers", "1 worker of 2 threads"]
    by_processor = {}
    for name, fit in fits.items():
        if all(label in fit for label in labels):
            seconds = [np.median(fit[label]["seconds"]) for label in labels]
            _, two, worker, workers, of_threads = seconds
            row = [name, *(f"{value:.2f}" for value in seconds), f"{worker / workers:.2f}"]
            row += [f"{100 * (s / two - 1):.0f} %" for s in (workers, of_threads)]
            as_it_comes = fit.get("2 workers, Dask as it comes")
            found = np.median(as_it_comes["seconds"]) if as_it_comes else None
            rows = by_processor.setdefault(fit["2 workers"]["processor"], [])
            rows.append([*row, f"{found:.2f}" if as_it_comes else "–"])
    note = (
        "Seconds of a pass, the first of each fit left out, medians of one fit or more, in turns: "
        "the same rows as one array on threads of this process, and in eight blocks on workers, of "
        "one thread where nothing else is said, of a cluster that looks at itself less often than "
        "Dask has it (see above); the last column is of two workers of one as it comes. Gain is "
        "one worker's time over that of two, and overhead what two workers, and one of two "
        "threads, need beyond this process's two threads."
    )
    header = [*labels, "gain", "overhead", "overhead of one worker", "as it comes"]
    header = ["data, components, learning", *header]
    title = "A Dask array on worker processes"
    if len(by_processor) < 2:
        return [table(title, note, header, rows) for rows in by_processor.values()]
    return [
        table(f"{title}, on {processor}", note, header, rows)
        for processor, rows in by_processor.items()
    ]


def _bytes(fits, table):
    """What travels in a pass."""
    rows = []
    for name, fit in fits.items():
        if "bytes" in fit:
            run, sent = fit["bytes"], fit["bytes"]["bytes"]
            n_workers = len(run["memory"])
            kept, back, held = (b / n_workers for b in (run["kept"], sent["back"], run["data"]))
            between = sent.get("between workers", 0) / n_workers
            to = sent["to each worker"] + sent.get("with tasks", 0) / n_workers
            ratio = (to + between + back) / (sent["globals"] + kept)
            row = [to, between, back]
            row += [sent["globals"], kept, held, max(run["memory"])]
            rows.append([name, *(f"{value / 1e6:,.0f}" for value in row), f"{ratio:.2f}"])
    note = (
        "Megabytes of the third pass (of batch learning of the second, in which workers were sent "
        "what chunks start from as well), a worker of two: what it is sent, globals, their changes "
        "and which rows chunks have, what workers send to each "
        "other and what comes back, all packed; beside the globals, sent once and not packed, its "
        "share of the statistics that are kept, its blocks, and the most memory that it ever had. "
        "The ratio is of all that travels to globals and statistics once."
    )
    header = [
        "data, components, learning",
        "to",
        "between",
        "back",
        "globals",
        "kept",
        "blocks",
        "memory",
    ]
    return [table("What travels in a pass", note, [*header, "ratio"], rows)] * bool(rows)

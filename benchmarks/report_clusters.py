"""Tables of fits to data on worker processes."""

import numpy as np


def cluster_tables(runs, table):
    """Tables of the experiment `cluster`.

    Parameters
    ----------
    runs : dict
        Results by key.
    table : callable
        Makes a table of a title, a note, names of columns and rows.

    Returns
    -------
    tables : list
        Those for which there are results.
    """
    fits = {}
    for key, run in runs.items():
        experiment, _, rest = key.partition("/")
        if experiment == "cluster" and "error" not in run:
            name, _, label = rest.rpartition(", ")
            fits.setdefault(name, {})[label] = run
    return [*_seconds(fits, table), *_bytes(fits, table)]


def _seconds(fits, table):
    """Seconds of a pass on threads and on workers."""
    labels = ["1 thread", "2 threads", "1 worker", "2 workers"]
    rows = []
    for name, fit in fits.items():
        if all(label in fit for label in labels):
            one, two, worker, workers = (np.median(fit[label]["seconds"]) for label in labels)
            row = [name, *(f"{value:.2f}" for value in (one, two, worker, workers))]
            rows.append([*row, f"{worker / workers:.2f}", f"{100 * (workers / two - 1):.0f} %"])
    note = (
        "Seconds of a pass, the first left out: the same rows as one array on threads of this "
        "process, and in eight blocks on worker processes of one thread. Gain is one worker's time "
        "over that of two, overhead what two workers need beyond two threads."
    )
    header = ["data, components, learning", *labels, "gain", "overhead"]
    return [table("A Dask array on worker processes", note, header, rows)] * bool(rows)


def _bytes(fits, table):
    """What travels in a pass."""
    rows = []
    for name, fit in fits.items():
        if "bytes" in fit:
            run, sent = fit["bytes"], fit["bytes"]["bytes"]
            n_workers = len(run["memory"])
            kept, back, held = (b / n_workers for b in (run["kept"], sent["back"], run["data"]))
            ratio = (sent["to each worker"] + back) / (sent["globals"] + kept)
            row = [sent["to each worker"], back, sent["globals"], kept, held, max(run["memory"])]
            rows.append([name, *(f"{value / 1e6:,.0f}" for value in row), f"{ratio:.2f}"])
    note = (
        "Megabytes of the second pass, a worker of two: what it is sent, and what it sends back; "
        "beside the globals, sent once, its share of the statistics that are kept, its blocks, and "
        "the most memory that it ever had. The ratio is of both to globals and statistics once."
    )
    header = ["data, components, learning", "to", "back", "globals", "kept", "blocks", "memory"]
    return [table("What travels in a pass", note, [*header, "ratio"], rows)] * bool(rows)

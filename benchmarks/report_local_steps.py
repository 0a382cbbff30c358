"""Tables of the local steps: which is better when, and what a batch of a stream costs."""

import numpy as np
from runs import read

TIMES = (2, 5, 10, 20, 30, 90)


def _held_out(name, labels, table):
    """Scores at some times, the mean over seeds and how far these are apart."""
    found = {}
    for label, run in labels.items():
        found.setdefault(label.split(", seed")[0], []).append(run)
    longest = max(run.seconds[-1] for runs in found.values() for run in runs)
    times = [t for t in TIMES if t <= 1.1 * longest]
    rows = []
    for label, runs in found.items():
        row = [label]
        for t in times:
            scores = [run.score_at(t) for run in runs if run.seconds[run.known][0] <= t]
            if len(scores) < len(runs):
                row.append("-")
                continue
            spread = f" ({max(scores) - min(scores):.3f})" if len(scores) > 1 else ""
            row.append(f"{np.mean(scores):.3f}{spread}")
        rows.append(row)
    n_seeds = max(len(runs) for runs in found.values())
    note = "Held-out score in nats a token after so many seconds of training, higher is better."
    if n_seeds > 1:
        note += f" Means over {n_seeds} seeds; in brackets how far the seeds are apart."
    corpus, _, k = name.rpartition("-")
    header = ["method", *(f"{t} s" for t in times)]
    return table(f"Local steps: {corpus}, {k} topics", note, header, rows)


def local_step_tables(runs, table):
    """Tables of the experiments `local steps` and `minibatch`.

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
    tables = [
        _held_out(name, labels, table)
        for experiment in ("local steps", "local steps, 2 threads")
        for name, labels in read(runs, experiment).items()
    ]
    found = {}
    for key, result in runs.items():
        if key.startswith("minibatch/") and "milliseconds" in result:
            _, name, label = key.split("/")
            found.setdefault(label, {})[int(name.rpartition("-")[2])] = result["milliseconds"]
    if found:
        sizes = sorted({k for times in found.values() for k in times})
        header = ["local step", *(f"{k} topics" for k in sizes), "growth"]
        rows = []
        for label, times in found.items():
            known = sorted(times)
            growth = f"{times[known[-1]] / times[known[0]]:.2f}" if len(known) > 1 else ""
            rows.append([label, *(f"{times[k]:.1f}" if k in times else "" for k in sizes), growth])
        note = "Milliseconds that `partial_fit` takes for 100 documents of newsgroups20."
        tables.append(table("A batch of a stream", note, header, rows))
    return tables

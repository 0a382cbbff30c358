"""Tables of where mixtures begin."""

import numpy as np


def mixture_start_tables(runs, table):
    """Tables of the experiments `mixture-start` and `mixture-level`.

    Parameters and what comes back are those of :func:`report_local_steps.local_step_tables`.
    """
    return [*_starts(runs, table), *_levels(runs, table)]


def _starts(runs, table):
    """What each start comes to."""
    found = {}
    for key, run in runs.items():
        if key.startswith("mixture-start/") and "score" in run:
            _, data, label = key.split("/")
            found.setdefault((data, label.rpartition(" ")[0]), []).append(run)
    rows = []
    for (data, start), results in found.items():
        scores = [run["score"] for run in results]
        share = [run["start_seconds"] / run["seconds"] for run in results if "start_seconds" in run]
        spread = [np.std(scores, ddof=1), np.ptp(scores)] if len(scores) > 1 else []
        row = [data, start, f"{np.mean(scores):.3f}", *[f"{value:.3f}" for value in spread]]
        row += [*[""] * (5 - len(row)), f"{len(scores)}"]
        row += [f"{np.median([run['seconds'] for run in results]):.1f}"]
        rows.append([*row, f"{100 * np.median(share):.1f} %" if share else ""])
    note = (
        "Held-out nats a row after ten passes: mean, standard deviation and range over seeds; CPU "
        "seconds of the fit, and the start's part of them. Patches by maximum likelihood but for "
        '"bayes", all others by the default.'
    )
    header = ["data", "start", "score", "deviation", "range", "seeds", "s", "start"]
    return [table("Starts of mixtures", note, header, rows)] * bool(rows)


def _levels(runs, table):
    """How soon the score of scikit-learn's steps is reached."""
    rows = []
    for key, run in runs.items():
        peer = runs.get(key.replace("/ours", "/scikit-learn"), {})
        if not key.startswith("mixture-level/") or not key.endswith("/ours"):
            continue
        if "checkpoints" not in run or "checkpoints" not in peer:
            continue
        end = peer["checkpoints"][-1]
        row = [key.split("/")[1].rpartition("-")[2], f"{end['score']:.3f}", f"{end['seconds']:.1f}"]
        reached = [point for point in run["checkpoints"] if point["score"] >= end["score"]]
        if reached:
            first = reached[0]
            row += [f"{first['passes']}", f"{first['seconds']:.2f}"]
            row.append(f"{end['seconds'] / first['seconds']:.1f} x")
        rows.append([*row, *[""] * (6 - len(row))])
    note = (
        "40,000 patches in 63 coordinates, maximum likelihood, float64, one thread, with starts; "
        "scikit-learn's is of random rows."
    )
    header = ["components", "score of its 15 steps", "its s", "our passes", "our s", "sooner"]
    return [table("The level of scikit-learn's mixtures", note, header, rows)] * bool(rows)

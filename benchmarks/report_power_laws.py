"""Tables of topics from Pitman-Yor processes."""

import numpy as np
from runs import power_law_seeds, read


def power_law_tables(runs, table):
    """Tables of the experiments `power laws`, `power law seeds` and `power law sweeps`.

    Parameters and what comes back are those of :func:`report_local_steps.local_step_tables`.
    """
    curves = {key: run for key, run in runs.items() if "checkpoints" in run}
    return [*_scores(curves, table), *_seeds(runs, table), *_sweeps(curves, table)]


def _scores(curves, table):
    """Held-out scores at equal times, a row for a corpus and model."""
    rows = []
    for name, labels in read(curves, "power laws").items():
        corpus, _, k = name.rpartition("-")
        for label, run in labels.items():
            last = run.seconds[-1]
            points = [f"{run.score_at(share * last):.3f}" for share in (0.1, 0.3, 1)]
            best = f"{run.scores[run.known].max():.3f}"
            rows.append([f"{corpus}, {k} topics", label, *points, best, f"{last:.0f}"])
    note = (
        "Held-out score in nats a token, higher is better, after a tenth, three tenths and all of "
        "the time, the best, and the time in seconds, one thread. All learn the documents' prior; "
        "samples are averaged from the 45th sweep on, and Pitman-Yor topics begin with 22 sweeps "
        "of LDA. Dirichlet process: Pitman-Yor topics with a discount of 0. Learned: their "
        "concentration, too."
    )
    header = ["corpus", "topics", "at 0.1", "at 0.3", "at 1", "best", "s"]
    return [table("Power laws in words", note, header, rows)] * bool(rows)


def _seeds(runs, table):
    """Scores of LDA and of Pitman-Yor topics when the time is over, by several seeds."""
    rows = []
    for name, (lda, other) in power_law_seeds(runs).items():
        corpus, _, k = name.rpartition("-")
        means = [f"{scores.mean():.3f} ± {scores.std(ddof=1):.3f}" for scores in (lda, other)]
        gains = other - lda
        gain = f"{gains.mean():+.3f} ± {gains.std(ddof=1):.3f}"
        above = f"{np.count_nonzero(gains > 0)} of {len(gains)}"
        rows.append([f"{corpus}, {k} topics", *means, gain, above])
    note = (
        "Held-out score in nats a token of several seeds when that time is over: mean and standard "
        "deviation over seeds, of the difference, too; and for how many seeds Pitman-Yor topics "
        "are above."
    )
    header = ["corpus", "LDA", "Pitman-Yor", "difference", "above"]
    return [table("Power laws in words, by seeds", note, header, rows)] * bool(rows)


def _sweeps(curves, table):
    """Seconds of a sweep of both kinds of topics."""
    rows = []
    for name, labels in read(curves, "power law sweeps").items():
        corpus, _, k = name.rpartition("-")
        if {"LDA", "Pitman-Yor"} <= labels.keys():
            lda, other = (labels[label].pass_seconds for label in ("LDA", "Pitman-Yor"))
            row = f"{lda:.3f}", f"{other:.3f}", f"{other / lda:.2f}"
            rows.append([f"{corpus}, {k} topics", *row])
    note = (
        "Seconds of a sweep of AliasLDA with topics from Dirichlet distributions and from "
        "Pitman-Yor processes, whose tokens here sit at tables from the first sweep on; the first "
        "two left out, medians of several fits on one thread."
    )
    header = ["corpus", "LDA", "Pitman-Yor", "ratio"]
    return [table("Sweeps with Pitman-Yor topics", note, header, rows)] * bool(rows)

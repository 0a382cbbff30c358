"""Tables of the local steps: which is better when, and what a batch of a stream costs."""

import numpy as np
from runs import read

TIMES = (2, 5, 10, 20, 30, 90, 180, 270)
# Tokens of the corpus of Mimno, Hoffman & Blei (2012).
LARGE_CORPUS = 33e9


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
            lasting = [r for r in runs if r.seconds[r.known][0] <= t <= 1.1 * r.seconds[-1]]
            scores = [run.score_at(t) for run in lasting]
            if len(scores) < len(runs):
                row.append("-")
                continue
            spread = f" ({max(scores) - min(scores):.3f})" if len(scores) > 1 else ""
            row.append(f"{np.mean(scores):.3f}{spread}")
        rows.append(row)
    n_seeds = max(len(runs) for runs in found.values())
    note = "Held-out score in nats a token after so many seconds of training, higher is better."
    if n_seeds > 1:
        note += f" Means over up to {n_seeds} seeds; in brackets how far the seeds are apart."
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
    found = (_coherence, _drawn, _batches, _costs)
    return [*tables, *(made for tables_of in found for made in tables_of(runs, table))]


def restart_tables(runs, table):
    """A table of the experiment `restarts`; as :func:`local_step_tables`."""
    rows, labels = [], []
    for name, found in read(runs, "restarts").items():
        scores = {}
        for label, run in found.items():
            scores.setdefault(label.split(", split")[0], []).append(run.scores[-1])
        labels = labels or list(scores)
        run = next(iter(found.values()))
        corpus, _, k = name.rpartition("-")
        row = [f"{corpus}, {run.results[0]['n_documents']:,} documents, {k} topics"]
        row += [str(max(len(values) for values in scores.values())), str(run.passes[-1])]
        for label in labels:
            values = scores.get(label, [])
            row.append(f"{np.mean(values):.3f}" if values else "")
        rows.append(row)
    note = (
        "Held-out score in nats a token, the mean over splits and seeds on which nothing else is "
        "reported."
    )
    header = ["corpus", "splits", "passes", *labels]
    return [table("Which documents are restarted", note, header, rows)] * bool(rows)


def _coherence(runs, table):
    """Coherence in the end of online learning, by corpus and local step."""
    found = {}
    for key, result in runs.items():
        if key.startswith("local steps") and "coherence" in result:
            _, name, label = key.split("/")
            last = result["checkpoints"][-1]["score"]
            values = [last, result["coherence"]["npmi"], result["coherence"]["umass"]]
            found.setdefault((name, label.split(", seed")[0]), []).append(values)
    rows = []
    for (name, label), values in found.items():
        score, npmi, umass = np.mean(values, axis=0)
        rows.append([name, label, f"{score:.3f}", f"{npmi:.3f}", f"{umass:.2f}", str(len(values))])
    if not rows:
        return []
    note = (
        "Topics after equal times of online learning: held-out score and mean coherence of the ten "
        "top words on the training documents. Higher is better."
    )
    header = ["corpus and topics", "local step", "score", "NPMI", "UMass", "seeds"]
    return [table("Drawn and ascended topics in online learning", note, header, rows)]


def _drawn(runs, table):
    """Tokens a second and sweep, beside AliasLDA's."""
    tables = []
    for name, labels in read(runs, "drawn tokens").items():
        rates = {}
        for label, run in labels.items():
            options = run.results[0]["spec"]["options"]
            drawn = "local_step" in options
            sweeps = options.get("burn_in", 3) + options.get("n_sweeps", 3) if drawn else 1
            rates[label] = sweeps * run.speed
        rows = [
            [label, f"{rate:.1f}", f"{rate / rates['AliasLDA']:.2f}"]
            for label, rate in rates.items()
        ]
        note = (
            "Millions of tokens a second and sweep, one thread, the first pass left out. A pass of "
            "sampled local steps has three sweeps that are dropped and three that are kept, unless "
            "a row says otherwise, and is counted whole, with the sums of statistics."
        )
        corpus, _, k = name.rpartition("-")
        header = ["method", "drawn", "times AliasLDA's"]
        tables.append(table(f"Drawn tokens: {corpus}, {k} topics", note, header, rows))
    return tables


def _of_batches(runs, experiment):
    """Results of batches by experiment: {label: {topics: result}}."""
    found = {}
    for key, result in runs.items():
        name, corpus, label = key.split("/")
        if name == experiment and "milliseconds" in result:
            found.setdefault(label, {})[int(corpus.rpartition("-")[2])] = result
    return found


def _batches(runs, table):
    """Milliseconds a batch over topics."""
    found = _of_batches(runs, "minibatch")
    sizes = sorted({k for results in found.values() for k in results})
    rows = []
    for label, results in found.items():
        times = {k: result["milliseconds"] for k, result in results.items()}
        known = sorted(times)
        growth = f"{times[known[-1]] / times[known[0]]:.2f}" if len(known) > 1 else ""
        rows.append([label, *(f"{times[k]:.1f}" if k in times else "" for k in sizes), growth])
    if not rows:
        return []
    header = ["local step", *(f"{k} topics" for k in sizes), "growth"]
    note = "Milliseconds that `partial_fit` takes for 100 documents of newsgroups20."
    return [table("A batch of a stream", note, header, rows)]


def _costs(runs, table):
    """Cost of a token over topics and over words, and what it makes of a large corpus."""
    rows = []

    def add(label, n_topics, n_words, result):
        cost = 1e3 * result["milliseconds"] / result["tokens"]
        hours = cost * 1e-6 * LARGE_CORPUS / 3600
        rows.append([label, str(n_topics), n_words, f"{cost:.2f}", f"{hours:.0f}"])

    for label, results in _of_batches(runs, "minibatch").items():
        for n_topics in sorted(results):
            add(label, n_topics, "all", results[n_topics])
    for label, results in _of_batches(runs, "minibatch over words").items():
        for n_topics, result in results.items():
            add("gibbs", n_topics, label, result)
    if not rows:
        return []
    note = (
        "One thread, newsgroups20 and its most frequent words, batches of 100 documents. The last "
        "column is the same cost times the 33 billion tokens of Mimno, Hoffman & Blei (2012): one "
        "pass on one core, if a token cost there what it costs here."
    )
    header = ["local step", "topics", "words", "microseconds a token", "hours"]
    return [table("Cost of a token", note, header, rows)]

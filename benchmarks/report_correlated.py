"""Tables of correlated topics: what correlations predict, and what they cost."""

from runs import read


def _completion(name, labels, table):
    """The model's own predictions from ever fewer words."""
    shares = sorted(next(iter(labels.values()))["own"], key=float, reverse=True)
    header = ["model", "training (s)", "judge", *(f"{float(share):.0%} seen" for share in shares)]
    rows = []
    for label, found in labels.items():
        told = [f"{found['seconds']:.0f}", f"{found['judge']:.3f}"]
        rows.append([label, *told, *(f"{found['own'][share]:.3f}" for share in shares)])
        if "sampled" in found:
            values = (f"{found['sampled'][share]:.3f}" for share in shares)
            rows.append([f"{label}, sampled weights", "", "", *values])
    corpus, _, k = name.rpartition("-")
    note = (
        "Nats a hidden token, higher is better: the judge's score of the topics, and each model's "
        "own prediction from a share of a document's distinct words. AliasLDA learns its prior."
    )
    return table(f"Own completion: {corpus}, {k} topics", note, header, rows)


def _grouped(runs, experiment, wanted):
    """Results of an experiment that have what is wanted: {corpus-topics: {label: result}}."""
    found = {}
    for key, result in runs.items():
        if key.startswith(f"{experiment}/") and wanted in result:
            _, name, label = key.split("/")
            found.setdefault(name, {})[label] = result
    return found


def _best(run):
    return f"{run.scores[run.known].max():.3f}"


def _sweeps(runs, table):
    """Seconds of a sweep by topics."""
    found = {}
    for name, labels in read(runs, "ctm sweeps").items():
        for label, run in labels.items():
            found.setdefault(label, {})[int(name.rpartition("-")[2])] = run.pass_seconds
    if not found:
        return []
    sizes = sorted({k for times in found.values() for k in times})
    rows = [
        [label, *(f"{1e3 * times[k]:.0f}" if k in times else "" for k in sizes)]
        for label, times in found.items()
    ]
    note = "Milliseconds of a sweep over kos, one thread."
    return [table("A sweep of GibbsCTM", note, ["covariance", *map(str, sizes)], rows)]


def _figures(runs, table):
    """Figs. 3, 5a, 6a and 6c of the paper, as tables."""
    tables = []
    for labels in _grouped(runs, "polya-gamma", "distance").values():
        found = labels["distance"]["distance"]
        names = ["gamma", "normal", "scaled", "noise"]
        rows = [[case, *(f"{x[name]:.3f}" for name in names)] for case, x in found.items()]
        for case, x in found.items():
            if x["logit"]:
                values = [f"{x['logit'][name]:.3f}" for name in names[:-1]]
                rows.append([f"logit given {case}", *values, ""])
        note = (
            "Largest difference of distribution functions from the exact one; two exact samples "
            "differ by the noise. The package draws gamma numbers, the paper scaled ones."
        )
        title = "Stand-ins for Polya-Gamma numbers (Fig. 3)"
        tables.append(table(title, note, ["N and tilt", *names], rows))
    for experiment, title in (
        ("ctm over topics", "Over topics (Fig. 5)"),
        ("ctm over priors", "Over the prior's strength (Fig. 6c)"),
    ):
        rows = [
            [name, label, f"{result['seconds']:.0f}", f"{result['own']['0.8']:.3f}"]
            for name, labels in _grouped(runs, experiment, "own").items()
            for label, result in labels.items()
        ]
        if rows:
            header = ["corpus and topics", "setting", "seconds", "80% seen"]
            tables.append(table(title, "Own completion, nats a token.", header, rows))
    for name, labels in read(runs, "ctm over steps").items():
        rows = [
            [label, *(f"{x:.0f}" for x in (run.seconds[-1], run.passes[-1])), _best(run)]
            for label, run in labels.items()
        ]
        header = ["steps", "seconds", "sweeps", "judge"]
        tables.append(table(f"Steps over logits (Fig. 6a): {name}", "The judge.", header, rows))
    return tables


def correlated_tables(runs, table):
    """Tables of the experiments on correlated topics.

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
    completions = _grouped(runs, "completion", "own")
    tables = [_completion(name, labels, table) for name, labels in completions.items()]
    tables += _sweeps(runs, table)
    for name, labels in read(runs, "correlated").items():
        rows = [[label, f"{run.seconds[-1]:.0f}", _best(run)] for label, run in labels.items()]
        note = "The judge's best score of the topics, nats a token."
        tables.append(table(f"Against time: {name}", note, ["model", "seconds", "best"], rows))
    for name, labels in _grouped(runs, "logits", "range").items():
        rows = [
            [str(row["passes"]), f"{row['least']:.1f}", f"{row['most']:.1f}"]
            for row in labels["full"]["range"]
        ]
        note = "Of all documents and topics."
        tables.append(table(f"Range of logits: {name}", note, ["sweeps", "least", "most"], rows))
    return tables + _figures(runs, table)

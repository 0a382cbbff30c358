"""Results of measurements, read back: repetitions as one run."""

from typing import NamedTuple

import numpy as np
from run import experiments


class Run(NamedTuple):
    """Repetitions of a measurement as one, its seconds the medians."""

    passes: np.ndarray
    seconds: np.ndarray
    scores: np.ndarray  # of the first repetition; NaN where there is none
    results: list

    @property
    def pass_seconds(self):
        """Median seconds of a pass from the third on, when the first topics have settled."""
        passes = [
            np.diff([row["seconds"] for row in result["checkpoints"]])[1:]
            for result in self.results
        ]
        return float(np.median(np.median(passes, axis=1)))

    @property
    def start(self):
        """Median seconds until the first pass."""
        return float(np.median([result["start_seconds"] for result in self.results]))

    @property
    def speed(self):
        """Millions of training tokens a second, without what comes before the first checkpoint."""
        found = []
        for result in self.results:  # repetitions within a time may differ in their passes
            points = result["checkpoints"]
            first = points[0] if len(points) > 1 else {"passes": 0, "seconds": 0.0}
            passes = points[-1]["passes"] - first["passes"]
            found.append(passes / (points[-1]["seconds"] - first["seconds"]))
        return float(np.median(found)) * self.results[0]["n_tokens"] / 1e6

    @property
    def known(self):
        """Which checkpoints were scored."""
        return ~np.isnan(self.scores)

    def score_at(self, seconds):
        """The score at some time, interpolated in its logarithm."""
        known = self.known
        return float(np.interp(np.log(seconds), np.log(self.seconds[known]), self.scores[known]))

    def time_to(self, level):
        """Seconds until the score first is at a level, interpolated likewise; NaN for never."""
        scores, seconds = self.scores[self.known], self.seconds[self.known]
        above = np.flatnonzero(scores >= level)
        if not above.size:
            return np.nan
        i = above[0]
        if i == 0:
            return float(seconds[0])
        at = np.interp(level, scores[i - 1 : i + 1], np.log(seconds[i - 1 : i + 1]))
        return float(np.exp(at))


def read(runs, experiment):
    """Runs of an experiment: {corpus-topics: {label: Run}}; failures are left out."""
    found = {}
    order = {key: i for i, (key, _) in enumerate(experiments())}  # however they were resumed
    for key in sorted(runs, key=lambda key: order.get(key, len(order))):
        result = runs[key]
        name, corpus, label = key.split("/")
        if name == experiment and "checkpoints" in result:
            label = label.split("#")[0]
            found.setdefault(corpus, {}).setdefault(label, []).append(result)
    return {
        corpus: {label: _combine(results) for label, results in labels.items()}
        for corpus, labels in found.items()
    }


def power_law_seeds(runs):
    """Last scores of LDA and of Pitman-Yor topics by seeds: {corpus-topics: two arrays}."""
    found, models = {}, ("LDA", "Pitman-Yor")
    first, others = read(runs, "power laws"), read(runs, "power law seeds")
    for name, labels in others.items():
        if not set(models) <= labels.keys() & first.get(name, {}).keys():
            continue
        runs_of = (first[name][model].results + labels[model].results for model in models)
        last = ([run["checkpoints"][-1]["score"] for run in one] for one in runs_of)
        found[name] = [np.array(scores) for scores in last]
    return found


def turns(runs, experiment):
    """Seconds of sweeps in turns: {corpus-topics: {label: [of one thread, of several]}}.

    Arrays of (n_repetitions, n_sweeps), neighbours in time in the same place of both.
    """
    found = {}
    for key, result in runs.items():
        name, corpus, label = key.split("/")
        if name == experiment and "error" not in result:
            pair = [result["seconds"][n] for n in sorted(result["seconds"], key=int)]
            found.setdefault(corpus, {}).setdefault(label.split("#")[0], []).append(pair)
    return {
        corpus: {label: np.swapaxes(pairs, 0, 1) for label, pairs in labels.items()}
        for corpus, labels in found.items()
    }


def _combine(results):
    n_shared = min(len(result["checkpoints"]) for result in results)
    rows = [result["checkpoints"][:n_shared] for result in results]
    return Run(
        np.array([row["passes"] for row in rows[0]]),
        np.median([[row["seconds"] for row in one] for one in rows], axis=0),
        np.array([row.get("score", np.nan) for row in rows[0]]),
        results,
    )

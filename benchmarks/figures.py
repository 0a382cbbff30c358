"""Figures in prose, from the results: what the role ``:measured:`` of the documentation stands for.

``measured('score("curves/kos-50/L=8") | .3f', results)`` is the text of one figure: an expression
of the functions below, and how it is printed. Keys are those of `results.json`, without the number
of the repetition.
"""

import json
from pathlib import Path

import numpy as np
from runs import power_law_seeds, read, turns

RESULTS = Path(__file__).resolve().parent / "results" / "results.json"


class Results:
    """The results of a file, as functions of keys.

    Parameters
    ----------
    path : Path, default=RESULTS
        The file.
    """

    def __init__(self, path=RESULTS):
        self._record = json.loads(path.read_text(encoding="utf-8"))["runs"]
        self._read = {}

    def run(self, key):
        """The repetitions of a measurement as one."""
        experiment, corpus, label = key.split("/")
        if experiment not in self._read:
            self._read[experiment] = read(self._record, experiment)
        try:
            return self._read[experiment][corpus][label]
        except KeyError:
            raise KeyError(f"there is no result {key!r}") from None

    def score(self, key, *, at=None, passes=None):
        """The last held-out score, the one after some seconds, or the one after some passes."""
        run = self.run(key)
        if at is not None:
            return run.score_at(at)
        return float(
            run.scores[self._place(run, passes) if passes else np.flatnonzero(run.known)[-1]]
        )

    def best(self, key):
        """The best held-out score of a run."""
        return float(np.nanmax(self.run(key).scores))

    def best_at(self, key):
        """Seconds of training at which the best score was."""
        run = self.run(key)
        return float(run.seconds[np.nanargmax(run.scores)])

    def seconds(self, key, *, passes=None):
        """Seconds of training in all, or until some pass ended."""
        run = self.run(key)
        return float(run.seconds[self._place(run, passes) if passes else -1])

    def seeds(self, key):
        """Held-out scores of a start from several seeds, their keys without the seed."""
        found = [
            run["score"]
            for name, run in self._record.items()
            if name.rpartition(" ")[0] == key and "score" in run
        ]
        if not found:
            raise KeyError(f"there is no result {key!r}")
        return np.array(found)

    def mean(self, key):
        """The mean score over seeds."""
        return float(self.seeds(key).mean())

    def spread(self, key):
        """The best score of all seeds less the worst."""
        return float(np.ptp(self.seeds(key)))

    def deviation(self, key):
        """The standard deviation of the score over seeds."""
        return float(self.seeds(key).std(ddof=1))

    def start_share(self, key):
        """The part of ten passes' time that finding the start takes, over seeds."""
        start, whole = (
            sum(self.value(f"{key} {seed}", name) for seed in range(5))
            for name in ("start_seconds", "seconds")
        )
        return start / whole

    def gains(self, name):
        """By how much Pitman-Yor topics of a corpus are better than LDA's, by seeds."""
        lda, other = power_law_seeds(self._record)[name]
        return other - lda

    def gain(self, name):
        """The mean of these."""
        return float(self.gains(name).mean())

    @staticmethod
    def _place(run, passes):
        return int(np.flatnonzero(run.passes == passes)[0])

    def time_to(self, key, level):
        """Seconds of training until a score is reached."""
        return self.run(key).time_to(level)

    def each(self, key):
        """Median seconds of a pass, the first two left out."""
        return self.run(key).pass_seconds

    def speed(self, key):
        """Millions of tokens a second."""
        return self.run(key).speed

    def start(self, key):
        """Seconds until the first pass."""
        return self.run(key).start

    def gigabytes(self, key):
        """Peak memory of the process."""
        return self.value(key, "peak_bytes") / 1e9

    def ratio(self, key, other):
        """Median seconds of a pass on workers, or of one beside it, over those of another."""
        first, second = (np.median(self._all_seconds(name)) for name in (key, other))
        return float(first / second)

    def threads_gain(self, key):
        """How many times as long one thread takes for a sweep as several do, in turns."""
        experiment, corpus, label = key.split("/")
        one, several = turns(self._record, experiment)[corpus][label]
        return float(np.median(one / several))

    def _all_seconds(self, key):
        """Seconds of each pass of all repetitions."""
        found = [run for name, run in self._record.items() if name.partition("#")[0] == key]
        if not found:
            raise KeyError(f"there is no result {key!r}")
        return np.concatenate([run["seconds"] for run in found])

    def value(self, key, *path):
        """What a measurement that is no curve found, by its names."""
        found = next((self._record[k] for k in (key, f"{key}#1") if k in self._record), None)
        if found is None:
            raise KeyError(f"there is no result {key!r}")
        for name in path:
            found = found[name]
        return found


def measured(text, results):
    """Print one figure.

    Parameters
    ----------
    text : str
        An expression of the methods of :class:`Results`, ``|``, and a format, as ``.1f``.
    results : Results
        The results.

    Returns
    -------
    figure : str
        The figure.

    Raises
    ------
    KeyError
        If a key is not among the results.
    """
    expression, _, form = text.rpartition("|")
    names = ("score", "best", "best_at", "seconds", "time_to", "each", "speed", "start")
    names += ("start_share", "mean", "spread", "deviation", "gain", "threads_gain", "gigabytes")
    names += ("value", "ratio")
    names = {name: getattr(results, name) for name in names}
    value = eval(expression, {"__builtins__": {"max": max, "min": min}}, names)
    return format(value, form.strip())

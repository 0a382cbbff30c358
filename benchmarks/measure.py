"""One measurement in a process of its own: ``python measure.py '{"kind": ..., ...}'`` prints JSON.

The process is fresh so that no measurement inherits another's memory, threads or caches. run.py
sets the number of threads in its environment, since libraries read it when they are imported.
"""

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import clusters
import faults
import measure_correlated
import measure_mixtures
import measure_topics
import measure_topics_found
import measure_turns

from sklearn_sparsepost import __version__, _kernels

PACKAGES = ("numpy", "scipy", "scikit-learn", "tomotopy", "gensim", "lda", "pyrmallet")


def machine():
    """What the figures depend on besides the code."""
    return {
        "processor": f"{_processor()}, {_kernels.vector_unit}",
        "cores": os.cpu_count(),
        "vector unit": _kernels.vector_unit,
        "system": platform.system(),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": _versions(),
    }


def _processor():
    """The processor's name, and the numbers that tell processors of one name apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        told = dict(map(str.strip, line.split(":", 1)) for line in reversed(lines) if ":" in line)
        return f"{told['model name']} family {told['cpu family']} model {told['model']}"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def _versions():
    found = {"sklearn-sparsepost": __version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


KINDS = {
    "approximations": measure_correlated.approximations,
    "bars": measure_topics_found.bars,
    "blobs": measure_topics_found.blobs,
    "cluster": clusters.cluster,
    "completion": measure_correlated.completion,
    "curve": measure_topics.curve,
    "faults": faults.faults,
    "logits": measure_correlated.logits,
    "minibatch": measure_topics.minibatch,
    "stream": measure_topics.stream,
    "transform": measure_topics.transform,
    "turns": measure_turns.turns,
    "mixture": measure_mixtures.mixture,
    "mixture_start": measure_mixtures.mixture_start,
    "parts of a pass": measure_mixtures.parts_of_a_pass,
    "precisions": measure_mixtures.precisions,
    "single sums": measure_mixtures.single_sums,
    "patches by image": measure_mixtures.patches_by_image,
    "responsibilities": measure_mixtures.responsibilities,
    "machine": machine,
}

if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    print(json.dumps({**KINDS[spec.pop("kind")](**spec), "versions": _versions()}))

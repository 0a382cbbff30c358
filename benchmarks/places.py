"""Where the data of the benchmarks are. Imports nothing large."""

import os
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[2] / "shared"
COUNTS = ("newsgroups20", "nips", "kos", "ohsumed", "arxiv300k")
PHOTOGRAPHS = "bsds500"
# What there must be of each, below the folder of the data.
FILES = {name: (f"{name}/X*.npz",) for name in COUNTS}
FILES[PHOTOGRAPHS] = (f"{PHOTOGRAPHS}/train/*.jpg", f"{PHOTOGRAPHS}/val/*.jpg")


def data_folder():
    """The folder of the data: SPARSEPOST_DATA, or `../shared/data` beside the checkout."""
    return Path(os.environ.get("SPARSEPOST_DATA", BESIDE / "data"))


def folder_of(name):
    """The folder of a corpus.

    Parameters
    ----------
    name : str
        A key of `FILES`.

    Returns
    -------
    folder : Path
        It holds what `FILES` wants.

    Raises
    ------
    FileNotFoundError
        If it does not, with a word on how to make it.
    """
    if missing([name]):
        raise FileNotFoundError(advice([name]))
    return data_folder() / name


def missing(names):
    """Which of some corpora are not there; names of data that need no files are passed over."""
    folder = data_folder()
    return [
        name
        for name in dict.fromkeys(names)
        if not all(any(folder.glob(pattern)) for pattern in FILES.get(name, ()))
    ]


def advice(names):
    """What to do about corpora that are not there."""
    told = ", ".join(names)
    return (
        f"not in {data_folder()}: {told}. Set the environment variable SPARSEPOST_DATA to where "
        f"they are, or make them there: python benchmarks/prepare.py {' '.join(names)}"
    )

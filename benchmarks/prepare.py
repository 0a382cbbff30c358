"""Make the corpora of the benchmarks: ``python benchmarks/prepare.py [NAME ...] [--stand-in]``.

Each comes from where the public can have it: newsgroups by scikit-learn's fetcher, kos and nips
from the UCI repository, the photographs from Berkeley. What has no such place, and everything with
``--stand-in``, is made from what is installed: docstrings of numpy, scipy and scikit-learn, and
scikit-learn's two photographs. Figures of a stand-in are its own: they compare methods on one
machine, and with nothing that is published. They go to SPARSEPOST_DATA, which has to be set.
"""

import argparse
import gzip
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

import numpy as np
import places
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/bag-of-words/docword.{}.txt.gz"
BERKELEY = "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/BSR_bsds500.tgz"
N_PHOTOGRAPHS = {"train": 100, "val": 30}
# Documents of the stand-ins, of docstrings there are about seven thousand.
N_DOCUMENTS = {"newsgroups20": 18_840, "nips": 1500, "kos": 3430, "ohsumed": 7400}
N_DOCUMENTS["arxiv300k"] = 300_000


# ---------------------------------------------------------------------- counts


def count(texts, **options):
    """Counts of the words of texts, rare and very frequent ones left out, and the words."""
    options = {"stop_words": "english", "token_pattern": "[a-z]{3,}", "min_df": 5, **options}
    vectorizer = CountVectorizer(max_df=0.5, **options)
    X = vectorizer.fit_transform(texts)
    return X[X.getnnz(axis=1) > 0].astype(np.int32), vectorizer.get_feature_names_out()


def newsgroups():
    """20 newsgroups, without what tells the group but is not text."""
    from sklearn.datasets import fetch_20newsgroups

    parts = ("headers", "footers", "quotes")
    return count(fetch_20newsgroups(subset="all", remove=parts).data)


def read_docword(file):
    """A bag of words as UCI keeps it: documents, words and entries, then an entry a line.

    Parameters
    ----------
    file : file object
        Lines of text, as bytes or str.

    Returns
    -------
    X : csr_matrix of shape (n_documents, n_words), int32
        The counts; words and documents that never occur are left out.

    Raises
    ------
    ValueError
        If there are not as many entries as it says.
    """
    n_documents, n_words, n_entries = (int(next(file)) for _ in range(3))
    rows, columns, counts = np.loadtxt(file, dtype=np.int64, ndmin=2).reshape(-1, 3).T
    if len(counts) != n_entries:
        raise ValueError(f"docword has {len(counts)} entries, but says that it has {n_entries}")
    entries = counts.astype(np.int32), (rows - 1, columns - 1)
    X = sp.csr_matrix(entries, shape=(n_documents, n_words))
    X = X[X.getnnz(axis=1) > 0]
    return X[:, X.getnnz(axis=0) > 0]


def bag_of_words(name):
    """A corpus of UCI; its words are in a file of their own, and nothing here asks for them."""
    with urllib.request.urlopen(UCI.format(name)) as answer:
        return read_docword(gzip.GzipFile(fileobj=io.BytesIO(answer.read()))), None


def from_docstrings(n_documents, seed=0):
    """Documents that each have half of the words of two docstrings, all drawn at random.

    Parameters
    ----------
    n_documents : int
        How many.
    seed : int, default=0
        Of the draws.

    Returns
    -------
    X : csr_matrix of shape (n_documents, n_words), int32
        Their counts.
    words : ndarray of shape (n_words,)
        The words.
    """
    from sklearn_sparsepost.datasets import load_docstrings

    X, words = count(load_docstrings().data)
    rng = np.random.default_rng(seed)
    halves = []
    for _ in range(2):
        half = X[rng.integers(0, X.shape[0], n_documents)]
        half.data = rng.binomial(half.data, 0.5).astype(np.int32)
        halves.append(half)
    found = sp.csr_matrix(halves[0] + halves[1])
    found.eliminate_zeros()
    return found[found.getnnz(axis=1) > 0], words


MAKERS = {
    "newsgroups20": newsgroups,
    "nips": lambda: bag_of_words("nips"),
    "kos": lambda: bag_of_words("kos"),
}


# ---------------------------------------------------------------------- photographs


def photographs(folder):
    """Berkeley's photographs: the first by name of each part."""
    with urllib.request.urlopen(BERKELEY) as answer:
        packed = io.BytesIO(answer.read())
    with tarfile.open(fileobj=packed) as archive:
        for part, n in N_PHOTOGRAPHS.items():
            wanted = f"/images/{part}/"
            names = sorted(
                name for name in archive.getnames() if wanted in name and name.endswith(".jpg")
            )
            for name in names[:n]:
                path = folder / part / Path(name).name
                path.write_bytes(archive.extractfile(name).read())


def own_photographs(folder):
    """Parts of scikit-learn's two photographs, those to train on left of those to test on."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    for number, image in enumerate(load_sample_images().images):
        cut = image.shape[1] * 3 // 4
        for part, columns in (("train", slice(0, cut)), ("val", slice(cut, None))):
            Image.fromarray(image[:, columns]).save(folder / part / f"{number}.jpg", quality=95)


# ---------------------------------------------------------------------- all of it


def make(name, stand_in=False):
    """Write a corpus, and where it is from, into the folder of the data.

    Parameters
    ----------
    name : str
        A key of `places.FILES`.
    stand_in : bool, default=False
        Whether to make it of what is installed.

    Returns
    -------
    source : str
        Where it is from.
    """
    folder = places.data_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    if name == places.PHOTOGRAPHS:
        for part in N_PHOTOGRAPHS:
            (folder / part).mkdir(exist_ok=True)
        (own_photographs if stand_in else photographs)(folder)
        source = "scikit-learn's sample images" if stand_in else BERKELEY
    else:
        own = stand_in or name not in MAKERS
        X, words = from_docstrings(N_DOCUMENTS[name]) if own else MAKERS[name]()
        if words is not None:
            text = "".join(f"{word}\n" for word in words)
            (folder / "vocab.txt").write_text(text, encoding="utf-8")
        sp.save_npz(folder / "X.npz", X)
        source = "sklearn.datasets" if name == "newsgroups20" else UCI.format(name)
        if own:
            source = "half of the words of two docstrings a document: a stand-in"
    (folder / "SOURCE.txt").write_text(f"{name}: {source}\n", encoding="utf-8")
    return source


def main():
    """Make what the command line asks for and is not there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="corpora; by default all")
    parser.add_argument("--stand-in", action="store_true", help="make all of what is installed")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(places.FILES))
    if unknown:
        parser.error(f"there is no corpus {unknown[0]!r}: they are {', '.join(places.FILES)}")
    if "SPARSEPOST_DATA" not in os.environ:
        parser.error("set SPARSEPOST_DATA to the folder where the data shall be")
    failed = []
    for name in places.missing(arguments.names or places.FILES):
        try:
            print(f"{name}: {make(name, arguments.stand_in)}", flush=True)
        except (OSError, ValueError) as error:
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr)
    if failed:
        sys.exit(f"not made: {', '.join(failed)}. With --stand-in they are made of docstrings.")


if __name__ == "__main__":
    main()

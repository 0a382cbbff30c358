"""The real corpora, photographs and the judge of held-out topics, wherever they are kept.

Corpora are CSR matrices of counts, `<folder>/<name>/X.npz`, or in parts `X_00.npz`, `X_01.npz`, ...
Run as a program, ``python corpora.py FOLDER`` writes the large corpus as memory-mapped arrays.
"""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import places
import scipy.sparse as sp

from sklearn_sparsepost.metrics import document_completion

N_TEST = {"newsgroups20": 500, "nips": 200, "kos": 500, "ohsumed": 500, "arxiv300k": 1000}
MAPPED = "arxiv300k"  # this one is trained on out of core


def train_test(X, n_test, seed=0):
    """Split rows at random into those of training and `n_test` of testing, both in their order."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    return X[np.sort(order[n_test:])], X[np.sort(order[:n_test])]


def score(topics, X_test, seed=0):
    """The judge: mean log-probability of hidden words given the rest of their document.

    Parameters
    ----------
    topics : ndarray of shape (n_topics, n_features)
        Topics of any origin.
    X_test : csr_matrix of shape (n_samples, n_features)
        Held-out documents.
    seed : int, default=0
        Of the split of their words.

    Returns
    -------
    score : float
        Nats a token, under a prior of total mass 0.5 for every model.
    """
    topics = np.asarray(topics, dtype=np.float64)
    prior = 0.5 / len(topics)
    options = {"doc_topic_prior": prior, "random_state": seed, "tol": 0.05, "n_jobs": 1}
    return document_completion(topics, X_test, **options)


def judge():
    """What splits and scores: this module, or another judge of the same two functions.

    SPARSEPOST_JUDGE may name a folder with `heldout.py` in it, for a judge that shares no code with
    the package.
    """
    folder = os.environ.get("SPARSEPOST_JUDGE")
    if not folder:
        return sys.modules[__name__]
    path = Path(folder) / "heldout.py"
    if not path.exists():
        raise FileNotFoundError(f"SPARSEPOST_JUDGE={folder}, but there is no heldout.py in it")
    spec = importlib.util.spec_from_file_location("heldout", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(name, split=0):
    """Training and test documents of a corpus.

    Parameters
    ----------
    name : str
        A key of `N_TEST`.
    split : int, default=0
        Seed of the split; defaults are chosen on others than 0.

    Returns
    -------
    X_train, X_test : csr_matrix
        Counts; the training documents of `MAPPED` are memory-mapped if SPARSEPOST_MAPPED says
        where :func:`write_mapped` put them.
    """
    mapped = os.environ.get("SPARSEPOST_MAPPED")
    if name == MAPPED and mapped and not split:
        return read_mapped(Path(mapped))
    folder = places.folder_of(name)
    parts = [sp.load_npz(path) for path in sorted(folder.glob("X*.npz"))]
    X = parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
    return judge().train_test(X, N_TEST[name], seed=split)


def words(name):
    """The words of a corpus, `<folder>/<name>/vocab.txt`, one a line; None if it is not there."""
    path = places.folder_of(name) / "vocab.txt"
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else None


def _photographs(part):
    """Grey photographs `bsds500/<part>/*.jpg`, in [0, 1], one after another."""
    from PIL import Image

    for path in sorted((places.folder_of(places.PHOTOGRAPHS) / part).glob("*.jpg")):
        yield np.asarray(Image.open(path).convert("L"), dtype=np.float32) / 255


def patches(part, n_patches=None, size=8, stride=4, seed=0):
    """Grey patches of the photographs `bsds500/<part>/*.jpg`, in [0, 1], their means removed.

    Parameters
    ----------
    part : {"train", "val"}
        Which photographs.
    n_patches : int, default=None
        How many patches to draw, None for all.
    size, stride : int
        Width of a patch and distance between patches, in pixels.
    seed : int
        Of the order, which is random.

    Returns
    -------
    X : ndarray of shape (n_patches, size * size), float32
        The patches.
    """
    found = []
    for image in _photographs(part):
        windows = np.lib.stride_tricks.sliding_window_view(image, (size, size))
        found.append(windows[::stride, ::stride].reshape(-1, size * size))
    X = np.concatenate(found)
    X = X[np.random.default_rng(seed).permutation(len(X))[:n_patches]]
    return X - X.mean(axis=1, keepdims=True)


def without_mean(X):
    """Patches without mean in the coordinates that are left, one less than there are pixels."""
    n = X.shape[1]
    fixed = np.random.default_rng(0).standard_normal((n, n - 1))
    return X @ np.linalg.qr(np.column_stack([np.ones(n), fixed]))[0][:, 1:].astype(X.dtype)


def rows(name):
    """Vectors to start mixtures on.

    Parameters
    ----------
    name : {"bsds500", "photographs", "digits", "newsgroups20", "blobs", "tails", "bits", "kos"}
        Patches of photographs, of many or of the two that scikit-learn brings; handwritten digits
        in 20 principal components; documents as vectors of 50 features from a singular value
        decomposition of tf-idf; draws from 20 Gaussians of unequal weights, widths and shapes, or
        from t distributions instead, and outliers; which pixels of digits are dark; and counts of
        words.

    Returns
    -------
    X, X_test : ndarray or csr_matrix of shape (n_rows, n_features)
        Training and test rows.
    """
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import normalize

    if name == "bsds500":
        parts = patches("train", 40_000), patches("val", 20_000)
        return tuple(without_mean(part.astype(np.float64)) for part in parts)
    if name == "newsgroups20":
        weighting = TfidfTransformer(sublinear_tf=True)
        reduce = TruncatedSVD(50, random_state=0)
        X_train, X_test = load(name)
        X_train = normalize(reduce.fit_transform(weighting.fit_transform(X_train)))
        return X_train, normalize(reduce.transform(weighting.transform(X_test)))
    if name == "kos":
        return load(name)
    rng = np.random.default_rng(0)
    if name in ("digits", "bits"):
        X = load_digits().data
        X = X > 7 if name == "bits" else PCA(20, random_state=0).fit_transform(X)
        X = X[rng.permutation(len(X))].astype(np.float64)
        return X[:1300], X[1300:]
    if name == "photographs":
        return _bundled_patches(30_000, rng)
    n_rows, n_components, n_features = 10_000, 20, 8
    weights = rng.dirichlet(np.ones(n_components))
    means = 4 * rng.standard_normal((n_components, n_features))
    shapes = rng.standard_normal((n_components, n_features, n_features))
    shapes *= np.exp(0.5 * rng.standard_normal((n_components, 1, 1))) / np.sqrt(n_features)
    labels = rng.choice(n_components, n_rows, p=weights)
    noise = rng.standard_normal((n_rows, n_features))
    if name == "tails":
        noise /= np.sqrt(rng.chisquare(2.5, n_rows) / 2.5)[:, None]
    X = means[labels] + np.einsum("nij,nj->ni", shapes[labels], noise)
    if name == "tails":
        far = rng.random(n_rows) < 0.01
        X[far] = 60 * rng.standard_normal((far.sum(), n_features))
    return X[:6000], X[6000:]


def _bundled_patches(n_each, rng, size=8):
    """Patches of scikit-learn's two photographs: for training from their left, for tests beside."""
    from sklearn.datasets import load_sample_images

    parts = [], []
    for image in load_sample_images().images:
        grey = image.mean(axis=2) / 255
        middle = 2 * grey.shape[1] // 3
        for part, held in zip(parts, (grey[:, :middle], grey[:, middle:]), strict=True):
            windows = np.lib.stride_tricks.sliding_window_view(held, (size, size))
            rows, columns = (rng.integers(n, size=n_each // 2) for n in windows.shape[:2])
            part.append(windows[rows, columns].reshape(-1, size * size))
    return tuple(without_mean(np.concatenate(part)) for part in parts)


def patches_by_image(part, n_each, size=8, seed=0):
    """As many patches of each photograph, from anywhere in it, and which photograph each is of.

    Parameters
    ----------
    part : {"train", "val"}
        Which photographs.
    n_each : int
        How many patches of each.
    size : int, default=8
        Width of a patch in pixels.
    seed : int, default=0
        Of the draws.

    Returns
    -------
    X : ndarray of shape (n_photographs * n_each, size * size), float32
        The patches, their means removed.
    groups : ndarray of shape (n_photographs * n_each,)
        The numbers of the photographs.
    """
    rng, found = np.random.default_rng(seed), []
    for image in _photographs(part):
        windows = np.lib.stride_tricks.sliding_window_view(image, (size, size))
        rows, columns = (rng.integers(n, size=n_each) for n in windows.shape[:2])
        found.append(windows[rows, columns].reshape(n_each, size * size))
    X = np.concatenate(found)
    return X - X.mean(axis=1, keepdims=True), np.repeat(np.arange(len(found)), n_each)


def write_mapped(folder, name=MAPPED):
    """Write the training documents as three .npy files and the test documents as one .npz file.

    Parameters
    ----------
    folder : Path
        Where to; it exists.
    name : str
        The corpus.
    """
    X_train, X_test = load(name)
    X_train.sort_indices()
    # Row pointers and columns of one type, or else scipy makes copies that are.
    np.save(folder / "indptr.npy", X_train.indptr.astype(np.int32))
    np.save(folder / "indices.npy", X_train.indices.astype(np.int32))
    np.save(folder / "data.npy", X_train.data)
    sp.save_npz(folder / "test.npz", X_test, compressed=False)


def read_mapped(folder):
    """What :func:`write_mapped` wrote; the arrays of the first matrix stay on disk."""
    X_test = sp.load_npz(folder / "test.npz")
    indptr, indices, data = (
        np.load(folder / f"{part}.npy", mmap_mode="r") for part in ("indptr", "indices", "data")
    )
    shape = (len(indptr) - 1, X_test.shape[1])
    return sp.csr_matrix((data, indices, indptr), shape=shape, copy=False), X_test


if __name__ == "__main__":
    write_mapped(Path(sys.argv[1]))

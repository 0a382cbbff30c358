"""Texts in bags and dataframes of Dask, and dataframes of numbers: the bytes of their arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture

pytest.importorskip("distributed", reason="needs the dask extra")
pytest.importorskip("pyarrow", reason="Dask's dataframes need pyarrow")
import dask.array as da
import dask.bag
import dask.dataframe as dd
import pandas as pd

RNG = np.random.default_rng(0)
QUICK = {"max_iter": 3, "random_state": 0}
WORDS = [f"w{i}" for i in range(12)]
COUNTS = dd.from_pandas(pd.DataFrame(RNG.poisson(1.0, (90, 12)), columns=WORDS), npartitions=3)
POINTS = dd.from_pandas(
    pd.DataFrame(RNG.normal(size=(120, 3)), columns=["a", "b", "c"]).assign(
        group=np.repeat(np.arange(12), 10)
    ),
    npartitions=2,
)
ROWS = POINTS[["a", "b", "c"]]
FITTED = {
    "LDA": (SparseLDA(3, **QUICK), COUNTS, "transform"),
    "HDP": (SparseHDP(3, **QUICK), COUNTS, "transform"),
    "Alias": (AliasLDA(3, **QUICK), COUNTS, "transform"),
    "CTM": (GibbsCTM(3, **QUICK), COUNTS, "transform"),
    "mixture": (SparseMixture(3, **QUICK), ROWS, "predict_proba"),
}
TEXTS = [
    " ".join(f"word{(20 * (i % 3)) + j}" for j in RNG.integers(20, size=15)) for i in range(60)
]


@pytest.fixture(autouse=True)
def nothing_comes_here(monkeypatch):
    """No dataframe as a whole, as it would for whoever takes it for an array."""

    def refused(frame, *given, **options):
        raise AssertionError("a dataframe has come to the client")

    monkeypatch.setattr(type(ROWS), "__array__", refused)
    monkeypatch.setattr(type(ROWS), "compute", refused)


@pytest.mark.parametrize("name", FITTED)
def test_a_dataframe_is_the_array_of_its_values(name, threads_cluster):
    estimator, frame, method = FITTED[name]
    with threads_cluster.as_current():
        there, found = clone(estimator).fit(frame.to_dask_array()), clone(estimator).fit(frame)
        want = getattr(there, method)(frame.to_dask_array()).compute()
        result = getattr(found, method)(frame)
        assert isinstance(result, da.Array)
        assert (result.compute() == want).all()
        assert found.score(frame) == there.score(frame.to_dask_array())
        again = [model.partial_fit(frame) for model in (found, clone(estimator))]
    assert all(model.feature_names_in_.tolist() == list(frame.columns) for model in again)
    assert not hasattr(there, "feature_names_in_")


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_predictions_of_a_dataframe(threads_cluster):
    with threads_cluster.as_current():
        mixture = SparseMixture(3, **QUICK).fit(ROWS)
        for method in ("predict", "score_samples"):
            found, want = (getattr(mixture, method)(X) for X in (ROWS, ROWS.to_dask_array()))
            assert (found.compute() == want.compute()).all()
        lda = SparseLDA(3, **QUICK).fit(COUNTS)
        assert lda.bound(COUNTS) == lda.bound(COUNTS.to_dask_array())


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_groups_are_a_column():
    array, groups = ROWS.to_dask_array(), POINTS["group"].to_dask_array()
    hdp = SparseHDP(3, observation="gaussian", **QUICK)
    want, found = clone(hdp).fit(array, groups=groups), clone(hdp).fit(ROWS, groups=POINTS["group"])
    assert found.bound_history_.tolist() == want.bound_history_.tolist()
    weights = found.transform(ROWS, POINTS["group"])
    assert (weights.compute() == want.transform(array, groups).compute()).all()


def test_columns_are_those_of_the_fit():
    mixture = SparseMixture(2, **QUICK).fit(ROWS)
    with pytest.raises(ValueError, match="must be in the same order"):
        mixture.predict(ROWS[["c", "b", "a"]])
    with pytest.raises(ValueError, match="unseen at fit time:\n- group"):
        mixture.score(POINTS)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        mixture.predict(ROWS.to_dask_array())


def test_what_is_no_table_of_numbers_is_told():
    mixture = SparseMixture(2, **QUICK)
    with pytest.raises(ValueError, match="a Dask array of 1 dimensions"):
        mixture.fit(ROWS["a"])
    with pytest.raises(ValueError, match=r"block 0 of X.*could not convert string to float"):
        mixture.fit(ROWS.assign(name="text"))
    with pytest.raises(NotFittedError):
        mixture.predict(ROWS)


@pytest.mark.parametrize("vectorizer", [CountVectorizer(), HashingVectorizer(n_features=64)])
def test_texts_in_a_bag_and_in_a_dataframe(vectorizer, process_cluster):
    if isinstance(vectorizer, HashingVectorizer):
        vectorizer.set_params(alternate_sign=False, norm=None)
    counts = vectorizer.fit_transform(TEXTS)
    blocks = [counts[i : i + 20] for i in (0, 20, 40)]
    made = da.concatenate([da.from_array(block, chunks=block.shape) for block in blocks])
    bag = dask.bag.from_sequence(TEXTS, partition_size=20).map_partitions(vectorizer.transform)
    shape = np.nan, counts.shape[1]
    parts = [da.from_delayed(part, shape, counts.dtype) for part in bag.to_delayed()]
    frame = dd.from_pandas(pd.DataFrame({"text": TEXTS}), npartitions=3)
    none = sp.csr_matrix((0, counts.shape[1]), dtype=counts.dtype)
    lda, found = SparseLDA(3, **QUICK), []
    with process_cluster.as_current():
        for X in (
            made,
            da.concatenate(parts, allow_unknown_chunksizes=True),
            frame["text"].map_partitions(vectorizer.transform, meta=none),
        ):
            assert X.numblocks == (3, 1)
            found.append(clone(lda).fit(X).transform(X).compute())
    assert (found[1] == found[0]).all() and (found[2] == found[0]).all()

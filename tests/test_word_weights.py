"""What words weigh, found once for many chunks: the same as found for each, by any threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_sparsepost._models import word_weights
from sklearn_sparsepost._models.admixture import Items
from sklearn_sparsepost._models.discrete import Multinomial
from sklearn_sparsepost._models.word_weights import WordWeights
from sklearn_sparsepost._run.chunks import make_chunk
from sklearn_sparsepost._suffstats import SuffStats

K, V, LEVEL = 20, 300, 4


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=["bayes", "map", "ml"])
def finder(request, rng):
    """A function of items and memory, as models have it."""
    return finder_of(Multinomial(request.param, np.full((1, 1), 0.1), V), rng)


def finder_of(observation, rng):
    counts = rng.gamma(0.3, size=(V, K))
    sums = {"feature_counts": counts, "feature_total": counts.sum(axis=0)}
    stats = SuffStats(sums, {name: observation.axes.get(name, 0) for name in sums}, {})
    table = observation.item_table(observation.estimate(stats), np.float32)
    return partial(observation.item_weights, table=table, level=LEVEL, dtype=np.float32)


def chunk_of(rng, n_rows=6):
    X = sp.random_array((n_rows, V), density=0.05, format="csr", rng=rng, dtype=np.float32)
    return make_chunk(X, [(0, n_rows)], np.float32)


def weigh(held, chunk, find):
    """Rows of the chunk's items, among whatever else is held."""
    items = Items(chunk)
    weights = held.of(items, K, LEVEL, np.float32, find)
    return [part[items.row] for part in weights]


def assert_same(rows, chunk, find):
    for held, alone in zip(rows, find(Items(chunk)), strict=True):
        np.testing.assert_array_equal(held, alone)


@pytest.mark.parametrize("room", [V, 70, 1])
def test_rows_are_those_of_the_chunk_alone(finder, room, monkeypatch, rng):
    monkeypatch.setattr(word_weights, "MOST_HELD", room * K * 4)
    held, found = WordWeights(), []

    def counted(items, out=None):
        found.extend(items.words.tolist())
        return finder(items, out=out)

    chunks = [chunk_of(rng) for _ in range(12)]
    for chunk in chunks:
        assert_same(weigh(held, chunk, counted), chunk, finder)
    asked = sum(len(Items(chunk).words) for chunk in chunks)
    if room == V:
        assert len(set(found)) == len(found) < asked / 2
    else:  # some more than once: there was no room for all
        assert len(set(found)) < len(found)
    assert pickle.loads(pickle.dumps(held)).held is None


def test_threads_find_what_nobody_has_begun(rng):
    """The second finds its own words while the first is at work, and waits for the rest."""
    observation = Multinomial("bayes", np.full((1, 1), 0.1), V)
    find = finder_of(observation, rng)
    chunks, held = [chunk_of(rng) for _ in range(2)], WordWeights()
    both, found = Barrier(2, timeout=60), []

    def together(items, out=None):
        found.append(items.words)
        both.wait()  # a thread alone does not pass
        return find(items, out=out)

    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda chunk: weigh(held, chunk, together), chunks))
    for got, chunk in zip(rows, chunks, strict=True):
        assert_same(got, chunk, find)
    assert not np.intersect1d(*found).size


def test_threads_that_wait_are_told_of_errors(rng):
    observation = Multinomial("bayes", np.full((1, 1), 0.1), V)
    find, chunk, held = finder_of(observation, rng), chunk_of(rng), WordWeights()
    begun, asked = Event(), Event()

    def failing(items, out=None):
        begun.set()
        assert asked.wait(60)
        raise MemoryError("no more")

    def waiting(items, out=None):
        asked.set()
        return find(items, out=out)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(weigh, held, chunk, failing)
        assert begun.wait(60)
        second = pool.submit(weigh, held, chunk, waiting)
        for future in (first, second):
            with pytest.raises(MemoryError, match="no more"):
                future.result(60)
    assert_same(weigh(held, chunk, find), chunk, find)


def test_what_an_interrupt_leaves_is_found_anew(rng):
    observation = Multinomial("bayes", np.full((1, 1), 0.1), V)
    find, chunk, held = finder_of(observation, rng), chunk_of(rng), WordWeights()

    def interrupted(items, out=None):
        find(items, out=out)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weigh(held, chunk, interrupted)
    assert_same(weigh(held, chunk, find), chunk, find)

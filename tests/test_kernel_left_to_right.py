"""Left-to-right estimates: against enumeration, and against a slow version of the same draws."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

from sklearn_sparsepost._kernels import _left_to_right as kernels
from sklearn_sparsepost._run.streams import keyed_generator

NUMBER = 7


def run(documents, weight, alpha, *, seed=0, units=None, n_particles=3, n_threads=1):
    """The kernel on documents given as counts of all words."""
    documents = np.asarray(documents)
    rows = [np.flatnonzero(counts) for counts in documents]
    units = np.arange(len(rows)) if units is None else units
    return kernels.left_to_right(
        np.concatenate([[0], np.cumsum(list(map(len, rows)))]).astype(np.int64),
        np.concatenate(rows).astype(np.int32),
        np.concatenate([c[r] for c, r in zip(documents, rows, strict=True)]).astype(np.float64),
        np.ascontiguousarray(weight, dtype=np.float64),
        np.asarray(alpha, dtype=np.float64),
        np.asarray(units, dtype=np.int64),
        seed,
        NUMBER,
        n_particles=n_particles,
        n_threads=n_threads,
    )


def exact(counts, weight, alpha):
    """p(tokens) by enumeration of all assignments."""
    tokens = np.repeat(np.arange(len(counts)), counts)
    total = 0.0
    for z in itertools.product(range(len(alpha)), repeat=len(tokens)):
        n = np.bincount(z, minlength=len(alpha))
        log_p = gammaln(alpha.sum()) - gammaln(alpha.sum() + len(tokens))
        log_p += (gammaln(alpha + n) - gammaln(alpha)).sum()
        total += np.exp(log_p) * np.prod(weight[tokens, list(z)])
    return total


class Slow:
    """The same draws from the same streams, one document at a time, lists for topics."""

    def __init__(self, counts, weight, alpha, rng, n_particles):
        tokens = np.repeat(np.arange(len(counts)), counts)
        for i in range(len(tokens) - 1, 0, -1):
            j = int(rng.random() * (i + 1))
            tokens[[i, j]] = tokens[[j, i]]
        self.tokens, self.weight, self.alpha, self.rng = tokens, weight, alpha, rng
        self.z = [[] for _ in range(n_particles)]
        self.listed = [[] for _ in range(n_particles)]

    def own(self, r, k):
        return sum(topic == k for topic in self.z[r])

    def predict(self, r, w):
        return sum((self.own(r, k) + a) * self.weight[w, k] for k, a in enumerate(self.alpha))

    def draw(self, r, w):
        near = [self.weight[w, k] * self.own(r, k) for k in self.listed[r]]
        far = self.weight[w] * self.alpha
        u = self.rng.random() * (sum(near) + sum(far))
        index = np.searchsorted(np.cumsum([*near, *far]), u, side="right")
        return self.listed[r][index] if index < len(near) else index - len(near)

    def redraw(self, r, i):
        old = self.z[r][i]
        self.z[r][i] = None
        new = self.draw(r, self.tokens[i])
        listed = self.listed[r]
        if new != old and not self.own(r, old):
            last = listed.pop()
            if last != old:
                listed[listed.index(old)] = last
        if new not in listed:
            listed.append(new)
        self.z[r][i] = new

    def select(self, likelihood):
        n = len(likelihood)
        if n == 1:
            return
        points = (self.rng.random() + np.arange(n)) / n
        chosen = np.searchsorted(np.cumsum(likelihood) / np.sum(likelihood), points, side="right")
        copies = np.bincount(chosen, minlength=n)
        for r in np.flatnonzero(copies == 0):
            source = np.flatnonzero(copies > 1)[0]
            copies[source] -= 1
            self.z[r], self.listed[r] = list(self.z[source]), list(self.listed[source])

    def value(self):
        total = 0.0
        for n, w in enumerate(self.tokens):
            likelihood = []
            for r in range(len(self.z)):
                for i in range(n):
                    self.redraw(r, i)
                likelihood.append(self.predict(r, w))
            total += np.log(np.mean(likelihood) / (n + self.alpha.sum()))
            if n + 1 == len(self.tokens):
                return total
            self.select(likelihood)
            for r in range(len(self.z)):
                k = self.draw(r, w)
                if k not in self.listed[r]:
                    self.listed[r].append(k)
                self.z[r].append(k)
        return total


@pytest.mark.parametrize("n_particles", [1, 2, 5])
@pytest.mark.parametrize("K", [1, 2, 3, 8, 13])
def test_against_the_slow_version(K, n_particles):
    rng = np.random.default_rng(K)
    weight, alpha = rng.dirichlet(np.full(9, 0.3), size=K).T, rng.gamma(1, 0.5, size=K) + 1e-3
    documents = rng.poisson(0.8, size=(4, 9))
    units = [5, 0, 2**40, 17]
    got = run(documents, weight, alpha, seed=3, units=units, n_particles=n_particles)
    for counts, unit, value in zip(documents, units, got, strict=True):
        slow = Slow(counts, weight, alpha, keyed_generator(3, NUMBER, unit), n_particles)
        assert value == pytest.approx(slow.value(), rel=1e-10)


# Topics that say very different things of the next word, where a particle's past matters.
WEIGHT = np.array([[0.90, 0.05, 0.30], [0.05, 0.90, 0.30], [0.05, 0.05, 0.40]])


@pytest.mark.parametrize("alpha", [[0.1, 0.1, 0.1], [0.02, 0.5, 1.5]], ids=["equal", "different"])
@pytest.mark.parametrize("n_particles", [1, 2, 10])
def test_unbiased_for_the_probability(alpha, n_particles):
    alpha, n_runs = np.array(alpha), 30_000 // n_particles
    for counts in ([2, 2, 0], [3, 1, 2]):
        found = np.exp(run(np.tile(counts, (n_runs, 1)), WEIGHT, alpha, n_particles=n_particles))
        ratio = found / exact(counts, WEIGHT, alpha)
        error = ratio.std(ddof=1) / np.sqrt(n_runs)
        assert error < 0.02
        assert abs(ratio.mean() - 1) < 4 * error


def test_many_particles_come_near():
    alpha = np.array([0.1, 0.4, 0.2])
    got = run([np.array([3, 2, 2])], WEIGHT, alpha, n_particles=20_000)
    assert got[0] == pytest.approx(np.log(exact([3, 2, 2], WEIGHT, alpha)), abs=0.01)


def test_one_word_and_one_topic_are_exact():
    alpha = np.array([0.3, 0.1, 0.6])
    assert run([[0, 1, 0]], WEIGHT, alpha)[0] == pytest.approx(np.log(WEIGHT[1] @ alpha))
    one = run([[3, 1, 2]], WEIGHT[:, :1], [0.7])
    assert one[0] == pytest.approx(np.array([3, 1, 2]) @ np.log(WEIGHT[:, 0]))


def test_threads_and_neighbours_do_not_matter():
    rng = np.random.default_rng(0)
    weight, alpha = rng.dirichlet(np.full(40, 0.2), size=20).T, np.full(20, 0.05)
    documents = rng.poisson(0.5, size=(50, 40))
    documents[[3, 7]] = 0
    documents[11] *= 5
    whole = run(documents, weight, alpha)
    assert not whole[[3, 7]].any()
    for n_threads in (2, 3):
        np.testing.assert_array_equal(run(documents, weight, alpha, n_threads=n_threads), whole)
    part = run(documents[10:13], weight, alpha, units=[10, 11, 12])
    np.testing.assert_array_equal(part, whole[10:13])
    assert (run(documents, weight, alpha, seed=1) != whole).sum() == 48


def test_nothing_to_do():
    assert not run(np.zeros((2, 3), dtype=int), WEIGHT, np.ones(3)).any()
    assert run(np.zeros((1, 3), dtype=int), WEIGHT, np.ones(3)).shape == (1,)


@pytest.mark.parametrize("alpha", [1e-30, 1e-8, 1e8, 1e30])
def test_extremes_of_the_prior(alpha):
    value = run([[3, 1, 2]], np.maximum(WEIGHT, 1e-12), np.full(3, alpha), n_particles=4)
    assert np.isfinite(value).all()
    if alpha > 1:  # as good as known weights
        want = np.array([3, 1, 2]) @ np.log(WEIGHT.mean(axis=1))
        assert value[0] == pytest.approx(want, abs=1e-6)

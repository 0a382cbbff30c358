"""Samplers' own predictions of hidden words, and the logits of correlated topics."""

import corpora
import numpy as np
import peers


class SampledDirichlet:
    """Dirichlet topic weights by Gibbs sampling, as `complete_documents` asks for them.

    So that correlated topics, whose weights are sampled, are not compared with mean field alone.
    All documents are sampled side by side, position by position.
    """

    def __init__(self, alpha, burn_in=20, n_samples=100):
        self.alpha, self.burn_in, self.n_samples = alpha, burn_in, n_samples

    def weights(self, chunk, table, key=None):
        """Posterior means of the weights of a chunk's documents."""
        rng, n_documents = np.random.default_rng(0), chunk.n_rows
        count = chunk.data.astype(int)
        row = np.repeat(np.repeat(np.arange(n_documents), np.diff(chunk.indptr)), count)
        word = np.repeat(table.position[chunk.indices], count)
        length = np.bincount(row, minlength=n_documents)
        place = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
        steps = [np.flatnonzero(place == i) for i in range(length.max(initial=0))]
        topics = rng.integers(len(self.alpha), size=len(row))
        held = np.zeros((n_documents, len(self.alpha)))
        np.add.at(held, (row, topics), 1)
        total = np.zeros_like(held)
        for sweep in range(self.burn_in + self.n_samples):
            for at in steps:
                held[row[at], topics[at]] -= 1
                sums = ((held[row[at]] + self.alpha) * table.rows[0][word[at]]).cumsum(axis=1)
                u = rng.random((len(at), 1)) * sums[:, -1:]
                topics[at] = (u >= sums[:, :-1]).sum(axis=1)
                held[row[at], topics[at]] += 1
            if sweep >= self.burn_in:
                total += held
        weights = total / self.n_samples + self.alpha
        return weights / weights.sum(axis=1, keepdims=True)


def completion(
    corpus, n_topics, method, *, passes, options=None, threads=1, seed=0, shares=(0.8, 0.2, 0.1)
):
    """Hidden words of documents predicted by models of a sampler's own: topics and prior.

    Parameters
    ----------
    corpus, n_topics, method, options, threads, seed
        As for :func:`curve`, of a sampler of ours.
    passes : int
        Sweeps, the second half of which is averaged.
    shares : sequence of float, default=(0.8, 0.2, 0.1)
        Shares of a document's distinct words that are seen.

    Returns
    -------
    result : dict
        Seconds of the training, the judge's score of the topics, and the model's own at each
        share; of LDA also that with sampled weights in place of mean field.
    """
    from sklearn_sparsepost.metrics._heldout import complete_documents

    X, X_test = corpora.load(corpus)
    clock = peers.Clock(None, passes=passes)
    options = {"burn_in": passes // 2, **(options or {})}
    model = peers.METHODS[method](X, n_topics, clock, threads=threads, seed=seed, **options)
    topics = model.topic_word_distr_.astype(np.float64)
    result = {"seconds": clock.seconds, "judge": float(corpora.judge().score(topics, X_test))}
    inferences = {"own": model._inference().dense()}
    if hasattr(model, "doc_topic_prior_"):
        inferences["sampled"] = SampledDirichlet(model.doc_topic_prior_)
    for name, inference in inferences.items():
        result[name] = {
            f"{share:g}": complete_documents(
                topics, X_test, inference, observed=share, n_jobs=threads
            )
            for share in shares
        }
    return {**result, "peak_bytes": peers.peak_bytes()}


def approximations(corpus, n_topics, method, *, n_draws=100_000, threads=1):
    """How far stand-ins for PG(N, tilt) are from it, and the logits drawn with them (Fig. 3).

    Parameters
    ----------
    corpus, n_topics, method, threads
        Not used: no corpus is asked for.
    n_draws : int, default=100_000
        Draws of each distribution.

    Returns
    -------
    result : dict
        Largest differences of distribution functions from exact sums of N draws, by N and tilt, for
        the gamma distribution with their mean and variance, which the package takes, a normal one,
        and one scaled draw of PG(1, tilt), which the paper takes; `logit` is of logits drawn with
        them given the figure's other numbers. Two exact samples differ by `noise`.
    """
    from scipy.stats import ks_2samp

    from sklearn_sparsepost._kernels import logits as kernels

    rng = np.random.default_rng(0)

    def polya_gamma(shape, tilt, seed):
        return kernels.draw_numbers("polya-gamma", np.tile([shape, tilt, 0.0], (n_draws, 1)), seed)

    def logits_given(weight, tokens, tilt):
        precision = 1 / 0.31 + weight
        mean = (0.40 / 0.31 + 19 - tokens / 2 + weight * 5.35) / precision
        return mean + rng.standard_normal(n_draws) / np.sqrt(precision)

    found = {}
    for tokens, tilt in ((17, 0.0), (17, -4.19), (60, 0.0), (300, -4.19), (1155, -4.19)):
        exact, other = (
            sum(polya_gamma(1, tilt, seed) for seed in range(first, first + tokens))
            for first in (0, tokens)
        )
        one = polya_gamma(1, tilt, 2 * tokens)
        scaled = exact.mean() + (one - one.mean()) * exact.std() / one.std()
        normal = rng.normal(exact.mean(), exact.std(), size=n_draws)
        samples = {"gamma": polya_gamma(tokens, tilt, 9), "normal": normal, "scaled": scaled}
        distance = {name: float(ks_2samp(exact, x).statistic) for name, x in samples.items()}
        want = logits_given(exact, tokens, tilt)
        distance["logit"] = {
            name: float(ks_2samp(want, logits_given(x, tokens, tilt)).statistic)
            for name, x in samples.items()
            if (tilt, tokens) == (-4.19, 1155)
        }
        distance["noise"] = float(ks_2samp(exact, other).statistic)
        found[f"{tokens}, {tilt:g}"] = distance
    return {"distance": found}


def logits(corpus, n_topics, method, *, passes, options=None, threads=1, seed=0):
    """The range of a long chain's logits.

    Parameters
    ----------
    corpus, n_topics, method, options, threads, seed
        As for :func:`curve`.
    passes : int
        Sweeps.

    Returns
    -------
    result : dict
        Least and largest logit every tenth of the sweeps, and whether all that is fitted is finite.
    """
    assert method == "gibbsctm"
    from sklearn_sparsepost import GibbsCTM

    X, _ = corpora.load(corpus)
    step = max(1, passes // 10)
    options = {"max_iter": step, "evaluate_every": 0, **(options or {})}
    ctm = GibbsCTM(n_topics, warm_start=True, random_state=seed, n_jobs=threads, **options)
    rows = []
    for _ in range(passes // step):
        held = ctm.fit(X)._fit_state.logits
        rows.append({"passes": ctm.n_iter_, "least": float(held.min()), "most": float(held.max())})
    fitted = ctm.components_, ctm.mean_, ctm.covariance_
    return {"range": rows, "finite": all(bool(np.isfinite(part).all()) for part in fitted)}

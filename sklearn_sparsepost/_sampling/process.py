"""Documents from Dirichlet processes whose base, the topics' weights, is one, too (Li et al. 2014).

Topics sit in slots, some of which have no tokens. Their weights over the corpus are broken off a
stick in an order of the slots, the last of which takes what is left: GEM(b_0), cut at
`n_components` slots. Documents have Dirichlet(b_1 * weights) topic weights, so that tokens are
drawn as in LDA; then tables of documents, weights and concentrations are drawn given them.

Pitman-Yor processes in place of Dirichlet processes (HPYM) would have a discount of their own in
`tables_of_topics` and in `ProcessDocuments.draw_weights`, as `pitman_yor` has for words.
"""

from functools import partial

import numpy as np
from scipy.special import betaln, gammaln

from sklearn_sparsepost._checks import LEAST_PRIOR
from sklearn_sparsepost._kernels._stirling import open_tables
from sklearn_sparsepost._run.streams import SEATING, keyed_generator
from sklearn_sparsepost._sampling import lda
from sklearn_sparsepost._sampling.pitman_yor import PitmanYorChain, slice_draw

# Of the draws after a sweep, beside those of Pitman-Yor topics.
WEIGHTS, CONCENTRATIONS = 2, 3
# Exchanges of each slot with its neighbours in their order, after a sweep.
EXCHANGES = 6
# Where a stick breaks at the least and at the most.
LEAST_BREAK, MOST_BREAK = 1e-300, 1 - 2.0**-53


class ProcessDocuments:
    """What documents from Dirichlet processes add to a chain; a class before the chain's own.

    Parameters
    ----------
    tokens, z, seed, **options
        As for the chain; `z` may be of fewer topics than there are slots.
    n_components : int
        Number of slots, the most topics.
    doc_concentration, topic_concentration : float
        b_1 and b_0.
    """

    def __init__(
        self, tokens, z, seed, *, n_components, doc_concentration, topic_concentration, **options
    ):
        self.doc_concentration = doc_concentration
        self.topic_concentration = topic_concentration
        z = self.typed(z, n_components)
        super().__init__(tokens, z, seed, alpha=np.empty(n_components), **options)
        # A table a document and topic, and slots by size, to begin with.
        cells, repeats = self.cases()[0]
        tables = np.bincount(lda.topics_of(cells)[0], repeats, minlength=n_components)
        self.tables = tables.astype(np.int64)
        self.order = np.argsort(-self.n_topic, kind="stable")
        self.draw_weights(keyed_generator(seed, SEATING, WEIGHTS))

    # ------------------------------------------------------------------ going on

    def _has(self, *, n_components, doc_concentration, topic_concentration, **settings):
        same = (
            doc_concentration == self.doc_concentration
            and topic_concentration == self.topic_concentration
        )
        return same and super()._has(alpha=self.alpha, **settings)

    def own(self, **settings):
        """As for :class:`Chain`."""
        new = super().own(**settings)
        new.doc_concentration = settings["doc_concentration"]
        new.set_alpha()
        return new

    def slots(self):
        """As for :class:`Chain`: those in use, as the estimator has them."""
        return self.used()

    def extended(self, tokens, z, **settings):
        """As for :class:`Chain`."""
        new = super().extended(tokens, z, **settings)
        new.set_alpha()
        return new

    # ------------------------------------------------------------------ weights

    def draw(self, n_steps):
        """Draw the topic of every token once, then tables and weights given them, in place."""
        super().draw(n_steps)
        rng = keyed_generator(self.seed, SEATING + self.n_passes + 1, WEIGHTS)
        self.draw_tables(rng)
        self.draw_weights(rng)

    def used(self):
        """The slots that have tokens, the largest first."""
        return np.argsort(-self.n_topic, kind="stable")[: np.count_nonzero(self.n_topic)]

    def set_alpha(self):
        """Have documents follow the weights."""
        self.alpha = np.maximum(self.doc_concentration * self.weights, LEAST_PRIOR)

    def draw_tables(self, rng):
        """Draw how many tables documents have in each topic, given their tokens and weights."""
        self.tables = tables_of_topics(*self.cases()[0], self.alpha, rng)

    def draw_weights(self, rng):
        """Draw the weights given the tables and the order, then the order given the weights."""
        tables = self.tables[self.order]
        rest = tables[::-1].cumsum()[::-1] - tables
        drawn = rng.beta(1 + tables[:-1], self.topic_concentration + rest[:-1])
        breaks = np.concatenate([_kept_inside(drawn), [1.0]])
        left = np.concatenate([[1.0], np.cumprod(1 - breaks[:-1])])
        self.weights = np.empty(len(breaks))
        self.weights[self.order] = breaks * left
        self.order = exchanged(self.order, breaks, self.topic_concentration, rng)
        self.set_alpha()

    def doc_log_density(self, lengths, repeats, b):
        """log p(tables | tokens' documents), as cases, up to what is the same for all b_1."""
        value = repeats @ (gammaln(b) - gammaln(b + lengths))
        return value + self.tables.sum() * np.log(b)

    def topic_log_density(self, b):
        """log p(topics of tables | order), the weights integrated out."""
        tables = self.tables[self.order]
        rest = tables[::-1].cumsum()[::-1] - tables
        return (betaln(1 + tables[:-1], b + rest[:-1]) + np.log(b)).sum()

    # ------------------------------------------------------------------ what is read off

    def mean_counts(self):
        """As for :class:`Chain`, of topics in use."""
        return super().mean_counts()[:, self.used()]

    def smoothing(self):
        """As for :class:`Chain`, of topics in use."""
        table = super().smoothing()
        return table[:, self.used()] if table.shape[1] == self.n_components else table

    def fitted_priors(self):
        """The priors in use, by the names of the estimator's attributes."""
        used = self.used()
        return {
            **super().fitted_priors(),
            "doc_topic_prior_": self.alpha[used],
            "n_components_": len(used),
            "topic_weights_": self.weights[used],
            "doc_concentration_": float(self.doc_concentration),
            "topic_concentration_": float(self.topic_concentration),
        }


class ProcessChain(ProcessDocuments, lda.LDAChain):
    """A chain of a hierarchical Dirichlet process over documents; topics are Dirichlet."""


class ProcessPitmanYorChain(ProcessDocuments, PitmanYorChain):
    """A chain of a hierarchical Dirichlet process over documents with Pitman-Yor topics."""


def tables_of_topics(cells, repeats, alpha, rng):
    """Draw the tables of all documents in each topic, given tokens (Antoniak 1974).

    Token i + 1 of a topic in a document opens a table with probability alpha / (alpha + i),
    whatever the others do: so the documents with so many tokens are drawn together.

    Parameters
    ----------
    cells, repeats : ndarray of shape (n_cells,), int64
        Topics with their numbers of tokens in a document, at least one, and how many documents have
        these, as from :func:`document_cases`.
    alpha : ndarray of shape (n_components,)
        What documents' processes weigh topics with.
    rng : Generator
        Source of the draws.

    Returns
    -------
    tables : ndarray of shape (n_components,), int64
        Tables of each topic.
    """
    return open_tables(*lda.topics_of(cells), repeats, alpha, int(rng.integers(1 << 63)))


def exchanged(order, breaks, concentration, rng):
    """Exchange neighbours in the order of slots by Metropolis-Hastings; weights stay.

    Parameters
    ----------
    order : ndarray of shape (n_components,)
        The slots, in the order in which their weights are broken off.
    breaks : ndarray of shape (n_components,)
        The share of what is left that each takes; the last takes all.
    concentration : float
        b_0.
    rng : Generator
        Source of the draws.

    Returns
    -------
    order : ndarray of shape (n_components,)
        The new order.
    """
    order, breaks, n_pairs = order.copy(), breaks.copy(), len(order) - 1
    for parity in range(EXCHANGES):
        k = np.arange(parity % 2, n_pairs, 2)
        first = breaks[k]
        second = _kept_inside((1 - first) * breaks[k + 1])
        # The density of weights is 1 over all that is left before each, times the last one to the
        # power of b_0 - 1.
        ratio = np.log1p(-first) - np.log1p(-second)
        if len(k) and k[-1] == n_pairs - 1:
            ratio[-1] = (concentration - 1) * (np.log(first[-1]) - np.log(second[-1]))
        taken = np.log1p(-rng.random(len(k))) < ratio
        k, first, second = k[taken], first[taken], second[taken]
        order[k], order[k + 1] = order[k + 1], order[k]
        breaks[k] = second
        breaks[k + 1] = _kept_inside(first / (1 - second))
        breaks[-1] = 1
    return order


def _kept_inside(breaks):
    """Breaks that are neither nothing nor all: numpy's clip takes several times as long."""
    return np.minimum(np.maximum(breaks, LEAST_BREAK), MOST_BREAK)


def learn_concentrations(chain, *, of_documents, of_topics):
    """Draw concentrations given the tables, by slices of their logs, then weights given them.

    Their priors are exponential of mean 1, Gamma(1, 1).

    Parameters
    ----------
    chain : ProcessChain or ProcessPitmanYorChain
        A chain after a sweep; changed in place.
    of_documents, of_topics : bool
        Whether b_1 and b_0 are learned.
    """
    rng = keyed_generator(chain.seed, SEATING + chain.n_passes + 1, CONCENTRATIONS)

    def drawn(log_density, b):
        def log_posterior(log_b):
            return log_density(np.exp(log_b)) - np.exp(log_b) + log_b

        return float(np.exp(slice_draw(log_posterior, np.log(b), rng)))

    if of_documents:
        log_density = partial(chain.doc_log_density, *chain.cases()[1])
        chain.doc_concentration = drawn(log_density, chain.doc_concentration)
    if of_topics:
        chain.topic_concentration = drawn(chain.topic_log_density, chain.topic_concentration)
    chain.draw_weights(rng)

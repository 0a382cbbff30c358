"""Chains over the topics of tokens: where one stands, how it goes on, and a pass of it.

A model's chain is a :class:`Chain` with priors of its own; its sweep is a function that takes a
chain and returns another. The chain that it takes stays true, whatever ends the sweep.
"""

from copy import copy

import numpy as np

from sklearn_sparsepost._run.threads import settled_threads
from sklearn_sparsepost._sampling.tokens import Tokens, type_of_topics


class Chain:
    """Where a chain stands: tokens, their topics, and the samples taken so far.

    A model's chain sets settings of its own, such as priors, before it calls ``super().__init__``.
    They are replaced, never written to. It has

    - ``_new_counts()``: the tokens of words in topics, counted from `tokens` and `z`, as an object
      with a dict `arrays`, which is all that it holds, and ``to_lists()``;
    - ``_counts_from(arrays)``: such an object from arrays;
    - ``_has(**settings)``: whether settings are those in use;
    - ``log_likelihood()``: log p(words, topics) in nats;
    - ``smoothing()``: what is added to counts of words in topics, as :func:`compact_prior` has it;
    - ``fitted_priors()``: `doc_topic_prior_` and `topic_word_prior_` of the estimator.

    Parameters
    ----------
    tokens : Tokens
        The data.
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics of the tokens.
    n_components : int
        Number of topics.
    seed : int
        Seed of every stream.
    dtype : dtype, default=np.float64
        Type of the topics that are read off.
    fingerprint : bytes, default=None
        Of the data, to tell whether a fit goes on.
    """

    def __init__(self, tokens, z, n_components, seed, dtype=np.float64, fingerprint=None):
        self.tokens = tokens
        self.z = z
        self.n_components = n_components
        self.seed = seed
        self.dtype = dtype
        self.fingerprint = fingerprint
        self.n_passes = 0
        self.history = []  # log likelihood per token after each pass
        self.recount()

    @staticmethod
    def typed(z, n_components):
        """Topics of tokens in the type that so many are held in."""
        return z.astype(type_of_topics(n_components), copy=False)

    @property
    def amount(self):
        """Number of tokens, which a log likelihood is divided by."""
        return self.tokens.n_tokens

    # ------------------------------------------------------------------ counts

    def recount(self):
        """Have the tokens counted anew, and forget the average."""
        self._counts = None  # until somebody asks for them
        self.count_topics()
        self.total = None  # all samples but perhaps the last one, flat, and how many these are
        self.last = None  # the last sample, as lists
        self.n_averaged = 0

    def count_topics(self):
        """Count the topics' tokens anew."""
        self.n_topic = np.bincount(self.z, minlength=self.n_components).astype(np.int64)

    @property
    def counts(self):
        """The tokens of words in topics, counted anew if a sweep that failed was lent them."""
        if self._counts is None:
            self._counts = self._new_counts()
        return self._counts

    # ------------------------------------------------------------------ going on

    def next(self):
        """A copy for the next sweep.

        The counts are lent: where a sweep fails, those of this chain are made anew.
        """
        new = self._copy()
        new._counts, self._counts = self.counts, None
        return new

    def own(self, **settings):
        """A copy to be moved by another call, with its settings.

        If they are the same, the chain is not disturbed.
        """
        new = self._copy()
        if self._has(**settings):
            arrays = {name: array.copy() for name, array in self.counts.arrays.items()}
            new._counts = self._counts_from(arrays)
            new.total = None if self.total is None else self.total.copy()
        else:
            vars(new).update(settings)
            new.recount()
        return new

    def slots(self):
        """The topics that documents to come are drawn under; None for all, as they are."""
        return None

    def extended(self, tokens, z, **settings):
        """A copy with more documents and the topics of their tokens, and settings."""
        both = Tokens.merged(self.tokens, tokens)
        place = both.word_order()
        merged = np.empty(both.n_tokens, dtype=self.z.dtype)
        # Within a document tokens of one word are alike, so that sorting finds them again.
        merged[place] = np.concatenate([self.z[self.tokens.word_order()], z[tokens.word_order()]])
        new = self._copy()
        new.tokens, new.z = both, merged
        vars(new).update(settings)
        new.recount()
        return new

    def _copy(self):
        new = copy(self)
        new.z, new.n_topic = self.z.copy(), self.n_topic.copy()
        new.history = list(self.history)
        return new

    # ------------------------------------------------------------------ averages

    def take_sample(self):
        """Add the present counts to the average."""
        self._add_last()
        self.last = self.sample_lists()
        self.n_averaged += 1

    def sample_lists(self):
        """What a sample is: the present counts, as lists."""
        return self.counts.to_lists()

    def mean_counts(self):
        """Counts of words in topics, averaged over samples, or the present ones."""
        shape = len(self.tokens.size), self.n_components
        if self.n_averaged:
            self._add_last()
            return self.total[:-1].reshape(shape) / np.float32(self.n_averaged)
        counts = np.zeros(shape)
        cells, values = cells_of(self.sample_lists(), self.n_components)
        counts.ravel()[cells] = values
        return counts

    def _add_last(self):
        """Add the last sample to the sum of those before.

        The chain before shares the sum. Its own samples are all in it or all but the last, and the
        last entry says which, since that is written together with the others.
        """
        if self.total is None:
            size = len(self.tokens.size) * self.n_components
            self.total = np.zeros(size + 1, dtype=np.float32)
        if self.total[-1] < self.n_averaged:
            cells, values = cells_of(self.last, self.n_components)
            self.total[np.append(cells, -1)] += np.append(values, 1)

    # ------------------------------------------------------------------ pickles

    def __getstate__(self):
        return {**vars(self), "_counts": self.counts.arrays}

    def __setstate__(self, state):
        # What kernels write to may come from a file that is mapped for reading.
        arrays = {name: np.require(array, None, "W") for name, array in state["_counts"].items()}
        vars(self).update(state)
        self._counts = self._counts_from(arrays)


def sampled_pass(
    chain, *, sweep, learn, learn_every, burn_in, sample_every, evaluate_every, n_threads
):
    """One sweep and what follows it.

    Parameters
    ----------
    chain : Chain
        Where the chain stands; it stays true.
    sweep : callable
        ``sweep(chain) -> chain``: the topic of every token drawn once.
    learn : sequence of callable
        Functions of the new chain that improve its priors in place, in order.
    learn_every : int
        Every so many passes they are called.
    burn_in : int
        Passes before samples are averaged.
    sample_every : int
        Every so many passes after these a sample is taken.
    evaluate_every : int
        Every so many passes the log likelihood is computed, 0 for never.
    n_threads : int
        Number of threads.

    Returns
    -------
    chain : Chain
        Where it stands then.
    """
    with settled_threads(n_threads):
        chain = sweep(chain)
        done = chain.n_passes + 1
        if done % learn_every == 0:
            for improve in learn:
                improve(chain)
        wanted = evaluate_every > 0 and done % evaluate_every == 0
        value = chain.log_likelihood() / chain.amount if wanted else np.nan
    after = done - burn_in
    if after > 0 and after % sample_every == 0:
        chain.take_sample()
    chain.history.append(value)
    chain.n_passes = done
    return chain


def cells_of(lists, n_components):
    """Where the entries of lists of counts are in a flat table, and their values."""
    row_ptr, topics, values = lists
    rows = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
    return rows * n_components + topics, values

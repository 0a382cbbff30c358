"""Topics from Pitman-Yor processes around words that they share (Li et al. 2014)."""

import numpy as np
from scipy.special import gammaln

from sklearn_sparsepost._kernels import gibbs_lda as kernels
from sklearn_sparsepost._kernels._stirling import rows_of_tokens, seating_steps
from sklearn_sparsepost._run.streams import SEATING, keyed_generator
from sklearn_sparsepost._sampling import lda

# The most tokens of a word: the time for a table of steps grows with them.
MOST_TOKENS = 1 << 22
# Steps of the slices by which the discount's logit and the concentration's log are learned.
WIDTH, MOST_STEPS = 0.5, 20
# Where a learned discount stays.
LEAST_DISCOUNT, MOST_DISCOUNT = 1e-4, 0.98


class PitmanYorChain(lda.LDAChain):
    """A chain of topics from Pitman-Yor processes: tokens of a word sit at tables in each topic.

    First topics are mixed, have tables of most words, and so part slowly. The first `n_unseated`
    sweeps therefore are those of Dirichlet distributed words under the same `prior`, and after each
    of them a word has one table in a topic.

    Parameters
    ----------
    tokens, z, seed, **options
        As for :class:`LDAChain`; `prior` is that of the distribution which the topics share.
    discount : float
        Of the processes, from 0 to less than 1.
    concentration : float
        Of the processes.
    """

    _seated = True
    n_unseated = 0

    def __init__(self, tokens, z, seed, *, discount, concentration, **options):
        self.discount = discount
        self.concentration = concentration
        self.held = None  # tables of the last whole pass, of which there are none to begin with
        super().__init__(tokens, z, seed, **options)

    # ------------------------------------------------------------------ counts

    def recount(self):
        """As for :class:`Chain`; where there were tables there are as many."""
        super().recount()
        self.lift_total = self.base_total = 0
        self._steps = None  # of other tokens, or of another discount
        largest = self.tokens.size.max(initial=0)
        if largest > MOST_TOKENS:
            raise ValueError(
                f"X has {largest:,} tokens of feature {self.tokens.size.argmax()}, but under "
                f"topic_word_prior_type='pitman_yor' {MOST_TOKENS:,} are the most"
            )

    @property
    def steps(self):
        """Steps of seating, and logs of Stirling numbers."""
        if self._steps is None:
            self._steps = seating_steps(self.discount, int(self.tokens.size.max(initial=1)))
        return self._steps

    def _new_counts(self):
        counts = super()._new_counts()
        self.n_tables = counts.seat(self.steps[0], *self._held_lists())
        return counts

    def _hold(self):
        """Remember the tables, for counts to be made anew, as they are stored: that is fast."""
        arrays = self.counts.arrays
        self.held = {name: arrays[name].copy() for name in ("words", "pool", "tables")}

    def _held_lists(self):
        """The tables that are held, as lists: (row_ptr, topics, tables)."""
        n_features = len(self.tokens.size)
        if self.held is None:
            empty = np.zeros(0, dtype=np.int32)
            return np.zeros(n_features + 1, dtype=np.int64), empty, empty
        words, pool, tables = self.held["words"], self.held["pool"], self.held["tables"]
        listed = words["kind"] == lda.LISTED
        length = np.where(listed, words["length"], self.n_components)
        of = np.repeat(np.arange(n_features), length)
        place = np.arange(len(of)) - np.repeat(np.cumsum(length) - length, length)
        tables = tables[words["cells"][of] + place].astype(np.int32)
        of, place, tables = (array[tables > 0] for array in (of, place, tables))
        topics, found = place.astype(np.int32), listed[of]
        entries = pool[words["first"][of[found]] + place[found]]
        topics[found] = entries & ((1 << kernels.topic_bits(self.n_components)) - 1)
        row_ptr = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=n_features))])
        return row_ptr.astype(np.int64), topics, tables

    def next(self):
        """As for :class:`Chain`."""
        self._hold()
        return super().next()

    def own(self, **settings):
        """As for :class:`Chain`."""
        self._hold()
        return super().own(**settings)

    def extended(self, tokens, z, **settings):
        """A copy with more documents and the topics of their tokens, and settings."""
        self._hold()
        return super().extended(tokens, z, **settings)

    def _copy(self):
        new = super()._copy()
        new.n_tables = self.n_tables.copy()
        return new

    def seat_again(self):
        """Have draws know of another discount; tables stay."""
        row_ptr, topics, _ = self.counts.to_lists()
        tables = self.counts.to_tables()
        self.n_tables = self.counts.seat(self.steps[0], row_ptr, topics, tables)

    def _has(self, *, discount, concentration, **settings):
        same = discount == self.discount and concentration == self.concentration
        return same and super()._has(**settings)

    # ------------------------------------------------------------------ sweeps

    @property
    def sits_down(self):
        """Whether tokens sit at tables as topics are drawn next."""
        return self.n_passes >= self.n_unseated

    def draw_topics(self, n_steps):
        """As for :class:`LDAChain`."""
        if self.sits_down:
            return super().draw_topics(n_steps)
        self._counts = self.held = None
        given = {"alpha": self.alpha, "prior": self.prior, "sampler": self.sampler}
        unseated = lda.LDAChain(self.tokens, self.z, self.seed, **given)
        unseated.n_passes = self.n_passes
        unseated.draw_topics(n_steps)
        self.n_topic = unseated.n_topic
        del unseated
        self._counts = self._new_counts()

    # ------------------------------------------------------------------ what sweeps ask

    def topic_totals(self):
        """What is added to a topic's tokens: the concentration."""
        return np.full(self.n_components, self.concentration)

    def seating(self):
        """What a sweep reads of the tables, and writes: the topics' numbers of them."""
        return self.discount, self.prior.base.sum(), self.steps[0], self.n_tables

    def prior_counts(self):
        """The tables of words, and of all, under the prior of what topics share."""
        tables = self.word_tables()
        return tables[tables > 0], tables.sum(keepdims=True)

    def word_tables(self):
        """Tables of each word in all topics."""
        self.counts  # noqa: B018  are made if they were lent
        return self.counts.arrays["words"]["tables"].astype(np.int64)

    # ------------------------------------------------------------------ averages

    def base_distr(self):
        """The distribution of words that the topics share, given their tables."""
        weights = self.prior.base + self.word_tables()
        return weights / weights.sum()

    def sample_lists(self):
        """Tokens less the discount a table, as lists."""
        row_ptr, topics, counts = self.counts.to_lists()
        return row_ptr, topics, counts - np.float32(self.discount) * self.counts.to_tables()

    def take_sample(self):
        """Add the present counts, and what smooths them, to the averages."""
        super().take_sample()
        self.lift_total = self.lift_total + self._lift()
        self.base_total = self.base_total + self.base_distr()

    def _lift(self):
        return self.concentration + self.discount * self.n_tables

    def smoothing(self):
        """What is added to the counts: a share of words for each topic, averaged over samples."""
        lift = self.lift_total / self.n_averaged if self.n_averaged else self._lift()
        return np.outer(self._mean_base(), lift)

    def _mean_base(self):
        return self.base_total / self.n_averaged if self.n_averaged else self.base_distr()

    def fitted_priors(self):
        """The priors in use, by the names of the estimator's attributes."""
        return {
            **super().fitted_priors(),
            "discount_": float(self.discount),
            "concentration_": float(self.concentration),
            "base_word_distr_": self._mean_base(),
        }

    # ------------------------------------------------------------------ likelihood

    def words_log_likelihood(self):
        """log p(words, tables | topics of tokens, priors) in nats (Li et al. 2014)."""
        tokens, tables, repeats = self.seats()
        value = seats_log_weight(self.discount, tokens, tables, repeats, self.steps[1])
        value += self.tables_log_likelihood(self.discount, self.concentration)
        weights, total = self.word_tables() + self.prior.base, self.prior.base.sum()
        value += (gammaln(weights) - gammaln(self.prior.base)).sum()
        return value + gammaln(total) - gammaln(weights.sum())

    def tables_log_likelihood(self, discount, concentration):
        """log of what numbers of tables weigh: (b|a)_s / (b)_m a topic of m tokens at s tables."""
        opened = np.log(concentration + discount * np.arange(self.n_tables.max()))
        rising = np.concatenate([[0.0], np.cumsum(opened)])[self.n_tables]
        return (rising + gammaln(concentration) - gammaln(concentration + self.n_topic)).sum()

    def seats(self):
        """Numbers of tokens and of tables that a word has in a topic, and how often they occur."""
        tokens, tables = self.counts.to_lists()[2], self.counts.to_tables()
        found, repeats = np.unique(np.int64(1 << 32) * tokens + tables, return_counts=True)
        return found >> 32, found & 0xFFFFFFFF, repeats

    def __getstate__(self):
        return {**super().__getstate__(), "_steps": None}  # follow from the discount


def seats_log_weight(discount, tokens, tables, repeats, logs):
    """The sum of logs of generalised Stirling numbers.

    Parameters
    ----------
    discount : float
        The discount.
    tokens, tables, repeats : ndarray of shape (n,)
        What the numbers are of, and how often they are added.
    logs : ndarray
        Logs of the numbers over those of one table, from :func:`seating_steps`.

    Returns
    -------
    value : float
        The sum.
    """
    rows, shares = rows_of_tokens(tokens)
    low, high = logs[rows, tables], logs[rows + 1, tables]
    value = low + shares * (high - low) + gammaln(tokens - discount) - gammaln(1 - discount)
    return float(repeats @ value)


def learn_base(chain):
    """One step of the prior of what topics share, once tokens sit at tables."""
    if chain.sits_down:
        lda.learn_beta(chain)


def learn_discount(chain):
    """Draw the discount given all else, by a slice of its logit, once tokens sit at tables.

    Its prior is uniform.
    """
    if not chain.sits_down:
        return
    tokens, tables, repeats = chain.seats()
    most = int(tokens.max(initial=1))

    def log_density(logit):
        a = discount_at(logit)
        if not LEAST_DISCOUNT <= a <= MOST_DISCOUNT:
            return -np.inf
        value = seats_log_weight(a, tokens, tables, repeats, seating_steps(a, most)[1])
        value += chain.tables_log_likelihood(a, chain.concentration)
        return value + np.log(a) + np.log1p(-a)

    a = np.clip(chain.discount, LEAST_DISCOUNT, MOST_DISCOUNT)
    rng = keyed_generator(chain.seed, SEATING + chain.n_passes + 1, 0)
    chain.discount = discount_at(slice_draw(log_density, np.log(a) - np.log1p(-a), rng))
    chain._steps = None
    chain.seat_again()


def learn_concentration(chain):
    """Draw the concentration given all else, by a slice of its log, once tokens sit at tables.

    Its prior is exponential, and its mean a tenth of the number of words.
    """
    if not chain.sits_down:
        return
    mean = 0.1 * len(chain.tokens.size)

    def log_density(log_b):
        b = np.exp(log_b)
        return chain.tables_log_likelihood(chain.discount, b) - b / mean + log_b

    rng = keyed_generator(chain.seed, SEATING + chain.n_passes + 1, 1)
    chain.concentration = float(np.exp(slice_draw(log_density, np.log(chain.concentration), rng)))


def discount_at(logit):
    """The discount of a logit."""
    return float(1 / (1 + np.exp(-logit)))


def slice_draw(log_density, x, rng):
    """A draw that leaves a density unchanged, stepping out and shrinking (Neal 2003).

    Parameters
    ----------
    log_density : callable
        The log of the density of a number, up to a constant.
    x : float
        Where the chain stands.
    rng : Generator
        Source of the draws.

    Returns
    -------
    x : float
        Where it stands then.
    """
    level = log_density(x) + np.log1p(-rng.random())
    low = x - WIDTH * rng.random()
    high, left = low + WIDTH, int(MOST_STEPS * rng.random())
    right = MOST_STEPS - 1 - left
    while left > 0 and log_density(low) > level:
        low, left = low - WIDTH, left - 1
    while right > 0 and log_density(high) > level:
        high, right = high + WIDTH, right - 1
    while True:
        new = low + (high - low) * rng.random()
        if log_density(new) > level:
            return new
        if new < x:
            low = new
        else:
            high = new

"""Chains of the correlated topic model over blocks of documents, as :mod:`.blocks` has them.

Logits of documents are drawn given the topics of their own tokens, and stay with these. Of their
mean and covariance blocks return sums, so that only counts of words are stale.
"""

from functools import reduce

import numpy as np

from sklearn_sparsepost._models.logistic_normal import both, moments
from sklearn_sparsepost._run.cluster import in_tree
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._sampling import ctm
from sklearn_sparsepost._sampling.blocks import InBlocks, LDAInBlocks, Start, changes_of
from sklearn_sparsepost._sampling.tokens import type_of_topics


class LogitStart(Start):
    """What all blocks are given for a sweep.

    Parameters
    ----------
    chain : CTMInBlocks
        Where the chain stands.
    sampler, n_logit_steps, n_steps : int
        As `sampler`, `n_steps` and `n_mh_steps` of :func:`ctm.sweep`.
    """

    def __init__(self, chain, sampler, n_logit_steps, n_steps):
        super().__init__(chain, n_steps)
        self.normal = chain.normal
        self.structure = chain.structure
        self.centre = chain.normal_prior.mean
        self.logit_sampler = sampler
        self.n_logit_steps = n_logit_steps


def sweep_block(tokens, state, start):
    """Draw the logits of a block's documents, and then the topics of their tokens.

    Parameters
    ----------
    tokens : HeldTokens
        The block; it keeps the states before and after.
    state : tuple of ndarray
        Topics of its tokens, and logits of its documents.
    start : LogitStart
        Of the sweep.

    Returns
    -------
    found : tuple
        As :func:`blocks.sweep_block` returns it.
    logits : ndarray of shape (n_documents, n_components), float32
        The logits.
    sums : tuple
        Over documents, as the structure has them.
    """
    z, logits = state
    n_components = len(start.n_topic)
    z = z.astype(type_of_topics(n_components), copy=False)
    new, new_logits = z.copy(), np.empty_like(logits)
    given = start.normal, start.structure, tokens.seed, start.number
    factors = ctm.draw_logits(
        z, tokens.doc_ptr, logits, new_logits, *given, start.logit_sampler, start.n_logit_steps
    )
    with single_blas():
        sums = start.structure.sums(new_logits, factors, start.centre)
    ctm.draw_tokens(
        start.counts_for(tokens),
        tokens,
        new,
        new_logits,
        start.n_topic.copy(),
        start.prior,
        tokens.seed,
        start.number,
        fresh=start.fresh,
        n_steps=start.n_steps,
    )
    tokens.kept = {
        **_held_as(start.drawn, (z, logits)),
        **_held_as(start.after, (new, new_logits)),
    }
    return changes_of(tokens, z, new, n_components), new_logits, sums


def _held_as(drawn, state):
    """Topics of tokens by what they are asked for alone and with logits."""
    return {drawn: state[0], _with_logits(drawn): state}


def _with_logits(drawn):
    """What a state with its logits is asked for by, which is no number of topics alone."""
    return -1 - drawn


def _first_logits(tokens, z, given):
    n_components, drawn = given
    z = z.astype(type_of_topics(n_components), copy=False)
    logits = ctm.first_logits(z, tokens.doc_ptr, n_components, None)
    tokens.kept = _held_as(drawn, (z, logits))
    return logits


def _log_likelihood(tokens, state, normal):
    z, logits = state
    z = z.astype(type_of_topics(logits.shape[1]), copy=False)
    return ctm.documents_log_likelihood(tokens, z, logits, normal)


class CTMInBlocks(InBlocks, ctm.CTMChain):
    """A chain of the correlated topic model over blocks; its `logits` are block by block."""

    lda_type = LDAInBlocks
    alpha = None  # documents have logits

    def _first_logits(self):
        return self._first_logits_of(self.tokens, self.z)

    def _first_logits_of(self, tokens, z):
        given = self.n_components, self.drawn
        return list(tokens.each(_first_logits, given, self.drawn, z))

    def _moments(self):
        return reduce(both, (moments(part, self.normal_prior.mean) for part in self.logits))

    def _each(self, function, shared):
        states = list(zip(self.z, self.logits, strict=True))
        return self.tokens.each(function, shared, _with_logits(self.drawn), states)

    def all_logits(self):
        """As for :class:`CTMChain`."""
        return np.concatenate(self.logits)

    def extended(self, tokens, z, **settings):
        """As for :class:`CTMChain`."""
        new = super().extended(tokens, z, **settings)
        new.logits = [*self.logits, *self._first_logits_of(tokens, z)]
        return new

    def take_over(self, start):
        """As for :class:`CTMChain`."""
        self.drawn = start.drawn
        super().take_over(start)

    def log_likelihood(self):
        """As for :class:`CTMChain`."""
        given = self._each(_log_likelihood, self.normal)
        return float(self.words_log_likelihood() + sum(given))

    def draw(self, *, sampler, n_steps, n_mh_steps):
        """As for :class:`CTMChain`."""
        number, logits, sums = self.n_passes + 1, [], []
        start = LogitStart(self, sampler, n_steps, n_mh_steps)

        def changes():
            for found, drawn, of_documents in self._each(sweep_block, start):
                logits.append(drawn)
                sums.append(of_documents)
                yield found

        self._take(changes(), start)
        self.logits = logits
        self.draw_normal(in_tree(sums, both), number)

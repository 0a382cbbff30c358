"""Chains over blocks of documents that are held by the workers of a cluster.

In a sweep every block draws the topics of its own tokens. It begins with the counts of words in
topics of all blocks as they were at the sweep's start, and changes them as it goes: so they are up
to date but for what the other blocks change meanwhile. Then the changes of all are added up:
approximate distributed LDA (D. Newman, A. Asuncion, P. Smyth, M. Welling, JMLR 10, 2009).

Topics of tokens stay with the worker that holds the block. What they change to comes to the client
with every sweep, so that they outlive any worker.
"""

from copy import copy
from functools import reduce

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from sklearn_sparsepost._models.documents import prior_gains
from sklearn_sparsepost._run.blocks import derived, is_at_hand, joined
from sklearn_sparsepost._run.cluster import in_tree
from sklearn_sparsepost._run.kept import STATES
from sklearn_sparsepost._run.threads import threads_for
from sklearn_sparsepost._sampling import lda
from sklearn_sparsepost._sampling.process import ProcessDocuments
from sklearn_sparsepost._sampling.tokens import Tokens, check_sizes, type_of_topics

# Topics that one byte tells apart.
BYTE_TOPICS = 1 << 8


class HeldTokens(Tokens):
    """The tokens of a block, where it is, and their topics after the last sweeps.

    Tasks write `kept`, and whoever made the block anew has nothing there: so who asks for topics
    says by its number of which state.

    Parameters
    ----------
    X : csr_matrix or csr_array
        The block: whole counts.
    seed : int
        Seed of its streams, which is no other block's.

    Attributes
    ----------
    kept : dict of int to ndarray
        The topics of some states; replaced, and never written to.
    """

    def __init__(self, X, seed):
        super().__init__(X, seed)
        self.seed = seed
        self.kept = {}


class TokensInBlocks:
    """What the client knows of tokens that others hold.

    Parameters
    ----------
    X : Blocks
        Whole counts.
    seed : int
        Seed of the fit.

    Attributes
    ----------
    blocks : Blocks
        Of :class:`HeldTokens`; None if they have been let go, as in a pickle.
    size : ndarray of shape (n_features,), int64
        Tokens of each word.
    """

    def __init__(self, X, seed):
        self.seed = seed
        self.blocks = derived(X, HeldTokens, [(seed + int(first),) for first in X.edges[:-1]])
        self.size = reduce(np.add, self.blocks.each(_sizes))
        check_sizes(self.size)

    @property
    def n_tokens(self):
        """Number of tokens."""
        return int(self.size.sum())

    @property
    def n_documents(self):
        """Number of documents."""
        return self.blocks.shape[0]

    def extended(self, other):
        """These tokens and those of other documents after them."""
        new = copy(self)
        new.blocks, new.size = joined(self.blocks, other.blocks), self.size + other.size
        check_sizes(new.size)
        return new

    def first_topics(self, X, draw, shared, n_components, number=0):
        """Topics of the tokens before the first sweep, block by block.

        Parameters
        ----------
        X : Blocks
            The counts.
        draw : callable
            ``draw(block, tokens, shared)`` returns them; pure and picklable.
        shared : object
            What all blocks are given.
        n_components : int
            Number of topics.
        number : int, default=0
            Of the state that they are of.

        Returns
        -------
        z : list of ndarray
            The topics, in a type as small as may be.
        """
        given = draw, n_components, number
        tasks = [(block, (part, *given)) for block, part in enumerate(X.parts)]
        return list(self.blocks.work(_first_topics, tasks, shared))

    def each(self, function, shared, number, z):
        """Make ``function(tokens, topics, shared)`` on every block where it is, results in order.

        Parameters
        ----------
        function : callable
            Pure and picklable; returns anything but None.
        shared : object
            What all are given.
        number : int
            The state whose topics are wanted.
        z : list of ndarray
            These topics, for blocks that whoever held them has lost.

        Yields
        ------
        result : object
            What `function` returned.
        """
        tasks = [(block, (function, number)) for block in range(len(z))]
        for block, found in enumerate(self.blocks.work(_with_topics, tasks, shared)):
            if found is None:
                again = [(block, (function, number, z[block]))]
                [found] = self.blocks.work(_with_topics, again, shared)
            yield found

    def __getstate__(self):
        return {**vars(self), "blocks": None}


def _sizes(tokens):
    return tokens.size


def _first_topics(tokens, shared, block, draw, n_components, number):
    z = draw(block, tokens, shared)
    tokens.kept = {number: z}
    return z.astype(_sent_type(n_components))


def _with_topics(tokens, shared, function, number, z=None):
    """What a function makes of a block's tokens and topics; None if nobody has the topics."""
    found = tokens.kept.get(number) if z is None else z
    return None if found is None else function(tokens, found, shared)


def _sent_type(n_components):
    """The type that topics of tokens travel in."""
    return np.uint8 if n_components <= BYTE_TOPICS else type_of_topics(n_components)


# ---------------------------------------------------------------------- what workers do


class Start:
    """What all blocks are given for a sweep.

    Parameters
    ----------
    chain : InBlocks
        Where the chain stands.
    n_steps : int
        Metropolis-Hastings steps a token.
    """

    seated = False  # whether tokens sit at tables

    def __init__(self, chain, n_steps):
        self.number = chain.n_passes + 1  # streams of 0 are the start's
        self.shift = chain.seed - chain.tokens.seed  # other streams than those of the tokens
        self.drawn = chain.drawn
        self.after = next(STATES)
        self.lists = chain.counts.to_lists()
        self.size = chain.tokens.size
        self.n_topic = chain.n_topic
        self.alpha = chain.alpha
        self.prior = chain.prior
        self.sampler = chain.sampler
        self.storage = chain.storage
        self.fresh = lda.builds_tables(chain.n_passes)
        self.n_steps = n_steps

    def counts_for(self, tokens):
        """Counts of the words of some tokens, to be changed."""
        n_components = len(self.n_topic)
        size = np.where(tokens.size, self.size, 0)
        # An alias table is worth its cost if the block itself has many tokens of the word.
        kind = self.storage(self.sampler, tokens, n_components)
        found = lda.empty_counts(kind, size, self.prior, n_components, seated=self.seated)
        found.set_lists(*self.lists, size)
        return found

    def topic_totals(self):
        """What is added to a topic's tokens."""
        return self.prior.topic_totals()

    def seating(self):
        """What a block's sweep reads of tables, and writes, if tokens sit at any."""
        return None

    def all_changes(self, tokens, counts, changes):
        """What a block has changed in words in topics, and beside, given its counts thereafter."""
        return changes


def sweep_block(tokens, z, start):
    """Draw the topic of every token of a block once.

    Parameters
    ----------
    tokens : HeldTokens
        The block; it keeps the topics before and after.
    z : ndarray of shape (n_tokens,)
        The topics of its tokens.
    start : Start
        Of the sweep.

    Returns
    -------
    changes : csr_array of shape (n_features, n_components)
        What it has changed in the counts of words in topics; with more below where there are
        tables.
    moved : tuple of ndarray
        Bits that say which tokens have another topic, and these topics.
    """
    n_components = len(start.n_topic)
    z = z.astype(type_of_topics(n_components), copy=False)
    new, n_topic = z.copy(), start.n_topic.copy()
    counts = start.counts_for(tokens)
    counts.sweep(
        tokens.word,
        new,
        tokens.ptr,
        tokens.groups,
        n_topic,
        start.alpha,
        start.topic_totals(),
        tokens.seed + start.shift,
        start.number,
        cycle=start.sampler == "cycle",
        fresh=start.fresh,
        n_steps=start.n_steps,
        n_threads=threads_for(lda.WORK_A_TOKEN * tokens.n_tokens),
        seating=start.seating(),
        order=lda.order_of(start.sampler, tokens, n_components),
    )
    tokens.kept = {start.drawn: z, start.after: new}
    changes, moved = changes_of(tokens, z, new, n_components)
    return start.all_changes(tokens, counts, changes), moved


def changes_of(tokens, z, new, n_components):
    """What other topics of a block's tokens change, as :func:`sweep_block` returns it."""
    differs = new != z
    word, old, new = tokens.word[differs], z[differs], new[differs]
    changes = _table([word, word], [new, old], [1, -1], (len(tokens.size), n_components))
    return changes, (np.packbits(differs), new.astype(_sent_type(n_components)))


def _table(words, topics, values, shape):
    """Tokens of words in topics, list by list with one value each, as a table."""
    values = np.repeat(np.array(values, np.int32), [len(part) for part in words])
    cells = np.concatenate(words), np.concatenate(topics)
    table = sp.coo_array((values, cells), shape=shape).tocsr()
    table.eliminate_zeros()
    return narrow(table)


def narrow(table):
    """A table of integers in a type as small as may be."""
    ends = table.data.min(initial=0), table.data.max(initial=0)
    table.data = table.data.astype(np.result_type(*map(np.min_scalar_type, ends)))
    return table


def count_block(tokens, z, n_components):
    """The tokens of a block's words in topics, as a table."""
    return _table([tokens.word], [z], [1], (len(tokens.size), n_components))


def _added(first, second):
    """The sum of two tables of integers."""
    return first.astype(np.int32, copy=False) + second.astype(np.int32, copy=False)


def cases_of_block(tokens, z, n_components):
    """The cases of a block's documents, as :func:`lda.document_cases` has them."""
    z = z.astype(type_of_topics(n_components), copy=False)
    return lda.document_cases(tokens, z, n_components)


def _merged(parts):
    """Cases of all parts, each once, and how often each is."""
    cases, repeats = (np.concatenate(part) for part in zip(*parts, strict=True))
    cases, place = np.unique(cases, return_inverse=True)
    return cases, np.bincount(place, repeats, minlength=len(cases)).astype(np.int64)


# ---------------------------------------------------------------------- chains


class ListedCounts:
    """Counts of words in topics as lists, which nobody writes to.

    Parameters
    ----------
    arrays : dict of str to ndarray
        `row_ptr`, `topics` and `counts`, word by word.
    """

    def __init__(self, arrays):
        self.arrays = arrays

    @classmethod
    def of_table(cls, table):
        """The counts of a table of words in topics."""
        table.sum_duplicates()
        parts = table.indptr.astype(np.int64), table.indices, table.data
        parts = [np.asarray(part, np.int32) if i else part for i, part in enumerate(parts)]
        return cls(dict(zip(("row_ptr", "topics", "counts"), parts, strict=True)))

    def to_lists(self):
        """The counts as (row_ptr, topics, counts), word by word."""
        return tuple(self.arrays[name] for name in ("row_ptr", "topics", "counts"))

    def to_table(self, n_components):
        """The counts as a table of words in topics."""
        row_ptr, topics, counts = self.to_lists()
        return sp.csr_array((counts, topics, row_ptr), shape=(len(row_ptr) - 1, n_components))

    def set_beta(self, beta):
        """Take another prior of the words, which is none of these counts' business."""


class InBlocks:
    """What a chain is whose tokens are in blocks: a class before the chain's own.

    Its `tokens` are :class:`TokensInBlocks`, and its `z` are the topics block by block.
    """

    start_type = Start
    drawn = 0  # the number of its state, by which its topics are asked for
    _cases = None  # of which state, and of its documents

    @staticmethod
    def typed(z, n_components):
        """As for :class:`Chain`, each block's as they travel."""
        return [part.astype(_sent_type(n_components), copy=False) for part in z]

    def on(self, X):
        """This chain with its tokens held by those who hold the same data now."""
        if is_at_hand(self.tokens.blocks, X.client):
            return self
        new = self._copy()
        new.tokens, new.drawn, new._cases = TokensInBlocks(X, self.seed), 0, None
        return new

    def extended(self, tokens, z, **settings):
        """As for :class:`Chain`, with more blocks."""
        new = self._copy()
        new.tokens, new.z, new._cases = self.tokens.extended(tokens), [*self.z, *z], None
        vars(new).update(settings)
        new.recount()
        return new

    def __copy__(self):
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        return new

    def __getstate__(self):
        # Of a pickle nobody holds the tokens.
        return {**super().__getstate__(), "drawn": 0, "_cases": None}

    # ------------------------------------------------------------------ counts

    def count_topics(self):
        """As for :class:`Chain`."""
        _, topics, counts = self.counts.to_lists()
        totals = np.bincount(topics, counts, minlength=self.n_components)
        self.n_topic = totals.astype(np.int64)

    def _new_counts(self):
        parts = self.tokens.each(count_block, self.n_components, self.drawn, self.z)
        return ListedCounts.of_table(in_tree(parts, _added))

    def _counts_from(self, arrays):
        return ListedCounts(arrays)

    def next(self):
        """A copy for the next sweep."""
        return self._copy()

    # ------------------------------------------------------------------ sweeps

    def draw_topics(self, n_steps):
        """Draw the topic of every token once, in place."""
        start = self.start_type(self, n_steps)
        self._take(self.tokens.each(sweep_block, start, self.drawn, self.z), start)

    def _take(self, parts, start):
        """Take the changes that blocks have made in a sweep, in their order."""
        z = []

        def changes():
            for before, (table, (differs, new)) in zip(self.z, parts, strict=True):
                after = before.copy()
                after[np.unpackbits(differs, count=len(before)).view(bool)] = new
                z.append(after)
                yield table

        total = in_tree(changes(), _added)
        self._counts, self.z = self._changed(total), z
        self.drawn = start.after
        self.count_topics()

    def _changed(self, total):
        """The counts after what all blocks have changed."""
        return ListedCounts.of_table(_added(self.counts.to_table(self.n_components), total))

    # ------------------------------------------------------------------ documents

    def cases(self):
        """The cases of all documents, as :func:`lda.document_cases` has them."""
        if self._cases is None or self._cases[0] != self.drawn:
            found = self.tokens.each(cases_of_block, self.n_components, self.drawn, self.z)
            cells, lengths = zip(*found, strict=True)
            self._cases = self.drawn, (_merged(cells), _merged(lengths))
        return self._cases[1]

    def log_likelihood(self):
        """log p(words, topics | priors), the weights integrated out, in nats."""
        (cells, often), (lengths, repeats) = self.cases()
        topics, counts = lda.topics_of(cells)
        alpha, total = self.alpha[topics], self.alpha.sum()
        value = self.words_log_likelihood()
        value += often @ (gammaln(counts + alpha) - gammaln(alpha))
        return float(value + repeats @ (gammaln(total) - gammaln(total + lengths)))

    def prior_gains(self):
        """What a step of :func:`improved_prior` needs of the documents."""
        (cells, often), (lengths, repeats) = self.cases()
        return prior_gains(self.alpha, *lda.topics_of(cells), lengths, often, repeats)


class LDAInBlocks(InBlocks, lda.LDAChain):
    """A chain of latent Dirichlet allocation over blocks."""


class ProcessInBlocks(ProcessDocuments, InBlocks, lda.LDAChain):
    """A chain of a hierarchical Dirichlet process over documents in blocks."""

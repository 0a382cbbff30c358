"""How documents are inferred under topics that stay as they are, and how they are drawn.

An inference knows the prior of the documents and how to compute; topics come as a table. It is
picklable, changes nothing that it is given, and has

- ``n_listed``: how many best topics of each word it reads from a table;
- ``counts(chunk, table, key=None)``: expected topic counts of a chunk's documents;
- ``weights(chunk, table, key=None)``: posterior means of their topic weights;
- ``active_weights(chunk, table, key=None)``: the same of the active topics only;
- ``dense(max_iter, tol)``: an inference of documents with the same prior that keeps all topics, as
  held-out scores want it, whatever the fit does;
- ``left_to_right(chunk, table, key, n_particles=20)``: estimated log-probabilities of documents
  under a table of known topics, their weights integrated out;
- ``draw(n_documents, rng)``: topic weights drawn from the prior.

:class:`DirichletInference` is the one for Dirichlet weights.
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import psi

from sklearn_sparsepost._kernels import _left_to_right as kernels
from sklearn_sparsepost._kernels import topic_words
from sklearn_sparsepost._models.contract import Globals
from sklearn_sparsepost._models.documents import ACTIVE_TOL, draw_dirichlet
from sklearn_sparsepost._run.chunks import row_sums
from sklearn_sparsepost._run.streams import LEFT_TO_RIGHT
from sklearn_sparsepost._run.threads import threads_for
from sklearn_sparsepost._tables import ROW_BLOCK

# What a draw of a token's topic costs, in multiplications.
WORK_A_DRAW = 100


class TopicTable(Globals):
    """Topics as the local step reads them, for the words of some documents.

    Parameters
    ----------
    used : ndarray of shape (n_features,), bool
        The words wanted.
    n_components : int
        Number of topics.
    n_listed : int
        How many best topics to list for each word; none are listed where all would be.
    dtype : {np.float32, np.float64}
        Type of the weights.

    Attributes
    ----------
    position : ndarray of shape (n_features,), int32
        Row of each word, -1 if it is not wanted.
    rows : tuple of ndarray
        For each word the weights of all topics, its best topics, and their weights.
    """

    def __init__(self, used, n_components, n_listed, dtype):
        words = np.flatnonzero(used)
        self.position = np.full(len(used), -1, dtype=np.int32)
        self.position[words] = np.arange(len(words))
        n_listed = n_listed if n_listed < n_components else 0
        self.rows = (
            np.empty((len(words), n_components), dtype),
            np.empty((len(words), n_listed), np.int32),
            np.empty((len(words), n_listed), dtype),
        )

    @classmethod
    def of_components(cls, components, used, n_listed, dtype, *, point=False):
        """A table of Dirichlet distributed topics: weights are exp(E[log phi]).

        Parameters
        ----------
        components : ndarray of shape (n_components, n_features)
            Pseudo-counts of words in topics.
        used, n_listed, dtype
            As for :class:`TopicTable`.
        point : bool, default=False
            Whether topics are points instead: their pseudo-counts' shares, which are the weights.

        Returns
        -------
        table : TopicTable
            The table.
        """
        table = cls(used, len(components), n_listed, dtype)
        totals = components.sum(axis=1, dtype=np.float64)
        topic_log = np.log(totals) if point else psi(totals)
        for block, words in _blocks(used):
            counts = np.ascontiguousarray(components[:, words].T, dtype=np.float64)
            found = topic_words.topic_rows(
                counts,
                1.0,
                np.broadcast_to(0.0, counts.shape),
                np.arange(len(counts), dtype=np.int32),
                topic_log,
                n_listed,
                dtype,
                threads_for(counts.size),
                point=point,
            )
            for whole, part in zip(table.rows, found, strict=True):
                whole[block] = part
        return table

    @classmethod
    def of_probabilities(cls, topics, used):
        """A table of known topics: weights are probabilities, and no best topics are listed.

        Parameters
        ----------
        topics : ndarray of shape (n_components, n_features)
            Probabilities of words in topics.
        used : ndarray of shape (n_features,), bool
            The words wanted.

        Returns
        -------
        table : TopicTable
            The table.
        """
        table = cls(used, len(topics), len(topics), topics.dtype)
        for block, words in _blocks(used):
            table.rows[0][block] = topics[:, words].T
        return table


def _blocks(used):
    """Rows of a table and their words, some at a time."""
    words = np.flatnonzero(used)
    for start in range(0, len(words), ROW_BLOCK):
        block = slice(start, start + ROW_BLOCK)
        yield block, words[block]


def active_only(weights, counts):
    """Weights of the topics that have counts as CSR, rows summing to 1; of all where none has."""
    largest = counts.max(axis=1, keepdims=True)
    active = (counts > ACTIVE_TOL * largest) | (largest == 0)
    weights = sp.csr_matrix(np.where(active, weights, 0))
    totals = np.asarray(weights.sum(axis=1)).ravel()
    weights.data /= np.repeat(totals, np.diff(weights.indptr)).astype(weights.dtype)
    return weights


class DirichletInference:
    """Inference of documents whose topic weights have a Dirichlet prior.

    Parameters
    ----------
    documents : DirichletDocuments
        The local step.
    alpha : ndarray of shape (n_components,)
        The prior.
    """

    def __init__(self, documents, alpha):
        self.documents = documents
        self.alpha = alpha

    @property
    def n_listed(self):
        """How many best topics of each word are read from a table."""
        return self.documents.level(len(self.alpha))

    def dense(self, max_iter=100, tol=0.01):
        """The inference of documents with this prior by dense mean field, without restarts.

        Parameters
        ----------
        max_iter : int, default=100
            The most iterations a document.
        tol : float, default=0.01
            Change of expected topic counts at which a document stops.

        Returns
        -------
        inference : DirichletInference
            The inference.
        """
        return DirichletInference(self.documents.dense(max_iter, tol), self.alpha)

    def counts(self, chunk, table, key=None):
        """Expected topic counts of documents.

        Parameters
        ----------
        chunk : Chunk
            The documents.
        table : TopicTable
            The topics of the documents' words.
        key : object
            Not used.

        Returns
        -------
        counts : ndarray of shape (n_documents, n_components)
            In the type of the chunk.
        """
        position = table.position[chunk.indices]
        return self.documents.fit(
            chunk.indptr, position, chunk.data, table.rows, self.alpha, want_mass=True
        )[2]

    def weights(self, chunk, table, key=None):
        """Posterior means of topic weights, as :meth:`counts`; rows sum to 1."""
        weights = self.counts(chunk, table)
        weights += self.alpha.astype(weights.dtype)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def active_weights(self, chunk, table, key=None):
        """As :meth:`weights`, but CSR and of the active topics; an empty document has its prior."""
        counts = self.counts(chunk, table)
        return active_only(counts + self.alpha.astype(counts.dtype), counts)

    def left_to_right(self, chunk, table, key, n_particles=20):
        """Estimate log-probabilities of documents, their topic weights integrated out.

        Parameters
        ----------
        chunk : Chunk
            The documents: whole numbers of tokens, in double precision.
        table : TopicTable
            Probabilities of the documents' words in known topics.
        key : tuple of int
            The seed; documents' random streams are keyed by it and their numbers.
        n_particles : int, default=20
            Number of particles.

        Returns
        -------
        value : ndarray of shape (n_documents,), float64
            Nats of all tokens of each document, which are taken in a random order.
        """
        length = row_sums(chunk.indptr, chunk.data)
        return kernels.left_to_right(
            chunk.indptr,
            table.position[chunk.indices],
            chunk.data,
            table.rows[0],
            self.alpha,
            chunk.numbers,
            key[0],
            LEFT_TO_RIGHT,
            n_particles=n_particles,
            n_threads=threads_for(WORK_A_DRAW * n_particles * (length @ length)),
        )

    def draw(self, n_documents, rng):
        """Topic weights of documents, drawn from the prior.

        Parameters
        ----------
        n_documents : int
            How many.
        rng : numpy.random.RandomState
            Source of randomness.

        Returns
        -------
        weights : ndarray of shape (n_documents, n_components)
            The weights; rows sum to 1.
        """
        return draw_dirichlet(np.broadcast_to(self.alpha, (n_documents, len(self.alpha))), rng)

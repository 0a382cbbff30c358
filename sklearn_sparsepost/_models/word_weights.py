"""What words weigh in topics: found once for all chunks that are visited under the same globals."""

from threading import Condition

import numpy as np

from sklearn_sparsepost._run.memory import recycled_briefly

# Bytes that the weights of words may take, unless those of a single chunk take more.
MOST_HELD = 2**29


class WordWeights:
    """Weights of the words that chunks have had so far; those of the next one's are added.

    Most words of a chunk were in the chunks before it. Threads may ask at once: each finds what
    nobody has begun to find, and then waits for what others have.
    """

    def __init__(self):
        self.changed = Condition()
        self.held = None

    def __reduce__(self):
        return WordWeights, ()

    def of(self, items, n_components, level, dtype, find):
        """Weights that a chunk's items are among, at the rows that ``items.row`` is set to.

        Parameters
        ----------
        items : Items
            The items of the chunk.
        n_components : int
            Of how many components.
        level : int
            How many of the best ones are listed, if not all.
        dtype : dtype
            Type of the weights.
        find : callable
            ``find(items, out=None)`` returns what an observation model's `item_weights` does.

        Returns
        -------
        weights : tuple of ndarray
            As `item_weights` returns them, with more rows.

        Raises
        ------
        BaseException
            What `find` raises, here or where it finds what is waited for.
        """
        if items.words is None:
            return find(items)
        held = None
        try:
            with self.changed:
                begun = None if self.held is None else self.held.begin(items.words)
                if begun is None:
                    self.held = _Held(items, n_components, level, dtype)
                    begun = self.held.begin(items.words)
                held = self.held
            new, rows = begun
            held.write(rows, find(items.of_words(new), out=held.place(rows)))
        except BaseException as error:  # what was begun is never written
            self.held = None
            if held is not None:
                held.error = error
            raise
        finally:
            with self.changed:
                self.changed.notify_all()
        items.row = held.row[items.words]
        with self.changed:
            self.changed.wait_for(lambda: held.error is not None or held.written[items.row].all())
        if held.error is not None:
            raise held.error
        return held.weight, held.best, held.share


class _Held:
    """Memory for weights of words, in the order in which these are first met."""

    def __init__(self, items, n_components, level, dtype):
        room = MOST_HELD // (n_components * np.dtype(dtype).itemsize)
        n_rows = max(min(room, items.n_features), len(items.words))
        n_listed = level if level < n_components else 0
        self.weight = recycled_briefly((n_rows, n_components), dtype)
        self.best = np.empty((n_rows, n_listed), np.int32)
        self.share = np.empty((n_rows, n_listed), dtype)
        self.row = np.full(items.n_features, -1, dtype=np.int32)
        self.written = np.zeros(n_rows, dtype=bool)
        self.n_begun = 0
        self.error = None

    def begin(self, words):
        """Which of the words nobody has begun, and their rows; None if there is no room."""
        new = words[self.row[words] < 0]
        first, last = self.n_begun, self.n_begun + len(new)
        if last > len(self.weight):
            return None
        self.n_begun = last
        self.row[new] = np.arange(first, last, dtype=np.int32)
        return new, slice(first, last)

    def place(self, rows):
        """What is asked for memory of the weights in some rows."""
        return lambda shape, dtype: self.weight[rows]

    def write(self, rows, found):
        """Have rows be what was found."""
        for held, part in zip((self.weight, self.best, self.share), found, strict=True):
            if not np.shares_memory(held, part):
                held[rows] = part
        self.written[rows] = True

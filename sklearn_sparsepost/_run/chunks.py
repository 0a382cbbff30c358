"""Chunks: some rows of the data, ready for a kernel, and the plan of which rows these are.

What a chunk holds depends on the data and the parameters, never on the number of workers: so sums
have the same bits on any backend. Units are what is dealt to batches and chunks: rows, or groups of
neighbouring rows.
"""

import numpy as np
import scipy.sparse as sp

# Stored counts a chunk: small enough to stay in cache, large enough to hide the dispatch.
CHUNK_SIZE = 1 << 17
# Of large data they are up to so many times larger, since a chunk reads the topics of its words
# once; but enough of them that all workers have some.
MOST_GROWTH, ENOUGH_CHUNKS = 4, 32
# Values and rows a chunk of a dense matrix: its statistics should cost little beside its rows.
# There are twice as many in single precision.
DENSE_CHUNK_SIZE = 1 << 19
DENSE_CHUNK_ROWS = 1 << 13
# Runs of fewer entries than this are read entry by entry.
SHORT_RUN = 512
# A batch is dealt in this many runs of neighbouring units, so that sorted corpora are mixed.
RUNS_PER_BATCH = 64


class Chunk:
    """Some rows of a CSR matrix of counts, each a group of its own: of words.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64
        Row pointer, from 0.
    indices : ndarray of shape (nnz,), int32
        Columns.
    data : ndarray of shape (nnz,), float32 or float64
        Counts.
    n_features : int
        Number of columns.
    weight : ndarray of shape (n_rows,), default=None
        Weights of the rows; None for 1.
    numbers : ndarray of shape (n_rows,), default=None
        Numbers of the rows in the data, by which random streams are keyed; by default from 0.

    Attributes
    ----------
    start : object
        What a local step kept of these rows, for the next one to start from; None for nothing.
    """

    start = None

    def __init__(self, indptr, indices, data, n_features, weight=None, numbers=None):
        self.indptr = indptr
        self.indices = indices
        self.data = data
        self.n_features = n_features
        self.weight = weight
        self.numbers = np.arange(self.n_rows) if numbers is None else numbers

    @property
    def n_rows(self):
        """Number of rows."""
        return self.indptr.shape[0] - 1

    @property
    def nbytes(self):
        """Memory in bytes."""
        return self.indptr.nbytes + self.indices.nbytes + self.data.nbytes

    def with_counts(self, counts):
        """Return this chunk with other counts.

        Parameters
        ----------
        counts : ndarray of shape (nnz,)
            The counts.

        Returns
        -------
        chunk : Chunk
            The same rows.
        """
        given = self.indptr, self.indices, counts, self.n_features
        return Chunk(*given, self.weight, self.numbers)

    @property
    def rows(self):
        """The rows as a matrix."""
        indptr = self.indptr
        if indptr[-1] <= np.iinfo(self.indices.dtype).max:  # else columns are copied for its sake
            indptr = indptr.astype(self.indices.dtype)
        return sp.csr_array((self.data, self.indices, indptr), shape=(self.n_rows, self.n_features))


class DenseChunk:
    """Some rows of a dense matrix.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features), float32 or float64
        The rows, C-contiguous.
    weight : ndarray of shape (n_rows,), default=None
        Their weights; None for 1.
    numbers : ndarray of shape (n_units,), default=None
        Numbers of the units in the data, by which random streams are keyed; by default from 0.
    indptr : ndarray of shape (n_groups + 1,), int64, default=None
        Where each group of rows begins, from 0, and where the last one ends; None for no groups.

    Attributes
    ----------
    start : object
        What a local step kept of these rows, for the next one to start from; None for nothing.
    """

    start = None

    def __init__(self, rows, weight=None, numbers=None, indptr=None):
        self.rows = rows
        self.weight = weight
        n_units = len(rows) if indptr is None else len(indptr) - 1
        self.numbers = np.arange(n_units) if numbers is None else numbers
        self.indptr = indptr

    def with_counts(self, counts):
        """Return this chunk with numbers in place of weights of its rows.

        Parameters
        ----------
        counts : ndarray of shape (n_rows,)
            The numbers.

        Returns
        -------
        chunk : DenseChunk
            The same rows.
        """
        return DenseChunk(self.rows, counts, self.numbers, self.indptr)

    @property
    def n_rows(self):
        """Number of rows."""
        return self.rows.shape[0]


class Grouping:
    """Where rows and groups of a user stand in data whose groups are runs of neighbours.

    Parameters
    ----------
    indptr : ndarray of shape (n_groups + 1,), int64
        Where each group begins.
    labels : ndarray of shape (n_groups,)
        The groups' labels, sorted.
    units : ndarray of shape (n_groups,)
        Which of the labels each run has.
    rows : ndarray of shape (n_rows,), default=None
        Which row of the user each row is; None for the same.
    """

    def __init__(self, indptr, labels, units, rows=None):
        self.indptr = indptr
        self.labels = labels
        self.units = units
        self.rows = rows


def group_rows(X, groups):
    """Bring the rows of each group together.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        The rows; may be memory-mapped if there is nothing to be brought together.
    groups : array-like of shape (n_rows,)
        A label for each row.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
        The same array if the rows of each group are neighbours, else a copy, group by group.
    grouping : Grouping
        Where these are.

    Raises
    ------
    ValueError
        If groups are missing, of another length or no labels, or need a copy of a map.
    """
    labels, codes = codes_of(groups, len(X))
    indptr, units, order = runs_of(codes)
    if order is None:
        return X, Grouping(indptr, labels, units)
    if is_mapped(X):
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        firsts = np.unique(codes, return_index=True)[1]
        row = int(np.setdiff1d(starts, firsts)[0])
        raise ValueError(
            f"row {row} of X belongs to a group that ended before, but rows of a memory-mapped X "
            "stay where they are: sort them by group"
        )
    return X[order], Grouping(indptr, labels, units, order)


def runs_of(codes):
    """Bring rows of the same code together, where they are not.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        Of which group each row is.

    Returns
    -------
    indptr : ndarray of shape (n_groups + 1,), int64
        Where each group begins then.
    units : ndarray of shape (n_groups,)
        The code of each.
    order : ndarray of shape (n_rows,) or None
        Which row each row is then; None for the same.
    """
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    distinct = np.unique(codes)
    if len(starts) == len(distinct):
        return np.append(starts, len(codes)), codes[starts], None
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], distinct)
    return np.append(starts, len(codes)), distinct, order


def codes_of(groups, n_rows):
    """The distinct labels, sorted, and for each row which it has."""
    if groups is None:
        raise ValueError(
            "groups is missing: real data have mixed membership in groups of rows, give one label "
            "a row"
        )
    groups = np.asarray(groups)
    if groups.shape != (n_rows,):
        raise ValueError(
            f"groups has shape {groups.shape}, but must have one label for each of the {n_rows} "
            "rows of X"
        )
    missing = groups != groups  # noqa: PLR0124
    if np.any(missing):
        raise ValueError(f"groups has no label for row {int(np.argmax(missing))}: it is NaN")
    try:
        labels, codes = np.unique(groups, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"groups must hold labels that can be sorted: {error}") from error
    return labels, codes


def is_mapped(X):
    """Whether an array is in a file."""
    while X is not None and not isinstance(X, np.memmap):
        X = getattr(X, "base", None)
    return X is not None


def make_chunk(X, runs, dtype, weight=None, groups=None):
    """Read runs of units of a matrix into a chunk: the only place that touches the data.

    Parameters
    ----------
    X : ndarray, csr_matrix or csr_array
        The data; may be memory-mapped and of any integer or float type.
    runs : list of (int, int)
        First and past-the-last unit of each run.
    dtype : dtype
        Type to compute in.
    weight : ndarray of shape (n_samples,), default=None
        Weights of all rows.
    groups : ndarray of shape (n_groups + 1,), default=None
        Where each group of rows of dense data begins: a unit is a group then, and else a row.

    Returns
    -------
    chunk : Chunk or DenseChunk
        The rows, in the order of `runs`; if sparse, with sorted columns and no duplicates.
    """
    numbers, indptr = neighbours(np.array(runs)), None
    if groups is not None:
        indptr = _pointer([np.diff(groups[start : stop + 1]) for start, stop in runs])
        runs = [(int(groups[start]), int(groups[stop])) for start, stop in runs]
    held = slice(*runs[0])
    if len(runs) > 1:
        held = numbers if groups is None else neighbours(np.array(runs))
    if weight is not None:
        weight = weight[held]
    if sp.issparse(X):
        return _sparse_chunk(X, runs, dtype, weight, numbers)
    rows = X[held]
    return DenseChunk(np.ascontiguousarray(rows, dtype=dtype), weight, numbers, indptr)


def join_chunks(chunks):
    """Put chunks of one kind together.

    Parameters
    ----------
    chunks : list of Chunk or DenseChunk
        At least one; with weights all of them or none.

    Returns
    -------
    chunk : Chunk or DenseChunk
        Their rows, in this order.
    """
    first = chunks[0]
    if len(chunks) == 1:
        return first
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    weight = None
    if first.weight is not None:
        weight = np.concatenate([chunk.weight for chunk in chunks])
    if isinstance(first, DenseChunk):
        rows, indptr = np.concatenate([chunk.rows for chunk in chunks]), None
        if first.indptr is not None:
            indptr = _pointer([np.diff(chunk.indptr) for chunk in chunks])
        return DenseChunk(rows, weight, numbers, indptr)
    return Chunk(
        _pointer([np.diff(chunk.indptr) for chunk in chunks]),
        np.concatenate([chunk.indices for chunk in chunks]),
        np.concatenate([chunk.data for chunk in chunks]),
        first.n_features,
        weight,
        numbers,
    )


def neighbours(runs):
    """All numbers of some runs, in their order.

    Parameters
    ----------
    runs : ndarray of shape (n_runs, 2)
        First and past-the-last number of each run.

    Returns
    -------
    numbers : ndarray of shape (n_numbers,), int64
        The numbers.
    """
    first, lengths = runs[:, 0].astype(np.int64), np.diff(runs).ravel()
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(lengths.sum())


def _pointer(lengths):
    """Where units of given lengths, listed run by run, begin and end."""
    indptr = np.zeros(sum(map(len, lengths)) + 1, dtype=np.int64)
    np.cumsum(np.concatenate(lengths), out=indptr[1:])
    return indptr


def _sparse_chunk(X, runs, dtype, weight, numbers):
    ends = X.indptr[np.array(runs)]
    spans = [slice(first, last) for first, last in ends.tolist()]
    indptr = np.zeros(len(numbers) + 1, dtype=np.int64)
    np.cumsum(X.indptr[numbers + 1] - X.indptr[numbers], out=indptr[1:])
    if len(spans) == 1:  # no copy where the types fit
        indices = np.asarray(X.indices[spans[0]])
        data = np.asarray(X.data[spans[0]])
    elif indptr[-1] < SHORT_RUN * len(spans):
        held = neighbours(ends)
        indices, data = X.indices[held], X.data[held]
    else:
        indices = np.concatenate([X.indices[span] for span in spans])
        data = np.concatenate([X.data[span] for span in spans])
    indices = np.ascontiguousarray(indices, dtype=np.int32)
    data = np.ascontiguousarray(data, dtype=dtype)
    if not X.has_canonical_format:
        rows = sp.csr_matrix(
            (data, indices, indptr), shape=(len(indptr) - 1, X.shape[1]), copy=True
        )
        rows.sum_duplicates()
        indptr = rows.indptr.astype(np.int64)
        indices, data = rows.indices.astype(np.int32, copy=False), rows.data
    return Chunk(indptr, indices, data, X.shape[1], weight, numbers)


def unit_pointer(X, groups=None):
    """Where each unit's entries begin and end, and how many entries a chunk should have.

    Parameters
    ----------
    X : ndarray, csr_matrix, csr_array or Blocks
        The data.
    groups : ndarray of shape (n_groups + 1,), default=None
        Where each group of rows begins.

    Returns
    -------
    indptr : ndarray of shape (n_units + 1,)
        The pointer.
    size : int
        Entries a chunk.
    """
    if getattr(X, "indptr", None) is not None:
        share = int(X.indptr[-1]) // ENOUGH_CHUNKS
        return X.indptr, min(max(share, CHUNK_SIZE), MOST_GROWTH * CHUNK_SIZE)
    width = max(X.shape[1], DENSE_CHUNK_SIZE // DENSE_CHUNK_ROWS)
    size = DENSE_CHUNK_SIZE * (2 if X.dtype == np.float32 else 1)
    return (np.arange(X.shape[0] + 1) if groups is None else groups) * width, size


def split_units(indptr, start, stop, size=CHUNK_SIZE):
    """Cut units start ... stop into runs of about `size` stored entries.

    Parameters
    ----------
    indptr : ndarray of shape (n_units + 1,)
        Where each unit's entries begin.
    start, stop : int
        First and past-the-last unit.
    size : int, default=CHUNK_SIZE
        Entries a run; a longer unit is a run of its own.

    Returns
    -------
    runs : list of (int, int)
        Neighbouring runs of units that cover start ... stop, none empty.
    """
    first, last = int(indptr[start]), int(indptr[stop])
    cuts = np.searchsorted(indptr[start : stop + 1], np.arange(first + size, last, size))
    cuts = np.unique(np.concatenate([[0], cuts, [stop - start]])) + start
    return [(int(a), int(b)) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


def deal_units(n_units, n_batches, rng):
    """Deal units to batches of nearly equal size, in runs, at random.

    Of neighbouring runs each batch gets one, so that a batch has units of every part of the data,
    and every block of a Dask array as much to do as another.

    Parameters
    ----------
    n_units : int
        Number of units.
    n_batches : int
        Number of batches, at most `n_units`.
    rng : numpy.random.Generator
        Source of the order.

    Returns
    -------
    batches : list of list of (int, int)
        For each batch its runs of units, ascending.
    """
    n_runs = min(n_units, n_batches * RUNS_PER_BATCH)
    edges = np.linspace(0, n_units, n_runs + 1).astype(np.int64)
    rounds = np.tile(np.arange(n_batches), (-(-n_runs // n_batches), 1))
    owner = rng.permuted(rounds, axis=1).ravel()[:n_runs]
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=n_batches))
    return [
        [(int(edges[r]), int(edges[r + 1])) for r in part] for part in np.split(order, ends[:-1])
    ]


def runs_by_block(runs, edges):
    """Cut runs of units where blocks of the data end.

    Parameters
    ----------
    runs : list of (int, int)
        First and past-the-last unit of each run, ascending.
    edges : ndarray of shape (n_blocks + 1,)
        Where each block begins, from 0, and where the last one ends.

    Returns
    -------
    held : dict of int to list of (int, int)
        The runs of each block that has some, ascending.
    """
    held = {}
    if len(edges) == 2:  # the whole data are one block
        whole = [run for run in runs if run[0] < run[1]]
        return {0: whole} if whole else {}
    for start, stop in runs:
        block = int(np.searchsorted(edges, start, "right")) - 1
        while start < stop:
            end = min(stop, int(edges[block + 1]))
            if start < end:
                held.setdefault(block, []).append((start, end))
            start, block = end, block + 1
    return held


def cut_batch(indptr, runs, size):
    """Cut a batch's runs into chunks of about `size` entries, each a list of runs.

    Parameters
    ----------
    indptr : ndarray of shape (n_units + 1,)
        Where each unit's entries begin.
    runs : list of (int, int)
        First and past-the-last unit of each run.
    size : int
        Entries a chunk; a longer unit is a chunk of its own.

    Returns
    -------
    chunks : list of list of (int, int)
        For each chunk its runs.
    """
    pieces, current, held = [], [], 0
    for start, stop in runs:
        entries = int(indptr[stop]) - int(indptr[start])
        for run in [(start, stop)] if entries <= size else split_units(indptr, start, stop, size):
            entries = int(indptr[run[1]]) - int(indptr[run[0]])
            if current and held + entries > size:
                pieces.append(current)
                current, held = [], 0
            current.append(run)
            held += entries
    return [*pieces, current] if current else pieces


def row_sums(indptr, data):
    """Sums of the entries of each row, in double.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,)
        Where each row's entries begin.
    data : ndarray of shape (nnz,)
        The entries.

    Returns
    -------
    sums : ndarray of shape (n_rows,), float64
        The sums.
    """
    sums = np.zeros(len(indptr) - 1)
    held = np.flatnonzero(np.diff(indptr))  # the sum from an empty row on would be its first entry
    if len(held):
        sums[held] = np.add.reduceat(data, indptr[held], dtype=np.float64)
    return sums

"""Data in blocks of rows that stay where they are: on the workers of a Dask cluster.

A Dask array is one more source of chunks: none of them has rows of two blocks, and each is read
and worked on where its block is. The plan follows from the blocks alone, and results come back in
the order of the chunks, so that no number of workers changes a bit. Without a cluster the blocks
are held in this process, under the same plan.
"""

import sys
from collections import deque
from copy import copy
from functools import partial
from itertools import islice
from operator import getitem
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._run.chunks import join_chunks, make_chunk, runs_by_block
from sklearn_sparsepost._run.cluster import editions_on, in_one, in_order, in_tree, runs_on_workers
from sklearn_sparsepost._run.dispatch import Corpus, told_of_lost_cluster
from sklearn_sparsepost._run.kept import KeptStarts, keep, starts_of
from sklearn_sparsepost._run.kept_sums import SumKeeper


def is_collection(X):
    """Whether some data are a Dask array or dataframe, or blocks of one."""
    is_array = hasattr(X, "dask") and hasattr(X, "map_blocks")
    return is_array or is_dask_frame(X) or isinstance(X, Blocks)


def is_dask_frame(X):
    """Whether some data are a Dask dataframe, or a column of one."""
    return hasattr(X, "to_dask_array")


def as_array(X):
    """The values of a Dask dataframe, or of a column, as a Dask array; other data as they are."""
    return X.to_dask_array() if is_dask_frame(X) else X


def n_blocks_of(X):
    """In how many blocks the rows of a Dask array or dataframe are; 0 of other data."""
    return as_array(X).numblocks[0] if is_collection(X) else 0


def float_type(X, fitted):
    """The type of results for a collection: its own, or a fitted attribute's if it has integers."""
    dtype = as_array(X).dtype
    return dtype if dtype in (np.float32, np.float64) else fitted.dtype


def check_columns(X):
    """Refuse a Dask array that is no table, or whose rows are cut."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got a Dask array of {X.ndim} dimensions")
    if X.numblocks[1] > 1:
        raise ValueError(
            f"the columns of X are cut into {X.numblocks[1]} blocks, but rows must be whole: use "
            "X.rechunk({1: -1})"
        )


def corpus_of(X, dtype, n_jobs=None, **options):
    """The corpus of some data, wherever they are: a :class:`Corpus` of the right kind."""
    kind = BlockCorpus if isinstance(X, Blocks) else Corpus
    return kind(X, dtype, n_jobs, **options)


def blocks_of(X, check):
    """Have the blocks of a Dask array computed, checked and held where they are.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        The data; numbers of rows may be unknown.
    check : callable
        ``check(block)`` returns the block as it is to be held, or raises a ValueError; picklable.

    Returns
    -------
    blocks : Blocks
        The data.

    Raises
    ------
    ValueError
        If a check fails, which names the block, or columns are cut.
    RuntimeError
        If the cluster is gone.
    """
    if isinstance(X, Blocks):
        return X
    import dask

    check_columns(X)
    delayed = list(X.to_delayed().ravel())
    with told_of_lost_cluster():
        client = _client_of(X)
        if client is None:
            parts = [_checked(block, check) for block in dask.compute(*delayed)]
            notes = [_note(part) for part in parts]
        else:
            given = client.compute(delayed)
            # Each by one task, which has what it needs where the block is, and so stays there.
            parts = [client.submit(_checked, part, check, pure=False) for part in given]
            notes = client.gather(client.map(_note, parts, pure=False))
    _raise_first(notes)
    return Blocks(parts, notes, client, X)


def _client_of(X):
    """The Dask client whose workers hold an array, or that of this process, if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    held = distributed.client.futures_of(X)
    try:
        return held[0].client if held else distributed.default_client()
    except ValueError:
        return None


class _Refused(NamedTuple):
    """A block in which something is wrong."""

    n_rows: int
    error: str


def _checked(block, check):
    """A block as it is held, an object of its own, since things are kept for it, or what is wrong.

    Its memory may be that of the block.
    """
    try:
        held = check(block)
    except ValueError as error:
        return _Refused(block.shape[0], str(error))
    if held is not block:
        return held
    return copy(held) if sp.issparse(held) else held.view()


def _trial(block, check):
    """What a check that leaves a block as it is has to say."""
    try:
        check(block)
    except ValueError as error:
        return {"n_rows": block.shape[0], "width": block.shape[1], "error": str(error)}
    return {"n_rows": block.shape[0], "width": block.shape[1]}


def _note(block):
    """What the client knows of a block: its shape and type, what is stored, or what is wrong."""
    if isinstance(block, _Refused):
        return block._asdict()
    sparse = sp.issparse(block)
    stored = block.data if sparse else block
    return {
        "n_rows": block.shape[0],
        "width": block.shape[1],
        "dtype": block.dtype,
        "entries": np.diff(block.indptr) if sparse else None,
        "largest": stored.max(initial=0) if stored.dtype.kind != "f" else np.inf,
    }


def _raise_first(notes):
    first = 0
    for number, note in enumerate(notes):
        if "error" in note:
            raise ValueError(
                f"block {number} of X, whose row 0 is row {first} of X: {note['error']}"
            )
        first += note["n_rows"]
    widths = sorted({note["width"] for note in notes})
    if len(widths) > 1:
        raise ValueError(f"blocks of X have {widths[0]} and {widths[1]} columns: one number only")


class Blocks:
    """Checked blocks of rows, held by the workers of a cluster, or here.

    Parameters
    ----------
    parts : list of Future, ndarray or csr_matrix
        The blocks, in order; futures if there is a client.
    notes : list of dict
        What is known of each.
    client : distributed.Client or None
        Of the cluster.
    given : dask.array.Array
        The data as users know them.

    Attributes
    ----------
    edges : ndarray of shape (n_blocks + 1,)
        Where each block begins.
    indptr : ndarray of shape (n_samples + 1,) or None
        Where each row's entries begin, if they are sparse.
    """

    ndim = 2

    def __init__(self, parts, notes, client, given):
        self.parts = parts
        self.notes = notes
        self.client = client
        self.given = given
        self._editions = None if client is None else editions_on(client)
        self._homes = {}  # the worker on which each part was seen first
        self._n_threads = {}  # of workers
        self.edges = np.cumsum([0, *(note["n_rows"] for note in notes)])
        self.shape = int(self.edges[-1]), notes[0]["width"]
        self.dtype = np.result_type(*(note["dtype"] for note in notes))
        self.largest = max(note["largest"] for note in notes)
        self.indptr = None
        if notes[0]["entries"] is not None:
            entries = np.concatenate([note["entries"] for note in notes])
            self.indptr = np.concatenate([[0], np.cumsum(entries, dtype=np.int64)])

    @property
    def nnz(self):
        """Stored entries."""
        return int(np.prod(self.shape) if self.indptr is None else self.indptr[-1])

    def __getitem__(self, rows):
        """Blocks of some rows, given by ascending numbers."""
        cuts = np.searchsorted(rows, self.edges)
        held = [
            rows[first:last] - edge
            for first, last, edge in zip(cuts[:-1], cuts[1:], self.edges[:-1], strict=True)
        ]
        if self.client is None:
            parts = [part[own] for part, own in zip(self.parts, held, strict=True)]
            return Blocks(parts, [_note(part) for part in parts], None, self.given)
        with told_of_lost_cluster():
            parts = self.client.map(getitem, self.parts, held, pure=False)
            notes = self.client.gather(self.client.map(_note, parts, pure=False))
        return Blocks(parts, notes, self.client, self.given)

    def each(self, function, *shared, beside=None):
        """Make ``function(block, *shared)`` on every block where it is, results in order.

        Parameters
        ----------
        function : callable
            Pure and picklable.
        *shared : object
            What all calls are given.
        beside : list, default=None
            A last argument for each block.

        Returns
        -------
        results : list
            What it returned.
        """
        own = [()] * len(self.parts) if beside is None else [(held,) for held in beside]
        tasks = [(block, (function, *held)) for block, held in enumerate(own)]
        return list(self.work(_on_part, tasks, shared))

    def work(self, function, tasks, shared):
        """Make ``function(block, shared, *given)`` where each block is, results in order.

        Parameters
        ----------
        function : callable
            Pure and picklable.
        tasks : list of (int, tuple)
            The number of the block of each, and what it is given.
        shared : object
            What all are given: sent once to each worker.

        Yields
        ------
        result : object
            What `function` returned.
        """
        if self.client is None:
            for block, given in tasks:
                yield function(self.parts[block], shared, *given)
            return
        left = deque(tasks)
        with told_of_lost_cluster(lambda: f"chunks of block {left[0][0]}"):
            yield from in_order(self.client, function, left, shared, self._reader())

    def total(self, function, tasks, shared, join, *, often=False, source=None, gather=None):
        """Make ``function(block, shared, *given)`` on the workers, and sum up the results.

        Parameters
        ----------
        function, tasks, shared
            As for :meth:`work`.
        join : callable
            As for :func:`in_one`.
        often : bool, default=False
            Whether `shared` is the last of such values with `often` and a few changes, so that
            these are sent, and tasks so short that a worker has no more of them than it must.
        source : object, default=None
            What `shared` follows from: see :meth:`Editions.futures`.
        gather : callable, default=None
            As for :func:`in_one`.

        Returns
        -------
        total : object
            The sum, of which nothing but its last two parts have travelled to the client.
        """
        deadly = []
        with told_of_lost_cluster(lambda: _named(deadly)):
            read = self._reader()
            given = self.client, function, tasks, shared, read, join
            if often:
                given += self._runs(map(read, tasks)), self._editions, source
            try:
                return in_one(*given, gather=gather)
            except Exception as error:
                deadly += [tasks[number][0] for number in getattr(error, "task_numbers", ())]
                raise

    def _runs(self, readings):
        """Tasks that a worker takes together."""
        places = [home for _, _, home in readings]
        if not self._n_threads.keys() >= set(places) - {None}:
            self._n_threads = self.client.nthreads()
        return runs_on_workers(places, self._n_threads)

    def _reader(self):
        """What says of a task which block it is of, what it is given, and who holds the block.

        One worker, if it has it still, although others may have copies: so that the sums of
        neighbours are beside each other.
        """
        homes = self.homes()

        def read(task):
            block, given = task
            return self.parts[block], given, homes[block]

        return read

    def homes(self):
        """The worker that each block is worked on by, None of one that nobody has."""
        with told_of_lost_cluster():
            holders, homes = self.client.who_has(self.parts), []
        for part in self.parts:
            held = list(holders.get(part.key, ()))
            if held and self._homes.get(part.key) not in held:
                self._homes[part.key] = held[0]
            homes.append(self._homes[part.key] if held else None)
        return homes


def _named(blocks):
    """What was worked on, by numbers of blocks where they are known."""
    if len(blocks) == 1:
        return f"chunks of block {blocks[0]}"
    return f"chunks of one of the blocks {', '.join(map(str, blocks))}" if blocks else "blocks"


def _on_part(part, shared, function, *beside):
    return function(part, *shared, *beside)


def _step_on(part, shared, step, first, read, key, start):
    """Make a step on a chunk of a block whose first row has a number."""
    chunk = _read(part, first, *read)
    chunk.start = start
    return step(chunk, shared, key)


def _visit_on(part, shared, step, total, first, reads, key, starts, number=None):
    """Make a step on the chunks of a block: their sum, and what is kept of each.

    Under a number that is kept here as well, and it is told where.
    """
    chunks = [runs[0][0] for runs, *_ in reads]
    pairs = zip(reads, starts_of(part, chunks, starts), strict=True)
    made = (_step_on(part, shared, step, first, read, key, start) for read, start in pairs)
    stats, kept = _visited(made, total)
    return stats, kept if number is None else keep(part, chunks, number, kept)


def _visited(made, total):
    """The sum of what was found of some chunks, and what is kept of each."""
    kept = []

    def results():
        for stats, local in made:
            kept.append(local)
            yield stats
            del stats, local  # or they would be held beside the next

    return total(results()), kept


def _join_visits(total, *visits, owned=False):
    """Sums of neighbours, of a power of two of them, as if two were joined at a time."""
    kept = [local for _, own in visits for local in own]
    parts = [stats for stats, _ in visits]
    return total(parts, apart=not owned, neighbours=len(parts) > 2), kept


def _read(part, first, runs, dtype, weight, groups):
    """Read a chunk from a block whose first row has a number; weights are of the chunk's rows.

    Where there are groups, these are what runs are of, and they begin at these rows of the block,
    the first of the first run and those after it.
    """
    first = first if groups is None else runs[0][0]
    runs = [(start - first, stop - first) for start, stop in runs]
    chunk = make_chunk(part, runs, dtype, groups=groups)
    chunk.numbers += first
    chunk.weight = weight
    return chunk


def _read_on(part, shared, first, read):
    return _read(part, first, *read)


class BlockCorpus(Corpus):
    """The data of a fit in blocks, and how to go over them: a :class:`Corpus`.

    Parameters
    ----------
    X : Blocks
        The data.
    dtype, n_jobs, weight, groups, threaded
        As for :class:`Corpus`; on a cluster every worker is used, whatever `n_jobs` says. No group
        has rows of two blocks.
    """

    def __init__(self, X, dtype, n_jobs=None, **options):
        super().__init__(X, dtype, n_jobs, **options)
        self.edges = X.edges if self.groups is None else np.searchsorted(self.groups, X.edges)
        self._kept = KeptStarts()
        self._sums = None if X.client is None else SumKeeper(X.client)

    @property
    def given(self):
        return self.X.given

    @property
    def is_empty(self):
        return not self.X.nnz

    def check(self, function):
        _raise_first(self.X.each(_trial, function))

    def chunk(self, runs):
        tasks = []
        for block, held in runs_by_block(runs, self.edges).items():
            tasks.append((block, (int(self.edges[block]), self._what(block, held))))
        return join_chunks(list(self.X.work(_read_on, tasks, None)))

    def _what(self, block, runs):
        """What to read of a block."""
        weight, groups = self.weight, self.groups
        if weight is not None:
            weight = np.concatenate([weight[start:stop] for start, stop in runs])
        if groups is not None:
            groups = groups[runs[0][0] : runs[-1][1] + 1] - groups[self.edges[block]]
        return runs, self.dtype, weight, groups

    def map(self, step, globals_, key=None, *, chunks=None, starts=None):
        if self.X.client is None:
            yield from super().map(step, globals_, key, chunks=chunks, starts=starts)
            return
        chunks = self.plan() if chunks is None else chunks
        starts = [None] * len(chunks) if starts is None else starts
        tasks = []
        for runs, start in zip(chunks, starts, strict=True):
            [(block, held)] = runs_by_block(runs, self.edges).items()
            first = int(self.edges[block])
            tasks.append((block, (step, first, self._what(block, held), key, start)))
        yield from self.X.work(_step_on, tasks, globals_)

    def visit(
        self,
        step,
        globals_,
        key=None,
        *,
        total,
        source=None,
        chunks=None,
        starts=None,
        keeps=False,
        remembers=False,
    ):
        here, alone = self.X.client is None, self.n_blocks == 1
        if alone and (here or not keeps):  # summed as an array is
            yield from super().visit(step, globals_, key, total=total, chunks=chunks, starts=starts)
            return
        chunks = self.plan() if chunks is None else chunks
        starts = [None] * len(chunks) if starts is None else starts
        held = {}
        for n, runs in enumerate(chunks):
            [(block, own)] = runs_by_block(runs, self.edges).items()
            held.setdefault((block, n if alone else 0), []).append((n, self._what(block, own)))
        join = partial(_join_visits, total)
        if here:
            made = super().map(step, globals_, key, chunks=chunks, starts=starts)
            visits = (_visited(islice(made, len(own)), total) for own in held.values())
            yield in_tree(visits, partial(join, owned=True))
            return
        gather = self._sums.gathers(total) if remembers and self._sums is not None else None
        is_batch = sum(stop - start for runs in chunks for start, stop in runs) < self.n_samples
        visits = [(block, *zip(*found, strict=True)) for (block, _), found in held.items()]

        def made(starts, number=None, first=0):
            """Results of the visits from one on; what they keep stays there under a number."""
            tasks = []
            for block, own, reads in visits[first:]:
                given = step, next if alone else total, int(self.edges[block]), reads, key
                tasks.append((block, (*given, [starts[n] for n in own], number)))
            if alone:
                yield from self.X.work(_visit_on, tasks, globals_)
            else:
                options = {"often": is_batch, "source": source, "gather": gather}
                yield self.X.total(_visit_on, tasks, globals_, join, **options)

        if not keeps:
            yield from made(starts)
            return
        homes = self.X.homes()
        where = [homes[block] for block, own, _ in visits for _ in own]
        yield from self._kept.visits(made, [runs[0][0] for runs in chunks], where, starts)

    def keep_sum(self, stats, old=None):
        return stats if self._sums is None else self._sums.keep_last(stats, old)


def map_rows(X, model, method, n_columns, dtype, *, sparse=False, options=None):
    """A Dask array of what a fitted model makes of rows, computed when it is asked for.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        The data.
    model : object
        Sent to the workers once.
    method : str
        The name of its method, whose results are of each row alone.
    n_columns : int or None
        Of the result; None for one value a row.
    dtype : dtype
        Of the result.
    sparse : bool, default=False
        Whether blocks of the result are CSR.
    options : dict, default=None
        Of the method.

    Returns
    -------
    found : dask.array.Array of shape (n_samples,) or (n_samples, n_columns)
        The result, in the blocks of X.
    """
    import dask

    held, none = dask.delayed(model, traverse=False), _of_no_rows(n_columns, dtype, sparse)
    shape = {"chunks": (X.chunks[0],), "drop_axis": 1}
    if n_columns is not None:
        shape = {"chunks": (X.chunks[0], (n_columns,))}
    return X.map_blocks(_used, held, method, options or {}, none, dtype=dtype, meta=none, **shape)


def _of_no_rows(n_columns, dtype, sparse):
    none = np.empty((0,) if n_columns is None else (0, n_columns), dtype)
    return sp.csr_matrix(none) if sparse else none


def map_grouped(X, labels, sizes, model, method, n_columns, dtype, *, sparse=False, options=None):
    """As :func:`map_rows`, of rows that are in groups.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        The data.
    labels : list of ndarray
        For each block the labels of its rows; no label is in two.
    sizes : list of int
        For each block how many rows its result has.
    model, method, n_columns, dtype, sparse, options
        As for :func:`map_rows`; the method is given `groups` besides.

    Returns
    -------
    found : dask.array.Array of shape (sum(sizes),) or (sum(sizes), n_columns)
        The result, block by block.
    """
    import dask
    import dask.array as da

    held, none = dask.delayed(model, traverse=False), _of_no_rows(n_columns, dtype, sparse)
    used, parts = dask.delayed(_used), []
    blocks = zip(X.to_delayed().ravel(), labels, sizes, strict=True)
    for number, (block, groups, size) in enumerate(blocks):
        given = {**(options or {}), "groups": dask.delayed(groups, traverse=False)}
        found = used(block, held, method, given, none, block_id=(number,))
        shape = (size,) if n_columns is None else (size, n_columns)
        parts.append(da.from_delayed(found, shape, dtype, meta=none))
    return da.concatenate(parts)


def _used(block, model, method, options, none, block_id=None):
    """What a method makes of a block; of no rows nothing."""
    if not block.shape[0]:
        return none
    try:
        return getattr(model, method)(block, **options)
    except ValueError as error:
        raise ValueError(f"block {block_id[0]} of X: {error}") from error

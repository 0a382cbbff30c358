"""Tasks on the workers of a Dask cluster, whichever of them die.

Nothing is scattered: data are arguments of tasks, which the scheduler can have made again anywhere.
What is scattered is lost with its worker, and where one dies while a value is broadcast, the
scheduler tries forever.
"""

from collections import Counter, deque
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice, repeat
from threading import Lock
from weakref import WeakKeyDictionary

from sklearn_sparsepost._run.editions import EditionLost, Editions, Whole, edition
from sklearn_sparsepost._run.kept import NotThere
from sklearn_sparsepost._run.memory import freed_memory_kept
from sklearn_sparsepost._run.shipping import Shipped
from sklearn_sparsepost._run.threads import most_threads, settled_threads, single_blas

# So many neighbouring sums are joined at once where they are: a power of two. All are held.
AT_ONCE = 4
# How often tasks are sent before what is lost with workers is an error.
ATTEMPTS = 3
# How long a client tries to connect to a worker, once, and whether it could.
REACH_SECONDS = 2
_REACHES = WeakKeyDictionary()
_SETTING = Lock()
# What Dask raises if a value is lost that tasks were given.
VALUE_LOST = {"FutureCancelledError", "FuturesCancelledError"}


def in_order(client, function, tasks, shared, read, ahead=None):
    """Make ``function(part, shared, *given)`` on workers, results in order.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    function : callable
        Pure and picklable.
    tasks : deque
        What is to be done; a task leaves it when its result is yielded.
    shared : object
        What all are given: sent once to each worker.
    read : callable
        ``read(task)`` returns the task's `part`, a value or a future, what it is given beside it,
        a tuple, and the worker where it is best made, or None; called when the task is sent.
    ahead : int, default=None
        How many tasks may be sent whose results were not yielded; all by default.

    Yields
    ------
    result : object
        What `function` returned.
    """
    for attempt in range(ATTEMPTS):
        try:
            with freed_memory_kept(always=True):
                for result in _made(client, function, list(tasks), shared, read, ahead):
                    tasks.popleft()
                    yield result
                    del result  # or it would be held beside the next
            return
        except Exception as error:
            _raise_unless_lost(client, error, attempt)


def in_one(
    client,
    function,
    tasks,
    shared,
    read,
    join,
    runs=None,
    editions=None,
    source=None,
    *,
    gather=None,
):
    """Make ``function(part, shared, *given)`` on workers, and sum up the results.

    They are joined in a tree, neighbours first, whose form follows from the number of tasks alone:
    where the first of two is, but for the last two sums, which come back at the same time.

    Parameters
    ----------
    client, function, tasks, shared, read
        As for :func:`in_order`; no task leaves.
    join : callable
        ``join(result, next_result)``; picklable, and writes to neither unless it is told that they
        are ``owned=True``. Of four, eight and so on it makes what it makes of two at a time.
    runs : list of slice, default=None
        Neighbours that one task takes together, as :func:`runs_on_workers` finds them; each alone
        by default.
    editions : Editions, default=None
        What was sent of `shared` before, so that only what has changed is sent; whole by default.
    source : object, default=None
        What `shared` follows from: see :meth:`Editions.futures`.
    gather : callable, default=None
        ``gather(halves)`` returns the values of the last sums, of which it is given pairs of the
        future and where it is best used; by default they are fetched, and let go where they are.

    Returns
    -------
    total : object
        The sum.

    Raises
    ------
    Exception
        Whatever ends a task. If one killed worker after worker, `task_numbers` of the error are
        the numbers of those that were given up with the last of these.
    """
    numbers, runs = {}, runs or [slice(n, n + 1) for n in range(len(tasks))]
    together = partial(_of_neighbours, function, join)
    edge = _halves(len(tasks))[0]
    below, above = (
        [run.stop - run.start for run in runs if (run.start < edge) is own] for own in (True, False)
    )

    def read_together(run):
        parts, given, places = zip(*map(read, tasks[run]), strict=True)
        return list(parts), (given,), places[0]

    def placed():
        given = client, together, runs, shared, read_together, editions, source
        for run, sent in zip(runs, _submitted(*given), strict=True):
            numbers[sent[0].key] = range(run.start, run.stop)
            yield sent

    def joined(one, other):
        (part, where), (next_part, _) = one, other
        return client.submit(_joined, join, part, next_part, pure=False, **where), where

    for attempt in range(ATTEMPTS):
        halves = []
        try:
            # Nothing else is held here, so that what has been joined is let go.
            parts = placed()
            with freed_memory_kept(always=True):
                for sizes in filter(None, (below, above)):
                    halves.append(in_tree(islice(parts, len(sizes)), joined, sizes))
                if gather is None:
                    first, *last = map(found, fetched(client, [future for future, _ in halves]))
                else:
                    first, *last = gather(halves)
                    halves.clear()  # what is to stay goes with what it follows from
            return join(first, *last) if last else first
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                error.task_numbers = _given_up(client, numbers)
            if isinstance(error, EditionLost):
                editions.lost()
            elif editions is not None:
                editions.forget()
            _raise_unless_lost(client, error, attempt)
        finally:
            _cancel(client, [future for future, _ in halves])


def in_tree(parts, join, sizes=None):
    """Join neighbours, then neighbours of these, and so on, holding no more than there must be.

    Parameters
    ----------
    parts : iterable
        At least one.
    join : callable
        Of two.
    sizes : list of int, default=None
        How many parts each of these has been joined of, as they are joined here; 1 by default.

    Returns
    -------
    total : object
        Of all.
    """
    held, sizes = [], repeat(1) if sizes is None else iter(sizes)
    for part in parts:
        size, total = next(sizes), part
        del part
        while held and held[-1][0] == size:
            size, total = 2 * size, join(held.pop()[1], total)
        held.append((size, total))
    total = held.pop()[1]
    while held:
        total = join(held.pop()[1], total)
    return total


def runs_on_workers(places, n_threads):
    """Cut a list of tasks into neighbours that :func:`in_tree` sums before anything else is added.

    Parameters
    ----------
    places : list of hashable
        The worker on which each is best made, or None.
    n_threads : dict of hashable to int
        How many tasks each worker makes at a time: it gets no fewer, if there are so many.

    Returns
    -------
    runs : list of slice
        Those of each are of one worker.
    """
    runs, counts = [], Counter(places)
    while not runs or runs[-1].stop < len(places):
        first, size = runs[-1].stop if runs else 0, 1
        place = places[first]
        most = 1 if place is None else counts[place] // n_threads.get(place, 1)
        while first % (2 * size) == 0 and 2 * size <= most:
            more = places[first + size : first + 2 * size]
            if more != [place] * size:
                break
            size *= 2
        runs.append(slice(first, first + size))
    return runs


def _halves(n_parts):
    """How many of some parts are below each of the two that :func:`in_tree` joins last."""
    if n_parts < 2:
        return [n_parts]
    first = 1 << ((n_parts - 1).bit_length() - 1)
    return [first, n_parts - first]


def _made(client, function, tasks, shared, read, ahead):
    """Results of tasks, made by the workers."""
    submitted = (part for part, _ in _submitted(client, function, tasks, shared, read))
    futures = deque(islice(submitted, ahead))
    try:
        while futures:
            [result] = fetched(client, [futures.popleft()])
            futures.extend(islice(submitted, 1))
            yield found(result)
            del result
    finally:
        _cancel(client, list(futures))


def _submitted(client, function, tasks, shared, read, editions=None, source=None):
    """Futures of tasks, each submitted when it is asked for, and where they are best made."""
    if editions is None:
        at_hand = [sent_to_workers(client, Whole.of(shared))]
    else:
        at_hand = editions.futures(shared, source)
    for task in tasks:
        part, given, place = read(task)
        where, own = best_on(place), at_hand
        if place is not None and editions is not None:
            own = editions.futures_at(place)
        yield submit(client, _on_worker, function, part, own, given, **where), where


def best_on(place):
    """Say of a task that is sent on which worker it is best made, if on any."""
    return {} if place is None else {"workers": [place], "allow_other_workers": True}


def editions_on(client):
    """What a cluster is sent of a value that changes: see :class:`Editions`."""

    def send_on(future, worker):
        return submit(client, itself, future, **best_on(worker))

    return Editions(lambda value: sent_to_workers(client, value), send_on)


def sent_to_workers(client, value):
    """Have a value at hand for the workers: a task of its own, so that each fetches it once.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    value : object
        What is sent; picklable.

    Returns
    -------
    value : distributed.Future
        To be an argument of tasks.
    """
    return submit(client, itself, value)


def submit(client, function, *given, **place):
    import dask

    # Dask warns of large values in tasks, which stay with the scheduler: here for a batch. Of two
    # threads that set this at once, the later one would set it back to what the other has set.
    with _SETTING, dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        return client.submit(function, *given, pure=False, **place)


def fetched(client, futures):
    """The values of futures, from the workers that have them if the client can reach workers.

    Else, and where that fails, the scheduler passes it on, which takes twice as long or longer.
    """
    direct = None  # as the client was told, if it was
    if client.direct_to_workers is None:
        direct = _reaches_workers(client)
    return client.gather(futures, direct=direct)


def _reaches_workers(client):
    """Whether a client has been able to connect to a worker; None while there are none."""
    if client not in _REACHES:
        try:
            workers = list(client.scheduler_info()["workers"])
            if not workers:
                return None
            client.sync(_reach, client, workers[0])
            _REACHES[client] = True
        except Exception:  # many kinds, of networks and of their protocols
            _REACHES[client] = False
    return _REACHES[client]


async def _reach(client, address):
    """Connect to a worker and leave."""
    from distributed.comm import connect

    comm = await connect(address, timeout=REACH_SECONDS, **client.connection_args)
    await comm.close()


def itself(value):
    return value


def found(result):
    """What a task has found, unless it was not given all."""
    if isinstance(result.value, NotThere):
        raise result.value
    return result.value


@contextmanager
def threads_of_one():
    """What a worker does with the threads that one of its own has."""
    from distributed import get_worker

    n_threads = max(1, most_threads() // get_worker().state.nthreads)
    with freed_memory_kept(), settled_threads(n_threads), single_blas():
        yield


def _on_worker(function, part, shared, given):
    """Make a step on a worker."""
    try:
        with threads_of_one():
            if not shared:
                return Shipped(function(part, *given))
            with edition(shared) as value:
                return Shipped(function(part, value, *given))
    except NotThere as error:
        # Returned, since Dask logs what is raised, with its traceback, and this is made good.
        return Shipped(error)


def _of_neighbours(function, join, parts, shared, given):
    """The sum of what a function makes of some parts, a power of two of them."""
    made = (function(part, shared, *own) for part, own in zip(parts, given, strict=True))
    join = partial(join, owned=True)
    if len(parts) >= AT_ONCE:
        sums = (join(*islice(made, AT_ONCE)) for _ in range(len(parts) // AT_ONCE))
        return in_tree(sums, join)
    return in_tree(made, join)


def _joined(join, first, second):
    """Join what two tasks have found."""
    for part in (first, second):
        if isinstance(part.value, NotThere):
            return part
    return _on_worker(join, first.value, [], (second.value,))


def _given_up(client, numbers):
    """Numbers of tasks that the scheduler has given up, if it can be asked."""

    def erred(keys, dask_scheduler):
        tasks = dask_scheduler.tasks
        found = [tasks[key] for key in keys if key in tasks]
        return [task.key for task in found if task.state == "erred"]

    with suppress(Exception):  # what has happened is told, whatever happens now
        keys = client.run_on_scheduler(erred, list(numbers))
        return sorted(number for key in keys for number in numbers[key])
    return []


def _cancel(client, futures):
    if client.status == "running":
        client.cancel(futures)


def _raise_unless_lost(client, error, attempt):
    """Raise an error, but for those: what all are given, or knew, may go with a worker."""
    lost = type(error).__name__ in VALUE_LOST or isinstance(error, EditionLost)
    if not lost or attempt == ATTEMPTS - 1 or client.status != "running":
        raise error

"""Memoized learning whose batches' sums stay on the workers, to be compared with what there is.

There are two ways. Sums are fetched when they go out of the totals, ahead, while the workers are
at the batch: to the same bytes. That is what ``sklearn_sparsepost.batch_sums`` of Dask's
configuration has. Or workers take from what they return what they have returned of the batch
before, which only has to be added: to other last bits than those of one machine, and the totals are
never summed anew. What a worker has is on another one as well, or a death would lose it, or on the
worker's disk, where it outlives the process, but not the machine; and the client keeps the totals
of the pass before, which it cannot make again if all workers die. This second way is here alone,
and has no moves, checkpoints or ``warm_start``, for which sums would be fetched.
"""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask

from sklearn_sparsepost._learning import loops
from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._run import cluster, collections
from sklearn_sparsepost._run.cluster import fetched
from sklearn_sparsepost._run.kept_sums import OPTION
from sklearn_sparsepost._run.shipping import Shipped

# What a worker has returned of neighbouring blocks, by their first row in the batch.
_RETURNED = {}


def sums_on_workers(client, way):
    """Have sums stay on the workers, of which there are two, in this process from now on.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    way : {"fetched", "differences", "differences, disk"}
        How they go out of the totals, and whether they are on disk, not on another worker.
    """
    if way == "fetched":
        dask.config.set({OPTION: "workers"})
        return
    _keep_totals()
    on_disk = way != "differences"
    client.run(_return_differences, on_disk)
    _add_differences(_nowhere_else if on_disk else _stay_twice)


def _keep_totals():
    """Have passes write to a copy of the totals, in the memory of those of two passes before."""
    held = []

    def copied(state):
        total = state.stats
        new = total.copy(held.pop() if held else None)
        held.append(total)
        return new

    FitState.lend_stats = copied


def _stay(found):
    """Have ``found(client, places, futures)`` make of a batch's last sums what stays of it.

    It is told where what is returned of which neighbours, by their first row, was summed.
    """
    in_one, last = collections.in_one, []

    def noted(client, futures):
        last[:] = futures
        return fetched(client, futures)

    def staying(client, function, tasks, shared, read, join, *given):
        result = in_one(client, function, tasks, shared, read, join, *given)
        if given:  # a batch's sum, not the start's
            firsts = [read(tasks[run.start]) for run in given[0]]
            places = [(home, _first_row(own)) for _, own, home in firsts]
            result[0].stays = found(client, places, last)
        last.clear()
        return result

    cluster.fetched, collections.in_one = noted, staying
    cluster._cancel = lambda client, futures: None  # or what stays would go with them


def _twice(client, future, worker):
    """Have a value on another worker as well."""
    workers = sorted(client.nthreads())  # asks; what the client knows of them may be old
    other = workers[(workers.index(worker) + 1) % len(workers)]
    return [cluster.submit(client, cluster.itself, future, workers=[other])] * (other != worker)


# ---------------------------------------------------------------------- differences


def _return_differences(on_disk, dask_worker):
    """Have this worker return of neighbours what is added to what it has returned before."""
    of_neighbours, folder = cluster._of_neighbours, Path(dask_worker.local_directory)
    writer, written = ThreadPoolExecutor(1), {}

    def less_before(function, join, parts, shared, given):
        new, kept = of_neighbours(function, join, parts, shared, given)
        first = _first_row(given[0])
        old, _RETURNED[first] = _RETURNED.get(first), new
        if on_disk:
            if old is not None:
                written[first].result()  # of the pass before: raises what has kept it from disk
            written[first] = writer.submit(_write, new, folder / f"sum-{first}")
        return (new if old is None else new.plus(old, -1.0)), kept

    cluster._of_neighbours = less_before


def _write(value, path):
    """Write a value to disk, whole or not at all."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        pickle.dump(Shipped(value), file, protocol=5)
    new.replace(path)


def _first_row(given):
    """The first row of what a task visits."""
    _, _, _, reads, *_ = given
    return reads[0][0][0][0]


def _returned(first):
    return Shipped(_RETURNED[first])


def _stay_twice(client, places, futures):
    """Where what workers have returned of the present batch is held besides."""
    twins = []
    for worker, first in places:
        part = cluster.submit(client, _returned, first, workers=[worker])
        twins += _twice(client, part, worker)
    return twins


def _nowhere_else(client, places, futures):
    """What is held besides of what workers have written to their disks."""
    return []


def _add_differences(besides):
    """Have differences be added to the totals, which are not summed anew."""
    visit, late = loops._memoized_visit, []
    _stay(besides)

    def visited(model, corpus, state, b, *given):
        for future in state.memo[b] or ():
            future.result()  # raises what has kept it from the other worker
        is_first = state.memo[b] is None
        new = visit(model, corpus, state, b, *given)
        state.memo[b], new.stays = new.stays, None
        if is_first:
            late.append((state.stand_in, -new["n_samples"] / corpus.n_samples))
        late.append((new, 1.0))
        return new

    def updated(model, corpus, state, *given):
        loops._memoized_visit(model, corpus, state, *given)
        ended(state, state.stats)

    def ended(state, total):
        total.add_in_turn(*late)
        late.clear()
        return total

    loops._memoized_visit, loops._memoized_update = visited, updated
    FitState.sum_of_memory = ended

"""How a pass of batch learning would go on many workers: a simulation from what was measured here.

Measured are seconds of a pass over the corpus on one thread, bytes of globals and of sums as they
travel, and seconds that it takes to pack, to unpack and to join them and to make the client's part
of a pass. Stated, not measured, are the network's bandwidth and latency, what the scheduler needs
for a task, and how much the seconds of blocks of equal size differ. The simulation goes through the
events of a pass: globals that spread from worker to worker, each sending to one other in a round,
blocks that are worked on one after the other, sums that are joined in the tree of blocks once both
are there, and the last two on their way to the client, who joins these.
"""

from typing import NamedTuple

import numpy as np

from sklearn_sparsepost._run.cluster import _halves

GBIT = 1e9 / 8
CORES = 2  # of the machine on which it is validated
BLOCKS_A_WORKER = 4


class Network(NamedTuple):
    """What is stated: bytes a second, seconds a message and a task, spread of blocks' seconds."""

    bandwidth: float = 10 * GBIT
    latency: float = 0.5e-3
    task: float = 1e-3
    spread: float = 0.05


# Between processes of one machine.
LOCAL = Network(bandwidth=1e9, latency=0.2e-3)


class Pieces(NamedTuple):
    """What is measured of a corpus; `growth` is the power of tokens that a sum's bytes grow by."""

    tokens: float
    compute: float
    client: float
    globals: float
    total: float
    most: float
    growth: float
    pack: float
    unpack: float
    join: float


def pieces_of(counted, thread):
    """Read what is measured from two results.

    Parameters
    ----------
    counted : dict
        Of bytes.
    thread : dict
        Of passes on one thread.

    Returns
    -------
    pieces : Pieces
        The measurements.
    """
    sent, seconds = counted["bytes"], counted["pieces"]
    sums = np.log(np.array(counted.get("sums", ())).reshape(-1, 2))
    growth = 1.0  # the most, if nothing is known
    if len(np.unique(sums[:, 0])) > 1:
        growth = float(np.clip(np.polyfit(sums[:, 0], sums[:, 1], 1)[0], 0, 1))
    compute = max(np.median(thread["seconds"]) - seconds["client"], 0)
    rest = (seconds[name] for name in ("pack", "unpack", "join"))
    held = sent["to each worker"], sent["sum"], counted["dense"]
    return Pieces(counted["tokens"], compute, seconds["client"], *held, growth, *rest)


def pass_seconds(pieces, n_workers, *, tokens=None, network=None, n_blocks=None, cores=None):
    """Simulate a pass.

    Parameters
    ----------
    pieces : Pieces
        What was measured.
    n_workers : int
        Workers of one core.
    tokens : float, default=None
        Of the corpus; by default as many as measured.
    network : Network, default=None
        What is stated.
    n_blocks : int, default=None
        Blocks in all; by default four a worker.
    cores : int, default=None
        Cores that the workers share; by default one each.

    Returns
    -------
    seconds : float
        Of the pass.
    """
    network = network or Network()
    tokens = tokens or pieces.tokens
    n_blocks = n_blocks or BLOCKS_A_WORKER * n_workers
    slow = max(1, n_workers / (cores or n_workers))
    share = tokens / n_blocks
    noise = np.random.default_rng(0).normal(1, network.spread, n_blocks).clip(0.5)
    block = slow * pieces.compute * tokens / pieces.tokens / n_blocks * noise
    # Globals: the scheduler sends to one, and then all that have them to one other each.
    hop = pieces.globals / network.bandwidth + network.latency
    rounds = 1 + np.ceil(np.log2(np.arange(n_workers) + 1))
    ready = pieces.pack + rounds * hop + slow * pieces.unpack + n_blocks * network.task
    ends, halves = ready.copy(), []
    for half in np.split(np.arange(n_blocks), np.cumsum(_halves(n_blocks))[:-1]):
        sums = []
        for b in half:
            worker = b * n_workers // n_blocks
            ends[worker] += block[b]
            leaf = [1, (ends[worker], share, worker)]
            while sums and sums[-1][0] == leaf[0]:
                n_leaves, before = sums.pop()
                leaf = [2 * n_leaves, _joined(before, leaf[1], pieces, network, slow)]
            sums.append(leaf)
        total = sums.pop()[1]
        while sums:
            total = _joined(sums.pop()[1], total, pieces, network, slow)
        halves.append(total)
    # Both come by the client's one line.
    sizes = [_size(tokens, pieces) for _, tokens, _ in halves]
    parts = np.array(sizes) / pieces.total
    packed = max(half[0] + part * pieces.pack for half, part in zip(halves, parts, strict=True))
    there = packed + sum(sizes) / network.bandwidth + network.latency + parts.sum() * pieces.unpack
    if len(halves) > 1:
        there += pieces.join * _size(tokens, pieces) / pieces.total
    return there + pieces.client


def _size(tokens, pieces):
    """Bytes of the sum of some tokens: no more than of a dense table."""
    return min(pieces.total * (tokens / pieces.tokens) ** pieces.growth, pieces.most)


def _joined(first, second, pieces, network, slow):
    """When two sums are joined where the first is, of how many tokens."""
    time, tokens, worker = second
    size = _size(tokens, pieces)
    part = size / pieces.total
    if worker != first[2]:
        time += part * slow * (pieces.pack + pieces.unpack)
        time += size / network.bandwidth + network.latency
    tokens += first[1]
    work = slow * pieces.join * _size(tokens, pieces) / pieces.total
    return max(time, first[0]) + network.task + work, tokens, first[2]


def efficiency(pieces, n_workers, tokens, network=None):
    """Seconds of one worker for the corpus over those of all, and these."""
    one = pass_seconds(pieces, 1, tokens=tokens, network=network)
    seconds = pass_seconds(pieces, n_workers, tokens=tokens, network=network)
    return one / seconds / n_workers, seconds

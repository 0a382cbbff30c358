"""Tables of what is left of fits after faults at random moments."""

# What happens, and of what all promises are that are counted.
FAULTS = {
    "checkpoint": ("SIGKILL, checkpoints", ("same bytes",)),
    "full disk": ("full disk", ("one clear error", "checkpoint intact", "same bytes")),
    "interrupt": ("SIGINT", ("whole passes", "goes on")),
    "dask": ("SIGKILL of a Dask worker", ("same bytes",)),
    "dask, sums": ("SIGKILL of a Dask worker, no room for sums at the client", ("same bytes",)),
    "loky": ("SIGKILL of a joblib worker", ("one clear error", "same bytes")),
}


def fault_tables(runs, table):
    """Tables of the experiment `faults`.

    Parameters and what comes back are those of :func:`report_local_steps.local_step_tables`.
    """
    found = {}
    for key, run in runs.items():
        if key.startswith("faults/") and "error" not in run:
            spec = run["spec"]
            found.setdefault((spec["fault"], spec["estimator"]), []).append(run)
    rows = []
    for fault, (what, promises) in FAULTS.items():
        for (of, estimator), parts in found.items():
            if of == fault:
                n_faults = sum(part["faults"] for part in parts)
                kept = min(sum(part[promise] for part in parts) for promise in promises)
                wait, work = (_longest(parts, name) for name in ("longest wait", "longest work"))
                rows.append([what, estimator, f"{n_faults:,}", f"{n_faults - kept:,}", wait, work])
    n_dropped = sum(part.get("dropped", 0) for parts in found.values() for part in parts)
    n_same = sum(part.get("dropped, same bytes", 0) for parts in found.values() for part in parts)
    n_sending = sum(part.get("while sending", 0) for parts in found.values() for part in parts)
    note = (
        "Faults at random moments of fits of part of a second, dealt in turn to the learning "
        "methods, local steps and samplers of each estimator; lost is a fault after which a "
        "promise of this page did not hold. SIGKILL, checkpoints: another process goes on from "
        "the file, or from nothing if there is none yet, and has the bytes of a fit that was not "
        "disturbed. Full disk: while a checkpoint is written, after a random part of it; one "
        "error, the last checkpoint intact, and both it and the estimator go on to the same "
        "bytes. SIGINT: sent by another process to fits on one thread and on two; the bytes of the "
        "last whole pass, or of the estimator as it was, and with ``warm_start=True`` those of a "
        "fit that was not disturbed. Where a sweep of a chain was cut its tokens are counted anew: "
        "the end is the same for all moments of that sweep. The wait is from the signal to the "
        "end of the call, by the clock of a machine that had other work, and in processor time. "
        "Python itself drops an interrupt in what a weak reference calls: so ended "
        f"{n_dropped} more, and {n_same} of these fits had the same bytes as ever. "
        "SIGKILL of one of two workers of Dask: the "
        "fit goes on to the same bytes; of joblib: one error within half a minute, and the "
        "estimator does so with ``warm_start=True``. Of joblib's processes "
        f"{n_sending} were killed while they sent a result, for the rest of which joblib alone "
        "would wait forever."
    )
    header = ["what happens", "estimator", "moments", "lost", "longest wait", "of it at work"]
    return [table("Faults during fits", note, header, rows)] * bool(rows)


def _longest(parts, name):
    """The longest of some times, in words; nothing if there are none."""
    times = [part[name] for part in parts if name in part]
    return f"{max(times):.2f} s" if times else ""

"""How many threads delta-rs works with, so that it cannot come to wait for itself.

In: how many tables are written at a time. Out: the variable of the environment by which its runtime (tokio) is made,
at the first use of delta-rs in a process; one that somebody has set stays.

A write keeps one of these threads while that waits for Python's lock, to ask for the next rows. A listing, or any other
call of ``DeltaStorageHandler``, keeps Python's lock while it waits for one of these threads. Where there are as many
writes as threads, which by default are as many as cores, both wait for ever.
"""

import os

VARIABLE = "TOKIO_WORKER_THREADS"
_BESIDE_WRITES = 4
"""Threads for all else: a copy that is written beside the plans, a commit, a listing."""


def reserve_threads(writes: int) -> None:
    """Have more threads than there are writes at a time."""
    cores = len(os.sched_getaffinity(0))
    os.environ.setdefault(VARIABLE, str(max(cores, writes) + _BESIDE_WRITES))

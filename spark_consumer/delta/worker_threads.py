"""How many worker threads delta-rs gets, so that it cannot deadlock.

In: how many tables are written at a time. Out: the environment variable that tokio, its runtime, reads at the first use
of delta-rs in a process. A value that is set already stays.

A write holds a worker thread while it waits for the GIL to ask for the next rows. A listing, or any other call of
``DeltaStorageHandler``, holds the GIL while it waits for a worker thread. If there are as many writes as worker threads
(by default one a core), both wait for ever.
"""

import os

VARIABLE = "TOKIO_WORKER_THREADS"
_BESIDE_WRITES = 4
"""Threads for everything else: a copy that is written beside the plans, a commit, a listing."""


def reserve_threads(writes: int) -> None:
    """Give delta-rs more threads than there are writes at a time."""
    cores = len(os.sched_getaffinity(0))
    os.environ.setdefault(VARIABLE, str(max(cores, writes) + _BESIDE_WRITES))

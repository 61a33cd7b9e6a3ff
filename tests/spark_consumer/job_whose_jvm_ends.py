"""``python -m tests.spark_consumer.job_whose_jvm_ends …``: the job, whose JVM ends at a kill point.

``WALBRIDGE_TEST_JVM_END`` says where and how: ``job:plan-open killed`` as the kernel kills it, ``job:plan-open full``
by asking for more memory than its heap has, in a thread that the job knows nothing of.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any

from pyspark import SparkContext

from walbridge.runtime import kill_points

VARIABLE = "WALBRIDGE_TEST_JVM_END"


def main() -> int:
    """The job's exit code."""
    point, _, how = os.environ.pop(VARIABLE).partition(" ")
    end = _kill if how == "killed" else _fill
    # Before the job's modules take it by name.
    kill_points.kill_point = lambda name: end() if name == point else None
    from walbridge.spark_consumer.__main__ import main

    return main()


def _kill() -> None:
    os.kill(_gateway().proc.pid, signal.SIGKILL)


def _fill() -> None:
    def ask() -> None:
        with contextlib.suppress(Exception):
            _gateway().jvm.java.nio.ByteBuffer.allocate(2**31 - 64)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()


def _gateway() -> Any:
    assert SparkContext._gateway is not None
    return SparkContext._gateway


if __name__ == "__main__":
    sys.exit(main())

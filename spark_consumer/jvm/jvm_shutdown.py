"""Stops a driver whose JVM is asked to stop as one that is asked itself.

In: the session, the event that asks the job to stop. Out: a hook in the JVM. Under ``spark-submit``
the process that clusters, containers and process managers send SIGTERM to is the JVM, and Python is
its child: without this the JVM would take the session down in the middle of a plan that is almost done, and nobody
would say or record that the job was stopped. The hook runs before Spark's own, asks the
job to stop, and lets the JVM go on when Python is done with it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

PRIORITY = 100
"""Higher runs earlier; Spark's own hooks, which end the session, have 50 and less."""
PATIENCE_S = 10
"""Longer than a stop takes (``stop_in_time.py``), and shorter than the stop time-out of a container."""


class _StopRequest:
    """A java.lang.Runnable; the JVM calls it in a thread of its own."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.is_over = threading.Event()

    def run(self) -> None:
        """Ask, and return when the session is no longer needed."""
        self._stop.set()
        self.is_over.wait(PATIENCE_S)

    class Java:
        """How py4j learns what this is to the JVM."""

        implements = ("java.lang.Runnable",)


@contextmanager
def stopping_with_jvm(spark: SparkSession, stop: threading.Event) -> Iterator[Any]:
    """Inside the block an end of the JVM sets ``stop``, and waits for the block's end. Yields the hook."""
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    request = _StopRequest(stop)
    # py4j makes another Java proxy each time a Python object is passed; a thread stays the same object.
    hook = gateway.jvm.java.lang.Thread(request)
    hooks = gateway.jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    hooks.addShutdownHook(hook, PRIORITY, PATIENCE_S, gateway.jvm.java.util.concurrent.TimeUnit.SECONDS)
    try:
        yield hook
    finally:
        request.is_over.set()
        with suppress(Py4JError, OSError):  # the hooks are running: the JVM is on its way out, or gone
            hooks.removeShutdownHook(hook)

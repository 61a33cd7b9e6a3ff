"""Stops the job in order when its JVM is asked to stop.

In: the session, the event that asks the job to stop. Out: a shutdown hook in the JVM. Under ``spark-submit`` clusters,
containers and process managers send SIGTERM to the JVM, and Python is its child. Without the hook the JVM would end the
session in the middle of a plan that is almost done, and the stop would be neither logged nor recorded. The hook runs
before Spark's own: it asks the job to stop, and lets the JVM go on when Python is done with it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

PRIORITY = 100
"""Hooks with a higher priority run earlier; Spark's own, which end the session, have 50 and less."""
PATIENCE_S = 10
"""How long the hook waits: longer than a stop takes (``stop_in_time.py``), shorter than a container's stop time-out."""


class _StopRequest:
    """A java.lang.Runnable that the JVM calls in one of its threads."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.is_over = threading.Event()

    def run(self) -> None:
        """Ask the job to stop, and return when it no longer needs the session."""
        self._stop.set()
        self.is_over.wait(PATIENCE_S)

    class Java:
        """Tells py4j which Java interface this implements."""

        implements = ("java.lang.Runnable",)


@contextmanager
def stopping_with_jvm(spark: SparkSession, stop: threading.Event) -> Iterator[Any]:
    """A block in which a shutdown of the JVM sets ``stop``, and waits for the block's end. Yields the hook."""
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

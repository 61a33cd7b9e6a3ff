"""Turns the end of the driver's JVM into an error that says how it ended.

In: a session, and whatever the job raised. Out: an ``OperatorError`` that says how the JVM ended, if it
did. One that the kernel kills, that crashes or runs out of memory tells nobody: each call that was
under way fails in its own way and thread, with a refused or reset connection, an empty answer, a
stream that broke off, or an exception whose text was still in the JVM. So no error is looked at: the
JVM is asked, then its process. Nothing is lost by it (I5): what was applied is known from the lake.
"""

import logging
import signal
import subprocess
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from walbridge.runtime.heap import MORE_HEAP
from walbridge.schemas.errors import OperatorError, WalbridgeError

EXIT_ON_OUT_OF_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""An option of our JVM. Without it only the thread that asked for memory ends: where that is one of Netty's or of the
stream, nobody is told and the job may wait for ever; where it is a task's, Spark ends the JVM in order, which waits for
the very plan that can go no further. What Spark might have survived by spilling ends it too: then the heap is
full for all other threads as well. Under spark-submit the JVM was there before us: give it the option there."""
_OUT_OF_MEMORY = {3, 52}
"""Exit codes: of that option (HotSpot, report_java_out_of_memory), and Spark's own (SparkExitCode.OOM)."""
ANSWER_S = 30.0
"""How long the JVM may take to answer: collecting a large heap may stop it for seconds."""
END_S = 10.0
"""How long the JVM's process may outlive its connections."""

_NOTHING_IS_LOST = "while the job was running; nothing is lost, the next start finishes the plan"
_MORE_MEMORY = "give the machine or container more memory, or lower [lake] plan_rows_max"
_KERNEL = "the kernel's log (dmesg) tells whether memory was short: then "


def silence_py4j() -> None:
    """Silence py4j's own log lines: a call that fails is raised too, and told where it is caught."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Some of these lines go to the root logger, not to one of py4j's.
    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")


@contextmanager
def naming_jvm_end(spark: SparkSession) -> Iterator[None]:
    """A block in which an error becomes one that says how the JVM ended, if it did.

    Raises:
        OperatorError: it did. Else what the block raised.
    """
    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    try:
        yield
    except WalbridgeError:
        raise
    except Exception as error:
        if is_up(spark):
            raise
        raise ended_jvm(exit_code(process)) from error


def is_up(spark: SparkSession) -> bool:
    """Whether the JVM answers and its Spark context has not been stopped."""
    answer: list[bool] = []

    def ask() -> None:
        with suppress(Exception):  # any of many: see above
            context: Any = spark.sparkContext._jsc
            answer.append(not context.sc().isStopped())

    # A thread has a connection of its own: this one may be in the middle of a call, and never answer.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_S)
    return answer == [True]


def exit_code(process: "subprocess.Popen[bytes] | None") -> int | None:
    """The exit code, below 0 for a signal; None: not our process, or it has not ended yet."""
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return process.wait(END_S)
    return None


def ended_jvm(code: int | None) -> OperatorError:
    """The error that says how the JVM ended, and what may help."""
    return OperatorError(f"the Spark driver's JVM {ending(code)} {_NOTHING_IS_LOST}", f"start again; {_remedy(code)}")


def ending(code: int | None) -> str:
    """In words; ``code`` as ``exit_code`` gives it."""
    if code is None:
        return "ended or stopped its Spark context"
    if code in _OUT_OF_MEMORY:
        return "ran out of memory"
    if code < 0:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with code {code}"


def _remedy(code: int | None) -> str:
    if code is None:
        return f"{_KERNEL}{_MORE_MEMORY}; if it ran out of heap, {MORE_HEAP}"
    if code in _OUT_OF_MEMORY:
        return f"if it comes back: {MORE_HEAP}"
    if code == -signal.SIGKILL:
        return f"{_KERNEL}{_MORE_MEMORY}"
    return "if it comes back: what the JVM said is above, and a crash leaves hs_err_pid*.log in the folder of the start"


def stop_session(spark: SparkSession) -> None:
    """Stop it. Where its JVM is gone nothing is left to stop, and what raised stays the error."""
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # pyspark's own, that it could not be stopped cleanly
        spark.stop()

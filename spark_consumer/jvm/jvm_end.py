"""Turns the end of the driver's JVM into an error that says how it ended.

In: a session, and whatever the job raised. Out: an ``OperatorError`` that says how the JVM ended, if it
did. A JVM that is killed, crashes or runs out of memory says nothing: each call under way fails in its own way, with a
refused or reset connection, an empty answer, a broken stream, or an exception whose text was still in the JVM. So the
error is not looked at: the JVM is asked whether it lives, and then its process. Nothing is lost (I5): what was applied
is known from the lake.
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
"""An option of our JVM. Without it only the thread that asked for memory ends. If that is a thread of Netty or of the
stream, the job may wait for ever; if it is a task's, Spark shuts the JVM down in order, and that waits for the plan,
which cannot go on. The JVM then also ends where Spark could have gone on by spilling, but its other threads lack memory
as well. Under spark-submit the JVM is started before us, and must be given the option there."""
_OUT_OF_MEMORY = {3, 52}
"""Exit codes by that option (HotSpot, report_java_out_of_memory), and by Spark itself (SparkExitCode.OOM)."""
ANSWER_S = 30.0
"""How long the JVM may take to answer: collecting a large heap may stop it for seconds."""
END_S = 10.0
"""How long the JVM's process may outlive its connections."""

_NOTHING_IS_LOST = "while the job was running; nothing is lost, the next start finishes the plan"
_MORE_MEMORY = "give the machine or container more memory, or lower [lake] plan_rows_max"
_KERNEL = "the kernel's log (dmesg) tells whether memory was short: then "


def silence_py4j() -> None:
    """Silence py4j's own log lines: a failed call also raises, and is logged where that is caught."""
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
    """The process's exit code, negative for a signal; None if it is not our child, or has not ended yet."""
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return process.wait(END_S)
    return None


def ended_jvm(code: int | None) -> OperatorError:
    """The error that says how the JVM ended, and what may help."""
    return OperatorError(f"the Spark driver's JVM {ending(code)} {_NOTHING_IS_LOST}", f"start again; {_remedy(code)}")


def ending(code: int | None) -> str:
    """How the JVM ended, in words; ``code`` as ``exit_code`` returns it."""
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
    """Stop the session. If its JVM is gone nothing is raised, so that the first error stays the error."""
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # pyspark's own, that it could not be stopped cleanly
        spark.stop()

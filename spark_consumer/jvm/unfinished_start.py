"""The JVM of a start that is given up: it ends before the files that it was started with are deleted.

In: a block that starts the session. Out: nothing; where a stop ends the block, the JVM that pyspark has started by then
is ended. Pyspark forgets it: it prints stacks, since it lacks its files, and then waits for ever for a program that it
could not tell its port.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import java_gateway

END_S = 2.0
"""For the JVM's own end, which deletes its temporary files. A stop waits 5 s in all."""


@contextmanager
def ending_jvm_with_a_stop() -> Iterator[None]:
    """A stop is an exception of a program's end, such as KeyboardInterrupt: no Exception."""
    started: list[subprocess.Popen[bytes]] = []

    def remembered(*arguments: Any, **named: Any) -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen(*arguments, **named))
        return started[-1]

    module: Any = java_gateway
    module.Popen = remembered
    try:
        yield
    except Exception:
        raise
    except BaseException:
        for process in started:
            _end(process)
        raise
    finally:
        module.Popen = subprocess.Popen


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

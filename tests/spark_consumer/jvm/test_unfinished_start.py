"""A start that is given up leaves no JVM behind."""

import contextlib
import subprocess
from typing import Any

import pytest
from pyspark import java_gateway

from walbridge.spark_consumer.jvm import unfinished_start
from walbridge.spark_consumer.jvm.unfinished_start import ending_jvm_with_a_stop

LIVES = ["sleep", "60"]
DEAF = ["bash", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
pyspark: Any = java_gateway


def given_up(command: list[str], error: BaseException) -> "subprocess.Popen[bytes]":
    """What was started, and how it goes on after this error ended its start."""
    started: list[subprocess.Popen[bytes]] = []
    with contextlib.suppress(type(error)), ending_jvm_with_a_stop():
        started.append(pyspark.Popen(command, stdout=subprocess.PIPE))
        if command is DEAF:
            assert started[0].stdout is not None
            started[0].stdout.readline()
        raise error
    (process,) = started
    assert process.stdout is not None
    process.stdout.close()
    return process


@pytest.mark.parametrize(("command", "code"), [(LIVES, -15), (DEAF, -9)], ids=["at once", "killed"])
def test_stop_during_a_start_ends_the_jvm_first(monkeypatch: pytest.MonkeyPatch, command: list[str], code: int) -> None:
    monkeypatch.setattr(unfinished_start, "END_S", 0.5)

    assert given_up(command, KeyboardInterrupt()).poll() == code
    assert pyspark.Popen is subprocess.Popen


def test_jvm_of_a_start_that_fails_is_there_to_say_why() -> None:
    process = given_up(LIVES, ValueError())

    assert process.poll() is None
    process.kill()
    process.wait()

"""The whole demo, as a person runs it: it ends equal, its queries work, nothing stays behind."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import walbridge
from tests import jvm
from tests.in_soak import in_variants
from tests.wait import wait_until
from walbridge.embedded.folders import KEEP

pytestmark = pytest.mark.servers

REPOSITORY = Path(walbridge.__file__).parents[1]
DEMO_S = 420.0
LOOK_S = 0.5
"""To look for its processes reads those of the whole machine."""
TABLES = ("accounts", "branches", "history", "tellers")


class Running:
    """A demo in a process of its own, and every process that it ever had."""

    def __init__(self, log: Path, *options: str) -> None:
        self._log = log
        with log.open("wb") as output:
            command = [sys.executable, "-m", "walbridge", "demo", *options]
            environ = os.environ | jvm.variables() | {"PYTHONPATH": str(REPOSITORY)}
            self.process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd="/", env=environ)
        self.family: set[psutil.Process] = set()

    @property
    def text(self) -> str:
        return self._log.read_text()

    def watch(self) -> None:
        if runs(self.process):
            self.family |= set(self.process.children(recursive=True))

    def wait_for(self, text: str, timeout_s: float = DEMO_S) -> None:
        def is_said() -> bool:
            self.watch()
            assert self.process.poll() is None or text in self.text, self.text
            return text in self.text

        wait_until(is_said, f"the demo to say {text!r}", timeout_s=timeout_s, poll_s=LOOK_S)

    def wait_for_end(self, timeout_s: float = DEMO_S) -> int:
        def has_ended() -> bool:
            self.watch()
            return self.process.poll() is not None

        wait_until(has_ended, "the demo to end", timeout_s=timeout_s, poll_s=LOOK_S)
        return int(self.process.returncode)

    def left_behind(self) -> list[str]:
        assert self.family  # it had processes at all
        # Not psutil's own wait: where the number of a process that ended is a thread's by now, that raises.
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not any(map(runs, self.family)), "every process to end", timeout_s=60, poll_s=0.2)
        return [process.name() for process in self.family if runs(process)]


def runs(process: psutil.Process) -> bool:
    """A process that ended runs no more, also where nobody has asked for its code yet."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def started(log: Path, *options: str) -> Iterator[Running]:
    demo = Running(log, *options)
    try:
        yield demo
    finally:
        if demo.process.poll() is None:
            demo.process.kill()
            demo.process.wait()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with started(tmp_path_factory.mktemp("demo") / "log", "--seconds", "6", "--rate", "100") as demo:
        demo.wait_for("(kept until")
        place = Path(re.findall("The tables are in (.*)/lake", demo.text)[0])
        # Any demo on this machine removes what the last one left.
        (place / KEEP).touch()
        demo.wait_for_end()
        yield demo
    shutil.rmtree(place)


def test_demo_ends_equal_table_by_table(finished: Running) -> None:
    last = [line.split()[:2] for line in finished.text.splitlines()[-len(TABLES) :]]

    assert finished.process.returncode == 0, finished.text
    assert last == [[f"public.pgbench_{name}", "equal"] for name in TABLES]


def test_demo_leaves_no_process_behind(finished: Running) -> None:
    assert finished.left_behind() == []


@pytest.mark.parametrize("library", ["deltalake", in_variants("walbridge.spark_consumer.read")])
def test_every_line_that_the_demo_offers_to_paste_shows_its_tables(finished: Running, library: str) -> None:
    environ = os.environ | jvm.variables()
    offered = [line.strip() for line in finished.text.splitlines() if re.match(r"  .* -c '", line)]
    assert len(offered) == 2
    (line,) = (each for each in offered if f"from {library} import" in each)
    answer = subprocess.run(
        line, shell=True, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=600, env=environ
    )

    assert "100000" in answer.stdout, answer.stderr


@pytest.mark.variant(of="test_demo_leaves_no_process_behind")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        # The same unwinding; that SIGTERM begins it is asked in embedded/test_server_process.py.
        pytest.param(signal.SIGTERM, 143, id="SIGTERM", marks=pytest.mark.soak),
    ],
)
def test_interrupted_demo_leaves_no_process_behind(tmp_path: Path, number: int, code: int) -> None:
    with started(tmp_path / "log") as demo:
        demo.wait_for("producer and Spark job are starting")
        demo.process.send_signal(number)

        assert demo.wait_for_end(240) == code
        assert demo.left_behind() == []

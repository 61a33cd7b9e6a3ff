from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.wait import wait_until
from walbridge.embedded import server_process
from walbridge.embedded.server_process import PORTS, ServerProcess, free_port
from walbridge.schemas.errors import OperatorError

OWNER = """
import sys, time
from pathlib import Path
from walbridge.embedded.postgres import PostgresServer
from walbridge.embedded.server_process import ServerProcess, exit_on_sigterm
exit_on_sigterm()
if sys.argv[1] == "postgres":
    server = PostgresServer().__enter__()
else:
    server = ServerProcess("sleep", ["/bin/sleep", "600"], Path(sys.argv[2]))
print(server.pid, flush=True)
while True:  # a signal that comes just before a sleep is heard after it
    time.sleep(0.1)
"""


def is_gone(pid: int) -> bool:
    """Also when nobody has reaped it: the one who should have is what these tests kill."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def owner_of_a_server(kind: str, log: Path) -> tuple[subprocess.Popen[str], int]:
    """A Python that started a server, and the server's process id."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, kind, str(log)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner.stdout:
        return owner, int(owner.stdout.readline())


def wait_for_end(owner: subprocess.Popen[str], timeout_s: float) -> None:
    """It is killed where it does not end, and then the kernel says which signals it ignored."""
    try:
        owner.wait(timeout_s)
    except subprocess.TimeoutExpired:
        status = Path(f"/proc/{owner.pid}/status").read_text()
        owner.kill()
        owner.wait()
        pytest.fail(f"the owner did not end:\n{status}")


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_server_ends_with_its_owner_however_that_ends(number: signal.Signals, tmp_path: Path) -> None:
    owner, server = owner_of_a_server("sleep", tmp_path / "log")
    owner.send_signal(number)
    wait_for_end(owner, 30)

    wait_until(lambda: is_gone(server), "the server to end")


@pytest.mark.servers
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_postgres_and_its_children_end_with_their_owner(number: signal.Signals, tmp_path: Path) -> None:
    owner, server = owner_of_a_server("postgres", tmp_path / "log")
    family = [server, *children_of(server)]
    assert len(family) > 3
    owner.send_signal(number)
    wait_for_end(owner, 60)

    wait_until(lambda: all(map(is_gone, family)), "Postgres to end")


def test_program_that_ends_early_shows_the_tail_of_its_log(tmp_path: Path) -> None:
    process = ServerProcess("sh", ["/bin/sh", "-c", "echo no disk left; exit 3"], tmp_path / "log")

    with pytest.raises(OperatorError, match="sh ended while starting; its log ends:\n    no disk left"):
        process.wait_until(lambda: False, 30)


def test_program_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    process = ServerProcess("sleep", ["/bin/sleep", "600"], tmp_path / "log")

    with pytest.raises(OperatorError, match="was not ready after 0 s"):
        process.wait_until(lambda: False, 0.1)
    assert not process.running


def test_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[ServerProcess] = []

    def start() -> None:
        started.append(ServerProcess("sleep", ["/bin/sleep", "600"], tmp_path / "log"))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            started[0]._process.wait(0.3)
    finally:
        started[0].kill()


LOWEST_OF_LINUX = 32_768
"""ip_local_port_range, where nobody has changed it."""
NEIGHBOUR = """
import time
from walbridge.embedded.server_process import free_port
print(free_port(), flush=True)
time.sleep(600)
"""


def test_port_that_was_given_out_is_given_to_nobody_else_while_its_process_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also when no one listens there, since its server is down and comes back; also to nobody of another home."""
    ours = free_port()
    command = [sys.executable, "-c", NEIGHBOUR]
    environ = os.environ | {"WALBRIDGE_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as neighbour:
        try:
            assert neighbour.stdout is not None
            theirs = int(neighbour.stdout.readline())

            for taken in (ours, theirs):
                monkeypatch.setattr(server_process, "PORTS", range(taken, taken + 1))
                with pytest.raises(OperatorError, match="no free port"):
                    free_port()
        finally:
            neighbour.kill()
    assert free_port() == theirs


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if lowest < LOWEST_OF_LINUX:
        pytest.skip(f"this machine's outgoing connections begin at port {lowest}, those of Linux at {LOWEST_OF_LINUX}")

    assert free_port() in PORTS
    assert max(PORTS) < lowest

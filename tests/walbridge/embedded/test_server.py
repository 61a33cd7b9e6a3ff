"""A server whose port somebody else took in the moment before it listened is started on another."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from walbridge.embedded.server import Server
from walbridge.embedded.server_process import ServerProcess
from walbridge.schemas.errors import OperatorError

TAKEN = "echo 'Socket server failed to bind: Address already in use'; seq 100; exit 1"
"""A broker says it, and then much of its shutdown."""


class Fake(Server):
    """Its first starts run these commands, the later ones sleep."""

    stop_signals = (signal.SIGTERM,)

    def __init__(self, *first_starts: str) -> None:
        super().__init__("fake", keep=False)
        self.left = list(first_starts)

    def _prepare(self, *, first: bool) -> None:
        self.data.mkdir(exist_ok=True)

    def _choose_ports(self) -> None:
        self.port += 1

    def _launch(self) -> ServerProcess:
        command = self.left.pop(0) if self.left else "exec sleep 600"
        process = ServerProcess("fake", ["/bin/sh", "-c", command], self.log)
        process.wait_until(lambda: "exit" not in command, 30)
        return process


@pytest.fixture
def servers() -> Iterator[list[Fake]]:
    made: list[Fake] = []
    yield made
    for each in made:
        each.remove()


def test_taken_port_is_left_for_another_however_much_was_said_after_it(servers: list[Fake]) -> None:
    servers.append(Fake(TAKEN, TAKEN))

    servers[0].start()

    assert servers[0].port == 3


def test_port_that_clients_know_is_kept(servers: list[Fake]) -> None:
    servers.append(Fake())
    servers[0].start().stop()
    servers[0].left = [TAKEN]

    with pytest.raises(OperatorError, match="ended while starting"):
        servers[0].start()
    assert servers[0].port == 1


def test_failure_of_another_start_is_not_taken_for_a_taken_port(servers: list[Fake]) -> None:
    servers.append(Fake(TAKEN, "exit 1"))

    with pytest.raises(OperatorError, match="ended while starting"):
        servers[0].start()

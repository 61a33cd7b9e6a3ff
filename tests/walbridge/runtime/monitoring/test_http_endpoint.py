"""The endpoint both programs show themselves at: two paths, read only, and a port that may be taken."""

import http.client
import json
import socket
from collections.abc import Iterator

import pytest
from prometheus_client import Counter

from walbridge.runtime.monitoring.health import Health
from walbridge.runtime.monitoring.http_endpoint import HttpEndpoint
from walbridge.runtime.monitoring.registry import new_registry
from walbridge.schemas.errors import OperatorError


class Program:
    """What the endpoint shows."""

    def __init__(self) -> None:
        self.registry = new_registry()
        self.seen = Counter("seen", "Things seen", registry=self.registry)
        self.problem = ""

    def health(self) -> Health:
        return Health("running", 1.25, self.problem)


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def endpoint(program: Program) -> Iterator[HttpEndpoint]:
    with HttpEndpoint("127.0.0.1", 0, program.registry, program.health, "some_port") as made:
        yield made


def ask(endpoint: HttpEndpoint, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_metrics_are_in_prometheus_text_with_the_process_itself(program: Program, endpoint: HttpEndpoint) -> None:
    program.seen.inc(3)
    status, body = ask(endpoint, "/metrics")

    assert status == 200
    assert "\nseen_total 3.0\n" in body
    assert "\nprocess_resident_memory_bytes " in body
    assert "_created" not in body


def test_healthz_is_200_for_a_healthy_program(endpoint: HttpEndpoint) -> None:
    status, body = ask(endpoint, "/healthz")

    assert (status, json.loads(body)) == (200, {"healthy": True, "state": "running", "since_progress_s": 1.2})


def test_healthz_is_503_with_the_reason_for_an_unhealthy_one(program: Program, endpoint: HttpEndpoint) -> None:
    program.problem = "no progress for 400 s"
    status, body = ask(endpoint, "/healthz")

    assert (status, json.loads(body)["problem"]) == (503, "no progress for 400 s")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("GET", "/config", 404)])
def test_nothing_else_is_shown(endpoint: HttpEndpoint, method: str, path: str, status: int) -> None:
    assert ask(endpoint, path, method)[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(endpoint: HttpEndpoint, method: str) -> None:
    assert ask(endpoint, "/metrics", method)[0] == 501


def test_a_client_that_says_nothing_holds_nobody_up(endpoint: HttpEndpoint) -> None:
    with socket.create_connection(("127.0.0.1", endpoint.port)):
        assert ask(endpoint, "/healthz")[0] == 200


def test_a_port_that_is_taken_is_the_operators_to_mend(program: Program, endpoint: HttpEndpoint) -> None:
    with pytest.raises(OperatorError) as refused:
        HttpEndpoint("127.0.0.1", endpoint.port, program.registry, program.health, "job_port")

    assert f"port {endpoint.port}" in refused.value.what
    assert "[metrics] job_port" in refused.value.remedy


@pytest.mark.parametrize("host", ["192.0.2.1", "a..example", "a" * 64 + ".example"])
def test_a_host_that_is_not_this_machine_is_the_operators_to_mend(program: Program, host: str) -> None:
    """An address for documentation; an empty label, and one of 64 letters, which Python refuses in its own way."""
    with pytest.raises(OperatorError) as refused:
        HttpEndpoint(host, 0, program.registry, program.health, "job_port")
    assert "[metrics] host" in refused.value.remedy


def test_the_port_is_free_again_afterwards(program: Program) -> None:
    with HttpEndpoint("127.0.0.1", 0, program.registry, program.health, "some_port") as first:
        ask(first, "/healthz")
    with HttpEndpoint("127.0.0.1", first.port, program.registry, program.health, "some_port") as second:
        assert ask(second, "/healthz")[0] == 200

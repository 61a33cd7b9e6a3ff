"""One Kafka broker for the whole run, and a pipeline name of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

import pytest

from tests.faults.proxy import TcpProxy
from tests.shared_servers import shared
from tests.which_servers import servers_are_docker
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.server_process import free_port

FEW_THREADS = {"num.io.threads": "2", "num.network.threads": "1", "background.threads": "2"}
"""Eight, three and ten by default. A test keeps one or two of them busy, and it is dear to wake another each time."""


@pytest.fixture(scope="session")
def broker_settings() -> Mapping[str, str]:
    """What the shared broker is given beside the settings that each embedded one has."""
    return FEW_THREADS


@pytest.fixture(scope="session")
def kafka(broker_settings: Mapping[str, str]) -> Iterator[KafkaBroker]:
    """The shared broker. A test that kills or stops it starts it again."""
    with shared(_shared_broker(broker_settings, announced_port=free_port()), "broker", "kafka") as broker:
        yield broker


def _shared_broker(settings: Mapping[str, str], announced_port: int) -> KafkaBroker:
    if not servers_are_docker():
        return KafkaBroker(settings, announced_port=announced_port)
    from tests.docker_servers import DockerBroker

    return DockerBroker(announced_port)


@pytest.fixture
def kafka_proxy(kafka: KafkaBroker) -> Iterator[TcpProxy]:
    """A breakable way to the shared broker: ``127.0.0.1:<port>`` as bootstrap server."""
    with TcpProxy(kafka.proxied_port, kafka.announced_port) as proxy:
        yield proxy


@pytest.fixture
def pipeline_name() -> str:
    return unused_name()


def unused_name() -> str:
    """A name nobody used before, so that no topic, slot or transactional id is shared."""
    return f"t{uuid.uuid4().hex[:10]}"

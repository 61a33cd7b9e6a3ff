"""Postgres and Kafka in containers, behind the interface of the embedded servers.

In: a Docker daemon. Out: ``DockerPostgres`` and ``DockerBroker``, which a test cannot tell from
``PostgresServer`` and ``KafkaBroker``: started, stopped, killed and started again on the same data
and port (``tests/which_servers.py`` tells which of them a run has).

Host ports are chosen here, not by Docker, which would choose others at each start: clients come
back to the same server, and the broker can be told beforehand what to advertise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from tests.wait import wait_until
from walbridge.embedded import postgres
from walbridge.embedded.kafka import SETTINGS as BROKER_SETTINGS
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.embedded.server_process import free_port

POSTGRES_IMAGE = "postgres:18"
KAFKA_IMAGE = "apache/kafka:4.3.1"
KAFKA_FILES = Path(__file__).parents[1] / "docker" / "kafka"
BROKER_COMMAND = """\
echo "$PROPERTIES" > /tmp/server.properties
echo "$LOG4J" > /opt/kafka/config/log4j2.yaml
exec bash -c "$START" start.sh /tmp/server.properties
"""
PASSWORD = "not-a-secret"
START_S = 120.0

# Each server ends with the run that started it: nobody has to come and sweep.
testcontainers_config.ryuk_disabled = True


class Container:
    """One container that keeps data and port whatever way it ends."""

    def __init__(self, image: str) -> None:
        self.definition = DockerContainer(image)
        self.host = self.definition.get_container_host_ip()
        self._is_made = False

    @property
    def running(self) -> bool:
        if not self._is_made:
            return False
        wrapped: Any = self.definition.get_wrapped_container()
        wrapped.reload()
        return bool(wrapped.status == "running")

    def start(self, is_ready: Callable[[], bool], what: str) -> None:
        if not self._is_made:
            self.definition.start()
            self._is_made = True
        else:
            self.definition.get_wrapped_container().start()
        wait_until(is_ready, f"{what} in its container", START_S, poll_s=0.1)

    def stop(self) -> None:
        if self.running:
            self.definition.get_wrapped_container().stop(timeout=20)

    def kill(self) -> None:
        if self.running:
            self.definition.get_wrapped_container().kill()
            wait_until(lambda: not self.running, "a killed container's end")

    def remove(self) -> None:
        if self._is_made:
            self.definition.stop(force=True, delete_volume=True)
            self._is_made = False

    def said(self) -> str:
        """Both outputs so far."""
        return b"".join(self.definition.get_logs()).decode(errors="replace")


class DockerPostgres(PostgresServer):
    """The image of ``docker-compose.yml``; clients' programs come from the embedded one."""

    def __init__(self) -> None:
        self.container = Container(POSTGRES_IMAGE)
        self._install = postgres.installed()
        self.port = free_port()
        settings = {name: value for name, value in postgres.SETTINGS.items() if name not in OF_THE_HOST}
        settings |= {"fsync": "off", "full_page_writes": "off"}
        command = ["postgres", *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))]
        self.container.definition.with_bind_ports(5432, self.port).with_command(command)
        locale = "--encoding=UTF8 --locale-provider=builtin --builtin-locale=C.UTF-8 --locale=C"
        for name, value in {"PASSWORD": PASSWORD, "USER": postgres.SUPERUSER, "INITDB_ARGS": locale}.items():
            self.container.definition.with_env(f"POSTGRES_{name}", value)

    def dsn(self, dbname: str = "postgres") -> str:
        quoted = dbname.replace("\\", "\\\\").replace("'", "\\'")
        where = f"host={self.container.host} port={self.port} user={postgres.SUPERUSER}"
        return f"{where} password={PASSWORD} dbname='{quoted}'"

    def start(self) -> Self:
        if not self.running:
            self.container.start(self._answers, "Postgres")
        return self

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        self.container.stop()

    def kill(self) -> None:
        self.container.kill()

    def remove(self) -> None:
        self.container.remove()

    @property
    def running(self) -> bool:
        return self.container.running


OF_THE_HOST = {"listen_addresses", "unix_socket_directories"}
"""What the image sets as it needs it."""


class DockerBroker(KafkaBroker):
    """The image of ``docker-compose.yml``, started as there: so it may be killed."""

    def __init__(self, told_port: int) -> None:
        self.container = Container(KAFKA_IMAGE)
        self.port, self.proxied_port, self.told_port = free_port(), free_port(), told_port
        made = self.container.definition.with_bind_ports(9092, self.port).with_bind_ports(9094, self.proxied_port)
        settings = {
            **BROKER_SETTINGS,
            "listeners": "PLAINTEXT://:9092,PROXIED://:9094,CONTROLLER://:9093",
            "controller.quorum.voters": "1@localhost:9093",
            "log.dirs": "/var/lib/kafka/data",
        }
        # Neither is mounted: the daemon may be on another machine.
        made.with_env("PROPERTIES", "".join(f"{name}={value}\n" for name, value in settings.items()))
        made.with_env("START", (KAFKA_FILES / "start.sh").read_text())
        made.with_env("ADVERTISED_LISTENERS", f"PLAINTEXT://{self.bootstrap_servers},PROXIED://127.0.0.1:{told_port}")
        made.with_env("KAFKA_HEAP_OPTS", "-Xms256m -Xmx512m")
        made.with_env("LOG4J", (KAFKA_FILES / "log4j2.yaml").read_text())
        made.with_command(["bash", "-c", BROKER_COMMAND])

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.container.host}:{self.port}"

    def start(self) -> Self:
        if not self.running:
            began_s = time.time()
            self.container.start(lambda: self._said_since(began_s, "Kafka Server started (kafka"), "Kafka")
        return self

    def _said_since(self, began_s: float, text: str) -> bool:
        """After a crash the controller runs first, and its words go to a file."""
        said: bytes = self.container.definition.get_wrapped_container().logs(since=began_s - 1)
        return text in said.decode(errors="replace")

    def stop(self) -> None:
        self.container.stop()

    def kill(self) -> None:
        self.container.kill()

    def remove(self) -> None:
        self.container.remove()

    @property
    def running(self) -> bool:
        return self.container.running

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

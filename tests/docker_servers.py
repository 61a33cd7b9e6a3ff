"""Postgres and Kafka in containers, behind the interface of the embedded servers.

In: a Docker daemon. Out: ``DockerPostgres`` and ``DockerBroker``, which a test cannot tell from
``PostgresServer`` and ``KafkaBroker``: started, stopped, killed and started again on the same data
and port (``tests/which_servers.py`` tells which of them a run has).

Host ports are chosen here, not by Docker, which would choose others at each start: clients come
back to the same server.
"""

from __future__ import annotations

import io
import tarfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from tests.wait import wait_until
from tests.which_servers import KAFKA_IMAGE, POSTGRES_IMAGE
from walbridge.embedded import postgres
from walbridge.embedded.kafka import SETTINGS as BROKER_SETTINGS
from walbridge.embedded.kafka import STARTED, KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.embedded.server_process import LOG_TAIL_LINES, accepts, free_port

KAFKA_FILES = Path(__file__).parents[1] / "docker" / "kafka"
LISTENERS = ("PLAINTEXT", "PROXIED", "ITSELF", "CONTROLLER")
BROKER_COMMAND = """\
until [ -e /tmp/advertised ]; do sleep 0.1; done
ADVERTISED_LISTENERS=$(cat /tmp/advertised) exec bash /tmp/start.sh /tmp/server.properties
"""
START_S = 120.0
LOOPBACK = "127.0.0.1"

# Each server ends with the run that started it: nobody has to come and sweep.
testcontainers_config.ryuk_disabled = True


class Container:
    """One container that keeps data and port whatever way it ends.

    ``host`` and ``port`` are where it is reached from here, known once it has been started: loopback
    where the daemon shares ours, else what testcontainers makes of the way to the daemon.
    """

    def __init__(self, image: str, inner_port: int) -> None:
        self.definition = DockerContainer(image)
        self.host, self.port = "", free_port()
        self._inner_port = inner_port
        self._is_made = False
        self._is_wanted = False
        self.definition.with_bind_ports(inner_port, self.port)

    @property
    def running(self) -> bool:
        if not self._is_made:
            return False
        wrapped: Any = self.definition.get_wrapped_container()
        wrapped.reload()
        return bool(wrapped.status == "running")

    @property
    def exit_code(self) -> int | None:
        """Of one that ended by itself; None: it runs, or was stopped or killed from here."""
        if not self._is_wanted or self.running:
            return None
        wrapped: Any = self.definition.get_wrapped_container()
        return int(wrapped.attrs["State"]["ExitCode"])

    def log_end(self) -> str:
        """The last lines that it wrote, indented for a message."""
        said: bytes = self.definition.get_wrapped_container().logs(tail=LOG_TAIL_LINES)
        return "\n".join("    " + line for line in said.decode(errors="replace").splitlines())

    def start(self) -> None:
        """Start it; what runs in it may take longer."""
        self._is_wanted = True
        if self._is_made:
            self.definition.get_wrapped_container().start()
            return
        self.definition.start()
        self._is_made = True
        if accepts(self.port):
            self.host = LOOPBACK
        else:
            self.host = self.definition.get_container_host_ip()
            self.port = int(self.definition.get_exposed_port(self._inner_port))

    def write(self, path: str, text: str) -> None:
        """A file in it: nothing is mounted, since the daemon may be on another machine."""
        content = text.encode()
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size = len(content)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.addfile(entry, io.BytesIO(content))
        self.definition.get_wrapped_container().put_archive("/", archive.getvalue())

    def stop(self) -> None:
        self._is_wanted = False
        if self.running:
            self.definition.get_wrapped_container().stop(timeout=20)

    def kill(self) -> None:
        self._is_wanted = False
        if self.running:
            self.definition.get_wrapped_container().kill()
            wait_until(lambda: not self.running, "a killed container's end")

    def remove(self) -> None:
        self._is_wanted = False
        if self._is_made:
            self.definition.stop(force=True, delete_volume=True)
            self._is_made = False
            self.host = ""


class InContainer:
    """What a server's process does elsewhere, its container does."""

    container: Container

    def stop(self) -> None:
        self.container.stop()

    def kill(self) -> None:
        self.container.kill()

    def clear(self) -> None:
        self.container.remove()

    def remove(self) -> None:
        self.container.remove()

    @property
    def running(self) -> bool:
        return self.container.running

    @property
    def exit_code(self) -> int | None:
        return self.container.exit_code

    def log_end(self) -> str:
        return self.container.log_end()


class DockerPostgres(InContainer, PostgresServer):
    """The image of ``docker-compose.yml``; clients' programs come from the embedded one."""

    def __init__(self) -> None:
        self.container = Container(POSTGRES_IMAGE, 5432)
        self._install = postgres.installed()
        settings = {name: value for name, value in postgres.SETTINGS.items() if name not in OF_THE_HOST}
        settings |= {"fsync": "off", "full_page_writes": "off"}
        command = ["postgres", *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))]
        self.container.definition.with_command(command)
        locale = "--encoding=UTF8 --locale-provider=builtin --builtin-locale=C.UTF-8 --locale=C"
        trust = {"HOST_AUTH_METHOD": "trust", "USER": postgres.SUPERUSER, "INITDB_ARGS": locale}
        for name, value in trust.items():
            self.container.definition.with_env(f"POSTGRES_{name}", value)

    def dsn(self, dbname: str = "postgres") -> str:
        quoted = dbname.replace("\\", "\\\\").replace("'", "\\'")
        return f"host={self.container.host} port={self.port} user={postgres.SUPERUSER} dbname='{quoted}'"

    def start(self) -> Self:
        if not self.running:
            self.container.start()
            self.host, self.port = self.container.host, self.container.port
            wait_until(self._answers, "Postgres in its container", START_S, poll_s=0.1)
        return self

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


OF_THE_HOST = {"listen_addresses", "unix_socket_directories"}
"""What the image sets as it needs it."""


class DockerBroker(InContainer, KafkaBroker):
    """The image of ``docker-compose.yml``, started as there: so it may be killed."""

    def __init__(self, announced_port: int) -> None:
        self.container = Container(KAFKA_IMAGE, 9092)
        self.proxied_port, self.announced_port = free_port(), announced_port
        made = self.container.definition.with_bind_ports(9094, self.proxied_port)
        made.with_env("KAFKA_HEAP_OPTS", "-Xms256m -Xmx512m").with_command(["bash", "-c", BROKER_COMMAND])

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.container.host}:{self.port}"

    def start(self) -> Self:
        if not self.running:
            began_s = time.time()
            is_first = not self.container.host
            self.container.start()
            self.host, self.port = self.container.host, self.container.port
            if is_first:
                self._tell()
            wait_until(lambda: self._said_since(began_s, STARTED), "Kafka in its container", START_S, poll_s=0.1)
        return self

    def _tell(self) -> None:
        """What to advertise is known only now; the last file lets it begin."""
        advertised = (
            f"PLAINTEXT://{self.bootstrap_servers},PROXIED://{LOOPBACK}:{self.announced_port},ITSELF://localhost:9095"
        )
        settings = {
            **BROKER_SETTINGS,
            "listeners": "PLAINTEXT://:9092,PROXIED://:9094,ITSELF://:9095,CONTROLLER://:9093",
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS),
            # Where clients find it is no way from inside.
            "inter.broker.listener.name": "ITSELF",
            "controller.quorum.voters": "1@localhost:9093",
            "log.dirs": "/var/lib/kafka/data",
        }
        self.container.write("/opt/kafka/config/log4j2.yaml", (KAFKA_FILES / "log4j2.yaml").read_text())
        self.container.write("/tmp/server.properties", "".join(f"{name}={value}\n" for name, value in settings.items()))
        self.container.write("/tmp/start.sh", (KAFKA_FILES / "start.sh").read_text())
        self.container.write("/tmp/advertised", advertised)

    def _said_since(self, began_s: float, text: str) -> bool:
        """After a crash the controller runs first, and its words go to a file."""
        said: bytes = self.container.definition.get_wrapped_container().logs(since=began_s - 1)
        return text in said.decode(errors="replace")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

"""A real schema registry with Confluent's API on loopback, for tests: Apicurio Registry, its data in a file.

In: nothing. Out: a running registry and its ``url``. Its archive has 160 MB and is fetched when it is first asked for,
and unpacked once. What was registered outlives a stop and a kill; ``clear`` loses it, as a registry that is made anew.
"""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import tarfile
from pathlib import Path

from walbridge.embedded.folders import folder, locked
from walbridge.embedded.jars import STAMP, fetch
from walbridge.embedded.java import Java, find_java
from walbridge.embedded.server import Server
from walbridge.embedded.server_process import ServerProcess, accepts, free_port

START_S = 240.0
JAVA_MIN = 21
API = "/apis/ccompat/v7"
_TYPES = f"{API}/schemas/types"
JVM = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1")


class SchemaRegistry(Server):
    """One registry with its own data.

    Args:
        keep: leave data and log under home when it stops.
        certificate: a PEM file of certificate and key: then it takes TLS alone.
    """

    stop_signals = (signal.SIGTERM,)

    def __init__(self, *, keep: bool = False, certificate: Path | None = None) -> None:
        self._certificate = certificate
        self._program = _unpacked()
        self._java = _java()
        super().__init__("registry", keep=keep)

    @property
    def url(self) -> str:
        """Of Confluent's API."""
        return f"{'https' if self._certificate else 'http'}://{self.host}:{self.port}{API}"

    def _prepare(self, *, first: bool) -> None:
        self.data.mkdir(exist_ok=True)

    def _choose_ports(self) -> None:
        self.port = free_port()

    def _launch(self) -> ServerProcess:
        properties = {
            "quarkus.http.host": self.host,
            "quarkus.management.port": "0",  # its own is 9000, which another one may have
            # Written at once, so that a kill loses nothing that was answered.
            "apicurio.datasource.url": f"jdbc:h2:file:{self.data}/registry;WRITE_DELAY=0",
            "apicurio.datasource.jdbc.initial-size": "2",
            "apicurio.datasource.jdbc.min-size": "2",
            "java.io.tmpdir": str(self._folder.path),
            **self._listener(),
        }
        options = [*JVM, *(f"-D{name}={value}" for name, value in properties.items())]
        process = ServerProcess(
            "The schema registry",
            [str(self._java.executable), *options, "-jar", str(self._program / "quarkus-run.jar")],
            self.log,
            environ={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        )
        process.wait_until(self._answers, START_S)
        return process

    def _listener(self) -> dict[str, str]:
        if self._certificate is None:
            return {"quarkus.http.port": str(self.port)}
        tls = "quarkus.http.ssl"
        return {
            "quarkus.http.insecure-requests": "disabled",
            f"{tls}-port": str(self.port),
            f"{tls}.certificate.files": str(self._certificate),
            f"{tls}.certificate.key-files": str(self._certificate),
        }

    def _answers(self) -> bool:
        if self._certificate is not None:  # who trusts it is the client's: it listens once it answers
            return accepts(self.port)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=5)
        try:
            connection.request("GET", _TYPES)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _java() -> Java:
    """The registry is compiled for Java 21, which ``make test`` has as a wheel where another one is installed."""
    java = find_java()
    return java if java.major >= JAVA_MIN else find_java({"WALBRIDGE_JAVA": "wheel"})


def _unpacked() -> Path:
    """The folder of the program; whole or not there."""
    [archive] = fetch(["registry"])["registry"].glob("*.tar.gz")
    digest = (archive.parent / STAMP).read_text()
    parent = folder("registry")
    target = parent / digest[:16]
    with locked(parent / ".lock"):
        if not target.exists():
            draft = parent / ".draft"
            shutil.rmtree(draft, ignore_errors=True)
            with tarfile.open(archive) as files:
                files.extractall(draft, filter="data")
            draft.replace(target)
    return target

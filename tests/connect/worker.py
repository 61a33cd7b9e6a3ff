"""A real Kafka Connect worker on loopback: Connect's own runtime, Apicurio's Avro converter, Debezium's JDBC sink.

In: the worker's properties, as a user writes them. Out: a running worker in standalone mode, which takes connectors
through its REST interface. Its jars are those of ``jars.lock`` beside this file, fetched when it is first asked for.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from walbridge.embedded.jars import fetch
from walbridge.embedded.java import find_java
from walbridge.embedded.kafka import LOG4J
from walbridge.embedded.server import Server
from walbridge.embedded.server_process import ServerProcess, free_port

LOCK = Path(__file__).with_name("jars.lock")
PLUGINS = ("connect-converter", "connect-jdbc")
START_S = 180.0
JVM = ("-Xms128m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true")


class ConnectWorker(Server):
    """One worker.

    Args:
        properties: its settings, but for the port, the plugins and where it keeps offsets.
        keep: leave data and log under home when it stops.
    """

    stop_signals = (signal.SIGTERM,)

    def __init__(self, properties: Mapping[str, str], *, keep: bool = False) -> None:
        self._properties = properties
        self._jars = fetch(["connect", *PLUGINS], lock=LOCK)
        self._java = find_java()
        super().__init__("connect", keep=keep)

    def _prepare(self, *, first: bool) -> None:
        self.data.mkdir(exist_ok=True)
        if first:
            # Each plugin is a folder below one that plugin.path names.
            (self.data / "plugins").mkdir()
            for name in PLUGINS:
                (self.data / "plugins" / name).symlink_to(self._jars[name])

    def _choose_ports(self) -> None:
        self.port = free_port()

    def _launch(self) -> ServerProcess:
        properties = {
            **self._properties,
            "listeners": f"http://{self.host}:{self.port}",
            "plugin.path": str(self.data / "plugins"),
            "offset.storage.file.filename": str(self.data / "offsets"),
        }
        settings, log4j = self.data / "worker.properties", self.data / "log4j2.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        log4j.write_text(LOG4J)
        options = [*JVM, f"-Dlog4j2.configurationFile={log4j}", f"-Djava.io.tmpdir={self._folder.path}"]
        main = ["-cp", f"{self._jars['connect']}/*", "org.apache.kafka.connect.cli.ConnectStandalone", str(settings)]
        process = ServerProcess(
            "Kafka Connect",
            [str(self._java.executable), *options, *main],
            self.log,
            environ={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        )
        process.wait_until(self._answers, START_S)
        return process

    def _answers(self) -> bool:
        try:
            return self._ask("GET", "/connectors")[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def add(self, connector: Mapping[str, Any]) -> None:
        """Start a connector: what a user posts."""
        status, answer = self._ask("POST", "/connectors", json.dumps(connector))
        assert status == http.client.CREATED, answer

    def check_running(self, name: str) -> None:
        """No task of the connector has failed."""
        status, answer = self._ask("GET", f"/connectors/{name}/status")
        assert status == http.client.OK, answer
        failed = [task for task in json.loads(answer)["tasks"] if task["state"] == "FAILED"]
        assert not failed, failed[0]["trace"][:6000]

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

"""A real Kafka 4.3 broker on loopback, for the demo and the tests.

In: broker settings. Out: a running single-node KRaft broker and its ``bootstrap_servers``.
Topics are never made by accident, transactions need one replica, and the JVM is tuned to
start quickly and stay small, not to be fast for hours.
"""

from __future__ import annotations

import base64
import os
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from walbridge.embedded.class_archive import ClassArchive
from walbridge.embedded.jars import fetch
from walbridge.embedded.java import Java, find_java
from walbridge.embedded.server import STOP_S, Server
from walbridge.embedded.server_process import ServerProcess, accepts, free_port

START_S = 90.0
STARTED = "Kafka Server started"
FENCED = "Fencing broker 1"
FENCE_S = 20.0
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"  # Kafka leaves it in the data folder, and removes it at start

SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",  # the default 50 costs 50 folders and their files
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.index.size.max.bytes": "1048576",  # mapped for each partition: 10 MB cost the kernel half as much again
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "10000",
    "metadata.max.idle.interval.ms": "0",  # no empty records: 40 % of an idle broker's CPU
}
JVM = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true")

LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %m (%c{1})%n
"""


class KafkaBroker(Server):
    """One broker with its own data.

    Args:
        settings: more of server.properties, e.g. ``{"message.max.bytes": "2000000"}``; these win.
        keep: leave data and log under home when it stops.
        report: told of progress should jars have to be fetched first.
        announced_port: of a proxy on loopback. Clients that come through it to ``proxied_port`` are
            told this port as the broker's, and so stay behind the proxy.
        jvm: more options of its JVM.
        scram: user → password, for brokers whose settings want SCRAM-SHA-512.
    """

    stop_signals = (signal.SIGTERM,)

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        keep: bool = False,
        report: Callable[[str], None] = lambda line: None,
        announced_port: int = 0,
        jvm: Sequence[str] = (),
        scram: Mapping[str, str] | None = None,
    ) -> None:
        self._scram = scram or {}
        self._settings = {**SETTINGS, **(settings or {})}
        self._jars = fetch(["kafka"], report)["kafka"]
        self._java = find_java()
        self._jvm = (*_archive(self._java, self._jars).options(), *jvm)
        super().__init__("kafka", keep=keep)
        self._controller_port = 0
        self.announced_port = announced_port
        self.proxied_port = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Nobody reads this data again: killing spares the seconds of an orderly shutdown.
        if not self._folder.keep:
            self.kill()
        super().__exit__(kind, error, trace)

    def _prepare(self, *, first: bool) -> None:
        if not first and not (self.data / CLEAN_SHUTDOWN).exists():
            self._fence_earlier_life()

    def _choose_ports(self) -> None:
        self.port, self._controller_port = free_port(), free_port()
        self.proxied_port = free_port() if self.announced_port else 0
        self._write_properties()

    @property
    def _properties(self) -> Path:
        return self._folder.path / "server.properties"

    def _broker_settings(self) -> dict[str, str]:
        broker, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self._controller_port}"
        listeners = f"PLAINTEXT://{broker},CONTROLLER://{controller}"
        proxied = [f",PROXIED://127.0.0.1:{port}" for port in (self.proxied_port, self.announced_port) if port]
        return {
            **self._settings,
            "listeners": listeners + "".join(proxied[:1]),
            "advertised.listeners": listeners + "".join(proxied[1:]),
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": str(self.data),
        }

    def _write_properties(self) -> None:
        self._write(self._properties, self._broker_settings())
        self._properties.with_name("log4j2.properties").write_text(LOG4J)

    def _write(self, path: Path, settings: Mapping[str, str]) -> None:
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if value))

    def _format_data(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        # An id that begins with a dash would read as an option.
        cluster_id = "w" + cluster_id[1:]
        arguments = ["format", "--standalone", "-t", cluster_id, "-c", str(self._properties)]
        for user, password in self._scram.items():
            arguments += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]"]
        self._java_process("Kafka's formatting", "kafka.tools.StorageTool", arguments).finish(START_S)

    def _launch(self) -> ServerProcess:
        if not self.data.exists():
            self._format_data()
        started_at = self.log.stat().st_size
        process = self._java_process("Kafka", "kafka.Kafka", [str(self._properties)])
        process.wait_until(lambda: self._logged(STARTED, started_at) and accepts(self.port), START_S)
        return process

    def _logged(self, text: str, since: int) -> bool:
        with self.log.open("rb") as log:
            log.seek(since)
            return text.encode() in log.read()

    def _fence_earlier_life(self) -> None:
        """After a crash, before the broker: run the controller alone until it gives the dead broker up.

        A lone node comes back believing that it still leads everything, so its transaction
        coordinator goes on with the commits that the crash cut short. Seconds later its controller
        fences that earlier life, for a moment nothing has a leader, and the coordinator takes
        partitions without one for deleted: it records the commit as complete and never writes the
        marker. About one in four kills right after a commit left rows invisible for ever (Kafka
        4.3.1: "likely deleted already and hence can be skipped"). Replicated clusters fail over
        instead. With the broker fenced first, nothing is led until it listens.
        """
        began = self.log.stat().st_size
        properties = self._folder.path / "controller.properties"
        alone = {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": "",
            "broker.session.timeout.ms": "500",  # the dead need no patience
            "broker.heartbeat.interval.ms": "100",
            "metadata.max.idle.interval.ms": "100",  # what is waited for below
        }
        self._write(properties, {**self._broker_settings(), **alone})
        process = self._java_process("Kafka's controller", "kafka.Kafka", [str(properties)])
        process.wait_until(lambda: self._logged(STARTED, began), START_S)
        # A broker that died before it was ever unfenced is not given up again: go on after a while.
        deadline = time.monotonic() + FENCE_S
        process.wait_until(lambda: self._logged(FENCED, began) or time.monotonic() > deadline, START_S)
        # It says so before it is on disk, and a stop may come between.
        size = self._metadata_bytes()
        process.wait_until(lambda: self._metadata_bytes() > size or time.monotonic() > deadline, START_S)
        process.stop([signal.SIGTERM], STOP_S)

    def _metadata_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.data.glob("__cluster_metadata-0/*.log"))

    def _java_process(self, name: str, main_class: str, arguments: list[str]) -> ServerProcess:
        return ServerProcess(
            name,
            [*_command(self._java, self._jars, self._folder.path, self._jvm), main_class, *arguments],
            self.log,
            # JAVA_TOOL_OPTIONS and the like are meant for programs of the user, not for this.
            environ={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        )


def broker_archive() -> ClassArchive:
    """Of the classes that a broker loads as it starts.

    Raises:
        OperatorError: no Java is here, or the jars could not be fetched.
    """
    return _archive(find_java(), fetch(["kafka"])["kafka"])


def _archive(java: Java, jars: Path) -> ClassArchive:
    return ClassArchive("kafka", java, tuple(jars.glob("*.jar")))


def _command(java: Java, jars: Path, run: Path, jvm: Sequence[str]) -> list[str]:
    options = [
        *JVM,
        *jvm,
        # Only the first compiler: half the CPU of a start, and enough for what a test asks.
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={run / 'log4j2.properties'}",
        f"-Djava.io.tmpdir={run}",
    ]
    return [str(java.executable), *options, "-cp", f"{jars}/*"]

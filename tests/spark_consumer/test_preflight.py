"""What is refused before Spark starts: in words, with a remedy, and nothing is left behind."""

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer import preflight as looks
from walbridge.spark_consumer.jvm.spark_session import CONNECTOR
from walbridge.spark_consumer.preflight import (
    preflight,
    refuse_unfit_java,
    refuse_unreadable_jars,
    refuse_unwritable_lake,
)

NOBODY = "127.0.0.1:1"
SUBMITTED = {"PYSPARK_GATEWAY_PORT": "1"}


@contextlib.contextmanager
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Says this to whoever asks, then closes."""

    def answered(server: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(64)
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answered, args=(server,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def wait_for_broker(
    servers: str, timeout_s: float = 0.3, stop: threading.Event | None = None, *, is_plain: bool = False
) -> None:
    looks.wait_for_broker(servers, timeout_s, stop or threading.Event(), is_plain=is_plain)


def java(place: Path, version: str) -> Path:
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return place


@pytest.mark.parametrize(
    ("number", "mends"),
    [(errno.ENOSPC, "make room there"), (errno.EDQUOT, "make room there"), (errno.EACCES, "give this user the right")],
)
def test_lake_that_cannot_be_written_is_refused_with_what_mends_it(
    monkeypatch: pytest.MonkeyPatch, number: int, mends: str
) -> None:
    def full(folder: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(looks, "probe_folder", full)
    with pytest.raises(OperatorError, match=f"cannot be written: {os.strerror(number)}") as refused:
        refuse_unwritable_lake("lake")

    assert refused.value.remedy.startswith(mends)


def test_lake_inside_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(OperatorError, match="cannot be written: Not a directory") as refused:
        refuse_unwritable_lake(str(tmp_path / "file" / "lake"))

    assert "[lake] path" in refused.value.remedy


def test_trying_a_lake_leaves_nothing(tmp_path: Path) -> None:
    refuse_unwritable_lake(str(tmp_path / "new" / "lake"))
    refuse_unwritable_lake(str(tmp_path))

    assert list(tmp_path.iterdir()) == []


def test_store_is_left_to_its_first_write() -> None:
    refuse_unwritable_lake("s3://bucket/lake")


def test_jar_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / f"{CONNECTOR}.jar").touch()
    (tmp_path / "gone.jar").symlink_to(tmp_path / "nowhere")

    with pytest.raises(OperatorError, match=r"cannot read gone\.jar"):
        refuse_unreadable_jars(str(tmp_path))


def test_java_home_without_java_is_refused_even_if_there_is_one_on_the_path(tmp_path: Path) -> None:
    """Spark's script looks nowhere else."""
    on_path = java(tmp_path / "path", "17.0.1")

    with pytest.raises(OperatorError, match="no Java in JAVA_HOME") as refused:
        refuse_unfit_java({"JAVA_HOME": str(tmp_path), "PATH": str(on_path / "bin")})

    assert "Java 17 or 21" in refused.value.remedy


def test_no_java_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="no Java on PATH"):
        refuse_unfit_java({"PATH": str(tmp_path)})


@pytest.mark.parametrize(("version", "fits"), [("17.0.1", True), ("21", True), ("11.0.2", False), ("25", False)])
def test_only_java_17_and_21_will_do(tmp_path: Path, version: str, fits: bool) -> None:
    found = java(tmp_path / "java", version)
    expected = contextlib.nullcontext() if fits else pytest.raises(OperatorError, match="needs 17 or 21")

    with expected:
        refuse_unfit_java({"PATH": str(found / "bin")})


def test_broker_that_does_not_answer_is_refused_when_time_is_up() -> None:
    with pytest.raises(
        OperatorError, match=r"no answer within 0\.3 s: .*127\.0\.0\.1:1: Connection refused"
    ) as refused:
        wait_for_broker(NOBODY)

    assert "bootstrap_servers" in refused.value.remedy


def test_one_server_of_several_is_enough() -> None:
    with listening() as server:
        wait_for_broker(f"{NOBODY}, PLAINTEXT://{server}")


def test_broker_that_wants_tls_is_told_before_spark_takes_its_answer_for_a_length() -> None:
    """The first bytes of a TLS alert are the length of 352 MB: Kafka's Java client ended with want of memory."""
    with answering(b"\x15\x03\x03\x00\x02\x02\x46") as server:
        with pytest.raises(OperatorError, match="speaks TLS, and the Spark job's client does not") as refused:
            wait_for_broker(server, is_plain=True)
        assert 'security.protocol = "SSL" in [kafka.spark]' in refused.value.remedy
        wait_for_broker(server)


def test_server_that_is_no_broker_is_not_taken_for_one() -> None:
    with (
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server,
        pytest.raises(OperatorError, match="it speaks another protocol than Kafka's"),
    ):
        wait_for_broker(server, is_plain=True)


@pytest.mark.parametrize("answer", [b"", b"\x00\x00\x00\x0awalb\x00\x23"], ids=["closes", "a broker"])
def test_broker_that_answers_in_plain_text_or_not_at_all_is_left_to_kafkas_client(answer: bytes) -> None:
    with answering(answer) as server:
        wait_for_broker(server, is_plain=True)


def test_broker_that_comes_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        asked: list[tuple[str, int]] = []
        connect = socket.create_connection

        def late(address: tuple[str, int], timeout: float) -> socket.socket:
            asked.append(address)
            return (
                connect(("127.0.0.1", int(stack.enter_context(listening())[10:])), timeout) if asked[1:] else refuse()
            )

        def refuse() -> socket.socket:
            raise ConnectionRefusedError(111, "Connection refused")

        monkeypatch.setattr(socket, "create_connection", late)
        wait_for_broker(NOBODY, timeout_s=30)

    assert asked == [("127.0.0.1", 1)] * 2


def test_waiting_for_a_broker_ends_when_asked_to_stop() -> None:
    stop = threading.Event()
    stop.set()

    wait_for_broker(NOBODY, timeout_s=3600, stop=stop)


@pytest.mark.parametrize("servers", ["kafka", "", "kafka:", ":9092", "kafka:x", "kafka:9092,"])
def test_server_without_host_or_port_is_refused_at_once(servers: str) -> None:
    with pytest.raises(OperatorError, match="not host:port"):
        wait_for_broker(servers, timeout_s=3600)


def test_port_that_cannot_be_is_refused() -> None:
    with pytest.raises(OperatorError, match=r"127\.0\.0\.1:99999"):
        wait_for_broker("127.0.0.1:99999")


def test_under_spark_submit_java_and_jars_are_sparks_own(tmp_path: Path) -> None:
    with listening() as server:
        settings = Settings(kafka={"bootstrap_servers": server}, lake={"path": str(tmp_path)})  # type: ignore[arg-type]
        preflight(settings, threading.Event(), SUBMITTED)
        with pytest.raises(OperatorError, match="jars"):
            preflight(settings, threading.Event(), {})


@pytest.mark.parametrize("host", ["kafka..example", "k" * 64 + ".example"])
def test_name_that_no_resolver_takes_is_told(host: str) -> None:
    """An empty label, and one of 64 letters, which Python refuses in its own way."""
    with pytest.raises(OperatorError, match="Kafka cannot be reached"):
        wait_for_broker(f"{host}:9092")

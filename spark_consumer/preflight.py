"""Checks before Spark starts, so that what would stop the job is found in a second and not after the JVM's start.

In: settings. Out: nothing, or the operator's error. The broker is only asked for a plain TCP
connection, and whether it speaks TLS: Kafka's own client checks credentials and rights later.
Under ``spark-submit`` Java and jars are not checked: its JVM runs already.
"""

import os
import shutil
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import structlog

from walbridge.runtime.host import INSTALL_JAVA, JAVA_SUPPORTED, JAVA_VERSIONS, java_major, probe_folder
from walbridge.schemas.errors import START_BROKER, OperatorError
from walbridge.schemas.properties import flatten, server_address
from walbridge.schemas.setting_checks.lake_path import refuse_misread
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.errors import unwritable_lake
from walbridge.spark_consumer.jvm.spark_session import connector_jars, is_submitted
from walbridge.spark_consumer.kafka.spoken_protocol import TLS, foreign_protocol

log = structlog.get_logger()

CONNECT_S = 2.0
"""Time limit of one connection attempt; then the next server is tried, or the first one again."""
PAUSE_S = 0.25
_WITHOUT_TLS = ("PLAINTEXT", "SASL_PLAINTEXT")
_INSTALL_JAVA = f"{INSTALL_JAVA} and set JAVA_HOME to its folder; walbridge materialize finds those usually there"


def preflight(settings: Settings, stop: threading.Event, environ: Mapping[str, str] = os.environ) -> None:
    """Return when all checks have passed, or ``stop`` is set.

    Raises:
        OperatorError: lake, jars, Java or broker are not as they must be.
    """
    refuse_unwritable_lake(settings.lake.path)
    if not is_submitted(environ):
        refuse_unreadable_jars(settings.spark.jars_dir)
        refuse_unfit_java(environ)
    protocol = flatten(settings.kafka.spark).get("security.protocol", "PLAINTEXT")
    is_plain = protocol.upper() in _WITHOUT_TLS
    wait_for_broker(settings.kafka.bootstrap_servers, settings.lake.start_timeout_s, stop, is_plain=is_plain)


def refuse_unwritable_lake(path: str) -> None:
    """Refuse a lake folder that this user cannot write; an object store is not tried here."""
    refuse_misread(path)
    if "://" in path:
        return
    try:
        probe_folder(Path(path))
    except OSError as error:
        raise unwritable_lake(path, error) from None


def refuse_unreadable_jars(jars_dir: str | None) -> None:
    """Refuse jars that this user cannot read; Spark would answer with a Java stack trace."""
    unreadable = [jar.name for jar in connector_jars(jars_dir) if not os.access(jar, os.R_OK)]
    if unreadable:
        raise OperatorError(
            f"in {jars_dir} this user cannot read {', '.join(unreadable)}",
            remedy="mend their permissions, or fetch them again: walbridge jars",
        )


def refuse_unfit_java(environ: Mapping[str, str]) -> None:
    """Refuse a Java that is missing or of another version; looks where Spark's own start script looks."""
    home = environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home) / "bin" / "java") if home else "java", path=environ.get("PATH"))
    if program is None:
        place = f"in JAVA_HOME, {home}" if home else "on PATH, and JAVA_HOME is not set"
        raise OperatorError(f"there is no Java {place}", remedy=_INSTALL_JAVA)
    java_home = Path(home) if home else Path(program).resolve().parents[1]
    if (major := java_major(java_home)) not in JAVA_SUPPORTED:
        version = f"is version {major}" if major else "does not tell its version"
        raise OperatorError(f"the Java in {java_home} {version}: Spark needs {JAVA_VERSIONS}", remedy=_INSTALL_JAVA)


def wait_for_broker(bootstrap_servers: str, timeout_s: float, stop: threading.Event, *, is_plain: bool = False) -> None:
    """Return when one of the servers takes a connection, or ``stop`` is set.

    Args:
        is_plain: whether Kafka's client will not speak TLS, and so the server must not.
    """
    servers = [server_address(server) for server in bootstrap_servers.split(",")]
    deadline_s, is_told = time.monotonic() + timeout_s, False
    while not stop.is_set():
        reasons = []
        for server in servers:
            reason = _refusal(server, deadline_s, is_plain=is_plain)
            if reason is None:
                return
            reasons.append(f"{server[0]}:{server[1]}: {reason}")
        if time.monotonic() + PAUSE_S > deadline_s:
            raise OperatorError(
                f"no answer within {timeout_s:g} s: Kafka cannot be reached ({'; '.join(reasons)})",
                remedy=START_BROKER,
            )
        if not is_told:
            log.warning("waiting for Kafka", reasons=reasons, timeout_s=timeout_s)
            is_told = True
        stop.wait(PAUSE_S)


def _refusal(server: tuple[str, int], deadline_s: float, *, is_plain: bool) -> str | None:
    """Why the server takes no connection, or is no broker; None when it is one.

    Raises:
        OperatorError: it wants TLS.
    """
    timeout_s = min(CONNECT_S, max(deadline_s - time.monotonic(), PAUSE_S))
    try:
        with socket.create_connection(server, timeout=timeout_s) as connection:
            spoken = foreign_protocol(connection) if is_plain else None
    except (OSError, OverflowError, UnicodeError) as error:  # a port beyond 65535; a name with an empty or long label
        return getattr(error, "strerror", None) or str(error)
    if spoken == TLS:
        raise _wants_tls(server)
    return None if spoken is None else f"it speaks {spoken}"


def _wants_tls(server: tuple[str, int]) -> OperatorError:
    return OperatorError(
        f"Kafka at {server[0]}:{server[1]} speaks TLS, and the Spark job's client does not",
        remedy='set security.protocol = "SSL" in [kafka.spark] (or "SASL_SSL"), and what goes with it: see '
        "docs/security.md; or name a listener without TLS in [kafka] bootstrap_servers",
    )

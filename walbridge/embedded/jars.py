"""Fetch the jars that Spark, the Kafka broker and tests need, and check each against jars.lock.

In: ``jars.lock``, one ``<sha256> <set> <group>:<name>:<version>`` a line. Out:
``home/jars/<set>/`` with exactly those files. A folder appears whole or not at all: files are
checked in a draft folder that is then renamed, and a stamp inside holds the digest of the lock
lines it was checked against. So a set whose stamp agrees needs no network and no second look.

Files come through the Ivy jar inside the pyspark wheel, from Maven Central by its built-in
default: nothing else has to be installed. Nothing is resolved here; the lock is the closure,
made by ``python -m walbridge.embedded.jars --relock`` (``jars_relock.py``).
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from walbridge.embedded import ivy
from walbridge.embedded.folders import folder, locked
from walbridge.schemas.errors import OperatorError

LOCK = Path(__file__).with_name("jars.lock")
SETS = ("spark", "kafka")
"""What set-up fetches. Others are fetched when a test first asks for them."""
STAMP = ".checked"

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One line of jars.lock."""

    sha256: str
    set_name: str
    coordinate: ivy.Coordinate


def fetch(sets: Iterable[str], report: Report = lambda line: None, lock: Path = LOCK) -> dict[str, Path]:
    """Folder of each set, fetched if it is missing or belongs to another lock.

    Args:
        sets: names in the lock.
        report: told a line of progress now and then while fetching; not called otherwise.
        lock: another one than that of the project: of what only some tests need.

    Raises:
        OperatorError: a file differs from its checksum, or could not be fetched.
    """
    lines = read_lock(lock)
    return {name: _fetch_set(name, lines, report) for name in sets}


def spark_jars() -> list[Path]:
    """What ``spark.jars`` must name besides pyspark's own jars; fetched if missing."""
    return set_jars("spark")


def set_jars(name: str) -> list[Path]:
    """The files of one set, sorted."""
    return sorted(fetch([name])[name].glob("*.jar"))


def read_lock(lock: Path = LOCK) -> list[LockedJar]:
    """The lines of a lock; blank ones and comments are skipped."""
    lines = [line.split() for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    return [LockedJar(sha256, name, ivy.Coordinate.parse(text)) for sha256, name, text in lines]


def _fetch_set(name: str, lines: list[LockedJar], report: Report) -> Path:
    jars = [jar for jar in lines if jar.set_name == name]
    if not jars:
        known = sorted({jar.set_name for jar in lines})
        raise OperatorError(f"jars.lock has no set {name!r}", "its sets are " + ", ".join(known))
    parent = folder("jars")
    target = parent / name
    digest = hashlib.sha256(repr(jars).encode()).hexdigest()
    if _is_checked(target, digest):
        return target
    with locked(parent / f".{name}.lock"):
        if not _is_checked(target, digest):  # another process may have fetched while we waited
            _fill(target, jars, digest, report)
    return target


def _is_checked(target: Path, digest: str) -> bool:
    stamp = target / STAMP
    return stamp.is_file() and stamp.read_text() == digest


def _fill(target: Path, jars: list[LockedJar], digest: str, report: Report) -> None:
    """Fetch into a draft, check, stamp, rename. We hold the set's lock."""
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    report(f"fetching {len(jars)} jars for {target.name}")
    ivy.retrieve([jar.coordinate for jar in jars], draft, report)
    check(draft, jars)
    (draft / STAMP).write_text(digest)
    shutil.rmtree(target, ignore_errors=True)
    draft.replace(target)


def check(directory: Path, jars: Iterable[LockedJar]) -> None:
    """Compare every file with its line.

    Raises:
        OperatorError: one is missing, or its content is not what was locked.
    """
    for jar in jars:
        path = directory / jar.coordinate.file_name
        if not path.is_file():
            raise OperatorError(f"{path.name} could not be fetched", "check the network, then run the same command")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != jar.sha256:
            raise OperatorError(
                f"{path.name} is not the file that jars.lock names: sha256 {found}, expected {jar.sha256}",
                "do not use it: something between here and Maven Central changed it; "
                "fetch again from another network, and report it if it stays",
            )


if __name__ == "__main__":
    try:
        if "--relock" in sys.argv[1:]:
            from walbridge.embedded.jars_relock import relock

            relock(LOCK)
        else:
            fetch(SETS, print)
    except OperatorError as error:
        sys.exit(f"walbridge: {error}")

"""Archives of loaded classes (AppCDS): with one a JVM spends a third less CPU on its start.

In: a program's name, its Java and jars. Out: JVM options that use the archive, or none where it was
not made. ``drafted`` gives options for a run that makes one as its JVM ends. Such an archive adds to
one of the JVM's own classes: where a Java has none, as that of the wheel, it is made first.

An archive can only save time. A JVM passes over one of another JVM or class path, and with these
options also one whose bytes were changed. It dies of one that was cut off, so a file's name tells
its size. It writes the header last, and a draft without one is never taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from walbridge.embedded.folders import folder, place_of
from walbridge.embedded.java import Java

FOLDER = "class-archives"
BASE = "lib/server/classes.jsa"
"""The JVM's archive of its own classes, which ours is added to."""
BASE_S = 120.0
_CHECKED = ("-XX:+VerifySharedSpaces", "-Xlog:cds*=off")
_MAGIC_BYTES = 4


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one program.

    Args:
        jars: all that the program loads classes from.
    """

    program: str
    java: Java
    jars: tuple[Path, ...]

    def options(self) -> tuple[str, ...]:
        """For a JVM that is to use the archive; none if there is no whole one."""
        if not (base := self._base()).is_file():
            return ()
        name = self._name(base)
        whole = [path for path in place_of(FOLDER).glob(f"{name}.*.jsa") if path.name == _sized(name, path)]
        return (f"-XX:SharedArchiveFile={whole[0]}", *_CHECKED) if whole else ()

    @contextlib.contextmanager
    def drafted(self) -> Iterator[tuple[str, ...]]:
        """Options for a JVM that writes the archive when it ends in order, which has to be inside the block."""
        draft = folder(FOLDER) / f"{self.program}.draft"
        draft.unlink(missing_ok=True)
        base = self._base()
        named = () if base == self._own_base else (f"-XX:SharedArchiveFile={base}",)
        if not base.is_file():
            _make_base(self.java, base)
        # With the options of its later use: a JVM that refused one of them would make no archive.
        yield (f"-XX:ArchiveClassesAtExit={draft}", *named, *_CHECKED)
        if _has_header(draft):
            draft.replace(draft.with_name(_sized(self._name(base), draft)))

    @property
    def _own_base(self) -> Path:
        return self.java.java_home / BASE

    def _base(self) -> Path:
        """Its own, else ours, whose place the archive on top of it tells the JVM."""
        own = self._own_base
        return own if own.is_file() else place_of(FOLDER) / f"base-{self.java.java_home.name}.jsa"

    def _name(self, base: Path) -> str:
        """Of another file of the JVM or of the jars another name: the JVM compares their times and sizes as well."""
        stats = [(path, path.stat()) for path in (base, *sorted(self.jars))]
        told = repr([(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats])
        return f"{self.program}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _make_base(java: Java, base: Path) -> None:
    """Of the classes that the Java itself lists.

    Raises:
        subprocess.SubprocessError: it cannot.
    """
    draft = base.with_suffix(".draft")
    command = [str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"]
    subprocess.run(command, capture_output=True, timeout=BASE_S, check=True)
    draft.replace(base)


def _sized(name: str, path: Path) -> str:
    return f"{name}.{path.stat().st_size}.jsa"


def _has_header(draft: Path) -> bool:
    if not draft.is_file():
        return False
    with draft.open("rb") as file:
        return any(file.read(_MAGIC_BYTES))

"""Archives of loaded classes (AppCDS): with one a JVM spends a third less CPU on its start.

In: a program's name, its Java and jars. Out: JVM options that use the archive, or none where it was
not made. ``drafted`` gives options for a run that makes one as its JVM ends.

An archive can only save time. A JVM passes over one of another JVM or class path, and with these
options also one whose bytes were changed. It dies of one that was cut off, so a file's name tells
its size. It writes the header last, and a draft without one is never taken.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from walbridge.embedded.folders import folder, place_of
from walbridge.embedded.java import Java

FOLDER = "class-archives"
BASE = "lib/server/classes.jsa"
"""The JVM's archive of its own classes, which ours is added to. The wheel's runtime has none."""
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

    @property
    def can_be_made(self) -> bool:
        return (self.java.java_home / BASE).is_file()

    def options(self) -> tuple[str, ...]:
        """For a JVM that is to use the archive; none if there is no whole one."""
        if not self.can_be_made:
            return ()
        name = self._name()
        whole = [path for path in place_of(FOLDER).glob(f"{name}.*.jsa") if path.name == _sized(name, path)]
        return (f"-XX:SharedArchiveFile={whole[0]}", *_CHECKED) if whole else ()

    @contextlib.contextmanager
    def drafted(self) -> Iterator[tuple[str, ...]]:
        """Options for a JVM that writes the archive when it ends in order, which has to be inside the block."""
        draft = folder(FOLDER) / f"{self.program}.draft"
        draft.unlink(missing_ok=True)
        # With the options of its later use: a JVM that refused one of them would make no archive.
        yield (f"-XX:ArchiveClassesAtExit={draft}", *_CHECKED)
        if _has_header(draft):
            draft.replace(draft.with_name(_sized(self._name(), draft)))

    def _name(self) -> str:
        """Of another file of the JVM or of the jars another name: the JVM compares their times and sizes as well."""
        stats = [(path, path.stat()) for path in (self.java.java_home / BASE, *sorted(self.jars))]
        told = repr([(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats])
        return f"{self.program}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _sized(name: str, path: Path) -> str:
    return f"{name}.{path.stat().st_size}.jsa"


def _has_header(draft: Path) -> bool:
    if not draft.is_file():
        return False
    with draft.open("rb") as file:
        return any(file.read(_MAGIC_BYTES))

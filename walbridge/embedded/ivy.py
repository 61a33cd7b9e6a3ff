"""Run Apache Ivy, which comes inside the pyspark wheel, to fetch jars.

In: coordinates and a folder. Out: their jars in it. Ivy's cache and its idea of a user's home
lie in a folder of ours, kept until a fetch succeeds so that a second try goes on where the
first broke off.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from walbridge.embedded.folders import folder
from walbridge.embedded.java import find_java
from walbridge.extras import MissingPackage
from walbridge.schemas.errors import OperatorError

ATTEMPTS = 3  # a registry's hiccup should not end a long set-up
STALL_S = 900.0  # without a line: the largest jar takes no such time


@dataclass(frozen=True, slots=True, order=True)
class Coordinate:
    """``<group>:<name>:<version>``; of what is no plain jar ``@<classifier>.<extension>`` follows."""

    group: str
    name: str
    version: str
    kind: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        plain, _, kind = text.partition("@")
        group, name, version = plain.split(":")
        return cls(group, name, version, kind)

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}{f'-{self.kind}' if self.kind else '.jar'}"

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}{f'@{self.kind}' if self.kind else ''}"


def retrieve(
    coordinates: Sequence[Coordinate],
    into: Path,
    report: Callable[[str], None],
    *,
    closure: bool = False,
    pattern: str = "[artifact]-[revision](-[classifier]).[ext]",
    exclude_groups: Iterable[str] = (),
) -> None:
    """Put the jars of these coordinates, with ``closure`` all they need at run time, into a folder.

    Raises:
        OperatorError: Ivy failed; the tail of what it said is in the text.
    """
    work = folder("ivy")
    archives = sorted({_extension(each) for each in coordinates if each.kind})
    module = work / f"ivy-{os.getpid()}.xml"
    module.write_text(_module(coordinates, closure, exclude_groups))
    try:
        for attempt in range(1, ATTEMPTS + 1):
            tail = _run(_command(work, module, into / pattern, archives), report)
            if tail is None:
                shutil.rmtree(work / "cache", ignore_errors=True)
                return
            report(f"fetching failed, attempt {attempt} of {ATTEMPTS}")
    finally:
        module.unlink()
    raise OperatorError(
        "jars could not be fetched; Ivy said:\n" + "\n".join(tail or ()),
        "check the network (a proxy: JAVA_TOOL_OPTIONS; certificates: SSL_CERT_FILE), then run it again",
    )


def pyspark_jars() -> Path:
    """Folder of the jars that pyspark carries."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise OperatorError("pyspark is not installed here", MissingPackage("pyspark", "spark").install)
    return Path(spec.origin).parent / "jars"


def _command(work: Path, module: Path, pattern: Path, archives: Iterable[str]) -> list[str]:
    java = find_java()
    ivy = next(pyspark_jars().glob("ivy-*.jar"))
    properties = [f"-Duser.home={work}", f"-Divy.default.ivy.user.dir={work}"]
    call = ["-jar", str(ivy), "-cache", str(work / "cache"), "-ivy", str(module)]
    retrieve_args = ["-retrieve", str(pattern), "-types", "jar", "bundle", *archives]
    return [str(java.executable), *java.trust_store_args, *properties, *call, *retrieve_args]


def _run(command: list[str], report: Callable[[str], None]) -> list[str] | None:
    """Run Ivy; returns None if it succeeded, else the end of its output."""
    tail: deque[str] = deque(maxlen=25)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    fetched = 0
    stall = _kill_later(process)
    try:
        for line in process.stdout:
            stall.cancel()
            stall = _kill_later(process)
            tail.append(line.rstrip())
            if "[SUCCESSFUL ]" in line and ".jar" in line:
                fetched += 1
                if fetched % 10 == 0:
                    report(f"{fetched} jars fetched")
        if process.wait() == -signal.SIGKILL:
            tail.append(f"nothing was heard for {STALL_S} s")
        return None if process.returncode == 0 else list(tail)
    finally:
        stall.cancel()
        process.kill()  # Ctrl-C, or a report that raised
        process.wait()
        process.stdout.close()


def _kill_later(process: subprocess.Popen[str]) -> threading.Timer:
    """Kill Ivy unless it prints something before: it would wait for the network without end."""
    timer = threading.Timer(STALL_S, process.kill)
    timer.daemon = True
    timer.start()
    return timer


_EXTRA = "http://ant.apache.org/ivy/extra"


def _extension(coordinate: Coordinate) -> str:
    return coordinate.kind.partition(".")[2]


def _artifact(coordinate: Coordinate) -> str:
    """The one file that is wanted of a module with several."""
    if not coordinate.kind:
        return ""
    classifier, _, extension = coordinate.kind.partition(".")
    return f'<artifact name="{coordinate.name}" type="{extension}" ext="{extension}" m:classifier="{classifier}"/>'


def _module(coordinates: Iterable[Coordinate], closure: bool, exclude_groups: Iterable[str]) -> str:
    """An ivy.xml: ``master`` is a module's own jar, ``runtime`` what it needs."""
    conf = "default->master,runtime" if closure else "default->master"
    lines = [
        f'<dependency org="{c.group}" name="{c.name}" rev="{c.version}" force="true" conf="{conf}" '
        f'transitive="{"true" if closure else "false"}">{_artifact(c)}</dependency>'
        for c in coordinates
    ]
    lines += [f'<exclude org="{group}"/>' for group in exclude_groups]
    return (
        f'<ivy-module version="2.0" xmlns:m="{_EXTRA}"><info organisation="walbridge" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>\n"
    )

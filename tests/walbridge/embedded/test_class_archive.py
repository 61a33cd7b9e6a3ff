"""An archive of classes can only save time: whatever state its file is in, the JVM starts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.in_soak import in_soak, in_variants
from walbridge.embedded import class_archive
from walbridge.embedded.class_archive import ClassArchive
from walbridge.embedded.jars import set_jars
from walbridge.embedded.java import Java, find_java

MAIN_CLASS = "kafka.tools.StorageTool"
START_S = 120


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where archives are, instead of home."""
    place = tmp_path / "archives"
    place.mkdir()
    monkeypatch.setattr(class_archive, "folder", lambda name: place)
    monkeypatch.setattr(class_archive, "place_of", lambda name: place)
    return place


@pytest.fixture
def archive(tmp_path: Path, place: Path) -> ClassArchive:
    """Of a Java that is a folder, and one jar."""
    base = tmp_path / "java" / class_archive.BASE
    base.parent.mkdir(parents=True)
    base.write_bytes(b"classes of the JVM")
    jar = tmp_path / "program.jar"
    jar.write_bytes(b"classes of the program")
    return ClassArchive("program", Java(tmp_path / "java", 17), (jar,))


def make(archive: ClassArchive, content: bytes = b"MAGIC and classes") -> None:
    """As a JVM would that ends inside the block."""
    with archive.drafted() as (write, *_):
        Path(write.partition("=")[2]).write_bytes(content)


def test_archive_is_used_from_when_it_was_made(archive: ClassArchive, place: Path) -> None:
    assert archive.options() == ()

    make(archive)

    (file,) = place.iterdir()
    assert f"-XX:SharedArchiveFile={file}" in archive.options()


def test_jvm_that_wrote_nothing_makes_no_archive(archive: ClassArchive) -> None:
    with archive.drafted():
        pass

    assert archive.options() == ()


def test_draft_that_a_jvm_was_killed_over_is_not_taken(archive: ClassArchive) -> None:
    """The header, which begins with a magic number, is written last."""
    make(archive, bytes(4096) + b"classes")

    assert archive.options() == ()


def test_archive_that_was_cut_off_is_not_used(archive: ClassArchive, place: Path) -> None:
    make(archive)
    (file,) = place.iterdir()
    file.write_bytes(file.read_bytes()[:-1])

    assert archive.options() == ()


@pytest.mark.parametrize("changed", ["program.jar", f"java/{class_archive.BASE}"])
def test_archive_of_another_jar_or_jvm_is_not_used(archive: ClassArchive, tmp_path: Path, changed: str) -> None:
    make(archive)
    (tmp_path / changed).write_bytes(b"others")

    assert archive.options() == ()


def test_java_without_an_archive_of_its_own_starts_without(archive: ClassArchive, tmp_path: Path) -> None:
    make(archive)
    (tmp_path / "java" / class_archive.BASE).unlink()

    assert archive.options() == ()


@pytest.fixture(scope="module", params=["its own", in_variants("one that is made for it")])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClassArchive, Path]]:
    """By a real JVM, on top of an archive of the JVM's classes."""
    place, java = tmp_path_factory.mktemp("archives"), find_java()
    if request.param == "one that is made for it":
        java = without_base(java, tmp_path_factory.mktemp("java"))
    elif not (java.java_home / class_archive.BASE).is_file():
        pytest.skip("this Java has no archive of its own classes")
    archive = ClassArchive("tool", java, tuple(set_jars("kafka")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_archive, "folder", lambda name: place)
        patch.setattr(class_archive, "place_of", lambda name: place)
        with archive.drafted() as options:
            started(archive, *options)
        (file,) = place.glob("tool-*")
        yield archive, file


def without_base(java: Java, folder: Path) -> Java:
    """The same, called as the wheel's is: by a script in a folder that has nothing else."""
    script = folder / "bin" / "java"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\nexec '{java.executable}' \"$@\"\n")
    script.chmod(0o755)
    return Java(folder, java.major)


def started(archive: ClassArchive, *options: str) -> str:
    """What a small program says that ends well."""
    command = [str(archive.java.executable), *options, "-cp", f"{archive.jars[0].parent}/*", MAIN_CLASS, "random-uuid"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.servers
def test_jvm_takes_its_classes_from_the_archive(made: tuple[ClassArchive, Path]) -> None:
    archive, _ = made

    said = started(archive, *archive.options(), "-Xlog:class+load")

    assert f"{MAIN_CLASS} source: shared objects file (top)" in said


def flipped(content: bytes, first: int, step: int) -> bytes:
    damaged = bytearray(content)
    for at in range(first, len(damaged), step):
        damaged[at] ^= 0xFF
    return bytes(damaged)


@pytest.mark.servers
@pytest.mark.parametrize("damage", ["in its header", *map(in_soak, ("in its classes", "all zero", "cut off"))])
def test_jvm_starts_without_a_word_beside_an_archive_that_is_damaged(
    made: tuple[ClassArchive, Path], damage: str
) -> None:
    archive, file = made
    whole = file.read_bytes()
    content = {
        "in its header": whole[:200] + flipped(whole[200:260], 0, 1) + whole[260:],
        "in its classes": flipped(whole, 4096, 512),
        "all zero": bytes(len(whole)),
        "cut off": whole[: len(whole) // 2],
    }[damage]
    file.chmod(0o600)
    file.write_bytes(content)
    try:
        said = started(archive, *archive.options())
    finally:
        file.write_bytes(whole)

    assert len(said.splitlines()) == 1

"""The files of a Delta log, and which of them a version needs.

In: a listing of ``_delta_log``. Out: which checkpoint and which commits a version needs, the data files that it holds,
each with its file of deletion vectors, and the log files that no wanted version needs. A version needs the
newest checkpoint at or before it, the commits from there to it, and its own commit (which Spark reads in any case).

Neither we nor delta-rs write checkpoints in several parts, or with a UUID in their name: such files stay, and are not
used. Source: Delta's protocol, "Delta Log Entries" and "Checkpoints".
"""

import json
import re
import uuid
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo, FileSelector, FileType, LocalFileSystem

from walbridge.spark_consumer.delta.folder import local_folder

Contents = Mapping[str, str | None]
"""Data files by their path, each with its file of vectors."""

LOG, LAST_CHECKPOINT = "_delta_log", "_last_checkpoint"
"""The folder, and the file in it that names the checkpoint from which readers begin."""
_NAME = re.compile(r"\.?(\d{20})\.(json|crc|checkpoint\.parquet)(?:\.crc)?")
"""A version's commit, Spark's checksum of it, its checkpoint; and the file that Hadoop writes beside each
(``.x.crc``)."""
_OTHER_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..+\.(?:json|parquet)")
COMMIT_BYTES_MIN = len('{"commitInfo":{}}')
"""The size of the smallest commit with an action. A power cut can leave a commit of no bytes, which readers take for
one that changed nothing. A commit that is damaged in another way they refuse themselves."""
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_DIGITS = 20


def files_in(table: Path, below: str = LOG) -> list[FileInfo]:
    """The log files of a table in a local folder, or other files below it. They are not listed by delta-rs, with which
    other threads may be writing (``worker_threads.py``), and which takes three times as long.

    Raises:
        OSError: it cannot be listed.
    """
    found: list[FileInfo] = LocalFileSystem().get_file_info(FileSelector(str(table / below)))
    return found


def files_below(uri: str, files: DeltaStorageHandler, below: str) -> list[FileInfo]:
    """The files of a table's folder (``below`` is empty), or of its log, wherever the table is.

    Raises:
        OSError: it cannot be listed.
    """
    folder = local_folder(uri)
    found = files_in(folder, below) if folder is not None else files.get_file_info_selector(FileSelector(below))
    return [file for file in found if file.type == FileType.File]


def held_names(uri: str, files: DeltaStorageHandler) -> set[str]:
    """The names of the files in a table's folder, and in folders below it.

    Raises:
        OSError: it cannot be listed.
    """
    return {file.base_name for file in files_below(uri, files, "")}


def is_gone(path: str, held: Collection[str]) -> bool:
    """Whether a data file is deleted. Only plain names in the table's folder are judged."""
    return path not in held and "/" not in path and "%" not in path


def commit_name(version: int) -> str:
    """The name of a commit's file."""
    return f"{version:020}.json"


def checkpoint_name(version: int) -> str:
    """The name of a checkpoint's file."""
    return f"{version:020}.checkpoint.parquet"


@dataclass(frozen=True, slots=True)
class CheckpointHint:
    """What ``_last_checkpoint`` says of the checkpoint from which readers begin."""

    version: int
    action_count: int = 0
    add_count: int = 0

    @classmethod
    def parse(cls, content: bytes) -> "CheckpointHint | None":
        """None where the content is not what Delta says: readers pass over such a file, too."""
        try:
            said = json.loads(content)
        except (ValueError, RecursionError):
            return None
        if not isinstance(said, dict):
            return None
        counts = said.get("version"), said.get("size") or 0, said.get("numOfAddFiles") or 0
        numbers = [each for each in counts if isinstance(each, int)]
        return cls(*numbers) if len(numbers) == len(counts) else None


@dataclass(frozen=True)
class LogFiles:
    """A log as it was listed."""

    commits: Mapping[int, datetime | None]
    """When each was written, by the storage's clock."""
    checkpoints: set[int]
    names: Collection[str]
    empty: Collection[int] = ()
    """Commits whose files are too small to hold an action."""
    other_checkpoints: Collection[int] = ()
    """In several parts, or with a UUID in their name."""

    @classmethod
    def of(cls, uri: str, files: DeltaStorageHandler) -> "LogFiles":
        """List a table's log. With ten thousands of commits that takes a good part of a second.

        Raises:
            OSError: it cannot be listed.
        """
        return cls.listed(files_below(uri, files, LOG))

    @classmethod
    def listed(cls, found: Iterable[FileInfo]) -> "LogFiles":
        """The log from a listing of its files."""
        files = {file.path.rpartition("/")[2]: file for file in found}
        times = {name: file.mtime for name, file in files.items()}
        matches = [(name, match) for name in times if (match := _NAME.fullmatch(name))]
        commits = {int(match[1]): times[name] for name, match in matches if name == commit_name(int(match[1]))}
        checkpoints = {int(match[1]) for name, match in matches if name == checkpoint_name(int(match[1]))}
        sizes = {version: files[commit_name(version)].size for version in commits}
        empty = {version for version, size in sizes.items() if size is not None and size < COMMIT_BYTES_MIN}
        others = {int(match[1]) for name in times if (match := _OTHER_CHECKPOINT.fullmatch(name))}
        return cls(commits, checkpoints, [name for name, _ in matches], empty, others)

    def base(self, version: int) -> int | None:
        """The newest checkpoint at or before a version."""
        return newest_by(version, sorted(self.checkpoints))

    def run(self, version: int) -> range:
        """The commits that a version needs after its checkpoint."""
        return run_after(self.base(version), version)

    def is_whole(self, version: int) -> bool:
        """Whether all that the version needs is there."""
        return all(each in self.commits for each in self.run(version))

    def empty_of(self, version: int) -> list[int]:
        """The empty commits among those that a version needs: their changes are lost."""
        return sorted(set(self.run(version)) & {*self.empty}) if self.empty else []

    def since(self, moment: datetime) -> int | None:
        """The oldest commit that was written at ``moment`` or later."""
        return min((each for each, time in self.commits.items() if time is None or time >= moment), default=None)

    def unneeded(self, wanted: Iterable[int], tail: int, checkpoint: int | None) -> list[str]:
        """Log files that neither a wanted version needs, nor any version from ``tail`` on.

        ``checkpoint``: the one that ``_last_checkpoint`` names.
        """
        tail = self.base(tail) or 0
        ordered = sorted(self.checkpoints)
        commits, checkpoints = set[int](), {checkpoint}
        # All that a later version needs is behind this checkpoint.
        for version in (version for version in wanted if version < tail):
            base = newest_by(version, ordered)
            commits |= {version, *run_after(base, version)}
            checkpoints.add(base)
        kept = {checkpoint_name(each) for each in checkpoints if each is not None} | set(map(commit_name, commits))
        return [name for name in self.names if int(name.lstrip(".")[:20]) < tail and _subject(name) not in kept]


def newest_by(version: int, checkpoints: Sequence[int]) -> int | None:
    before = bisect_right(checkpoints, version)
    return checkpoints[before - 1] if before else None


def run_after(base: int | None, version: int) -> range:
    return range(0 if base is None else base + 1, version + 1)


def _subject(name: str) -> str:
    """The log file that a checksum file belongs to; any other name as it is."""
    if name.startswith("."):
        name = name[1:].removesuffix(".crc")
    return f"{name[:20]}.json" if name.endswith(".crc") else name


def contents_at(files: DeltaStorageHandler, log: LogFiles, version: int) -> dict[str, str | None]:
    """The data files that a version holds, each with its file of deletion vectors.

    Raises:
        FileNotFoundError: it cannot be read any more.
    """
    adds = adds_at(files, log, version, ("path", "deletionVector"))
    return {path: vector_of(add.get("deletionVector")) for path, add in adds.items()}


def adds_at(files: DeltaStorageHandler, log: LogFiles, version: int, columns: Iterable[str]) -> dict[str, Any]:
    """The ``add`` action of each data file that a version holds, by path; from a checkpoint only these columns.

    Raises:
        FileNotFoundError: it cannot be read any more.
    """
    held: dict[str, Any] = {}
    base = log.base(version)
    if base is not None:
        checkpoint = BytesIO(read_file(files, checkpoint_name(base)))
        for batch in pq.ParquetFile(checkpoint).iter_batches(columns=[f"add.{name}" for name in columns]):
            adds = batch.column("add").drop_null().to_pylist()
            held |= {add["path"]: add for add in adds if add.get("path") is not None}
    for each in log.run(version):
        actions = [json.loads(line) for line in read_file(files, commit_name(each)).splitlines()]
        for action in actions:
            if "remove" in action:
                held.pop(action["remove"]["path"], None)
        held |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    return held


def read_file(files: DeltaStorageHandler, name: str) -> bytes:
    """One file of the log.

    Raises:
        FileNotFoundError: it is gone.
    """
    with files.open_input_file(f"{LOG}/{name}") as file:
        return bytes(file.read())


def vector_of(descriptor: Mapping[str, Any] | None) -> str | None:
    """The path of a deletion vector's file in the table's folder; None for one that is inline, or elsewhere.

    Several data files may share one. Source: Delta's protocol, "Deletion Vector Descriptor Schema".
    """
    if not descriptor or descriptor.get("storageType") != "u":
        return None
    text = descriptor["pathOrInlineDv"]
    prefix, digits = text[:-_UUID_DIGITS], text[-_UUID_DIGITS:]
    numbers = (digits[at : at + 5] for at in range(0, _UUID_DIGITS, 5))
    data = b"".join(
        sum(_Z85.index(each) * 85 ** (4 - at) for at, each in enumerate(five)).to_bytes(4) for five in numbers
    )
    name = f"deletion_vector_{uuid.UUID(bytes=data)}.bin"
    return f"{prefix}/{name}" if prefix else name

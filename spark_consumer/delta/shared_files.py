"""Finds files that executors wrote, and that the driver does not see.

In: a table's folder, and commits that Spark made there. Out: files that a commit names and that the driver lacks. An
executor has written those to a folder of the same name on its own disk: it came after the job had tried its executors
(``jvm/shared_folder.py``), or has lost its mount. The driver commits without looking for the files. On an object store
all programs see the same files.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.folder import local_folder
from walbridge.spark_consumer.delta.maintenance.log_files import (
    LAST_CHECKPOINT,
    LOG,
    CheckpointHint,
    commit_name,
    vector_of,
)


def lost_files(uri: str, version: int) -> list[str]:
    """Data files and files of deletion vectors that a commit adds and that are not there, by their path in the table.

    Raises:
        FileNotFoundError: there is no such commit.
    """
    folder = local_folder(uri)
    if folder is None:
        return []
    named: set[str] = set()
    for line in (folder / LOG / commit_name(version)).read_bytes().splitlines():
        add = json.loads(line).get("add")
        if add is not None:
            named |= {unquote(add["path"]), vector_of(add.get("deletionVector")) or unquote(add["path"])}
    return _not_there(folder, named)


def lost_since(uri: str, version: int) -> list[str]:
    """``lost_files`` of all commits after a version."""
    found: list[str] = []
    with suppress(FileNotFoundError):
        while True:
            version += 1
            found += lost_files(uri, version)
    return found


def driver_has_all(uris: Iterable[str]) -> bool:
    """Whether the driver has all of a table's data files."""
    return all(folder is None or folder.exists() for folder in map(local_folder, uris))


def with_lost_files_marked(uri: str, commits: Sequence[Commit]) -> list[Commit]:
    """The same commits; those by Spark of which the driver lacks a file have ``is_lost``."""
    return [replace(each, is_lost=each.by_spark and bool(lost_files(uri, each.version))) for each in commits]


def delete_dangling_checkpoint_hint(uri: str) -> bool:
    """Delete ``_last_checkpoint`` if the checkpoint that it names does not exist; returns whether it was deleted.

    Delta has an executor write the checkpoint, and the driver name it. Without the name readers search for a
    checkpoint; with the name of a missing one they fail to open the table.
    """
    folder = local_folder(uri)
    if folder is None:
        return False
    hint = folder / LOG / LAST_CHECKPOINT
    try:
        said = CheckpointHint.parse(hint.read_bytes())
    except OSError:
        return False
    if said is None or any((folder / LOG).glob(f"{said.version:020}.checkpoint*")):
        return False
    hint.unlink(missing_ok=True)
    return True


def _not_there(folder: Path, named: Iterable[str]) -> list[str]:
    # A whole URI names a file outside of the table's folder, which is none of ours.
    return sorted(path for path in named if not urlsplit(path).scheme and not (folder / path).exists())

"""What executors wrote into a table's folder, as the driver sees it.

In: a table's folder, and commits that Spark made there. Out: files that a commit names and that are not in front of the
driver. An executor has written those to a folder of the same name on a disk of its own: one that came after the job had
tried its executors (``jvm/shared_folder.py``), or whose mount is gone. The driver makes the commit, and tells nobody.
What lies on an object store everybody sees.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.folder import local_folder
from walbridge.spark_consumer.delta.maintenance.log_files import LAST_CHECKPOINT, LOG, commit_name, vector_of


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
    """The same of all commits after a version."""
    found: list[str] = []
    with suppress(FileNotFoundError):
        while True:
            version += 1
            found += lost_files(uri, version)
    return found


def are_all_there(uris: Iterable[str]) -> bool:
    """Whether the driver has all of a table's data files."""
    return all(folder is None or folder.exists() for folder in map(local_folder, uris))


def seen_by_driver(uri: str, commits: Sequence[Commit]) -> list[Commit]:
    """The same commits; those of Spark's of which a file is lost say so."""
    return [replace(each, is_lost=each.by_spark and bool(lost_files(uri, each.version))) for each in commits]


def drop_lost_hint(uri: str) -> bool:
    """Delete the name of the newest checkpoint where there is no such file; whether that was so.

    Delta has an executor write the checkpoint, and the driver name it. Without the name readers look for themselves;
    with one that leads nowhere they do not open the table.
    """
    folder = local_folder(uri)
    if folder is None:
        return False
    hint = folder / LOG / LAST_CHECKPOINT
    try:
        version = json.loads(hint.read_bytes())["version"]
    except (OSError, ValueError, KeyError):  # none, or not ours to judge
        return False
    if any((folder / LOG).glob(f"{version:020}.checkpoint*")):
        return False
    hint.unlink(missing_ok=True)
    return True


def _not_there(folder: Path, named: Iterable[str]) -> list[str]:
    # A whole URI names a file outside of the table's folder, which is none of ours.
    return sorted(path for path in named if not urlsplit(path).scheme and not (folder / path).exists())

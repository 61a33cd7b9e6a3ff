"""Commits that a power cut left as files of no bytes.

In: where a table is, and the version that is to be read or written on. Out: nothing, or the error that names those
commits. Delta takes a commit without an action for one that changed nothing: the table has its version, and lacks its
rows (I8). An object store has an object whole or not at all; of a folder a listing of the log tells the sizes of all
files at once. Only commits behind the newest checkpoint count: what stands before it no reader looks at.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from walbridge.schemas.errors import OperatorError, copy_command
from walbridge.spark_consumer.delta.folder import local_folder
from walbridge.spark_consumer.delta.maintenance.log_files import (
    COMMIT_BYTES_MIN,
    LAST_CHECKPOINT,
    LOG,
    LogFiles,
    checkpoint_name,
    commit_name,
    files_in,
)
from walbridge.spark_consumer.delta.table_faults import DAMAGED_LOG, DamagedTable
from walbridge.spark_consumer.errors import sorted_error
from walbridge.spark_consumer.plan.manifest_row import TableEntry

LOOKED_AT_MAX = 100
"""Commits behind a checkpoint, one by one: a job of ours makes one each twenty."""


def refuse_empty_commits(uri: str, version: int) -> None:
    """Refuse a version of a table if a commit that it needs is empty.

    Raises:
        DamagedTable: it names the commits.
        OSError: the log cannot be listed.
    """
    folder = local_folder(uri)
    if folder is None or _is_whole(folder, version):
        return
    if empty := LogFiles.listed(files_in(folder)).empty_of(version):
        raise DamagedTable(f"{DAMAGED_LOG}: {empty_commits(empty)}")


def _is_whole(folder: Path, version: int) -> bool:
    """Whether no commit is empty that stands behind the checkpoint which the log names: a newer one needs no others.

    Where that cannot be told, a listing tells. It takes as long as the log is, and there is a look at each table of
    each plan.
    """
    log = folder / LOG
    with suppress(OSError, ValueError, KeyError, TypeError):
        base = int(json.loads((log / LAST_CHECKPOINT).read_bytes())["version"])
        behind = range(base + 1, version + 1)
        if base <= version and len(behind) <= LOOKED_AT_MAX and (log / checkpoint_name(base)).exists():
            return all((log / commit_name(each)).stat().st_size >= COMMIT_BYTES_MIN for each in behind)
    return False


def refuse_to_readers(lake: str, entry: TableEntry) -> None:
    """The same of a table as a published row names it.

    Raises:
        OperatorError: a copy of the table is the remedy; or its log cannot be listed.
    """
    try:
        refuse_empty_commits(f"{lake.rstrip('/')}/{entry.path}", entry.version or 0)
    except DamagedTable as error:
        raise OperatorError(
            f"lake table {entry.path} cannot be read: {error.how}",
            remedy=f"copy it again: {copy_command(entry.qualified_name)}",
        ) from None
    except OSError as error:
        found = sorted_error(error)
        raise (_unlisted(entry) if found is error else found) from error


def _unlisted(entry: TableEntry) -> OperatorError:
    return OperatorError(
        f"lake table {entry.path} cannot be read: its log cannot be listed",
        remedy="see that the path names this lake, and that this user may read it",
    )


def empty_commits(versions: Sequence[int]) -> str:
    """Which they are, and what that means."""
    numbers = ", ".join(map(str, versions))
    which = f"commit {numbers} is" if len(versions) == 1 else f"commits {numbers} are"
    return f"{which} empty, so what changed there is lost"

"""Finds commits that a power cut left as empty files.

In: where a table is, and the version that is to be read or written on. Out: nothing, or the error that names those
commits. Delta takes a commit without an action for one that changed nothing: the table has its version, and lacks its
rows (I8). An object store keeps an object whole or not at all, so only folders are looked at: one listing of the log
tells the sizes of all files. Only commits after the newest checkpoint count, since readers read no earlier ones.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from walbridge.schemas.errors import OperatorError, copy_command
from walbridge.spark_consumer.delta.folder import local_folder
from walbridge.spark_consumer.delta.maintenance.log_files import (
    COMMIT_BYTES_MIN,
    LAST_CHECKPOINT,
    LOG,
    CheckpointHint,
    LogFiles,
    checkpoint_name,
    commit_name,
    files_in,
)
from walbridge.spark_consumer.delta.table_faults import DAMAGED_LOG, DamagedTable
from walbridge.spark_consumer.errors import classified_error
from walbridge.spark_consumer.plan.manifest_row import TableEntry

LOOKED_AT_MAX = 100
"""Up to so many commits after a checkpoint are looked at one by one. Our job makes a checkpoint every twenty
commits."""


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
    """Whether no commit after the checkpoint in ``_last_checkpoint`` is empty. False also if that cannot be told.

    It is quicker than a listing, which takes the longer the longer the log is: each plan asks this for each table.
    """
    log = folder / LOG
    with suppress(OSError):
        hint = CheckpointHint.parse((log / LAST_CHECKPOINT).read_bytes())
        base = version + 1 if hint is None else hint.version
        behind = range(base + 1, version + 1)
        if base <= version and len(behind) <= LOOKED_AT_MAX and (log / checkpoint_name(base)).exists():
            return all((log / commit_name(each)).stat().st_size >= COMMIT_BYTES_MIN for each in behind)
    return False


def refuse_to_readers(lake: str, entry: TableEntry) -> None:
    """Refuse a table as a published row names it, if a commit that it needs is empty.

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
        found = classified_error(error)
        raise (_unlisted(entry) if found is error else found) from error


def _unlisted(entry: TableEntry) -> OperatorError:
    return OperatorError(
        f"lake table {entry.path} cannot be read: its log cannot be listed",
        remedy="see that the path names this lake, and that this user may read it",
    )


def empty_commits(versions: Sequence[int]) -> str:
    """Words for empty commits: which they are, and what is lost."""
    numbers = ", ".join(map(str, versions))
    which = f"commit {numbers} is" if len(versions) == 1 else f"commits {numbers} are"
    return f"{which} empty, so what changed there is lost"

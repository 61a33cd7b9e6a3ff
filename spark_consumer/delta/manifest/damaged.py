"""The error for a manifest whose log cannot be followed, that has lost rows, or that cannot be written; and its remedy.

In: the manifest's log. Out: the operator's error. If a power cut damaged only the newest commits, the remedy is to
delete them: a job makes them again, since it finds the tables as after any kill (I5). If a later commit is whole, the
rows of the damaged ones cannot be made again, and a plan may lack the row that it started from (I8).
"""

import json
from collections.abc import Mapping

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from walbridge.schemas.errors import COPY_ALL_ANEW, OperatorError, TableError
from walbridge.spark_consumer.delta.folder import local_folder
from walbridge.spark_consumer.delta.maintenance.log_files import LOG, LogFiles, commit_name, read_file
from walbridge.spark_consumer.delta.table_features import refuse_unwritable

FROM_BACKUP = (
    f"bring that folder back from a backup of the whole lake; else name an empty folder in [lake] path, and "
    f"{COPY_ALL_ANEW}"
)


def shown_path(table: DeltaTable) -> str:
    """Where a table is, as it can be typed: delta-rs names folders as URIs, with other characters for blanks."""
    return str(local_folder(table.table_uri) or table.table_uri.rstrip("/"))


class LostRows(OperatorError, OSError):
    """Files of the manifest are gone, or damaged: an error of the system, too, to those who tell all these alike."""

    def __init__(self, table: DeltaTable) -> None:
        super().__init__(
            f"the lake's manifest {shown_path(table)} cannot be read: it has lost files, or they are damaged",
            remedy=FROM_BACKUP,
        )


def refuse_unwritable_manifest(table: DeltaTable) -> None:
    """Refuse one on which another program set what delta-rs does not write; the job itself takes ``appendOnly`` back.

    Raises:
        OperatorError: what was set.
    """
    try:
        refuse_unwritable(table.table_uri, table, but="delta.appendOnly")
    except TableError as error:
        raise OperatorError(error.what, remedy=FROM_BACKUP) from None


def damaged_manifest(uri: str, how: str, storage_options: Mapping[str, str] | None) -> OperatorError:
    """``how``: what is wrong with it, in words."""
    names = [commit_name(version) for version in _newest_unreadable(uri, storage_options)]
    return OperatorError(
        f"the lake's manifest {uri} cannot be read: {how}",
        remedy=f"delete {' and '.join(names)} from its {LOG}, then start again: what was said there is done again"
        if names
        else FROM_BACKUP,
    )


def _newest_unreadable(uri: str, storage_options: Mapping[str, str] | None) -> list[int]:
    """The newest commits, if they are damaged and nothing else is wrong with the log; else none."""
    files = DeltaStorageHandler(uri, dict(storage_options or {}) or None)
    try:
        log = LogFiles.of(uri, files)
        newest = max(log.commits, default=-1)
        unreadable = [each for each in log.run(newest) if not _is_readable(files, each)]
    except (DeltaError, OSError):  # a commit that is missing, for one
        return []
    is_the_end = unreadable == [*range(newest + 1 - len(unreadable), newest + 1)]
    return unreadable if is_the_end else []


def _is_readable(files: DeltaStorageHandler, version: int) -> bool:
    try:
        lines = read_file(files, commit_name(version)).strip().splitlines()
        actions = [json.loads(line) for line in lines]
    except ValueError:
        return False
    return bool(actions)

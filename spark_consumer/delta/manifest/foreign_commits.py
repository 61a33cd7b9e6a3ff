"""Commits that another program made to the manifest: rows and columns that no walbridge writes.

In: the manifest, and what is wrong with it. Out: the operator's error, which names the commits to delete where that
mends it. A job does not go on after such a commit, since it finds another version than the one that it made, and the
next one refuses to start. So those commits are the newest ones, and without them the manifest is what the job left.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from walbridge.schemas.control.table_progress import ARCHIVE, COPYING, CURRENT, DROPPED, QUARANTINED, STALE
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.spark_consumer.delta.maintenance.log_files import LOG, LogFiles, commit_name, read_file
from walbridge.spark_consumer.delta.manifest.damaged import FROM_BACKUP, shown_path
from walbridge.spark_consumer.plan.manifest_row import KINDS, parse_epoch
from walbridge.spark_consumer.plan.table_head import SUPERSEDED

FOREIGN_MAX = 20
"""Up to so many commits of another program are looked for."""
MAY_BE_NULL = frozenset({"commit_time", "version", "since", "copy_from", "why", "shapes_at_end"})

NEVER_NEGATIVE = ("sequence", "end_lsn", "version")
_ONE_OF = {
    "kind": frozenset(KINDS),
    "state": frozenset({COPYING, CURRENT, ARCHIVE, STALE, QUARANTINED, DROPPED, SUPERSEDED}),
}


class ForeignCommit(Exception):
    """Another program wrote to the manifest. ``what``: in words, what it wrote."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def refuse_foreign_values(record: dict[str, Any]) -> None:
    """Raise ForeignCommit if a row, or an entry of one, lacks a value that each has, or has one that none can have."""
    if missing := sorted(name for name, value in record.items() if value is None and name not in MAY_BE_NULL):
        raise ForeignCommit(f"rows without {', '.join(missing)}")
    if negative := [name for name in NEVER_NEGATIVE if (record.get(name) or 0) < 0]:
        raise ForeignCommit(f"rows with a negative {', '.join(negative)}")
    if unknown := [name for name, known in _ONE_OF.items() if record.get(name, next(iter(known))) not in known]:
        raise ForeignCommit(f"rows with an unknown {', '.join(unknown)}")
    if "epoch" in record and not _is_epoch(record["epoch"]):
        raise ForeignCommit("rows with an epoch that is none")
    path = record.get("path", "")
    # The job writes there, and deletes what is there once a table is dropped. A table that is to come has none.
    if path.startswith("/") or ".." in path.split("/") or (not path and record.get("version") is not None):
        raise ForeignCommit("rows with a path that is no folder of the lake")


def _is_epoch(text: str) -> bool:
    try:
        parse_epoch(text)
    except (ProtocolError, ValueError):
        return False
    return True


def refuse_other_columns(found: pa.Schema, expected: pa.Schema) -> None:
    """Raise ForeignCommit if a column is missing, or has another type. Of the list of tables alone any column may be
    missing that earlier versions did not write."""
    for field in expected:
        at = found.get_field_index(field.name)
        if at < 0 or not _is_same(found.field(at).type, field.type):
            raise ForeignCommit(f"columns without {field.name}, or with another type of it")


def came_without_rows(table: DeltaTable, refuse: Callable[[DeltaTable], object]) -> bool:
    """Whether the newest versions, those that are refused, brought no row. To delete their commits loses nothing,
    whoever made them.

    Args:
        refuse: raises ForeignCommit for a version of the manifest that has what is asked for.
    """
    versions = _foreign_versions(table, refuse)
    files = DeltaStorageHandler(table.table_uri, table._storage_options)
    lines = (line for version in versions for line in read_file(files, commit_name(version)).splitlines())
    return bool(versions) and not any("add" in json.loads(line) for line in lines)


def _is_same(found: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_struct(expected):
        known = {field.name: field.type for field in expected}
        return pa.types.is_struct(found) and all(_is_same(each.type, known.get(each.name, each.type)) for each in found)
    if pa.types.is_list(expected):
        return pa.types.is_list(found) and _is_same(found.value_type, expected.value_type)
    return bool(found == expected)


def foreign_commit_error(
    table: DeltaTable, commit: ForeignCommit, refuse: Callable[[DeltaTable], object]
) -> OperatorError:
    """The operator's error.

    Args:
        refuse: raises ForeignCommit for a version of the manifest that a job would not go on from.
    """
    names = [commit_name(version) for version in _foreign_versions(table, refuse)]
    return OperatorError(
        f"the lake's manifest {shown_path(table)} cannot be read: another program wrote {commit.what}",
        remedy=f"delete {' and '.join(names)} from its {LOG}, and find out which program that was; then start again: "
        "nothing is lost"
        if names
        else FROM_BACKUP,
    )


def _foreign_versions(table: DeltaTable, refuse: Callable[[DeltaTable], object]) -> list[int]:
    """The newest versions that are refused, up to one that is not; none where deleting them would not help."""
    newest, options = table.version(), table._storage_options
    with suppress(DeltaError, OSError):
        log = LogFiles.of(table.table_uri, DeltaStorageHandler(table.table_uri, options))
        for version in range(newest, max(-1, newest - 1 - FOREIGN_MAX), -1):
            older = DeltaTable(table.table_uri, version=version, storage_options=options)
            try:
                refuse(older)
            except ForeignCommit:
                continue
            behind = [*range(version + 1, newest + 1)]
            # Readers begin at the newest checkpoint.
            return [] if {*log.checkpoints, *log.other_checkpoints} & {*behind} else behind
    return []

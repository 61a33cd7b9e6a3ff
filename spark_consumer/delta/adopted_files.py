"""Data files of one table of the lake that become another one's, without a row of them being read.

In: a table that is to have the rows of another one; it has that one's columns already, and no rows. Out: the files lie
in its folder, and one commit adds them, with the sizes and bounds that the other's log has of them. No two files have
the same name. One that was moved and that no commit names is an orphan, which maintenance deletes.
"""

from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.folder import move_file
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, adds_at
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_features import commit_errors

_COLUMNS = ("path", "size", "modificationTime", "stats", "deletionVector")


class MarkedRows(Exception):
    """Rows of a file are marked as deleted, which the commit could not say."""


@dataclass(frozen=True)
class AdoptedFiles:
    """The files of a table at its version."""

    files: tuple[AddAction, ...]

    @classmethod
    def of(cls, table: LakeTable, storage_options: dict[str, str]) -> "AdoptedFiles":
        """
        Raises:
            FileNotFoundError: the table's log lacks a file.
            MarkedRows: the table has such rows.
        """
        log = DeltaStorageHandler(table.uri, storage_options or None)
        adds = adds_at(log, LogFiles.of(table.uri, log), table.version, _COLUMNS)
        if any(add.get("deletionVector") for add in adds.values()):
            raise MarkedRows(table.uri)
        return cls(
            tuple(
                AddAction(path, add["size"], {}, add["modificationTime"], True, add.get("stats") or "{}")
                for path, add in adds.items()
            )
        )

    def move(self, lake: str, path: str, target: str, storage_options: dict[str, str]) -> None:
        """Move the files from one folder of the lake to another one.

        Raises:
            FileNotFoundError: one is not there.
        """
        for file in self.files:
            move_file(lake, f"{path}/{file.path}", f"{target}/{file.path}", storage_options)

    def add_to(self, table: LakeTable, commit: Commit, storage_options: dict[str, str]) -> None:
        """Add them to the table, in one commit.

        Raises:
            ConcurrentCommit: another program committed to the table meanwhile.
        """
        delta = DeltaTable(table.uri, version=table.version, storage_options=storage_options or None)
        with commit_errors(table.uri, delta):
            delta.create_write_transaction(
                list(self.files), "append", delta.schema(), commit_properties=commit.properties()
            )
        table.advance_over(commit)

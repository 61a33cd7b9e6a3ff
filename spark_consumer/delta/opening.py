"""Opening a Delta table that may not be there.

In: a URI. Out: the table at its newest version, or None, but only if the storage itself
has answered that nothing is there: on a local path no such folder, or no commit in it; on an object
store a listing without a commit. Delta-rs raises the same error also for a folder that it may not enter, or that
lies below a file. "Nothing there" leads to a new table, so in all other cases an error is raised, and nothing is
written (I8). A table with an empty commit is an error, too (``empty_commits.py``).

An empty folder, and an empty mount point whose storage is missing, cannot be told apart. ``Job``
says at its start that the lake is empty, and names this case in each error that then follows.
"""

import re

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.empty_commits import refuse_empty_commits
from walbridge.spark_consumer.delta.table_faults import DAMAGED_LOG, DamagedTable, is_damaged_log
from walbridge.spark_consumer.delta.table_features import refuse_unwritable, unknown_feature
from walbridge.spark_consumer.errors import classified_error

_NOTHING_THERE = re.compile(r"No files in log segment|\bcode: 2\b")
"""In delta-rs' error: a listing without a commit, or ENOENT for a local folder."""
_GONE_MEANWHILE = re.compile(r"Failed to canonicalize path .*\(os error 2\)")
"""In its error where a local folder went between its two looks at it."""
_IN_THE_WAY = re.compile(r"\(os error (20|40)\)")
"""In its error: ENOTDIR or ELOOP, where a file or a link stands in the place of a table's log."""


def table_if_any(uri: str, storage_options: dict[str, str] | None = None) -> DeltaTable | None:
    """The table; None if there is certainly none.

    Raises:
        OperatorError: the storage does not tell whether there is one.
        DamagedTable: its log cannot be followed.
    """
    try:
        table = DeltaTable(uri, storage_options=storage_options or None)
    except TableNotFoundError as error:
        if _NOTHING_THERE.search(str(error)):
            return None
        found = classified_error(error)
        raise _hidden(uri) if found is error else found from error
    except OSError as error:
        if not _IN_THE_WAY.search(str(error)):
            raise
        raise DamagedTable("its log is no folder") from error
    except DeltaError as error:
        if _GONE_MEANWHILE.search(str(error)):
            return None
        if not is_damaged_log(error):
            raise
        raise DamagedTable(unknown_feature(error) or DAMAGED_LOG) from error
    refuse_empty_commits(uri, table.version())
    return table


def writable_table(uri: str, storage_options: dict[str, str]) -> DeltaTable:
    """A table for maintenance. A damaged one is refused: after a compaction or a checkpoint nothing would seem lost.

    Raises:
        DamagedTable, TableError: it must not be written.
    """
    table = table_if_any(uri, storage_options)
    if table is None:
        raise DamagedTable("it is gone")
    refuse_unwritable(uri, table)
    return table


def _hidden(uri: str) -> OperatorError:
    return OperatorError(
        f"whether there is a table at {uri} cannot be seen: the storage gives no answer that says so",
        remedy="see that [lake] path is a folder, mounted, which this user may read; then start again: nothing is lost",
    )

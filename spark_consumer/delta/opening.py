"""Opening a Delta table that may not be there.

In: a URI. Out: the table at its newest version, or None, which is only said where the storage itself
has answered that nothing is there: on a local path no such folder, or no commit in it; on an object
store an answered listing without a commit. Delta-rs has one error for that and for a folder that it
may not enter or that lies below a file, and "nothing there" leads to a new table: so anything else
is raised, and nothing is written (I8). So is a table of which a commit is empty (``empty_commits.py``).

What nobody can tell apart: an empty folder, and an empty mount point whose storage is missing. ``Job``
says at its start that it finds an empty lake, and names this case in each error that then follows.
"""

import re

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.empty_commits import refuse_empty_commits
from walbridge.spark_consumer.delta.table_faults import DAMAGED_LOG, DamagedTable, is_damaged_log
from walbridge.spark_consumer.delta.table_features import refuse_unwritable, unknown_feature
from walbridge.spark_consumer.errors import sorted_error

_NOTHING_THERE = re.compile(r"No files in log segment|\bcode: 2\b")
"""An answered listing without a commit; ENOENT of a local folder."""


def table_if_any(uri: str, storage_options: dict[str, str] | None = None) -> DeltaTable | None:
    """The table, None where there is certainly none.

    Raises:
        OperatorError: whether there is one cannot be seen.
        DamagedTable: its log cannot be followed.
    """
    try:
        table = DeltaTable(uri, storage_options=storage_options or None)
    except TableNotFoundError as error:
        if _NOTHING_THERE.search(str(error)):
            return None
        found = sorted_error(error)
        raise _hidden(uri) if found is error else found from error
    except DeltaError as error:
        if not is_damaged_log(error):
            raise
        raise DamagedTable(unknown_feature(error) or DAMAGED_LOG) from error
    refuse_empty_commits(uri, table.version())
    return table


def writable_table(uri: str, storage_options: dict[str, str]) -> DeltaTable:
    """A table to commit to. A merge of files, or a checkpoint, would make a state of it in which nothing seems lost.

    Raises:
        DamagedTable, TableError: it is not to be written.
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

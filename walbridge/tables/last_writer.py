"""Which engine last wrote rows to a table of the lake, from the table's own log.

In: a table and its version in the newest published cut. Out: the engine, and why it was chosen. Each table costs the
reading of its log, so it is looked at only where it is asked for.
"""

from contextlib import suppress

from deltalake.exceptions import DeltaError

from walbridge.schemas.errors import WalbridgeError
from walbridge.spark_consumer.delta.commit import DATA
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import DamagedTable
from walbridge.tables.table_status import LastWriter

COMMITS_MAX = 64
"""How many commits to look back: between two plans the job may compact a table, and set properties."""


def last_writer(uri: str, version: int, storage_options: dict[str, str]) -> LastWriter | None:
    """None where the table cannot be read. Commits behind ``version`` are of a plan that is not published yet."""
    with suppress(DeltaError, DamagedTable, WalbridgeError, OSError):
        table = LakeTable.open(uri, storage_options)
        if table is None:
            return None
        # A handle at an older version takes the newest commits for its own.
        commits = reversed(table.commits(COMMITS_MAX + table.version - version))
        commit = next((each for each in commits if each.version <= version and each.plan and each.step == DATA), None)
        if commit is None:
            return LastWriter(None, None, None, table.writes_vectors)
        applier = "spark" if commit.by_spark else "local"
        return LastWriter(applier, commit.operation, commit.rewrite, table.writes_vectors)
    return None

"""Where the lake stands, by its manifest alone. Imported when it is looked at: it needs the extra spark.

In: settings. Out: a ``Lake``.
"""

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from walbridge.schemas.errors import RetryableError
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_published, newest_rows, open_table
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.status.pipeline_status import Lake, LakeCut, TableState


def lake_of(settings: Settings) -> Lake:
    """The newest published cut and the tables in it.

    Raises:
        RetryableError: the lake cannot be read.
    """
    options = flatten(settings.lake.storage_options)
    try:
        table = open_table(settings.lake.path, options)
        if table is None:
            return Lake(False, None, None, ())
        published = newest_published(table)
        row = published or _newest_applied(table)
        return Lake(True, row.pipeline if row else None, _lake_cut(published), _tables(row))
    except (DeltaError, OSError) as error:
        raise RetryableError(f"the lake at {settings.lake.path} cannot be read: {type(error).__name__}") from None


def _lake_cut(row: CutRow | None) -> LakeCut | None:
    if row is None:
        return None
    return LakeCut(row.sequence, row.to_cut, row.end_lsn, row.commit_time, row.written_at, row.epoch)


def _newest_applied(table: DeltaTable) -> CutRow | None:
    """A plan's row names only what it touches, an applied one every table."""
    return next((row for row in newest_rows(table, 2) if row.kind != "plan"), None)


def _tables(row: CutRow | None) -> tuple[TableState, ...]:
    entries = sorted(row.tables, key=lambda entry: entry.qualified_name) if row else ()
    return tuple(
        TableState(
            entry.qualified_name, entry.state, entry.since, entry.why, entry.relation_id, entry.copy_from is not None
        )
        for entry in entries
        if not entry.is_dropped
    )

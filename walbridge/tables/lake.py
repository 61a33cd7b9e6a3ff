"""The tables of the lake's newest published cut. Imported when it is looked at: it needs the extra spark."""

from dataclasses import replace

from deltalake.exceptions import DeltaError

from walbridge.schemas.errors import RetryableError, foreign_lake
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_published, open_table
from walbridge.tables.last_writer import last_writer
from walbridge.tables.table_status import LakeEntry


def lake_entries(settings: Settings, *, with_writers: bool = False) -> dict[int, LakeEntry]:
    """By relation id; none where nothing is published yet.

    Args:
        with_writers: look into each table's log, too.

    Raises:
        OperatorError: the lake is another pipeline's, or newer code wrote it.
        RetryableError: the lake cannot be read.
    """
    path, options = settings.lake.path, flatten(settings.lake.storage_options)
    try:
        table = open_table(path, options)
        row = None if table is None else newest_published(table)
    except (DeltaError, OSError) as error:
        raise RetryableError(f"the lake at {path} cannot be read: {type(error).__name__}") from None
    if row is None:
        return {}
    if row.pipeline != settings.name:
        raise foreign_lake(path, row.pipeline, settings.name)
    found = {
        entry.relation_id: LakeEntry(entry.relation_id, entry.state, entry.path, entry.version, entry.why)
        for entry in row.tables
        if not entry.is_dropped
    }
    if not with_writers:
        return found
    return {
        each: entry
        if entry.version is None
        else replace(entry, writer=last_writer(f"{path.rstrip('/')}/{entry.path}", entry.version, options))
        for each, entry in found.items()
    }

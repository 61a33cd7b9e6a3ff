"""What Kafka and Postgres say of a pipeline's tables. Reads only.

In: settings. Out: a ``Look``. No transactional instance is opened, which would fence the running producer.
"""

from dataclasses import dataclass
from typing import Any

import psycopg

from walbridge.control_records import newest_progress, relations
from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres.catalog import published_tables_unless_locked
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.server_errors import classified
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.table_reads.table_size import table_sizes
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import COPYING
from walbridge.schemas.errors import OperatorError, RetryableError, TableLocked
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.tables.known import KnownTable, known_tables

LOCK_TIMEOUT = "1s"


@dataclass(frozen=True, slots=True)
class InPostgres:
    """``published``: None while one of the tables is being altered. ``sizes``: of tables that are copied."""

    published: list[PublishedTable] | None
    sizes: dict[int, TableSize]
    producer_runs: bool


@dataclass(frozen=True, slots=True)
class Look:
    """One look. ``postgres``: None where it does not answer, for ``postgres_is_silent``."""

    progress: Progress
    tables: list[KnownTable]
    postgres: InPostgres | None
    postgres_is_silent: str | None = None

    def size(self, relation_id: int) -> TableSize | None:
        """Of a table that is copied; None where it is not known."""
        return None if self.postgres is None else self.postgres.sizes.get(relation_id)

    def is_published(self, relation_id: int) -> bool:
        """False where the publications were listed, and do not have it."""
        published = None if self.postgres is None else self.postgres.published
        return published is None or any(each.relation_id == relation_id for each in published)


def look(settings: Settings, *, needs_postgres: bool) -> Look:
    """Kafka, then Postgres.

    Args:
        needs_postgres: raise where it does not answer.

    Raises:
        OperatorError: there is no such pipeline, or a server refuses.
        RetryableError: a server is away.
    """
    topics = TopicAdmin(settings).partition_counts()
    progress = newest_progress(settings, topics)
    if progress is None:
        raise OperatorError(
            f"pipeline {settings.name} has no progress in Kafka: nothing of it was ever copied",
            remedy="run walbridge init, then walbridge produce; or name its settings file with --config",
        )
    known = relations(settings, topics)
    try:
        postgres, silent = in_postgres(settings, progress), None
    except (OperatorError, RetryableError) as error:
        if needs_postgres:
            raise
        postgres, silent = None, getattr(error, "what", None) or str(error)
    published = None if postgres is None else postgres.published
    return Look(progress, known_tables(progress, known, published), postgres, silent)


def in_postgres(settings: Settings, progress: Progress) -> InPostgres:
    """The publication, sizes and slot. Raises as ``look``."""
    with connect_sql(dsn_of(settings), "walbridge tables") as connection:
        published = published_tables_unless_locked(connection, settings.postgres.publication_names)
        copied = [each for each, table in progress.tables.items() if table.state == COPYING]
        sizes = sizes_unless_locked(connection, copied) if copied else {}
        state = slot.inspect(connection, settings.postgres.slot)
        return InPostgres(published, sizes, state is not None and state.active_pid is not None)


def sizes_unless_locked(connection: psycopg.Connection[Any], relation_ids: list[int]) -> dict[int, TableSize]:
    """As ``table_sizes``; none where one of them is being altered."""
    try:
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (LOCK_TIMEOUT,))
        return table_sizes(connection, relation_ids)
    except TableLocked:
        return {}
    except psycopg.Error as error:
        raise classified(error) from None

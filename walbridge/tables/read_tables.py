"""Reads the state of a pipeline's tables from Kafka and Postgres.

In: settings. Out: a ``PipelineTables``. No transactional producer is opened: it would fence the running one.
"""

from dataclasses import dataclass
from typing import Any

import psycopg

from walbridge.control_records import newest_progress, relations, topics_there
from walbridge.producer.copying.copy_share import TableSize
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
    """What Postgres says. ``published``: None while one of the tables is being altered. ``sizes``: of the tables that
    are being copied."""

    published: list[PublishedTable] | None
    sizes: dict[int, TableSize]
    producer_runs: bool


@dataclass(frozen=True, slots=True)
class PipelineTables:
    """The tables at one moment. ``postgres``: None where it does not answer; ``postgres_is_silent`` then says why."""

    progress: Progress
    tables: list[KnownTable]
    postgres: InPostgres | None
    postgres_is_silent: str | None = None

    @property
    def producer_runs(self) -> bool:
        """Whether a session reads the slot now; False also where Postgres does not answer."""
        return self.postgres is not None and self.postgres.producer_runs

    def size(self, relation_id: int) -> TableSize | None:
        """The size of a table that is being copied; None where it is not known."""
        return None if self.postgres is None else self.postgres.sizes.get(relation_id)

    def is_published(self, relation_id: int) -> bool:
        """False only where the publications could be listed and do not have the table."""
        published = None if self.postgres is None else self.postgres.published
        return published is None or any(each.relation_id == relation_id for each in published)


def read_tables(settings: Settings, *, needs_postgres: bool) -> PipelineTables:
    """Ask Kafka, then Postgres.

    Args:
        needs_postgres: raise where Postgres does not answer.

    Raises:
        OperatorError: there is no such pipeline, or a server refuses.
        RetryableError: a server is away.
    """
    topics = topics_there(settings)
    progress = newest_progress(settings, topics)
    if progress is None:
        raise OperatorError(
            f"pipeline {settings.name} has no progress in Kafka: nothing was copied yet, or its topics were deleted",
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
    return PipelineTables(progress, known_tables(progress, known, published), postgres, silent)


def in_postgres(settings: Settings, progress: Progress) -> InPostgres:
    """Ask Postgres for the publications, sizes and slot. Raises as ``read_tables``."""
    with connect_sql(dsn_of(settings), "walbridge tables") as connection:
        published = published_tables_unless_locked(connection, settings.postgres.publication_names)
        copied = [each for each, table in progress.tables.items() if table.state == COPYING]
        sizes = sizes_unless_locked(connection, copied) if copied else {}
        state = slot.inspect(connection, settings.postgres.slot)
        return InPostgres(published, sizes, state is not None and state.active_pid is not None)


def sizes_unless_locked(connection: psycopg.Connection[Any], relation_ids: list[int]) -> dict[int, TableSize]:
    """The sizes by relation id; empty where one of the tables is being altered."""
    try:
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (LOCK_TIMEOUT,))
        return table_sizes(connection, relation_ids)
    except TableLocked:
        return {}
    except psycopg.Error as error:
        raise classified(error) from None

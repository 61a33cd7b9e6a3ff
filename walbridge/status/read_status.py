"""Asks Postgres, Kafka and the lake for their state, all at the same time. Reads only.

In: settings. Out: a ``PipelineStatus``. No transactional producer is opened, which would fence the
running one, and no consumer group is joined: this may run beside all programs, as often as wanted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from walbridge.control_records import WrittenCut, newest_cut, newest_progress, relations, topics_there
from walbridge.extras import missing_package
from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.slots.slot_row import Source, source_of
from walbridge.program_runs import job_words, producer_words, verifier_words
from walbridge.schemas.control.run_record import LastWords
from walbridge.schemas.control.table_progress import COPYING, CURRENT, DROPPED, TableProgress
from walbridge.schemas.errors import WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.status.pipeline_status import Copying, Lake, LeftOut, NewestCut, PipelineStatus, Published, Silent
from walbridge.tables.known import known_tables
from walbridge.tables.read_tables import sizes_unless_locked
from walbridge.tables.table_status import share_of

T = TypeVar("T")


def read_status(settings: Settings) -> PipelineStatus:
    """Ask all of them in threads: a server that does not answer delays no other."""
    # Two threads would import deltalake at the same time, from two of its ends, and Python may end one as deadlocked.
    with suppress(ModuleNotFoundError):  # the producer's machine need not have the packages that read a lake
        import walbridge.status.lake  # noqa: F401
    with ThreadPoolExecutor(6) as threads:
        source = threads.submit(_answer, lambda: source_of(settings))
        published = threads.submit(_answer, lambda: published_of(settings))
        lake = threads.submit(_answer, lambda: _lake(settings))
        producer = threads.submit(_answer, lambda: producer_words(settings))
        job = threads.submit(_answer, lambda: job_words(settings))
        verifier = threads.submit(_answer, lambda: verifier_words(settings))
        return PipelineStatus(
            pipeline=settings.name,
            slot_name=settings.postgres.slot,
            lake_path=settings.lake.path,
            at=datetime.now(UTC),
            source=source.result(),
            published=published.result(),
            lake=without_forgotten(lake.result(), published.result()),
            producer=_with_slot(producer.result(), source.result()),
            job=job.result(),
            verifier=verifier.result(),
        )


def _with_slot(words: LastWords | Silent, source: Source | Silent) -> LastWords | Silent:
    if isinstance(words, Silent) or isinstance(source, Silent):
        return words
    return words.with_slot_in_use(source.slot is not None and source.slot.active_pid is not None)


def without_forgotten(lake: Lake | Silent, published: Published | Silent) -> Lake | Silent:
    """The lake without tables that ``walbridge forget`` removed from progress: they stay in ``_cuts`` for ever."""
    if isinstance(lake, Silent) or isinstance(published, Silent) or published.known is None:
        return lake
    known = published.known
    return replace(lake, tables=tuple(t for t in lake.tables if t.state == CURRENT or t.relation_id in known))


def _answer(ask: Callable[[], T]) -> T | Silent:
    try:
        return ask()
    except WalbridgeError as error:
        return Silent.because(error)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        return Silent(f"not looked at: {missing.name} is not installed here ({missing.install})", away=False)


def _lake(settings: Settings) -> Lake:
    from walbridge.status.lake import lake_of  # the producer's machine need not have the packages that read a lake

    return lake_of(settings)


def published_of(settings: Settings) -> Published:
    """The newest progress and the newest cut.

    Raises:
        RetryableError: no broker answers.
        OperatorError: a record was written by newer code.
    """
    topics = topics_there(settings)
    progress, newest = newest_progress(settings, topics), newest_cut(settings, topics)
    cut = _newest_cut(newest) if newest else None
    if progress is None:
        return Published(None, cut)
    others = [table for table in progress.tables.values() if table.state not in (CURRENT, DROPPED)]
    # Metadata is read only if a table is not current: there may be thousands of tables, and --watch repeats this.
    known = known_tables(progress, relations(settings, topics) if others else (), None)
    names = {table.relation_id: table.name for table in known}
    left_out = [table for table in others if table.state != COPYING]
    return Published(
        progress.state,
        cut,
        tuple(LeftOut(names[table.relation_id], table.since, table.why, table.state) for table in left_out),
        tuple(_copying(settings, others, names)),
        frozenset(progress.tables) if progress.state == "streaming" else None,
    )


def _copying(settings: Settings, tables: Sequence[TableProgress], names: Mapping[int, str]) -> Iterator[Copying]:
    """The tables that are copied beside the stream. The first copy of a pipeline shows in its state instead."""
    copied = [(table.relation_id, table.copy) for table in tables if table.copy is not None]
    sizes: Mapping[int, TableSize] = {}
    if copied:
        with suppress(WalbridgeError), connect_sql(dsn_of(settings), "walbridge status") as connection:
            sizes = sizes_unless_locked(connection, [relation_id for relation_id, _ in copied])
    for relation_id, copy in copied:
        yield Copying(names[relation_id], copy.rows, copy.bytes, share_of(copy, sizes.get(relation_id)))


def _newest_cut(newest: WrittenCut) -> NewestCut:
    cut = newest.cut
    # A cut without transactions is written once everything in the server's WAL was read.
    reached_s = newest.written_at_ms / 1000 if cut.commit_time_us is None else cut.commit_time_us / 1_000_000
    reached_at = datetime.fromtimestamp(reached_s, UTC)
    return NewestCut(cut.cut_id, cut.end_lsn, cut.complete, reached_at, newest.unchanged_since, str(cut.epoch))

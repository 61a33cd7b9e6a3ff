"""Asks Postgres, Kafka and the lake at once where they stand. Reads only.

In: settings. Out: a ``Standing``. No transactional instance is opened, which would fence the
running producer, and no group is joined; so it may run beside everything and as often as wanted.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from walbridge.control_records import WrittenCut, newest_cut, newest_progress
from walbridge.extras import missing_package
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.schemas.errors import WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_progress import STALE
from walbridge.slot_row import source_of
from walbridge.status.standing import Lake, LeftOut, NewestCut, Published, Silent, Standing

T = TypeVar("T")


def look(settings: Settings) -> Standing:
    """One look at all three, side by side: one that does not answer holds up no other."""
    with ThreadPoolExecutor(3) as threads:
        source = threads.submit(_answer, lambda: source_of(settings))
        published = threads.submit(_answer, lambda: published_of(settings))
        lake = threads.submit(_answer, lambda: _lake(settings))
        return Standing(
            pipeline=settings.name,
            slot_name=settings.postgres.slot,
            lake_path=settings.lake.path,
            at=datetime.now(UTC),
            source=source.result(),
            published=published.result(),
            lake=lake.result(),
        )


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
    from walbridge.status.lake import lake_of  # the producer's machine need not have what reads a lake

    return lake_of(settings)


def published_of(settings: Settings) -> Published:
    """The newest progress and the newest cut.

    Raises:
        RetryableError: no broker answers.
        OperatorError: a record of newer code.
    """
    topics = TopicAdmin(settings).partition_counts()
    progress, newest = newest_progress(settings, topics), newest_cut(settings, topics)
    left_out = (table for table in progress.tables.values() if table.name and table.state == STALE) if progress else ()
    return Published(
        progress.state if progress else None,
        _newest_cut(newest) if newest else None,
        tuple(LeftOut(table.name or "", table.since, table.why) for table in left_out),
    )


def _newest_cut(newest: WrittenCut) -> NewestCut:
    cut = newest.cut
    # A cut without transactions is made when all that the server had was read.
    reached_s = newest.written_at_ms / 1000 if cut.commit_time_us is None else cut.commit_time_us / 1_000_000
    return NewestCut(cut.cut_id, cut.end_lsn, cut.complete, datetime.fromtimestamp(reached_s, UTC))

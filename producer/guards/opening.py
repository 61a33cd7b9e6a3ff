"""What a session compares before its first look: the baseline, the records of its topics, and whether tables still fit.

In: progress of the session before, the source as it is. Out: progress with a baseline of the publications that this
session asks for; tables that left with those of before; tables that are unfit.
"""

from collections.abc import Container

import structlog

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.guards.baseline import Baseline
from walbridge.producer.guards.other_publications import restated_baseline
from walbridge.producer.guards.source_now import SourceNow
from walbridge.producer.guards.topic_watch import TopicWatch, refuse_unknown
from walbridge.producer.guards.unfit.unfit_tables import unfit_tables
from walbridge.producer.postgres.catalog import published_tables_unless_locked
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.publications.combined_publications import operations_in
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import metadata_topic

log = structlog.get_logger()


def begin_sessions(tables: Tables, progress: Progress) -> None:
    """What earlier sessions asked for is known from the beginning of this one on."""
    tables.partition_sessions.begin(progress.floor)
    tables.publication_sessions.begin(progress.floor)
    tables.archives |= {each: operations_in(table.membership) for each, table in progress.tables.items()}


def remember_baseline(settings: Settings, tables: Tables, tracker: ProgressTracker, now: SourceNow) -> set[int]:
    """Take a baseline where there is none, and restate it where this session asks for other publications than the one
    before. Returns the followed tables that these do not publish.

    Raises:
        OperatorError: a publication was lost, or leaves operations out.
        RetryableError: a server is away.
    """
    progress, left = tracker.progress, set[int]()
    baseline = Baseline.of(progress)
    if baseline is None:
        # Written by earlier code: what there is now is all that can be compared with later.
        baseline = now.baseline([progress.tables[each] for each in progress.relation_ids])
    else:
        newest = tables.versions.newest(progress.tables)
        baseline = baseline.with_table_topics({each.table.relation_id: each.topic for each in newest})
        names = settings.postgres.publication_names
        baseline, left = restated_baseline(progress, baseline, names, now.publications)
    tracker.remember_options(baseline.options)
    if baseline.tables is not progress.tables:
        tracker.remember_tables(baseline.tables)
    return left


def compare_topics(settings: Settings, tables: Tables, progress: Progress, topics: TopicWatch) -> None:
    """Compare topics, and the records of tables in the metadata topic and the registry, with what progress remembers.

    Raises:
        OperatorError: something is gone, was made anew, or has other settings.
        RetryableError: a server is away.
    """
    tables.topics.remember(progress.options)
    lost, found = topics.open()  # first: a metadata topic that was made anew lacks records, too
    refuse_unknown(tables, progress.relation_ids, metadata_topic(settings.name))
    recorded = tables.versions.newest(progress.relation_ids)
    kept = [each for each in recorded if each.table.relation_id not in lost]
    tables.topics.check(kept, found)
    tables.registry.compare(kept)


def unfit_of(settings: Settings, connection: SqlConnection, relation_ids: Container[int]) -> dict[int, OperatorError]:
    """Those of these tables whose changes would come in parts.

    Raises:
        OperatorError, RetryableError: the server refuses, or is away.
    """
    published = published_tables_unless_locked(connection, settings.postgres.publication_names)
    if published is None:
        # The stream would fail on the same faults, but later and with a less helpful message.
        log.warning("a published table is being altered: types and replica identities are not checked")
        return {}
    return unfit_tables(connection, settings, [each for each in published if each.relation_id in relation_ids])

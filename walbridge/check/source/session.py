"""What ``walbridge produce`` would find when it begins to stream: its own guards, over what it would start from.

In: a connection, and what Kafka holds. Out: findings. The session's watch looks at publication, tables and topics as
it does at a start; but nothing that it would remember or write gets further than this process, and no transactional
instance is opened, which would fence a producer that runs.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

from walbridge.check.finding import Finding, ok, refused, warning
from walbridge.check.reached import Reached
from walbridge.control_records import refuse_tail_lost_at_rest
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.troubles import after_trouble
from walbridge.producer.errors.tables import TableRewritten
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.kafka.control_topics import MetadataWriter, newest_ends
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.kafka.topic_specs import control_topics
from walbridge.producer.kafka.topics import DECIDED_S
from walbridge.producer.named_publications import settings_of_session
from walbridge.producer.postgres.catalog import table_names
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import ServerIdentity
from walbridge.producer.postgres.publications.combined_publications import operations_in
from walbridge.producer.postgres.server_crashes import crashes_known
from walbridge.producer.postgres.slots import slot
from walbridge.producer.relations.recorded_versions import RecordedVersions
from walbridge.producer.relations.tables import Tables
from walbridge.producer.start import known_relations, transactional_id
from walbridge.schemas.control.metadata_record import RelationRecord, TypeRecord
from walbridge.schemas.control.progress_record import Progress, why_lost
from walbridge.schemas.control.table_progress import STALE, TableProgress
from walbridge.schemas.errors import OperatorError, StreamLost, copy_command
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings

SESSION = "session"
COMMITS_S = 30.0
"""How long a commit of a producer that runs may take; one of another program's may hide its cuts from the job."""
_NONE_NEEDED = "none is needed: walbridge produce copies the table, and readers have it as it was until then"


class _Unwritten(MetadataWriter):
    """Records that are known here alone."""

    def write(self, records: list[RelationRecord | TypeRecord]) -> None:
        """A look writes nothing."""


def session_findings(
    reached: Reached, server: ServerIdentity, progress: Progress, is_copy_asked: Callable[[], bool] = lambda: False
) -> Iterator[Finding]:
    """Would it stream, and which tables would it not call current?

    Args:
        progress: of a pipeline that has streamed, and whose slot fits.
    """
    if (what := why_lost(progress)) is not None:
        lost = crashes_known(progress) or StreamLost(what)
        yield lost_finding(SESSION, lost, is_copy_asked=is_copy_asked())
        return
    settings, connection, admin = reached.settings, reached.connected, reached.topics
    is_followed = partial(slot.is_followed, connection, settings.postgres.slot)
    cache, end = known_relations(settings, progress)
    tables = Tables(
        settings,
        connection,
        admin,
        cache,
        _Unwritten(settings, lambda: None, end),
        Publisher(settings, transactional_id(settings, server.system_id), lambda: None),
        server.database,
    )
    try:
        timeout_s = COMMITS_S if is_followed() else DECIDED_S
        admin.wait_decided([spec.name for spec in control_topics(settings)], timeout_s)
        settings = settings_of_session(settings, connection, tables, progress)
        watch = SourceWatch(settings, connection, admin, tables, ProgressTracker(progress))
        watch.notices_tables = watch.only_looks = True
        watch.topics.published_ends = partial(newest_ends, settings)
        watch.open()
        refuse_tail_lost_at_rest(reached.settings, is_followed)
    except StreamLost as lost:
        yield lost_finding(SESSION, lost, is_copy_asked=is_copy_asked())
        return
    except OperatorError as refusal:
        yield refused(SESSION, refusal)
        return
    finally:
        tables.registry.close()
    yield from _found_by(watch, settings, connection, server, progress, tables.versions)


def _found_by(
    watch: SourceWatch,
    settings: Settings,
    connection: SqlConnection,
    server: ServerIdentity,
    progress: Progress,
    versions: RecordedVersions,
) -> Iterator[Finding]:
    """Tables in doubt, and those that came."""
    doubted = watch.doubts.reasons
    names = versions.names(doubted)
    for relation_id, reason in sorted(doubted.items()):
        known = progress.tables.get(relation_id, TableProgress(relation_id, ""))
        name = names.get(relation_id, f"relation {relation_id}")
        yield _doubted(settings, known, name, Lsn(server.wal_end), reason)
    new = table_names(connection, watch.news.take_appeared().difference(progress.relation_ids))
    for namespace, name in sorted(new.values()):
        yield ok(SESSION, f"table {namespace}.{name} came to the publication: the producer copies it when it runs")
    if not doubted:
        yield ok(SESSION, f"{_count(progress)} can be followed from where the producer stands")


def lost_finding(area: str, lost: StreamLost, *, is_copy_asked: bool) -> Finding:
    """A stream that cannot go on, and perhaps need not."""
    if not is_copy_asked:
        return refused(area, lost)
    what = f"{lost.what}; a copy of all tables was asked for, so the next start makes a new slot"
    return warning(area, what, "walbridge produce")


def _doubted(settings: Settings, known: TableProgress, name: str, at: Lsn, reason: OperatorError) -> Finding:
    """What becomes of such a table; where the settings let it stop all, the watch has refused."""
    after = after_trouble(
        known,
        name,
        at,
        reason.what,
        may_copy=settings.producer.on_table_error == "copy" and operations_in(known.membership) is None,
        now_s=time.time(),
        counts=not isinstance(reason, TableRewritten),
    )
    text = f"{reason.what}: the next session calls table {name} {after.state}"
    return warning(SESSION, text, _NONE_NEEDED if after.state == STALE else copy_command(name))


def _count(progress: Progress) -> str:
    count = len(progress.relation_ids)
    return "1 table" if count == 1 else f"all {count} tables"

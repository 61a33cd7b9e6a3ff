"""``walbridge copy --all``: asks the producer to copy every table again, into the same topics and lake.

In: settings. Out: one request in the progress topic, durable when this returns; lines that say what happens next. Where
the stream can go on, every table is copied beside it and stays current until then; where it cannot, the next start of
the producer makes a new slot and begins a new epoch, and every table is stale until its copy is whole. The same happens
where a new epoch is requested, since the lake cannot go on.
"""

import time

from walbridge.control_records import refuse_tail_lost_at_rest, relations, topics_there
from walbridge.producer.copying.next_epoch import begins_again
from walbridge.producer.errors.topics import metadata_gone
from walbridge.producer.guards.baseline import Baseline, refuse_lost_publications
from walbridge.producer.guards.start import refuse_bad_start, refuse_unfit_start
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.named_publications import names_of_next_session, refuse_missing
from walbridge.producer.postgres.connection import BoundedConnection, connect_sql
from walbridge.producer.postgres.publications.publication import publication_state
from walbridge.producer.postgres.requirements import missing_publication, stream_options
from walbridge.producer.postgres.slots import slot
from walbridge.producer.postgres.source import Source
from walbridge.schemas.control.progress_record import Progress, why_lost
from walbridge.schemas.control.table_request import ALL_TABLES, COPY, TableRequest
from walbridge.schemas.errors import OperatorError, StreamLost
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.schemas.topics import metadata_topic
from walbridge.tables.copy import LINE_S, CopyWait, Out, Say, as_json, follow, refuse_first_copy
from walbridge.tables.read_tables import read_tables
from walbridge.tables.request import write


def copy_all(
    settings: Settings,
    *,
    wait: bool,
    say: Say,
    out: Out | None = None,
    line_s: float = LINE_S,
    new_epoch: bool = False,
) -> int:
    """Write the request; returns 0 when the request is durable, with ``wait`` when all tables are current.

    Args:
        new_epoch: begin a new epoch also where the stream can go on.

    Raises:
        OperatorError: the first copy is not complete, or a copy would not mend what is wrong.
        RetryableError: a server is away.
    """
    seen = read_tables(settings, needs_postgres=True)
    if not begins_again(seen.progress):
        refuse_first_copy(settings, seen.progress)
    lost = _why_lost(settings, seen.progress)
    now_us = time.time_ns() // 1000
    copy = TableRequest(COPY, ALL_TABLES, now_us)
    offset = write(settings, [TableRequest.of_doubt(ALL_TABLES, now_us) if new_epoch else copy])
    tables = [table for table in seen.tables if table.is_published is not False]
    say(asked_text(len(tables)))
    missing = None if lost is None else _missing_first(settings, seen.progress)
    _say_next_steps(say, lost, missing, new_epoch=new_epoch)
    if not seen.producer_runs:
        say("walbridge produce does not run now: copies begin when it does")
    waits = [CopyWait(table, offset) for table in tables]
    code = follow(settings, waits, say, line_s) if wait else 0
    if out is not None:
        runs = seen.producer_runs
        out(as_json(settings.name, waits, producer_runs=runs, stream_lost=lost, new_epoch=new_epoch))
    return code


def asked_text(table_count: int) -> str:
    """What was asked for."""
    if not table_count:
        return "the pipeline has no tables: nothing is copied, and there is nothing to wait for"
    return f"all {table_count} tables: asked to be copied again, one after the other"


def _say_next_steps(say: Say, lost: str | None, missing: tuple[str, str] | None, *, new_epoch: bool) -> None:
    """``lost``: why the stream cannot go on, if it cannot; ``missing``: what a new slot then waits for."""
    if lost is None and new_epoch:
        say("walbridge produce begins a new epoch, with a new slot; each table is stale until its copy is whole")
    elif lost is None:
        say("the stream goes on meanwhile, and the lake swaps the rows of each table when its copy is whole")
    else:
        say(f"the stream cannot go on: {lost}")
        if missing is not None:
            what, first = missing
            say(f"{what}, and no slot is made before it does: {first}")
        say("the next start of walbridge produce makes a new slot; each table is stale until its copy is whole")


def _why_lost(settings: Settings, progress: Progress) -> str | None:
    """Why the stream cannot go on, as far as that can be seen without a session; None where it can."""
    if begins_again(progress):
        return "a new epoch was about to begin"
    with _connected(settings) as connection:
        found = slot.inspect(connection, settings.postgres.slot)
        names, awaited = names_of_next_session(settings, connection, progress)
        publications = publication_state(connection, names, ())
    server = Source(settings).identify()
    try:
        runs = found is not None and found.active_pid is not None
        compare = refuse_unfit_start if runs else refuse_bad_start  # a slot in use may be ahead of what was read before
        compare(progress, server, found, stream_options(settings, server.version))
        if (what := why_lost(progress)) is not None:
            return what
        refuse_lost_publications(progress, names, publications, awaited)
        _refuse_lost_topics(settings, progress)
        refuse_tail_lost_at_rest(settings, lambda: _is_followed(settings))
    except StreamLost as lost:
        return lost.what
    return None


def _connected(settings: Settings) -> BoundedConnection:
    return connect_sql(dsn_of(settings), "walbridge copy")


def _is_followed(settings: Settings) -> bool:
    """Whether a producer streams now."""
    with _connected(settings) as connection:
        return slot.is_followed(connection, settings.postgres.slot)


def _refuse_lost_topics(settings: Settings, progress: Progress) -> None:
    """Compare the topics that all tables share, as a start of the producer does.

    Raises:
        StreamLost: one is gone, or was made anew.
    """
    baseline, admin = Baseline.of(progress), TopicAdmin(settings)
    if baseline is not None and baseline.control_topics:
        baseline.refuse_other_control_topics(admin.describe(baseline.control_topics).found())
    recorded = {record.table.relation_id for record in relations(settings, topics_there(settings))}
    if missing := [str(each) for each in progress.relation_ids if each not in recorded]:
        raise metadata_gone(metadata_topic(settings.name), missing)


def _missing_first(settings: Settings, progress: Progress) -> tuple[str, str] | None:
    """A publication that a new slot waits for, in words, and what brings it back; None where none is missing."""
    with _connected(settings) as connection:
        missing = missing_publication(connection, settings)
        try:
            refuse_missing(settings, connection, progress)
        except OperatorError as error:
            assert missing is not None
            return missing.what, error.first if isinstance(error, StreamLost) else error.remedy
    return None

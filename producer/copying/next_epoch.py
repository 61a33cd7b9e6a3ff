"""What progress says of a pipeline whose epoch ended without a way on, before the next one begins.

In: the last progress, the one of a pipeline that copied nothing yet, what was asked meanwhile. Out: progress
``creating``, in which each table is stale and is to be copied beside the stream. Pure.

Nothing of the old epoch counts any more but topics with their ids, and names: LSNs, xids and memberships may mean
something else on this server, or in this publication. A topic that was made again since is still another one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from walbridge.schemas.control.progress_record import COMPACTED_OPTION, METADATA_OPTION, PARTITIONS_OPTION, Progress
from walbridge.schemas.control.table_progress import COPYING, CURRENT, DROPPED, STALE, TableProgress
from walbridge.schemas.control.table_request import (
    BEGINS_OPTION,
    FORGET,
    READ_OPTION,
    TableRequest,
    to_copy_option,
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the metadata topic holds: names and topics by relation id, and where it ends."""

    names: Mapping[int, str]
    topics: Mapping[int, str]
    end: int


def begins_again(progress: Progress) -> bool:
    """Whether the next epoch was about to begin: whatever slot is there is half made, or of the old one."""
    return progress.state == "creating" and BEGINS_OPTION in progress.options


def metadata_begins_at(progress: Progress, metadata_end: int) -> int:
    """The offset of the metadata topic from which relation ids are those of this cluster. One after its end is of a
    topic that was lost: the one that took its place has records of this cluster alone."""
    begins_at = int(progress.options.get(METADATA_OPTION, 0))
    return begins_at if begins_at <= metadata_end else 0


def next_epoch(
    last: Progress,
    new: Progress,
    why: str,
    requests: Iterable[TableRequest],
    next_offset: int,
    recorded: Recorded,
    others: Mapping[str, int] | None = None,
) -> Progress:
    """Progress ``creating`` of the next epoch.

    Args:
        new: of a pipeline that has copied nothing yet, on this server.
        why: the stream was lost.
        requests, next_offset: what was asked since ``last``, and up to where that was read.
        others: where this is another cluster than before, the relation ids of its published tables by name: a table
            is the one of the same name.
    """
    known = dict(last.tables)
    for request in requests:
        table = known.get(request.relation_id)
        if request.kind == FORGET and table is not None and table.state not in (CURRENT, COPYING):
            del known[request.relation_id]
    tables = {each: _stale(table, last, why, recorded) for each, table in known.items()}
    if others is not None:
        named = ((others.get(table.name or ""), table) for table in tables.values())
        tables = {each: replace(table, relation_id=each) for each, table in named if each and table.state == STALE}
    to_copy = [each for each, table in tables.items() if table.state == STALE]
    options = new.options | {BEGINS_OPTION: why, READ_OPTION: str(next_offset)} | to_copy_option(to_copy)
    if others is not None:
        options[METADATA_OPTION] = str(recorded.end)
    elif METADATA_OPTION in last.options:
        options[METADATA_OPTION] = str(metadata_begins_at(last, recorded.end))
    options |= {name: last.options[name] for name in (PARTITIONS_OPTION, COMPACTED_OPTION) if name in last.options}
    return replace(new, options=options, tables=tables)


def _stale(table: TableProgress, last: Progress, why: str, recorded: Recorded) -> TableProgress:
    """What cannot be named cannot be asked for either: it is noticed again if it is in the publication."""
    relation_id, name = table.relation_id, table.name or recorded.names.get(table.relation_id)
    topic, topic_id = table.topic or recorded.topics.get(relation_id), table.topic_id if table.topic else None
    if table.state == DROPPED or name is None:
        return TableProgress(relation_id, DROPPED, topic, topic_id, since=table.since, name=name)
    since = last.done if table.state in (CURRENT, COPYING) else table.since
    return TableProgress(relation_id, STALE, topic, topic_id, since=since, why=why, name=name)


def without_beginning(progress: Progress) -> Progress:
    """The same once its epoch has begun."""
    return replace(progress, options={key: value for key, value in progress.options.items() if key != BEGINS_OPTION})

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
class OtherCluster:
    """A server of which no relation id is known yet: a table is the one of the same name.

    ``relation_ids``: by name, of those that are published; ``metadata_from``: where its metadata begins.
    """

    relation_ids: Mapping[str, int]
    metadata_from: int


def begins_again(progress: Progress) -> bool:
    """Whether the next epoch was about to begin: whatever slot is there is half made, or of the old one."""
    return progress.state == "creating" and BEGINS_OPTION in progress.options


def metadata_begins_at(progress: Progress, metadata_end: int) -> int:
    """The offset of the metadata topic from which relation ids are those of this cluster. One behind its end is of a
    topic that was lost: the one that took its place has records of this cluster alone."""
    begins_at = int(progress.options.get(METADATA_OPTION, 0))
    return begins_at if begins_at <= metadata_end else 0


def next_epoch(
    last: Progress,
    new: Progress,
    why: str,
    requests: Iterable[TableRequest],
    next_offset: int,
    names: Mapping[int, str],
    topics: Mapping[int, str],
    others: OtherCluster | None = None,
) -> Progress:
    """Progress ``creating`` of the next epoch.

    Args:
        new: of a pipeline that has copied nothing yet, on this server.
        why: the stream was lost.
        requests, next_offset: what was asked since ``last``, and up to where that was read.
        names, topics: by relation id, as the metadata topic has them.
        others: where this is another cluster than before.
    """
    known = dict(last.tables)
    for request in requests:
        table = known.get(request.relation_id)
        if request.kind == FORGET and table is not None and table.state not in (CURRENT, COPYING):
            del known[request.relation_id]
    tables = {each: _stale(table, last, why, names, topics) for each, table in known.items()}
    if others is not None:
        named = ((others.relation_ids.get(table.name or ""), table) for table in tables.values())
        tables = {each: replace(table, relation_id=each) for each, table in named if each and table.state == STALE}
    to_copy = [each for each, table in tables.items() if table.state == STALE]
    options = new.options | {BEGINS_OPTION: why, READ_OPTION: str(next_offset)} | to_copy_option(to_copy)
    if (metadata_from := _metadata_from(last, others)) is not None:
        options[METADATA_OPTION] = metadata_from
    options |= {name: last.options[name] for name in (PARTITIONS_OPTION, COMPACTED_OPTION) if name in last.options}
    return replace(new, options=options, tables=tables)


def _metadata_from(last: Progress, others: OtherCluster | None) -> str | None:
    return last.options.get(METADATA_OPTION) if others is None else str(others.metadata_from)


def _stale(
    table: TableProgress, last: Progress, why: str, names: Mapping[int, str], topics: Mapping[int, str]
) -> TableProgress:
    """What cannot be named cannot be asked for either: it is noticed again if it is in the publication."""
    relation_id, name = table.relation_id, table.name or names.get(table.relation_id)
    topic, topic_id = table.topic or topics.get(relation_id), table.topic_id if table.topic else None
    if table.state == DROPPED or name is None:
        return TableProgress(relation_id, DROPPED, topic, topic_id, since=table.since, name=name)
    since = last.done if table.state in (CURRENT, COPYING) else table.since
    return TableProgress(relation_id, STALE, topic, topic_id, since=since, why=why, name=name)


def without_beginning(progress: Progress) -> Progress:
    """The same once its epoch has begun."""
    return replace(progress, options={key: value for key, value in progress.options.items() if key != BEGINS_OPTION})

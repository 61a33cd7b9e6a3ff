"""``walbridge forget TABLE``: a table that left is no longer part of progress and of what ``status`` shows.

In: names. Out: requests in the progress topic, durable when this returns; what remains of each table, and how to
delete it.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from walbridge.producer.errors.publications import the_publications
from walbridge.schemas.control.table_request import FORGET, TableRequest
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_schema import quoted
from walbridge.tables.copy import Out, refuse_without_requests
from walbridge.tables.known import KnownTable, single_table, tables_named, unknown_table
from walbridge.tables.read_tables import PipelineTables, read_tables
from walbridge.tables.request import write
from walbridge.tables.show import lake_or_why_not
from walbridge.tables.table_status import LakeEntry


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of a table. ``topic``, ``folder``: that no other table has, None where there is none of its own, or
    none is known. ``is_out``: the lake does not hold it any more, and its rows are deleted."""

    table: KnownTable
    topic: str | None
    folder: str | None
    is_out: bool


def forget(settings: Settings, names: Sequence[str], *, say: Callable[[str], None], out: Out | None = None) -> int:
    """Ask the producer to forget tables; 0 when the requests are durable.

    Raises:
        OperatorError: a name means no table, or one that is followed or published.
        RetryableError: a server is away.
    """
    seen = read_tables(settings, needs_postgres=True)
    refuse_without_requests(settings, seen.progress)
    chosen = list(dict.fromkeys(table for name in names for table in _chosen(settings, name, seen)))
    write(settings, [TableRequest(FORGET, table.relation_id, time.time_ns() // 1000) for table in chosen])
    lake, _ = lake_or_why_not(settings)
    for table in chosen:
        for line in words(settings, table, seen, lake):
            say(line)
    if not seen.producer_runs:
        say("walbridge produce does not run now: it forgets them when it does")
    if out is not None:
        found = [remains(settings, table, seen, lake) for table in chosen]
        out(as_json(settings.name, found, producer_runs=seen.producer_runs, lake_is_known=lake is not None))
    return 0


def _chosen(settings: Settings, name: str, seen: PipelineTables) -> list[KnownTable]:
    """Of one that was made again under its name, the ones before it."""
    found = tables_named(name, seen.tables)
    if not found:
        raise unknown_table(name, seen.tables)
    single_table(name, found)
    if any(table.is_published is None for table in found):
        raise RetryableError("a published table is being altered, so the publication cannot be listed")
    left = [table for table in found if not table.is_followed and not table.is_published]
    if left:
        return left
    publications = found[0].publications or settings.postgres.publication_names
    dropped = " ".join(f"ALTER PUBLICATION {quoted(name)} DROP TABLE {found[0].quoted_name};" for name in publications)
    raise OperatorError(
        f"table {found[0].name} is in {the_publications(publications)}, or has not left it for the producer yet",
        remedy=f"{dropped} then, once walbridge tables calls it dropped, run walbridge forget again",
    )


def words(
    settings: Settings, table: KnownTable, seen: PipelineTables, lake: Mapping[int, LakeEntry] | None
) -> Iterator[str]:
    """``lake``: None where it cannot be read here."""
    left = remains(settings, table, seen, lake)
    rows = "walbridge materialize deletes its rows" if left.is_out else "the lake keeps its rows as they were"
    yield f"{table.name} (relation {table.relation_id}): forgotten; {rows}"
    if left.topic is not None:
        kafka_topics = f"kafka-topics.sh --bootstrap-server {settings.kafka.bootstrap_servers}"
        yield f"  its topic remains; to delete it: {kafka_topics} --delete --topic {left.topic}"
    if lake is None:
        yield "  its folder remains, if it has one of its own: where the lake can be read, _cuts tells which it is"
    elif left.folder is not None:
        yield f"  its folder remains; to delete it, while walbridge materialize does not run: rm -r {left.folder}"


def remains(
    settings: Settings, table: KnownTable, seen: PipelineTables, lake: Mapping[int, LakeEntry] | None
) -> Remains:
    """``lake``: None where it cannot be read here."""
    others = [each for each in seen.tables if each.relation_id != table.relation_id]
    topic = None if table.topic in {each.topic for each in others} else table.topic
    if lake is None:
        return Remains(table, topic, None, is_out=False)
    entry = lake.get(table.relation_id)
    # A folder belongs to a relation, whatever that is called now: only the lake knows it.
    shared = {each.path for each in lake.values() if each.relation_id != table.relation_id}
    has_folder = entry is not None and entry.version is not None and entry.path not in shared
    folder = f"{settings.lake.path.rstrip('/')}/{entry.path}" if entry is not None and has_folder else None
    return Remains(table, topic, folder, is_out=settings.lake.dropped_tables == "drop" and entry is None)


def as_json(pipeline: str, found: Sequence[Remains], *, producer_runs: bool, lake_is_known: bool) -> str:
    """One object; ``docs/json.md`` has its fields."""
    tables = [
        {
            "table": each.table.name,
            "relation_id": each.table.relation_id,
            "topic": each.topic,
            "folder": each.folder,
            "rows_are_deleted": each.is_out,
        }
        for each in found
    ]
    known = {"pipeline": pipeline, "producer_runs": producer_runs, "lake_is_known": lake_is_known, "tables": tables}
    return json.dumps(known, ensure_ascii=False)

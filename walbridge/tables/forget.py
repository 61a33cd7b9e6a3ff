"""``walbridge forget TABLE``: a table that left is no longer part of progress and of what ``status`` shows.

In: names. Out: requests in the progress topic, durable when this returns; what remains of each table, and how to
delete it.
"""

import time
from collections.abc import Callable, Sequence

from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_request import FORGET, TableRequest
from walbridge.schemas.topics import table_path
from walbridge.tables.copy import refuse_without_requests
from walbridge.tables.known import KnownTable, named, unknown
from walbridge.tables.look import Look, look
from walbridge.tables.request import write


def forget(settings: Settings, names: Sequence[str], *, say: Callable[[str], None]) -> int:
    """Ask the producer to forget tables; 0 when the requests are durable.

    Raises:
        OperatorError: a name means no table, or one that is followed or published.
        RetryableError: a server is away.
    """
    seen = look(settings, needs_postgres=True)
    refuse_without_requests(settings, seen.progress)
    chosen = list(dict.fromkeys(table for name in names for table in _chosen(settings, name, seen)))
    write(settings, [TableRequest(FORGET, table.relation_id, time.time_ns() // 1000) for table in chosen])
    for table in chosen:
        for line in _words(settings, table, seen):
            say(line)
    assert seen.postgres is not None
    if not seen.postgres.producer_runs:
        say("walbridge produce does not run now: it forgets them when it does")
    return 0


def _chosen(settings: Settings, name: str, seen: Look) -> list[KnownTable]:
    """Of one that was made again under its name, the ones before it."""
    found = named(name, seen.tables)
    if not found:
        raise unknown(name, seen.tables)
    if len({table.name for table in found}) > 1:
        names = ", ".join(sorted({table.name for table in found}))
        raise OperatorError(f"{name} may be any of {names}", remedy="name it with its schema, as schema.table")
    if any(table.is_published is None for table in found):
        raise RetryableError("a published table is being altered, so the publication cannot be listed")
    left = [table for table in found if not table.is_followed and not table.is_published]
    if left:
        return left
    publication = settings.postgres.publication
    raise OperatorError(
        f"table {found[0].name} is in publication {publication}, or has not left it for the producer yet",
        remedy=f"ALTER PUBLICATION {publication} DROP TABLE {found[0].name}; then, once walbridge tables calls it "
        "dropped, run walbridge forget again",
    )


def _words(settings: Settings, table: KnownTable, seen: Look) -> list[str]:
    lines = [f"{table.name} (relation {table.relation_id}): forgotten; the lake keeps its rows as they were"]
    others = [each for each in seen.tables if each.topic == table.topic and each.relation_id != table.relation_id]
    if table.topic is None:
        return lines
    if others:
        return [*lines, f"  topic {table.topic} and its folder are those of the table that has its name now"]
    namespace, _, name = table.name.partition(".")
    folder = f"{settings.lake.path}/{table_path(namespace, name)}"
    kafka_topics = f"kafka-topics.sh --bootstrap-server {settings.kafka.bootstrap_servers}"
    return [
        *lines,
        f"  its topic remains; to delete it: {kafka_topics} --delete --topic {table.topic}",
        f"  its folder remains; to delete it, when walbridge materialize does not run: rm -r {folder}",
    ]

"""``walbridge copy TABLE…``: asks the producer to copy tables again beside the stream, and may wait for the copies.

In: names. Out: requests in the progress topic, durable when this returns; lines that say what happens next. All names
are looked up before the first request is written, so that a mistyped name requests nothing.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from walbridge.producer.errors.publications import the_publications
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import COPYING, CURRENT, DROPPED, TableProgress
from walbridge.schemas.control.table_request import COPY, TableRequest, read_until, to_copy
from walbridge.schemas.errors import EXIT_OPERATOR, OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_schema import quoted
from walbridge.tables.known import KnownTable, single_table, tables_named, unknown_table
from walbridge.tables.read_tables import PipelineTables, read_tables
from walbridge.tables.request import write
from walbridge.tables.table_status import copy_text, share_of, share_text

LINE_S = 10.0
"""While a copy is waited for, a line is printed at least this often."""
_LOOK_S = 1.0

Say = Callable[[str], None]
Out = Callable[[str], object]
"""Called with one JSON object, as text."""


def copy(
    settings: Settings, names: Sequence[str], *, wait: bool, say: Say, out: Out | None = None, line_s: float = LINE_S
) -> int:
    """Ask for copies; 0 when the requests are durable, with ``wait`` when all tables are current.

    Raises:
        OperatorError: a name means no table, or a table that cannot be copied.
        RetryableError: a server is away.
    """
    seen = read_tables(settings, needs_postgres=True)
    refuse_without_requests(settings, seen.progress)
    chosen = [chosen_table(settings, name, seen) for name in dict.fromkeys(names)]
    wanted = [table for table in dict.fromkeys(chosen) if is_wanted(table, seen, say)]
    offset = -1
    if wanted:
        requests = [TableRequest(COPY, table.relation_id, time.time_ns() // 1000) for table in wanted]
        offset = write(settings, requests)
        for table in wanted:
            say(f"{table.name}: asked to be copied again; {_meanwhile(table)}")
    if not seen.producer_runs:
        say("walbridge produce does not run now: copies begin, or go on, when it does")
    waits = [CopyWait(table, offset if table in wanted else -1) for table in dict.fromkeys(chosen)]
    code = follow(settings, waits, say, line_s) if wait else 0
    if out is not None:
        out(as_json(settings.name, waits, producer_runs=seen.producer_runs))
    return code


def chosen_table(settings: Settings, name: str, seen: PipelineTables) -> KnownTable:
    """The table that a name given by the user stands for.

    Raises:
        OperatorError: it means none, or one that cannot be copied.
    """
    found = tables_named(name, seen.tables)
    if not found:
        raise unknown_table(name, seen.tables)
    published = [table for table in found if table.is_published is not False]
    if not published:
        table = single_table(name, found)
        names = settings.postgres.publication_names
        raise OperatorError(
            f"table {table.name} is not in {the_publications(names)}",
            remedy=f"ALTER PUBLICATION {quoted(names[0])} ADD TABLE {table.quoted_name}; the running producer copies "
            "it by itself",
        )
    return single_table(name, published)


def refuse_without_requests(settings: Settings, progress: Progress) -> None:
    """Refuse requests that no producer would read.

    Raises:
        OperatorError: the first copy is not complete, or earlier code runs.
    """
    refuse_first_copy(settings, progress)
    if read_until(progress) is None:
        raise OperatorError(
            f"the producer of pipeline {settings.name} that ran last is of an earlier version, and reads no requests",
            remedy="start walbridge produce of this version, then run this command again",
        )


def refuse_first_copy(settings: Settings, progress: Progress) -> None:
    """Refuse where all tables are being copied already.

    Raises:
        OperatorError: the first copy is not complete.
    """
    if progress.state != "streaming":
        raise OperatorError(
            f"the first copy of pipeline {settings.name} is not complete",
            remedy="let walbridge produce finish it: it holds all tables; walbridge status shows how far it is",
        )


def is_wanted(table: KnownTable, seen: PipelineTables, say: Say) -> bool:
    """Whether the copy has to be requested; if not, says why."""
    table_progress = table.progress
    if table_progress is None:
        say(f"{table.name}: came a moment ago; the producer copies it by itself")
    elif table_progress.state == COPYING:
        share = share_of(table_progress.copy, seen.size(table.relation_id))
        say(f"{table.name}: is being copied already{share_text(share)}")
    elif table.relation_id in to_copy(seen.progress):
        say(f"{table.name}: asked for already; its copy has not begun")
    else:
        return True
    return False


def _meanwhile(table: KnownTable) -> str:
    if table.progress is not None and table.progress.state == CURRENT and table.has_key:
        return "its changes go on, and the lake swaps its rows when the copy is whole"
    return "it is current once the copy is whole"


@dataclass(slots=True)
class CopyWait:
    """A table whose copy is waited for. ``offset``: that of its request; -1 where an earlier request stands."""

    table: KnownTable
    offset: int
    line_said_s: float = field(default=0.0)
    outcome: str | None = None
    """The first ``result`` that is not None."""

    @property
    def since(self) -> int | None:
        """``since`` of the table's progress when the copy was requested."""
        return None if self.table.progress is None else self.table.progress.since

    def result(self, progress: Progress, *, is_published: bool = True) -> str | None:
        """The outcome: an empty text if the table is current, else why it is not; None while the copy goes on."""
        table_progress = progress.tables.get(self.table.relation_id)
        # Of one that is followed the producer says whether it left.
        if not is_published and (table_progress is None or table_progress.state not in (CURRENT, COPYING, DROPPED)):
            return "it is in no publication now, and is copied when it is back in one"
        if (read_until(progress) or 0) <= self.offset or self.table.relation_id in to_copy(progress):
            return None
        if table_progress is None:
            return None if self.table.progress is None else "it is gone from the pipeline"
        if table_progress.state == COPYING:
            return None
        if table_progress.state == CURRENT and table_progress.since != self.since:
            return ""
        if table_progress.state == CURRENT:
            return table_progress.why or ("" if self.offset < 0 else "it left the publication meanwhile")
        return f"it is {table_progress.state}" + (f": {table_progress.why}" if table_progress.why else "")

    def line(self, progress: Progress, seen: PipelineTables) -> str:
        """One line on how far the copy is."""
        table_progress: TableProgress | None = progress.tables.get(self.table.relation_id)
        if table_progress is not None and table_progress.state == COPYING and table_progress.copy is not None:
            share = share_of(table_progress.copy, seen.size(self.table.relation_id))
            why = f"; it does not go on: {table_progress.why}" if table_progress.why else ""
            return f"{self.table.name}: copying{share_text(share)}, {copy_text(table_progress.copy)}{why}"
        why = f": {table_progress.why}" if table_progress is not None and table_progress.why else ""
        return f"{self.table.name}: waits for its copy to begin{why}"


def follow(settings: Settings, waits: Sequence[CopyWait], say: Say, line_s: float) -> int:
    """Wait until each copy has ended; returns 2 if a table did not become current, else 0."""
    while True:
        seen = read_tables(settings, needs_postgres=True)
        now_s = time.monotonic()
        for each in waits:
            if each.outcome is not None:
                continue
            each.outcome = each.result(seen.progress, is_published=seen.is_published(each.table.relation_id))
            if each.outcome is not None:
                say(f"{each.table.name}: {'not copied: ' + each.outcome if each.outcome else 'copied, and current'}")
            elif now_s - each.line_said_s >= line_s:
                each.line_said_s = now_s
                say(each.line(seen.progress, seen))
        if all(each.outcome is not None for each in waits):
            return EXIT_OPERATOR if any(each.outcome for each in waits) else 0
        time.sleep(_LOOK_S)


def as_json(
    pipeline: str,
    waits: Sequence[CopyWait],
    *,
    producer_runs: bool,
    stream_lost: str | None = None,
    new_epoch: bool = False,
    keys: int | None = None,
) -> str:
    """One object; ``docs/json.md`` has its fields."""
    tables = [
        {
            "table": each.table.name,
            "relation_id": each.table.relation_id,
            "asked": each.offset >= 0,
            "keys": keys,
            "copied": None if each.outcome is None else not each.outcome,
            "why": each.outcome or None,
        }
        for each in waits
    ]
    found = {
        "pipeline": pipeline,
        "producer_runs": producer_runs,
        "stream_lost": stream_lost,
        "new_epoch": new_epoch or stream_lost is not None,
        "tables": tables,
    }
    return json.dumps(found, ensure_ascii=False)

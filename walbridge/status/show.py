"""What ``walbridge status`` prints for people: rows of a heading and a text. Programs get ``json_object.py``."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from walbridge.one_line import one_line
from walbridge.producer.postgres.slots.slot_row import Slot, Source
from walbridge.quantities import bytes_text, moment_text, seconds_text
from walbridge.schemas.control.run_record import LastWords
from walbridge.schemas.errors import copy_command
from walbridge.schemas.position import format_lsn
from walbridge.status.pipeline_status import Lag, PipelineStatus, Published, Silent, TableState, held_bytes
from walbridge.status.words import BUG, FAILED, UNSAID, word_lines
from walbridge.tables.table_status import copied_text, share_text

TABLES_SHOWN_MAX = 30

ALARMING = (
    *("wal_status lost", "wal_status unreserved", "unreachable:", "does not exist", "belongs to pipeline"),
    *(UNSAID, FAILED, BUG),
)
"""What makes a row red on a terminal, but of a table, whose name is anybody's."""
_OF_TABLES = ("tables", "")


def rows(status: PipelineStatus) -> list[tuple[str, str]]:
    """Heading and text of each row."""
    return [(heading, one_line(text)) for heading, text in _rows(status)]


def _rows(status: PipelineStatus) -> list[tuple[str, str]]:
    return [
        ("pipeline", f"{status.pipeline}, {moment_text(status.at)}"),
        ("server", _server(status.source)),
        ("slot", _slot(status)),
        *(("", line) for line in prepared_lines(status.source)),
        ("producer", _producer(status)),
        *(("", line) for line in _words(status.producer, status)),
        ("in Kafka", _in_kafka(status)),
        ("in the lake", _in_lake(status)),
        *(("job" if index == 0 else "", line) for index, line in enumerate(_words(status.job, status))),
        *(("verify" if index == 0 else "", line) for index, line in enumerate(_words(status.verifier, status))),
        *(("not in Kafka" if index == 0 else "", line) for index, line in enumerate(_left_out(status.published))),
        *(("copied now" if index == 0 else "", line) for index, line in enumerate(_copying(status.published))),
        *(("tables" if index == 0 else "", line) for index, line in enumerate(_tables(status))),
    ]


def as_text(status: PipelineStatus) -> str:
    """Lines for a file, a pipe or a terminal without colour."""
    return "\n".join(f"{heading:<13}{text}" for heading, text in rows(status))


def as_table(status: PipelineStatus) -> Table:
    """The same for a terminal."""
    table = Table.grid(padding=(0, 2))
    for heading, text in rows(status):
        alarming = heading not in _OF_TABLES and any(words in text for words in ALARMING)
        table.add_row(Text(heading, style="bold"), Text(text, style="red" if alarming else ""))
    return table


def _server(source: Source | Silent) -> str:
    if isinstance(source, Silent):
        return f"unreachable: {source.reason}"
    return f"Postgres {source.version}, WAL up to {format_lsn(source.wal_lsn)}"


def _slot(status: PipelineStatus) -> str:
    if isinstance(status.source, Silent):
        return f"{status.slot_name}: not known"
    slot = status.source.slot
    if slot is None:
        return f"{status.slot_name} does not exist"
    use = f"in use (pid {slot.active_pid})" if slot.active_pid else "nobody reads it"
    held = f"holds {bytes_text(slot.retained_bytes)} of WAL" if slot.retained_bytes is not None else "holds no WAL"
    return f"{status.slot_name}: {use}, {held}, {room_text(slot)}"


def room_text(slot: Slot) -> str:
    """How much more WAL the slot may hold."""
    status = slot.wal_status or "unknown"
    if slot.safe_wal_size_bytes is not None:
        return f"wal_status {status}, lost after {bytes_text(max(0, slot.safe_wal_size_bytes))} more"
    return f"wal_status {status}" + ("" if status == "lost" else ", no limit but the disk")


def prepared_lines(source: Source | Silent) -> Iterator[str]:
    """The prepared transactions that the slot waits for, where there are any."""
    if isinstance(source, Silent) or source.slot is None or source.slot.prepared is None:
        return
    prepared = source.slot.prepared
    held = bytes_text(held_bytes(source.slot, source.wal_lsn))
    gid = prepared.oldest_gid.replace("'", "''")
    yield (
        f"prepared and not ended: {prepared.count}, the oldest '{gid}' for {seconds_text(prepared.oldest_s)}; "
        f"{held} of WAL are read again at each start, until COMMIT PREPARED or ROLLBACK PREPARED"
    )


def _producer(status: PipelineStatus) -> str:
    if isinstance(status.published, Silent):
        return "not known"
    state = status.published.state
    if state is None:
        return "never started"
    if isinstance(status.source, Silent):
        return state
    running = status.source.slot is not None and status.source.slot.active_pid is not None
    # A copy reads through sessions of its own; the slot is in use only while it is made and streamed.
    return state if running or state != "streaming" else f"{state}, but not running now"


def _words(words: LastWords | Silent, status: PipelineStatus) -> Iterator[str]:
    if not isinstance(words, Silent):  # the row of its peer says why nothing is known
        yield from word_lines(words, status.at)


def _in_kafka(status: PipelineStatus) -> str:
    if isinstance(status.published, Silent):
        return f"unreachable: {status.published.reason}"
    cut = status.published.cut
    if cut is None:
        return "no cut yet"
    whole = "" if cut.complete else " (inside a copy or a large transaction)"
    return f"cut {cut.cut_id} at {format_lsn(cut.end_lsn)}{whole}{_behind(status.kafka_lag)}"


def _in_lake(status: PipelineStatus) -> str:
    if isinstance(status.lake, Silent):
        return f"unreachable: {status.lake.reason}" if status.lake.away else status.lake.reason
    if status.lake_is_foreign:
        return f"{status.lake_path} belongs to pipeline {status.lake.pipeline}, this one is {status.pipeline}"
    if not status.lake.exists:
        return f"nothing at {status.lake_path} yet: walbridge materialize fills it"
    cut = status.lake.cut
    if cut is None:
        return "nothing is published yet: the first copy is not complete"
    when = f", committed {moment_text(cut.commit_time)}" if cut.commit_time else ""
    behind = status.lake_behind_kafka_bytes
    unchanged = ", in which no table changed" if status.lake_holds_all_changes else ""
    of_kafka = f", {bytes_text(behind)} behind Kafka{unchanged}" if behind else ""
    if status.lake_is_of_lost_epoch:
        of_kafka = ", of an epoch that is over: walbridge materialize goes on with the next one"
    return f"cut {cut.cut_id} at {format_lsn(cut.end_lsn)}{when}{_behind(status.lake_lag)}{of_kafka}"


def _behind(lag: Lag) -> str:
    if lag.wal_bytes is None or lag.seconds is None:
        return ""
    if not lag.wal_bytes:
        return ", which is all that the server has"
    return f": {bytes_text(lag.wal_bytes)} and at most {seconds_text(lag.seconds)} behind the server"


def _tables(status: PipelineStatus) -> Iterator[str]:
    lake = status.lake
    if isinstance(lake, Silent) or status.lake_is_foreign:
        return
    current = [table for table in lake.tables if table.state == "current"]
    others = [table for table in lake.tables if table.state != "current"]
    yield from _named(others)
    if len(current) <= TABLES_SHOWN_MAX:
        yield from _named(current)
    else:
        yield f"{len(current)} tables are current"


def _left_out(published: Published | Silent) -> Iterator[str]:
    if isinstance(published, Silent):
        return
    for left in published.left_out:
        since = "" if left.since_lsn is None else f" since {format_lsn(left.since_lsn)}"
        yield f"{left.table}  {left.state}{since}: {left.why}"


def _copying(published: Published | Silent) -> Iterator[str]:
    for copy in () if isinstance(published, Silent) else published.copying:
        yield f"{copy.table}  copying{share_text(copy.share)}, {copied_text(copy.rows, copy.bytes)}"


def _named(tables: Sequence[TableState]) -> Iterator[str]:
    width = max((len(table.table) for table in tables), default=0)
    for table in tables:
        since = f" since {format_lsn(table.since_lsn)}" if table.since_lsn is not None else ""
        remedy = "a copy goes on" if table.is_mended else copy_command(table.table)
        why = f": {table.why} ({remedy})" if table.why is not None else ""
        yield f"{table.table:<{width}}  {table.state}{since}{why}"

"""The state of each table of a pipeline, as text and as JSON. Pure.

In: a ``PipelineTables``, and the tables of the lake's newest published cut. Out: a line for each table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any

from walbridge.one_line import one_line
from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.postgres.publications.combined_publications import operations_in
from walbridge.quantities import bytes_text
from walbridge.schemas.control.table_progress import (
    ARCHIVE,
    COPYING,
    CURRENT,
    FIRST_COPY_WAITS,
    TableCopy,
    TableProgress,
)
from walbridge.schemas.control.table_request import to_copy
from walbridge.schemas.position import format_lsn
from walbridge.tables.known import KnownTable
from walbridge.tables.read_tables import PipelineTables

NEW = "new"
"""State of a table that is in the publication, but not in the producer's progress yet."""


@dataclass(frozen=True, slots=True)
class LastWriter:
    """Which engine made a table's newest commit of rows, by which operation, and of a merge why: how many bytes
    delta-rs has to rewrite for it. ``has_vectors``: rows of the table may be marked as deleted beside their files."""

    applier: str | None
    operation: str | None
    rewrite_bytes: int | None
    has_vectors: bool


@dataclass(frozen=True, slots=True)
class LakeEntry:
    """A table in the lake's newest published cut. ``version`` None: its folder does not exist yet. ``writer`` None: it
    was not asked for, or the table's log cannot be read."""

    relation_id: int
    state: str
    path: str
    version: int | None
    why: str | None = None
    writer: LastWriter | None = None


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The state of one table. ``share``: which part of its rows is copied; None if not known, or none are copied now.
    ``is_asked``: a copy was asked for."""

    relation_id: int
    name: str
    state: str
    topic: str | None
    since: int | None
    why: str | None
    copy: TableCopy | None
    share: float | None
    is_asked: bool
    lake: LakeEntry | None


def table_statuses(tables: PipelineTables, lake: Mapping[int, LakeEntry] | None) -> list[TableStatus]:
    """All tables by name. Tables that left the publication stay in the list until ``walbridge forget``."""
    asked = to_copy(tables.progress)
    return [_table_status(table, tables, lake or {}, is_asked=table.relation_id in asked) for table in tables.tables]


def _table_status(
    table: KnownTable, tables: PipelineTables, lake: Mapping[int, LakeEntry], *, is_asked: bool
) -> TableStatus:
    progress = table.progress or TableProgress(table.relation_id, NEW)
    is_archive = progress.state == CURRENT and operations_in(progress.membership) is not None
    state = ARCHIVE if is_archive else progress.state
    return TableStatus(
        table.relation_id,
        table.name,
        state,
        table.topic,
        progress.since,
        progress.why,
        progress.copy,
        share_of(progress.copy, tables.size(table.relation_id)),
        is_asked,
        lake.get(table.relation_id),
    )


def share_of(copy: TableCopy | None, size: TableSize | None) -> float | None:
    """Which part of the table is copied, from 0 to 1."""
    return None if copy is None or size is None else size.share(copy.rows, copy.bytes)


def state_text(status: TableStatus) -> str:
    """``current``, ``copying 42 %``, ``copying 42 %, waits: why``, ``stale since 0/2BC: why``."""
    asked = ", to be copied again" if status.is_asked and status.state != COPYING else ""
    if status.why == FIRST_COPY_WAITS:
        return f"{status.state}: {status.why}"
    if status.state == COPYING:
        return f"copying{share_text(status.share)}" + (f", waits: {status.why}" if status.why else "")
    since = (
        "" if status.since is None or status.state in (CURRENT, ARCHIVE, NEW) else f" since {format_lsn(status.since)}"
    )
    why = f": {status.why}" if status.why else ""
    return f"{status.state}{since}{asked}{why}"


def share_text(share: float | None) -> str:
    """`` 42 %``; an empty text where it is not known."""
    return "" if share is None else f" {share:.0%}".replace("%", " %")


def copied_text(rows: int, size_bytes: int) -> str:
    """``1,000 rows, 2.0 MB``."""
    return f"{rows:,} row{'' if rows == 1 else 's'}, {bytes_text(size_bytes)}"


def copy_text(copy: TableCopy | None) -> str:
    """How much a running copy has copied, as ``copied_text``."""
    return "" if copy is None else copied_text(copy.rows, copy.bytes)


def lines(found: Iterable[TableStatus], *, lake_is_known: bool, width: int | None = None) -> list[str]:
    """One line for each table, in columns. Where a line would be wider than ``width`` characters, each table takes
    several lines instead."""
    rows = [_row(status, lake_is_known=lake_is_known) for status in found]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(len(rows[0]))] if rows else []
    whole = ["  ".join(text.ljust(wide) for text, wide in zip(row, widths, strict=True)).rstrip() for row in rows]
    if width is None or all(len(line) <= width for line in whole):
        return whole
    return [line for row in rows for line in _folded(row, width)]


def _folded(row: Sequence[str], width: int) -> Iterator[str]:
    """A line with the table and its state; below it the other columns, without the empty ones."""
    name, state, *others = row
    yield from wrap(f"{name}  {state}", width, subsequent_indent="    ", break_on_hyphens=False)
    for text in filter(None, others):
        yield from wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _row(status: TableStatus, *, lake_is_known: bool) -> list[str]:
    row = [
        status.name,
        state_text(status),
        _keys_text(status.copy) if status.state in (CURRENT, ARCHIVE) else copy_text(status.copy),
    ]
    row.append(f"topic {status.topic}" if status.topic else "no topic")
    return [*map(one_line, [*row, _lake_text(status.lake)] if lake_is_known else row)]


def _lake_text(entry: LakeEntry | None) -> str:
    if entry is None or entry.version is None:
        return "not in the lake"
    state = "" if entry.state == CURRENT else f" {entry.state}"
    why = f": {entry.why}" if entry.why else ""
    return f"lake {entry.path} version {entry.version}{state}{why}{_writer_text(entry.writer)}"


def _writer_text(writer: LastWriter | None) -> str:
    if writer is None:
        return ""
    of = "" if writer.applier is None else f", {(writer.operation or '').lower()} by {writer.applier}"
    rewrite = "" if writer.rewrite_bytes is None else f" (delta-rs rewrites {bytes_text(writer.rewrite_bytes)})"
    return f"{of}{rewrite}{', deletion vectors' if writer.has_vectors else ''}"


def _keys_text(copy: TableCopy | None) -> str:
    return "" if copy is None else f"{len(copy.listed):,} rows to be read again"


def as_json(status: TableStatus) -> dict[str, Any]:
    """One object. LSNs are as Postgres prints them; a value that is not known is null."""
    copy, lake = status.copy, status.lake
    return {
        "table": status.name,
        "relation_id": status.relation_id,
        "state": status.state,
        "since_lsn": None if status.since is None else format_lsn(status.since),
        "why": status.why,
        "copy_is_asked_for": status.is_asked,
        "copy": copy
        and {
            "begun_lsn": format_lsn(copy.begun_lsn),
            "rows": copy.rows,
            "bytes": copy.bytes,
            "chunks": copy.chunks,
            "share": None if status.share is None else round(status.share, 4),
        },
        "topic": status.topic,
        "lake": lake
        and {
            "state": lake.state,
            "path": lake.path,
            "version": lake.version,
            "why": lake.why,
            "writer": lake.writer and asdict(lake.writer),
        },
    }

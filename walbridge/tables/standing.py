"""Where each table of a pipeline stands, in words and as values. Pure.

In: a ``Look``, and the lake's newest published cut. Out: a line for each table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

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
from walbridge.tables.look import Look

NEW = "new"
"""State of a table that is published, and that the producer has not noticed yet."""


@dataclass(frozen=True, slots=True)
class LakeEntry:
    """A table in the lake's newest published cut. ``version`` None: its folder does not exist yet."""

    relation_id: int
    state: str
    path: str
    version: int | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class TableStanding:
    """One table. ``share``: of its rows, those that are copied; None where that is not known, or nothing is copied."""

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


def standings(look: Look, lake: Mapping[int, LakeEntry] | None) -> list[TableStanding]:
    """All tables by name; those that left and are in no lake are forgotten by ``walbridge forget`` only."""
    asked = to_copy(look.progress)
    return [_standing(table, look, lake or {}, is_asked=table.relation_id in asked) for table in look.tables]


def _standing(table: KnownTable, look: Look, lake: Mapping[int, LakeEntry], *, is_asked: bool) -> TableStanding:
    standing = table.progress or TableProgress(table.relation_id, NEW)
    is_archive = standing.state == CURRENT and operations_in(standing.membership) is not None
    state = ARCHIVE if is_archive else standing.state
    return TableStanding(
        table.relation_id,
        table.name,
        state,
        table.topic,
        standing.since,
        standing.why,
        standing.copy,
        share_of(standing.copy, look.size(table.relation_id)),
        is_asked,
        lake.get(table.relation_id),
    )


def share_of(copy: TableCopy | None, size: TableSize | None) -> float | None:
    """How much of the table is copied."""
    return None if copy is None or size is None else size.share(copy.rows, copy.bytes)


def state_text(standing: TableStanding) -> str:
    """``current``, ``copying 42 %``, ``stale since 0/2BC: why``."""
    asked = ", to be copied again" if standing.is_asked and standing.state != COPYING else ""
    if standing.why == FIRST_COPY_WAITS:
        return f"{standing.state}: {standing.why}"
    if standing.state == COPYING:
        return f"copying{share_text(standing.share)}"
    since = (
        ""
        if standing.since is None or standing.state in (CURRENT, ARCHIVE, NEW)
        else f" since {format_lsn(standing.since)}"
    )
    why = f": {standing.why}" if standing.why else ""
    return f"{standing.state}{since}{asked}{why}"


def share_text(share: float | None) -> str:
    """`` 42 %``, nothing where it is not known."""
    return "" if share is None else f" {share:.0%}".replace("%", " %")


def copied_text(rows: int, size_bytes: int) -> str:
    """``1,000 rows, 2.0 MB``."""
    return f"{rows:,} row{'' if rows == 1 else 's'}, {bytes_text(size_bytes)}"


def copy_text(copy: TableCopy | None) -> str:
    """The same of a copy that goes on."""
    return "" if copy is None else copied_text(copy.rows, copy.bytes)


def lines(found: Iterable[TableStanding], *, lake_is_known: bool, width: int | None = None) -> list[str]:
    """One for each table, in columns; where these are wider than ``width`` characters, some for each, none of them
    wider."""
    rows = [_row(standing, lake_is_known=lake_is_known) for standing in found]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(len(rows[0]))] if rows else []
    whole = ["  ".join(text.ljust(wide) for text, wide in zip(row, widths, strict=True)).rstrip() for row in rows]
    if width is None or all(len(line) <= width for line in whole):
        return whole
    return [line for row in rows for line in _folded(row, width)]


def _folded(row: Sequence[str], width: int) -> Iterator[str]:
    """The table and its state, and below it all else that there is."""
    name, state, *others = row
    yield from wrap(f"{name}  {state}", width, subsequent_indent="    ", break_on_hyphens=False)
    for text in filter(None, others):
        yield from wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _row(standing: TableStanding, *, lake_is_known: bool) -> list[str]:
    row = [
        standing.name,
        state_text(standing),
        _keys_text(standing.copy) if standing.state in (CURRENT, ARCHIVE) else copy_text(standing.copy),
    ]
    row.append(f"topic {standing.topic}" if standing.topic else "no topic")
    return [*row, _lake_text(standing.lake)] if lake_is_known else row


def _lake_text(entry: LakeEntry | None) -> str:
    if entry is None or entry.version is None:
        return "not in the lake"
    state = "" if entry.state == CURRENT else f" {entry.state}"
    why = f": {entry.why}" if entry.why else ""
    return f"lake {entry.path} version {entry.version}{state}{why}"


def _keys_text(copy: TableCopy | None) -> str:
    return "" if copy is None else f"{len(copy.listed):,} rows to be read again"


def as_json(standing: TableStanding) -> dict[str, Any]:
    """LSNs as Postgres prints them; null where it is not known."""
    copy, lake = standing.copy, standing.lake
    return {
        "table": standing.name,
        "relation_id": standing.relation_id,
        "state": standing.state,
        "since_lsn": None if standing.since is None else format_lsn(standing.since),
        "why": standing.why,
        "copy_is_asked_for": standing.is_asked,
        "copy": copy
        and {
            "begun_lsn": format_lsn(copy.begun_lsn),
            "rows": copy.rows,
            "bytes": copy.bytes,
            "chunks": copy.chunks,
            "share": None if standing.share is None else round(standing.share, 4),
        },
        "topic": standing.topic,
        "lake": lake and {"state": lake.state, "path": lake.path, "version": lake.version, "why": lake.why},
    }

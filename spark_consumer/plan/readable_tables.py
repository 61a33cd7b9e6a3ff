"""Which tables of a published row a reader may have, whatever engine reads them. Pure.

In: a published row, the tables and states that are asked for. Out: an entry of each table, with the one version of it
that belongs to the row; or the refusal of a table whose rows do not equal the source (I8).
"""

from collections.abc import Collection, Mapping

from walbridge.schemas.control.table_progress import ARCHIVE, CURRENT
from walbridge.schemas.errors import OperatorError, copy_command
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry, by_name
from walbridge.spark_consumer.plan.table_head import AWAITING_COPY


class UnreadableTable(OperatorError):
    """The row has the table, and whoever asked may not have it."""


def readable_tables(
    row: CutRow, tables: Collection[str] | None = None, states: Collection[str] = (CURRENT,)
) -> dict[str, TableEntry]:
    """The entries by ``schema.table``, in the order of names; each has a version.

    Args:
        row: a published one.
        tables: only these, or this one; None: all but those whose first copy goes on.
        states: what is accepted.

    Raises:
        OperatorError: no such table, or a table in another state.
    """
    tables = [tables] if isinstance(tables, str) else tables
    states = [states] if isinstance(states, str) else states
    entries = by_name(row.tables)
    without_rows = [name for name, entry in entries.items() if _awaits_first_copy(entry)]
    wanted = sorted([*readable_names(entries), *without_rows] if tables is None else tables)
    for name in wanted:
        if name not in entries:
            raise OperatorError(
                f"the lake has no table {name} at {format_lsn(row.end_lsn)}",
                remedy=f"it has: {', '.join(sorted(readable_names(entries))) or 'none'}",
            )
        _refuse_other_states(entries[name], row.end_lsn, states)
    return {name: entries[name] for name in wanted}


def readable_names(entries: Mapping[str, TableEntry]) -> list[str]:
    """The tables of which the lake has rows, in any state."""
    return [name for name, entry in entries.items() if entry.version is not None]


def _refuse_other_states(entry: TableEntry, end_lsn: int, states: Collection[str]) -> None:
    name = entry.qualified_name
    if _awaits_first_copy(entry) or (entry.state not in states and entry.why is not None):
        raise _in_trouble(entry, end_lsn)
    if entry.version is None:
        raise UnreadableTable(
            f"table {name} is being copied at {format_lsn(end_lsn)}: the lake has no state of it yet",
            remedy="leave it out with tables=..., or wait for its copy: walbridge status",
        )
    if entry.state not in states and entry.state == ARCHIVE:
        raise UnreadableTable(
            f"table {name} is an archive: not all changes of it come, so it does not equal the source",
            remedy=f"leave it out with tables=..., or accept it with states=('{CURRENT}', '{ARCHIVE}')",
        )
    if entry.state not in states:
        raise UnreadableTable(
            f"table {name} is {entry.state} at {format_lsn(end_lsn)}: it does not equal the source",
            remedy=f"leave it out with tables=..., or accept it with states=('{CURRENT}', '{entry.state}')",
        )


def _awaits_first_copy(entry: TableEntry) -> bool:
    return entry.version is None and entry.state in AWAITING_COPY


def _in_trouble(entry: TableEntry, end_lsn: int) -> UnreadableTable:
    since = "" if entry.since is None else f" since {format_lsn(entry.since)}"
    accepted = "" if entry.version is None else f", or accept it with states=('{CURRENT}', '{entry.state}')"
    return UnreadableTable(
        f"table {entry.qualified_name} is {entry.state}{since}, also at {format_lsn(end_lsn)}: {entry.why}",
        remedy=f"copy it again: {copy_command(entry.qualified_name)}; or leave it out with tables=...{accepted}",
    )

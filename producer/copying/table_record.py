"""A table's state as its record of progress has it, and back. Pure."""

from dataclasses import replace

from walbridge.producer.copying.copy_state import Copy, State, TableState
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_progress import TableCopy, TableProgress


def state_of(table: TableProgress) -> TableState:
    """The state that a record tells."""
    copy = None
    if table.copy is not None:
        copy = Copy(
            table.copy.begun_lsn,
            table.copy.bound,
            table.copy.has_all_ranges,
            table.copy.rows,
            table.copy.bytes,
            table.copy.chunks,
            table.copy.listed,
            table.copy.shape,
        )
    return TableState(table.relation_id, State(table.state), table.since or Lsn(0), table.why or "", copy)


def with_state(table: TableProgress, state: TableState) -> TableProgress:
    """The record with another state."""
    copy = None
    if state.copy is not None:
        copy = TableCopy(
            state.copy.begun_lsn,
            state.copy.bound,
            state.copy.row_count,
            state.copy.size_bytes,
            state.copy.chunk_count,
            state.copy.has_all_ranges,
            state.copy.shape,
            state.copy.listed,
        )
    return replace(table, state=state.state.value, since=state.since, why=state.why or None, copy=copy)

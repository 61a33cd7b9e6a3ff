"""A table's state as its record of progress has it, and back. Pure."""

from dataclasses import replace

from walbridge.producer.copying.copy_state import TableState
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.position import Lsn


def state_of(table: TableProgress) -> TableState:
    """The state that a record tells."""
    return TableState(table.relation_id, table.state, table.since or Lsn(0), table.why or "", table.copy)


def with_state(table: TableProgress, state: TableState) -> TableProgress:
    """The record with another state."""
    return replace(table, state=state.state, since=state.since, why=state.why or None, copy=state.copy)

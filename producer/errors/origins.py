"""Rows of other origins, that replication brought, with the remedy of each refusal."""

from collections.abc import Sequence

from walbridge.producer.errors.remedies import copied_again
from walbridge.schemas.errors import OperatorError

FOREIGN_ROWS = (
    "set [postgres] copy_foreign_rows = true: rows that replication brought by then stay in the lake as they were"
)


def foreign_rows_copied(table: str) -> OperatorError:
    """A copy reads all rows, whoever wrote them; of some of them no change ever comes."""
    return OperatorError(
        f'a subscription of this database writes to table {table}, and [postgres] origin is "none": a copy takes rows '
        "that replication brought, and no later change of them comes",
        remedy=f'set [postgres] origin = "any", and their changes come as well; or {FOREIGN_ROWS}',
    )


def foreign_rows_held(tables: Sequence[str]) -> OperatorError:
    """The lake has them from when all changes came."""
    others = f" and of {len(tables) - 1} more" if len(tables) > 1 else ""
    return OperatorError(
        f'[postgres] origin is "none" by now, and a subscription of this database writes to table {tables[0]}{others}: '
        "the lake has rows that replication brought, and no later change of them would come",
        remedy=f'set [postgres] origin = "any" again; or {FOREIGN_ROWS}',
    )


def foreign_rows_left_out(table: str) -> OperatorError:
    """Postgres sent none of them, and does not say which they were."""
    return OperatorError(
        f'rows of table {table} may be missing that replication brought while [postgres] origin was "none"',
        remedy=copied_again(table),
    )

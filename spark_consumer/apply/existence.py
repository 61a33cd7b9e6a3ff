"""Whether the lake holds the row of a change: operations tell, and the counts of a merge confirm it.

In: folded rows, and the counts of a merge. Out: the counts to expect, or an error. The first event of a key in a
segment is ``c`` exactly if the table held no such row before, as long as the table equals the source where the
plan begins and every change comes (``TablePlan.follows_source``). So new rows are added without a search, and a merge
with other counts shows that the table did not equal the source (I7).
"""

from enum import Enum

import pyarrow.compute as pc

from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.apply.arrow_spool import Spool
from walbridge.spark_consumer.delta.commit import Matches


class Existence(Enum):
    """How far operations are relied on to tell which rows the lake holds."""

    UNKNOWN = "not at all: every row is searched for, and added where there is none"
    VERIFIED = "every row is searched for, and the counts must be those that the operations tell"
    TRUSTED = "rows that are new by their operations are added without a search"


def expected_matches(rows: Spool) -> Matches | None:
    """How many of the folded rows the lake holds, and how many it lacks. A row that was inserted and deleted within the
    segment counts as neither.

    None where single rows were copied: a copied row does not tell whether the lake holds it.
    """
    held = lacked = 0
    for batch in rows.batches():
        is_new = batch.column("is_new")
        if is_new.null_count:
            return None
        is_alive = pc.not_equal(pc.struct_field(batch.column("change"), "op"), "d")
        held += batch.num_rows - is_new.true_count
        lacked += pc.and_(is_new, is_alive).true_count
    return Matches(held, lacked)


def refuse_other_matches(expected: Matches, found: Matches | None, table: str) -> None:
    """Refuse counts of a merge that are not the expected ones.

    Raises:
        TableError: the table did not equal the source.
    """
    if found == expected:
        return
    held, lacked = ("?", "?") if found is None else (found.held, found.lacked)
    raise TableError(
        f"the lake's table {table} did not hold what the source changed: it held {held} of {expected.held} rows that "
        f"were updated or deleted, and lacked {lacked} of {expected.lacked} that were inserted"
    )

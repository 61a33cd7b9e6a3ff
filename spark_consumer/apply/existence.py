"""Whether the lake holds the row of a change: what operations say of it, and whether the merge confirms that.

In: folded rows, and what a merge found. Out: the rows to be expected, or a stop. The first event of a key in a
segment is ``c`` exactly if the table held no such row before, as long as the table equals the source where the
plan begins and every change comes (``TablePlan.follows_source``). So new rows need no search, and a merge that
finds other rows shows that the table was not what the source was (I7).
"""

from enum import Enum

import pyarrow.compute as pc

from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.apply.arrow_spool import Spool
from walbridge.spark_consumer.delta.commit import Matches


class Existence(Enum):
    """How far operations tell which rows the lake holds."""

    UNKNOWN = "not at all: every row is searched for, and added where there is none"
    COUNTED = "they should: every row is searched for, and it must come out so"
    TOLD = "they do: where all rows are new they are added without a search"


def expected_matches(rows: Spool) -> Matches | None:
    """What the lake holds and lacks of folded rows. One that came and went within the segment is neither.

    None where single rows were copied: that says what the source has, and nothing of the lake.
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
    """Stop where a merge found other rows than it should have.

    Raises:
        TableError: the table was not what the source was.
    """
    if found == expected:
        return
    held, lacked = ("?", "?") if found is None else (found.held, found.lacked)
    raise TableError(
        f"the lake's table {table} did not hold what the source changed: it held {held} of {expected.held} rows that "
        f"were updated or deleted, and lacked {lacked} of {expected.lacked} that were inserted"
    )

"""Rewrites that change rows without a word in the stream, told by the files of a table. Pure.

In: the files as they were, which the table's record of progress remembers, and as they are. Out: whether rows may
differ from those that the stream brought.

Who replaces a table's file (``relfilenode``)                 its TOAST table    its columns' catalogue rows
----------------------------------------------------------   ----------------   ---------------------------
ALTER TABLE that rewrites (type, USING, volatile default)     another one        at least one is another
SET UNLOGGED, then SET LOGGED                                 another one        the same
VACUUM FULL, CLUSTER, SET TABLESPACE: no value changes        the same           the same
TRUNCATE: it comes in the stream                              the same           the same

(PostgreSQL ``tablecmds.c``, ``ATRewriteTables``; ``cluster.c``, ``copy_table_data`` and ``finish_heap_swap``, which
swaps what a TOAST table holds, and not the table.) So a table with a TOAST table tells exactly. One without, which has
short columns only, may have been unlogged for a while: not where a publication names it, since Postgres refuses that
then; else a new file puts it in doubt, unless the stream brought a TRUNCATE.

TRUNCATE of a partition below a published root does not come in the stream, so every new file of one is a doubt: a
VACUUM FULL of a partition has its root copied, which costs time and nothing else.

ADD COLUMN with a constant default rewrites nothing: rows that were there have a value that the catalogue holds.
"""

from collections.abc import Iterable

from walbridge.producer.postgres.facts import TableFile


def as_text(files: Iterable[TableFile]) -> str:
    """As progress remembers them."""
    return " ".join(f"{each.relation_id}:{each.file}:{each.toast}:{each.column_count}:{each.columns}" for each in files)


def from_text(text: str) -> dict[int, TableFile]:
    """By relation: of the table, and of the partitions below it."""
    parts = (each.split(":") for each in text.split())
    files = (
        TableFile(int(oid), int(file), int(toast), int(count), columns) for oid, file, toast, count, columns in parts
    )
    return {file.relation_id: file for file in files}


def is_rewritten(before: TableFile, now: TableFile, *, is_partition: bool, is_truncated: bool) -> bool:
    """Whether rows may have other values, or be others.

    Args:
        is_partition: it is published through its root.
        is_truncated: the stream brought a TRUNCATE of it since.
    """
    if before.file == now.file:
        return False
    if is_partition or before.column_count != now.column_count or before.toast != now.toast:
        return True
    if now.toast:
        return False
    return before.columns != now.columns or not (now.is_named or is_truncated)


def added_columns(before: TableFile, now: TableFile) -> bool:
    """Whether columns were added without a rewrite."""
    return before.file == now.file and before.column_count < now.column_count

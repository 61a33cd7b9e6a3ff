"""Changes of rows that the stream does not bring, recognised by the files of a table and its partitions. Pure.

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
then; else a new file puts it in doubt, unless the stream brought a TRUNCATE that made it, or still brings it
(``truncations.py``). Who loads a table anew may empty it, SET UNLOGGED, fill it and SET LOGGED. A TRUNCATE gives
indexes the numbers after that of the table's new file; a rewrite takes two more in between, for the row type of the
table that it makes (``heap.c``, ``heap_create_with_catalog``). Where somebody else took numbers meanwhile, or there is
no index, the transaction tells, whose xid is another one after a savepoint. If both are one transaction then, they
pass for the TRUNCATE.

TRUNCATE of a partition below a published root does not come in the stream, that of the root does. So every new file of
a partition is a doubt, unless the root's TRUNCATE made it: a VACUUM FULL of a partition has its root copied, which
costs time and nothing else. A second TRUNCATE in the same transaction empties a file in place: what came between would
be gone, so rows that come after a TRUNCATE of the root, in its transaction, are a doubt, too.

ADD COLUMN with a constant default rewrites nothing: rows that were there have a value that the catalogue holds.

A partition below a published root that was detached, or dropped, takes its rows with it; one that was attached brings
those that it had. One that was created as a partition, and lies in its first file, brings none: all of its rows came as
the root's.

Types are compared in ``columns/altered_types.py``, keys in ``keys_made_again.py``, generated columns in
``columns/dropped_expressions.py``.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.schemas.control.table_progress import TableProgress

_LABELS, _KEY, _WITHHELD, _TOLD = "labels=", "key=", "withheld=", "told="
UNUSED, REPLACED = "u", "r"
"""Marks of partitions: see ``partition_rows.py``."""
_REWRITE_OFFSET = 3
"""How far behind the table's file the number of its first index is after a rewrite, where nobody else took any; after
a TRUNCATE it is 1."""


def as_text(storage: TableStorage) -> str:
    """The text by which progress remembers it."""
    files = [
        f"{each.relation_id}:{each.file}:{each.toast}:{each.column_count}:{each.columns}:{each.joined}"
        + (f":{each.mark}" if each.mark else "")
        for each in storage.files
    ]
    labels = [_LABELS + ",".join(sorted(storage.labels))] if storage.labels else []
    key = [f"{_KEY}{storage.key}"] if storage.key is not None else []
    withheld = [_WITHHELD + ",".join(map(str, sorted(storage.withheld)))] if storage.withheld else []
    told = [_TOLD + storage.told] if storage.told else []
    return " ".join([*files, *labels, *key, *withheld, *told])


def from_text(text: str) -> TableStorage:
    """``as_text`` read back. Earlier code did not write when partitions joined, labels, marks, keys, generated
    columns, told columns."""
    files, labels, told, knows_labels = [], "", "", True
    key: int | None = None
    withheld: frozenset[int] = frozenset()
    for each in text.split():
        if each.startswith(_LABELS):
            labels = each.removeprefix(_LABELS)
            continue
        if each.startswith(_KEY):
            key = int(each.removeprefix(_KEY))
            continue
        if each.startswith(_WITHHELD):
            withheld = frozenset(map(int, each.removeprefix(_WITHHELD).split(",")))
            continue
        if each.startswith(_TOLD):
            told = each.removeprefix(_TOLD)
            continue
        relation_id, file, toast, count, columns, *joined = each.split(":")
        joined_at, mark = (*joined, "", "")[:2]
        knows_labels = knows_labels and bool(joined)
        files.append(TableFile(int(relation_id), int(file), int(toast), int(count), columns, joined_at, mark=mark))
    facts = frozenset(labels.split(",") if labels else ())
    return TableStorage(tuple(files), facts, knows_labels, key, withheld, told)


def with_labels(table: TableProgress, labels: Collection[str]) -> TableProgress:
    """The table's record with these facts added to ``TableStorage.labels``."""
    known = from_text(table.storage or "")
    if known.labels.issuperset(labels):
        return table
    return replace(table, storage=as_text(replace(known, labels=known.labels.union(labels))))


def has_marks(text: str) -> bool:
    """Whether the text marks any partition; quicker than reading all of it."""
    return f":{UNUSED} " in f"{text} " or f":{REPLACED} " in f"{text} "


def by_relation(storage: TableStorage) -> dict[int, TableFile]:
    """The file of the table, and those of the partitions below it."""
    return {file.relation_id: file for file in storage.files}


def left_partitions(before: Mapping[int, TableFile], now: Mapping[int, TableFile]) -> set[int]:
    """Partitions whose rows may be gone: those that were detached or dropped, even if they were attached again."""
    return {each for each, file in before.items() if each not in now or _joined_again(file, now[each])}


def new_partitions(before: Mapping[int, TableFile], now: Mapping[int, TableFile]) -> list[TableFile]:
    """Partitions that the table did not have before."""
    return [file for each, file in now.items() if each not in before]


def is_in_first_file(file: TableFile) -> bool:
    """Whether the table was never truncated or rewritten: its first file has its oid as number. A partitioned table has
    no file."""
    return file.file in (0, file.relation_id)


def _joined_again(before: TableFile, now: TableFile) -> bool:
    return before.joined != now.joined and bool(before.joined)


def is_rewritten(
    before: TableFile, now: TableFile, *, is_partition: bool, is_truncated: bool, truncated_by: int = 0
) -> bool:
    """Whether a new file may hold other rows, or rows with other values.

    Args:
        is_partition: the table is published through its root.
        is_truncated: the stream brought a TRUNCATE of the table since the file before.
        truncated_by: the transaction of the last TRUNCATE of the table or of its root; 0 where there was none.
    """
    if before.file == now.file:
        return False
    if is_partition and before.toast == now.toast and before.column_count == now.column_count:
        return not truncated_by or now.written_by_xid != truncated_by or before.columns != now.columns
    if is_partition or before.column_count != now.column_count or before.toast != now.toast:
        return True
    if now.toast:
        return False
    is_emptied = is_truncated and _may_be_emptied(now, truncated_by)
    return before.columns != now.columns or not (now.is_published_itself or is_emptied)


def _may_be_emptied(now: TableFile, truncated_by: int) -> bool:
    """Whether a TRUNCATE made the file, or what cannot be told from one."""
    if 0 < now.index_offset < _REWRITE_OFFSET:
        return True
    return now.written_by_xid == truncated_by and now.index_offset != _REWRITE_OFFSET


def has_added_columns(before: TableFile, now: TableFile) -> bool:
    """Whether columns were added without a rewrite."""
    return before.file == now.file and before.column_count < now.column_count

"""Rows of the manifest: which one is published, and which cannot be read."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.manifest.manifest_reader import (
    named_paths,
    named_versions,
    newest_published,
    newest_rows,
    open_table,
    published_rows,
    record_of,
)
from walbridge.spark_consumer.delta.manifest.manifest_schema import SCHEMA
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.plan import TableHead
from walbridge.spark_consumer.read import published_at

EPOCH = "7-1-s-0/10"
NOW = datetime.now(UTC).replace(microsecond=0)
ENTRY = TableEntry(1, "public", "a", "p.public.a", "public/a", 3, "0" * 16, "stale", 7)


def written(lake: Path, kinds: Sequence[str]) -> list[CutRow]:
    manifest = Manifest(str(lake), "p", {})
    rows = [CutRow(n, kind, "p", EPOCH, n, n, 2 * n, 100 + n, None, NOW, (ENTRY,)) for n, kind in enumerate(kinds, 1)]
    for row in rows:
        manifest.append(row)
    return rows


KINDS = {
    "is the newest row": (["published", "plan", "published"], 3),
    "stands before an open plan": (["published", "published", "plan"], 2),
    "stands before rows that are applied but not complete": (["published", "plan", "applied", "plan", "applied"], 1),
    "stands far back": (["published", "published", *["plan", "applied"] * 4], 2),
    "is not there yet": (["plan", "applied"], None),
}


@pytest.mark.parametrize("case", KINDS)
def test_readers_take_the_newest_row_that_is_published(lake: Path, case: str) -> None:
    """I8: an applied row may hold half of a copy, or of a transaction."""
    kinds, expected = KINDS[case]
    rows = written(lake, kinds)
    table = open_table(str(lake))
    assert table is not None

    assert newest_published(table) == (rows[expected - 1] if expected else None)
    assert newest_published(table, 100 + len(rows)) == (rows[expected - 1] if expected else None)


WITHOUT_STATISTICS = {
    "of any column": {"delta.dataSkippingNumIndexedCols": "0"},
    "of kinds and times": {"delta.dataSkippingNumIndexedCols": "1"},
    "of sequences": {"delta.dataSkippingStatsColumns": "kind"},
}


@pytest.mark.parametrize("properties", WITHOUT_STATISTICS.values(), ids=WITHOUT_STATISTICS)
def test_rows_are_found_where_another_program_had_the_log_hold_no_statistics(
    lake: Path, properties: dict[str, str]
) -> None:
    """I8: their sequences, kinds and times are in the files all the same."""
    rows = written(lake, ["published", "published"])
    DeltaTable(lake / "_cuts").alter.set_table_properties(properties)
    write_after(lake, rows[-1], ["plan", "applied"] * 4)
    manifest = Manifest(str(lake), "p", {})

    assert published_at(str(lake)) == manifest.newest_published() == rows[-1]
    assert manifest.newest() == replace(rows[-1], sequence=10, kind="applied")
    assert manifest.oldest_written_at() == NOW


@pytest.mark.parametrize("is_compacted", [False, True])
def test_no_row_is_read_that_cannot_be_the_newest_published_one(lake: Path, is_compacted: bool) -> None:
    """However many came after it: their files cannot be read, but for those of the newest rows."""
    rows = written(lake, ["published"] * 5)
    table = open_table(str(lake))
    assert table is not None
    if is_compacted:
        table.optimize.compact()
    write_after(lake, rows[-1], ["plan", "applied"] * 8)
    table.update_incremental()
    for each in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        if each["max.sequence"] < 5 or 5 < each["min.sequence"] < 17:
            (lake / "_cuts" / each["path"]).unlink()

    assert newest_published(table) == rows[4]


def test_of_entries_only_paths_and_versions_are_read(lake: Path) -> None:
    """There are as many as rows times tables, and the job asks for them between plans."""
    manifest = Manifest(str(lake), "p", {})
    row = CutRow(1, "published", "p", EPOCH, 1, 1, 2, 101, None, NOW, (ENTRY, replace(ENTRY, path="b", version=None)))
    manifest.append(row)
    for version in (4, 5):
        entry = replace(ENTRY, version=version, why="a text")
        manifest.append(replace(row, sequence=version, tables=(entry,)))
    manifest.compact()
    table = open_table(str(lake))
    assert table is not None
    for file in table.file_uris():
        damage(Path(file), lambda column: not column.endswith((".path", ".version")))

    assert named_versions(table, "public/a") == {3, 4, 5}
    assert named_paths(table) == {"public/a"}


def nulls_in(name: str) -> Callable[[CutRow], dict[str, object]]:
    """A row like this one, that says nothing of one thing."""

    def made(row: CutRow) -> dict[str, object]:
        record = record_of(row) | {"sequence": row.sequence + 1}
        place = record["tables"][0] if name in record["tables"][0] else record
        return record | {name: None} if place is record else record | {"tables": [place | {name: None}]}

    return made


def with_entry(**values: object) -> Callable[[CutRow], dict[str, object]]:
    """A row like this one, with other values in its table's entry."""
    return lambda row: record_of(row) | {"sequence": row.sequence + 1, "tables": [record_of(row)["tables"][0] | values]}


def with_values(**values: object) -> Callable[[CutRow], dict[str, object]]:
    """A row like this one, with other values of its own."""
    return lambda row: record_of(row) | {"sequence": row.sequence + 1} | values


BY_OTHERS: dict[str, Callable[[CutRow], dict[str, object]]] = {
    **{f"no {name}": nulls_in(name) for name in ("sequence", "kind", "epoch", "end_lsn", "written_at", "tables")},
    **{f"entry without {name}": nulls_in(name) for name in ("relation_id", "namespace", "path", "state")},
    "unknown kind": with_values(kind="checkpoint"),
    "kind of no letters": with_values(kind=""),
    **{
        f"epoch {epoch!r}": with_values(epoch=epoch)
        for epoch in ("", "yesterday", "7-first-s-0/10", "7-1-s-10", "7-1-s-0/10-2")
    },
    "unknown state": with_entry(state="deleted"),
    "negative version": with_entry(version=-1),
    "path out of the lake": with_entry(path="public/../../../etc"),
    "path of the whole machine": with_entry(path="/etc"),
    "path of the lake itself": with_entry(path=""),
    "entry that is none": lambda row: record_of(row) | {"sequence": row.sequence + 1, "tables": [None]},
}


@pytest.mark.parametrize("case", BY_OTHERS)
def test_rows_that_another_program_wrote_are_told_with_the_commits_to_delete(lake: Path, case: str) -> None:
    (row,) = written(lake, ["published"])
    for _ in range(2):
        table = pa.Table.from_pylist([BY_OTHERS[case](row)], schema=SCHEMA)
        write_deltalake(lake / "_cuts", table, mode="append")

    with pytest.raises(OperatorError, match="cannot be read: another program wrote rows") as refused:
        published_at(str(lake))

    follow(refused.value, lake)
    assert published_at(str(lake)) == row
    assert Manifest(str(lake), "p", {}).newest() == row


def test_table_that_is_to_come_has_no_path(lake: Path) -> None:
    """As a row of the plan that makes it has it."""
    row = CutRow(1, "plan", "p", EPOCH, 1, 1, 2, 101, None, NOW, (replace(ENTRY, path="", version=None),))
    Manifest(str(lake), "p", {}).append(row)

    assert Manifest(str(lake), "p", {}).newest() == row


SCHEMAS_BY_OTHERS = {
    "none of ours": pa.table({"a": [1]}),
    "a column less": pa.Table.from_pylist([], schema=SCHEMA.remove(SCHEMA.get_field_index("kind"))),
    "another type": pa.Table.from_pylist([], schema=SCHEMA.set(0, pa.field("sequence", pa.string()))),
    "no list": pa.Table.from_pylist([], schema=SCHEMA.set(len(SCHEMA) - 1, pa.field("tables", pa.int64()))),
}


@pytest.mark.parametrize("case", SCHEMAS_BY_OTHERS)
def test_schema_that_another_program_wrote_is_told_with_the_commit_to_delete(lake: Path, case: str) -> None:
    (row,) = written(lake, ["published"])
    write_deltalake(lake / "_cuts", SCHEMAS_BY_OTHERS[case], mode="overwrite", schema_mode="overwrite")

    for look in (lambda: published_at(str(lake)), lambda: Manifest(str(lake), "p", {})):
        with pytest.raises(OperatorError, match="cannot be read: another program wrote columns") as refused:
            look()

    follow(refused.value, lake)
    assert published_at(str(lake)) == row


CHECKPOINTS = {
    "whole": "checkpoint.parquet",
    "in parts": "checkpoint.0000000001.0000000001.parquet",
    "with a UUID": "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet",
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_commit_that_a_checkpoint_holds_is_not_said_to_be_deleted(lake: Path, kind: str) -> None:
    """Readers begin there, whatever becomes of the commit: the log would be damaged."""
    (row,) = written(lake, ["published"])
    foreign = pa.Table.from_pylist([BY_OTHERS["no epoch"](row)], schema=SCHEMA)
    write_deltalake(lake / "_cuts", foreign, mode="append")
    DeltaTable(lake / "_cuts").create_checkpoint()
    made = lake / "_cuts" / "_delta_log" / f"{2:020}.checkpoint.parquet"
    made.rename(made.with_name(f"{2:020}.{CHECKPOINTS[kind]}"))

    with pytest.raises(OperatorError, match="another program wrote rows without epoch") as refused:
        published_at(str(lake))

    assert "from a backup" in refused.value.remedy


def follow(error: OperatorError, lake: Path) -> None:
    """Delete the commits that the remedy names, the newest alone."""
    named = re.findall(r"\d{20}\.json", error.remedy)
    assert named == sorted(path.name for path in (lake / "_cuts" / "_delta_log").glob("*.json"))[-len(named) :]
    for name in named:
        (lake / "_cuts" / "_delta_log" / name).unlink()


def write_after(lake: Path, row: CutRow, kinds: Sequence[str]) -> None:
    manifest = Manifest(str(lake), "p", {})
    for sequence, kind in enumerate(kinds, row.sequence + 1):
        manifest.append(replace(row, sequence=sequence, kind=kind))


def damage(file: Path, is_chosen: Callable[[str], bool]) -> None:
    """Write zeros over columns of a file of Parquet."""
    group = pq.ParquetFile(file).metadata.row_group(0)
    content = bytearray(file.read_bytes())
    for column in map(group.column, range(group.num_columns)):
        if is_chosen(column.path_in_schema):
            start = column.dictionary_page_offset or column.data_page_offset
            content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    file.write_bytes(content)


def test_published_rows_are_those_that_are_published_oldest_first(lake: Path) -> None:
    rows = written(lake, ["published", "plan", "applied", "plan", "published"])
    table = open_table(str(lake))
    assert table is not None

    assert published_rows(table) == [rows[0], rows[4]]
    assert newest_rows(table, 3) == rows[:1:-1]


def test_a_lake_that_newer_code_wrote_is_refused(lake: Path) -> None:
    """I7: what it says there may be what decides."""
    written(lake, ["published"])
    more = pa.table({"sequence": [2], "quarantine": ["x"]})
    write_deltalake(str(lake / "_cuts"), more, mode="append", schema_mode="merge")

    with pytest.raises(OperatorError, match="columns that this version does not know: quarantine"):
        open_table(str(lake))


@pytest.mark.parametrize("commits", [1, 2])
def test_columns_that_came_without_a_row_are_told_with_the_commits_to_delete(lake: Path, commits: int) -> None:
    """No version of walbridge adds columns so, and each of them would refuse these."""
    (row,) = written(lake, ["published"])
    for number in range(commits):
        DeltaTable(lake / "_cuts").alter.add_columns(Field(f"checked_{number}", PrimitiveType("string")))

    for look in (lambda: published_at(str(lake)), lambda: Manifest(str(lake), "p", {})):
        with pytest.raises(OperatorError, match=r"another program wrote columns .*checked_0") as refused:
            look()

    follow(refused.value, lake)
    assert published_at(str(lake)) == row
    assert Manifest(str(lake), "p", {}).newest() == row


def test_an_entry_is_the_head_that_plans_take() -> None:
    """A table that is not there yet has none: its copy begins from nothing."""
    assert ENTRY.head == TableHead(1, "p.public.a", "public/a", 3, "0" * 16, "stale", 7)
    assert TableEntry(1, "public", "a", "p.public.a", "", None, "0" * 16, "copying").head is None


@pytest.mark.parametrize("lsn", ["16/xyz", -1, 2**64])
def test_what_is_no_lsn_is_told(lake: Path, lsn: int | str) -> None:
    with pytest.raises(OperatorError, match=f"{lsn!r} is no LSN"):
        published_at(str(lake), lsn)

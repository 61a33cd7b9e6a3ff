"""What readers without Spark get: all tables at one published cut as Arrow streams, or a clear refusal."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.spark_consumer.delta.marked_rows import mark
from walbridge.lake import published, tables_at
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

EPOCH = "7-1-s-0/10"
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BLOCKED = """
import sys
sys.modules.update(dict.fromkeys(["pyspark", "py4j", "confluent_kafka", "psycopg", "pandas", "duckdb"]))
import walbridge.lake
print(*sorted({"walbridge.producer", "walbridge.spark_consumer.kafka"} & set(sys.modules)))
"""


def entry(name: str, version: int, state: str = "current") -> TableEntry:
    return TableEntry(ord(name), "public", name, f"p.public.{name}", f"public/{name}", version, "0" * 16, state)


def publish(manifest: Manifest, sequence: int, *entries: TableEntry, commit_time: datetime | None = None) -> None:
    """A cut that ends at LSN 100 times its sequence, written five minutes after noon."""
    row = CutRow(sequence, "published", "p", EPOCH, sequence, sequence, sequence, 100 * sequence, None, NOON, entries)
    manifest.append(replace(row, commit_time=commit_time, written_at=NOON + 5 * MINUTE))


@pytest.fixture
def manifest(lake: Path) -> Manifest:
    """Two tables in step: version n of each holds n + 1 rows, published at LSN 100 (n + 1), committed at noon and
    n minutes."""
    manifest = Manifest(str(lake), "p", {})
    for n in range(3):
        for name in ("a", "b"):
            write_deltalake(str(lake / "public" / name), pa.table({"n": [n]}), mode="append")
        publish(manifest, n + 1, entry("a", n), entry("b", n), commit_time=NOON + n * MINUTE)
    return manifest


def numbers(lake: Path, *args: object, **options: object) -> dict[str, list[int]]:
    found = tables_at(str(lake), *args, **options)  # type: ignore[arg-type]
    return {name: sorted(table.reader().read_all()["n"].to_pylist()) for name, table in found.items()}


@pytest.mark.usefixtures("manifest")
def test_all_tables_are_read_at_one_lsn_whatever_was_written_since(lake: Path) -> None:
    """I8."""
    write_deltalake(str(lake / "public" / "a"), pa.table({"n": [99]}), mode="append")

    assert numbers(lake) == {"public.a": [0, 1, 2], "public.b": [0, 1, 2]}
    assert numbers(lake, 299) == numbers(lake, "0/C8") == {"public.a": [0, 1], "public.b": [0, 1]}
    assert numbers(lake, tables=["public.b"]) == {"public.b": [0, 1, 2]}
    assert [row.end_lsn for row in published(str(lake))] == [100, 200, 300]


@pytest.mark.usefixtures("manifest")
@pytest.mark.parametrize(
    ("at", "lsn"),
    [
        (NOON, "0/64"),
        ("2026-07-01T14:01:30+02:00", "0/C8"),
        ("2026-07-01 12:01Z", "0/C8"),
        (NOON + MINUTE * 9, "0/12C"),
    ],
)
def test_a_time_takes_the_newest_cut_whose_last_commit_was_by_then(lake: Path, at: datetime | str, lsn: str) -> None:
    assert tables_at(str(lake), at).lsn == lsn


def test_a_cut_without_a_transaction_is_of_the_time_when_it_was_written(manifest: Manifest, lake: Path) -> None:
    publish(manifest, 4, entry("a", 2))

    assert [tables_at(str(lake), NOON + n * MINUTE).lsn for n in (4, 5)] == ["0/12C", "0/190"]
    assert tables_at(str(lake)).commit_time is None


@pytest.mark.usefixtures("manifest")
def test_table_of_which_a_commit_is_empty_is_refused_where_a_version_needs_it(lake: Path) -> None:
    """I8: Delta takes it for a commit that changed nothing, and the rows of it would be missing."""
    (lake / "public" / "a" / "_delta_log" / f"{1:020}.json").write_bytes(b"")

    for at in (200, 300):
        assert numbers(lake, at, tables=["public.b"])
        with pytest.raises(OperatorError, match=r"public/a cannot be read: .* commit 1 is empty") as refused:
            numbers(lake, at)
        assert "walbridge copy public.a" in refused.value.remedy
    assert numbers(lake, 100) == {"public.a": [0], "public.b": [0]}


@pytest.mark.usefixtures("manifest")
def test_published_states_of_which_one_is_an_empty_commit_are_refused(lake: Path) -> None:
    """I8: the newest one would be an older one."""
    max((lake / "_cuts" / "_delta_log").glob("*.json")).write_bytes(b"")

    for read in (published, tables_at):
        with pytest.raises(OperatorError, match=r"_cuts cannot be read: .* is empty"):
            read(str(lake))


@pytest.mark.usefixtures("manifest")
@pytest.mark.parametrize("at", [99, NOON - MINUTE])
def test_what_is_before_all_that_is_kept_is_refused(lake: Path, at: int | datetime) -> None:
    with pytest.raises(OperatorError, match=r"nothing is published in .* at or before"):
        tables_at(str(lake), at)


@pytest.mark.parametrize("at", ["16/xyz", -1, 2**64, "yesterday", "2026-07-01T12:00", datetime(2026, 7, 1)])
def test_what_is_no_lsn_and_no_time_with_its_zone_is_told(lake: Path, at: int | str | datetime) -> None:
    """A time without a zone would be another moment on each machine."""
    with pytest.raises(OperatorError, match="is no LSN, and no time with its zone"):
        tables_at(str(lake), at)


@pytest.mark.parametrize("at", [date(2026, 7, 1), "2026-07-01"])
def test_a_day_is_no_moment_and_the_moment_is_asked_for(lake: Path, at: date | str) -> None:
    """Its first moment is what some expect, its end what others do, and each zone has another."""
    with pytest.raises(OperatorError, match="no LSN, and no time with its zone: a day has many states") as refused:
        tables_at(str(lake), at)  # type: ignore[arg-type]
    assert '"2026-07-01T00:00:00Z"' in refused.value.remedy


@pytest.mark.parametrize("at", [1.5, True, object])
def test_anything_else_is_told_too(lake: Path, at: object) -> None:
    with pytest.raises(OperatorError, match="is no LSN, and no time with its zone"):
        tables_at(str(lake), at)  # type: ignore[arg-type]


def test_an_empty_lake_is_refused(lake: Path) -> None:
    with pytest.raises(OperatorError, match="nothing is published"):
        tables_at(str(lake))


def test_table_that_does_not_equal_the_source_is_given_only_when_asked_for(manifest: Manifest, lake: Path) -> None:
    """I8: with the same words as readers with Spark get."""
    publish(manifest, 4, entry("a", 2), entry("b", 1, "stale"))

    with pytest.raises(OperatorError, match=r"public\.b is stale at 0/190: it does not equal the source"):
        tables_at(str(lake))
    assert numbers(lake, tables=["public.a"]) == {"public.a": [0, 1, 2]}
    assert numbers(lake, states=("current", "stale"))["public.b"] == [0, 1]


@pytest.mark.usefixtures("manifest")
def test_one_table_and_one_state_need_no_list(lake: Path) -> None:
    """A text is a collection, too: of its letters."""
    assert [*tables_at(str(lake), tables="public.a", states="current")] == ["public.a"]


@pytest.mark.usefixtures("manifest")
def test_an_unknown_table_is_refused_with_the_names_there_are(lake: Path) -> None:
    with pytest.raises(OperatorError, match=r"has no table public\.c[\s\S]*public\.a, public\.b"):
        tables_at(str(lake), tables=["public.c"])


@pytest.mark.usefixtures("manifest")
def test_a_version_whose_files_are_gone_is_told_as_that(lake: Path) -> None:
    (lake / "public" / "b" / "_delta_log" / f"{1:020}.json").unlink()

    tables = tables_at(str(lake))

    assert tables["public.a"].reader().read_all().num_rows == 3
    with pytest.raises(OperatorError, match="lake table public/b cannot be read"):
        tables["public.b"]


@pytest.mark.usefixtures("manifest")
def test_rows_whose_file_is_gone_are_told_as_that_where_they_are_read(lake: Path) -> None:
    table = tables_at(str(lake))["public.a"]
    for file in (lake / "public" / "a").glob("*.parquet"):
        file.unlink()

    with pytest.raises(OperatorError, match="lake table public/a cannot be read"):
        table.reader().read_all()


def test_rows_that_are_marked_beside_their_file_are_left_out(manifest: Manifest, lake: Path) -> None:
    """As Spark deletes rows of a large table."""
    write_deltalake(str(lake / "public" / "d"), pa.table({"n": range(6)}))
    version = mark(lake / "public" / "d", [1, 3])
    publish(manifest, 4, entry("d", version))

    assert numbers(lake) == {"public.d": [0, 2, 4, 5]}


@pytest.mark.usefixtures("manifest")
def test_a_table_may_be_read_again_and_by_column(lake: Path) -> None:
    table = tables_at(str(lake))["public.a"]

    assert [pa.table(table).num_rows, pa.table(table).num_rows, table.select(["n"]).reader().read_all().num_rows] == [
        3,
        3,
        3,
    ]
    with pytest.raises(OperatorError, match=r"public\.a has no column m"):
        table.select(["m"])


def test_reading_needs_neither_spark_nor_kafka_nor_postgres() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False, timeout=180)

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")

"""Both engines that merge: one meaning, whichever wrote before, and whatever happens between two commits."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.in_soak import in_soak, in_variants
from tests.spark_consumer.apply.test_key_bounds import ENDS as KEY_ENDS
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import changed, column, copied, head_rows, relation
from tests.spark_consumer.world import Text, lake_rows
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import TableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply import appliers as appliers_module
from walbridge.spark_consumer.apply.appliers import Appliers, rewritten_bytes
from walbridge.spark_consumer.apply.arrow_spool import Spool
from walbridge.spark_consumer.apply.key_bounds import KeyBounds
from walbridge.spark_consumer.delta.by_spark.merge import merge_by_spark
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.plan.plan import TableHead

LSN = 0x1100
ITEMS = relation([column("id", "int4", is_key=True), column("body"), column("n", "int4")])
DAY, ENDLESS = date(2024, 2, 29), ("infinity", "-infinity")
KEYS = relation(
    [
        *[column(*of, is_key=True) for of in (("the `key`", "text"), ("on", "date"), ("x", "float8"))],
        column('q"n', "int4"),
    ]
)
MAPS = relation([column("tags", "hstore", is_key=True), column("n", "int4")])
TYPES = relation(
    [
        column("id", "int4", is_key=True),
        *[column(name, name) for name in ("timestamp", "timestamptz", "bytea", "float4", "_int4", "bool", "int8")],
        column("date", "date"),
        # Parquet has three forms of decimals, by their digits.
        column("cents", "numeric", typmod=(5 << 16 | 2) + 4),
        column("amount", "numeric", typmod=(15 << 16 | 2) + 4),
        column("price", "numeric", typmod=(38 << 16 | 10) + 4),
    ]
)
ENDS: dict[str, Any] = {
    "id": 1,
    "timestamp": datetime(1, 1, 1, 0, 0, 0, 1),
    "timestamptz": datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    "bytea": b"\x00\xff",
    "float4": -0.0,
    "_int4": [1, None, -(2**31)],
    "bool": True,
    "int8": 2**63 - 1,
    "date": date(1, 1, 1),
    "cents": Decimal("-999.99"),
    "amount": Decimal("-9999999999999.99"),
    "price": Decimal("-1234567890123456789012345678.0123456789"),
}


@pytest.fixture
def aside(tmp_path: Path) -> Iterator[Path]:
    """Where rows wait for executors. Nothing is left there."""
    yield tmp_path / "aside"
    assert not [*(tmp_path / "aside").glob("*")]


@pytest.fixture(params=["local", "spark", in_soak("spark, by a folder")])
def appliers(
    request: pytest.FixtureRequest, spark: SparkSession, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> Appliers:
    if "folder" in request.param:
        monkeypatch.setattr(Spool, "is_in_memory", False)
    return Appliers(request.param.partition(",")[0], spark, aside=aside)


def event(op: str, ordinal: int, of: RelationRecord = ITEMS, lsn: int = LSN, **row: Any) -> Event:
    if op == "d":
        return Event(of, "d", lsn, ordinal, before=row, before_image="key")
    return Event(of, op, lsn, ordinal, after=row)


def engines(lake: Path, head: TableHead) -> list[str]:
    """Which engine made each commit with rows since the copy, oldest first."""
    history = reversed(DeltaTable(f"{lake}/{head.path}").history())
    found = [entry for entry in history if entry["operation"] in ("MERGE", "DELETE", "WRITE")]
    return ["spark" if "Apache-Spark" in entry["engineInfo"] else "local" for entry in found][1:]


def rows(lake: Path, head: TableHead) -> list[list[Any]]:
    """Without our own column; in any order of Python's."""
    found = [[*row.values()] for row in lake_rows(head_rows(lake, head))]
    return sorted(found, key=repr)


def three(lake: Path) -> TableHead:
    return copied(None, lake, ITEMS, *[{"id": key, "body": f"b{key}", "n": 0} for key in (1, 2, 3)])


def test_rows_are_updated_deleted_and_added_by_newer_events(lake: Path, appliers: Appliers) -> None:
    """I5, I6: a column that was not sent keeps the lake's value, and an older event changes nothing."""
    base = copied(None, lake, ITEMS, *[{"id": key, "body": f"b{key}", "n": 0} for key in (1, 2, 3, 4)])
    changes = [
        Event(ITEMS, "u", LSN, 0, after={"id": 1, "n": 7}, unchanged=["body"]),
        *(event("d", 1, id=2), event("u", 2, id=3, body="it's", n=8), event("c", 3, id=5, body=None, n=4)),
        event("u", 0, lsn=0x900, id=4, body="old", n=9),
    ]

    head = changed(None, lake, base, *changes, source_sends_all=False, appliers=appliers)

    assert rows(lake, head) == [[1, "b1", 7], [3, "it's", 8], [4, "b4", 0], [5, None, 4]]
    assert engines(lake, head) == [appliers.setting]


@pytest.mark.parametrize("appliers", ["local", in_variants("spark"), in_soak("spark, by a folder")], indirect=True)
def test_every_kind_of_key_finds_its_row(lake: Path, appliers: Appliers, spark: SparkSession) -> None:
    """Infinity is null in the lake, both zeros are keys, NaN is one, and names and texts have any signs."""
    keys: list[dict[str, Any]] = [
        {"the `key`": "it's", "on": DAY, "x": 0.0},
        {"the `key`": "it's", "on": DAY, "x": -0.0},
        {"the `key`": "a\\b", "on": DAY, "x": nan},
    ]
    base = copied(None, lake, KEYS, *[key | {'q"n': 0} for key in keys])
    infinite = {"the `key`": "", "x": 1.5}
    base = changed(
        spark, lake, base, *[infinite_event("c", at, LSN, text, infinite) for at, text in enumerate(ENDLESS)]
    )

    updates = [Event(KEYS, "u", LSN + 8, at, after=key | {'q"n': 7}) for at, key in enumerate(keys[1:])]
    updates.append(infinite_event("u", 2, LSN + 8, ENDLESS[1], infinite | {'q"n': 7}))
    head = changed(spark, lake, base, *updates, to_cut=3, appliers=appliers)

    found = {(row["on"], repr(row["x"])): row['q"n'] for row in lake_rows(head_rows(lake, head))}
    assert found == {
        (DAY, "0.0"): 0,
        (DAY, "-0.0"): 7,
        (DAY, "nan"): 7,
        (Text(ENDLESS[0]), "1.5"): None,
        (Text(ENDLESS[1]), "1.5"): 7,
    }


def test_rows_whose_key_spark_cannot_compare_are_merged_by_delta_rs(lake: Path, spark: SparkSession) -> None:
    """It compares no maps, and a table may have an hstore for its key."""
    base = copied(None, lake, MAPS, *[{"tags": {"a": text}, "n": 0} for text in ("1", "2", None)])

    changes = event("u", 0, MAPS, tags={"a": None}, n=7), event("d", 1, MAPS, tags={"a": "1"})
    head = changed(None, lake, base, *changes, appliers=Appliers("spark", spark))

    assert rows(lake, head) == [[[("a", "2")], 0], [[("a", None)], 7]]
    assert engines(lake, head) == ["local"]


def infinite_event(op: str, ordinal: int, lsn: int, text: str, row: dict[str, Any]) -> Event:
    return Event(KEYS, op, lsn, ordinal, after=row, exceptional={"on": text})


@pytest.mark.variant(of="test_values_of_every_type_reach_the_lake_by_spark")
@pytest.mark.parametrize("appliers", ["spark", in_variants("spark, by a folder")], indirect=True)
def test_every_type_comes_out_of_either_engine_as_it_went_in(lake: Path, appliers: Appliers) -> None:
    found = []
    for engine in (Appliers(), appliers):
        head = copied(None, lake / engine.setting, TYPES, {"id": 1}, {"id": 2})
        update, insert = event("u", 0, TYPES, **ENDS), event("c", 1, TYPES, **ENDS | {"id": 3})
        head = changed(None, lake / engine.setting, head, update, insert, appliers=engine)
        found.append(rows(lake / engine.setting, head))

    assert found[0] == found[1]
    assert found[0][0][1] == datetime(1, 1, 1, 0, 0, 0, 1)


@pytest.mark.variant(of="test_row_is_found_whatever_its_file_says_of_it")
def test_spark_finds_the_smallest_and_largest_keys_that_it_is_told(lake: Path, spark: SparkSession) -> None:
    """I5: among texts and numbers that are nearly alike; each key column is told by itself."""
    table = relation([*[column(name, name, is_key=True) for name in KEY_ENDS], column("n", "int4")])
    keys = [{name: ends[at % len(ends)] for name, ends in KEY_ENDS.items()} for at in range(12)]
    base = copied(None, lake, table, *[key | {"n": 0} for key in [*keys, keys[0] | {"int4": 7}]])

    updates = [event("u", at, table, **key, n=1) for at, key in enumerate(keys)]
    head = changed(None, lake, base, *updates, appliers=Appliers("spark", spark))

    assert [row[-1] for row in rows(lake, head)].count(1) == 12
    assert len(rows(lake, head)) == 13


@pytest.mark.variant(of="test_rows_are_updated_deleted_and_added_by_newer_events")
def test_engines_take_turns_on_one_table_of_which_every_version_stays_what_it_was(
    lake: Path, spark: SparkSession
) -> None:
    """I5, I8: delta-rs merges, compacts and restores what Spark has marked."""
    heads = [three(lake)]
    held = [[[1, "b1", 0], [2, "b2", 0], [3, "b3", 0]]]
    for turn, name in enumerate(["spark", "local", "spark"]):
        change = event("u", 0, lsn=LSN + 8 * turn, id=1 + turn % 2, body=name, n=turn)
        heads.append(changed(None, lake, heads[-1], change, to_cut=2 + turn, appliers=Appliers(name, spark)))
        held.append(rows(lake, heads[-1]))
    assert held[-1] == [[1, "spark", 2], [2, "local", 1], [3, "b3", 0]]
    assert engines(lake, heads[-1]) == ["spark", "local", "spark"]

    folder = f"{lake}/{heads[0].path}"
    DeltaTable(folder).optimize.compact()
    DeltaTable(folder).create_checkpoint()
    for head, expected in zip([*heads, heads[-1]], [*held, held[-1]], strict=True):
        DeltaTable(folder).restore(head.version)
        assert rows(lake, replace(head, version=DeltaTable(folder).version())) == expected


def test_no_row_is_marked_where_that_is_not_allowed(lake: Path, spark: SparkSession) -> None:
    change = event("u", 0, id=1, body="x", n=7)
    head = changed(None, lake, three(lake), change, appliers=Appliers("spark", spark, marks_rows=False))

    assert rows(lake, head)[0] == [1, "x", 7]
    assert engines(lake, head) == ["local"]


def test_killed_behind_sparks_commit_it_is_not_made_again(
    lake: Path, spark: SparkSession, crash_at: Counter[str]
) -> None:
    """I5: whichever engine the next start has; and a base that holds it is refused."""
    base, change = three(lake), event("u", 0, id=1, body="x", n=7)
    crash_at["apply:segment-applied"] = 1
    with pytest.raises(Crash):
        changed(None, lake, base, change, appliers=Appliers("spark", spark))

    heads = [changed(None, lake, base, change, appliers=Appliers(name, spark)) for name in ("local", "spark")]

    assert heads[0] == heads[1]
    assert rows(lake, heads[0])[0] == [1, "x", 7]
    assert engines(lake, heads[0]) == ["spark"]
    with pytest.raises(TableError, match="cut 2 would be applied twice"):
        changed(None, lake, heads[0], change)


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Another program doubles the table's rows just before Spark merges: once for each "" in the list."""
    moments: list[str] = []

    def with_rival(spark: Any, table: LakeTable, *rest: Any) -> Any:
        if moments:
            moments.pop()
            rival = LakeTable.open(table.uri, {})
            assert rival is not None
            rival.append(rival.query("SELECT * FROM target"), Commit(plan=None))
        return merge_by_spark(spark, table, *rest)

    monkeypatch.setattr(appliers_module, "merge_by_spark", with_rival)
    return moments


@pytest.mark.variant(of="test_commit_of_another_program_between_those_of_a_copy_is_undone")
def test_commit_of_another_program_between_is_undone(lake: Path, spark: SparkSession, strange: list[str]) -> None:
    """I5: Spark merges over it, and only the version tells."""
    base = three(lake)
    strange.append("")

    head = changed(None, lake, base, event("u", 0, id=1, body="x", n=7), appliers=Appliers("spark", spark))

    assert rows(lake, head) == [[1, "x", 7], [2, "b2", 0], [3, "b3", 0]]
    assert strange == []


@pytest.mark.variant(of="test_table_that_does_not_hold_what_the_source_changed_is_stale_also_after_a_death")
def test_row_that_the_lake_lacks_is_told_and_not_made_up(lake: Path, spark: SparkSession) -> None:
    """I7: also after a kill before it could be said, from what Spark's commit says of itself."""
    base = three(lake)
    changes = [event("u", 0, id=9, body="x", n=7), event("u", 1, id=1, body="x", n=7)]

    for name in ("spark", "local"):
        with pytest.raises(TableError, match="held 1 of 2 rows"):
            changed(None, lake, base, *changes, appliers=Appliers(name, spark))


@pytest.mark.variant(of="test_a_merge_of_many_rows_is_sparks_too_where_the_table_is_large_enough_for_them")
def test_a_small_table_is_delta_rs_and_a_large_one_sparks(
    lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = copied(None, lake, ITEMS, *[{"id": key, "body": "b", "n": 0} for key in range(40)])
    auto = Appliers("auto", spark)
    head = changed(None, lake, base, event("u", 0, id=1, body="x", n=1), appliers=auto)
    monkeypatch.setattr(appliers_module, "REWRITTEN_BYTES_MIN", 1)
    head = changed(None, lake, head, event("u", 0, lsn=LSN + 8, id=1, body="y", n=2), to_cut=3, appliers=auto)
    many = [event("u", key, lsn=LSN + 16, id=key, body="z", n=3) for key in range(20)]
    head = changed(None, lake, head, *many, to_cut=4, appliers=auto)

    assert engines(lake, head) == ["local", "spark", "local"]


def test_only_files_that_may_hold_a_row_count(lake: Path) -> None:
    head = copied(None, lake, ITEMS, *[{"id": key, "body": "b", "n": 0} for key in range(10)])
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    one = table.file_statistics()["size_bytes"][0].as_py()

    assert rewritten_bytes(table, 1, KeyBounds({})) == (10, one)


def test_on_an_object_store_spark_does_not_merge(spark: SparkSession) -> None:
    settings = Settings(name="p", lake={"path": "s3://bucket/lake"})  # type: ignore[arg-type]

    assert Appliers.of(settings, spark).setting == "local"
    with pytest.raises(ValueError, match="needs a lake on a file system"):
        Settings(name="p", lake={"path": "s3://bucket/lake", "applier": "spark"})  # type: ignore[arg-type]

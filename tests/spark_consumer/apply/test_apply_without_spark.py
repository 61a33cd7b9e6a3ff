"""Plans on tables without Spark: what is done, what is not, and who else wrote there (I5)."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tests.contract_writer import Event
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import Log, applied, changed, column, copied, head_rows, relation, table_plan
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.apply import apply
from walbridge.spark_consumer.apply.changes import write_changes
from walbridge.spark_consumer.apply.table_folder import ATTEMPTS_MAX
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.slices import Volume
from walbridge.spark_consumer.plan.plan import Segment, TableHead

LSN = 0x1100
ITEMS = relation([column("id", "int4", is_key=True, attnum=1), column("n", "int4", attnum=2)])
WIDER = relation([column("id", "int4", is_key=True, attnum=1), column("n", "int8", attnum=2)], revision=1)
INSERTS = relation([column("n", "int4")], name="log")
BAG = relation([column("n", "int4")], name="bag", identity="f")


def opened(lake: Path, head: TableHead) -> LakeTable:
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    return table


def strange_commit(lake: Path, head: TableHead) -> None:
    """Another program doubles the table's rows."""
    table = opened(lake, head)
    table.append(table.query("SELECT * FROM target"), Commit(plan=None))


def insert(n: int, ordinal: int = 0) -> Event:
    return Event(INSERTS, "c", LSN, ordinal, after={"n": n})


def numbers(lake: Path, head: TableHead) -> list[int]:
    return sorted(row["n"] for row in head_rows(lake, head))


def test_plan_that_is_applied_again_changes_nothing(lake: Path) -> None:
    base = copied(None, lake, INSERTS, {"n": 1})

    first = changed(None, lake, base, insert(2))
    again = changed(None, lake, base, insert(2))

    assert again == first
    assert numbers(lake, again) == [1, 2]


def test_copy_that_is_applied_again_changes_nothing(lake: Path) -> None:
    """Also where the newest row already names the table: what empties it first cannot double it."""
    first = copied(None, lake, INSERTS, {"n": 1})
    log = Log()
    log.add(Event(INSERTS, "r", 0x1000, -1, after={"n": 1}))
    copy = [Segment(0, INSERTS.schema_id, None, None, True, True)]

    assert copied(None, lake, INSERTS, {"n": 1}) == first
    again = applied(None, lake, log, table_plan(INSERTS, first, copy), [INSERTS], to_cut=1)
    assert numbers(lake, again) == [1]


def in_two_segments(head: TableHead, before: RelationRecord = ITEMS, after: RelationRecord = WIDER) -> Any:
    at = Position(Lsn(LSN + 8), 0)
    return table_plan(after, head, [Segment(0, before.schema_id, None, at), Segment(1, after.schema_id, at, None)])


def two_inserts() -> Log:
    log = Log()
    log.add(Event(ITEMS, "c", LSN, 0, after={"id": 2, "n": 2}))
    log.add(Event(WIDER, "c", LSN + 8, 0, after={"id": 3, "n": 3}))
    return log


@pytest.mark.parametrize("step", ["apply:table-reshaped", "apply:segment-applied"])
@pytest.mark.parametrize("times", [1, 2])
def test_plan_that_was_interrupted_between_segments_goes_on_from_there(
    lake: Path, crash_at: Any, step: str, times: int
) -> None:
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})
    part = in_two_segments(base)
    crash_at[step] = times
    with pytest.raises(Crash):
        applied(None, lake, two_inserts(), part, [ITEMS, WIDER], to_cut=2)

    head = applied(None, lake, two_inserts(), part, [ITEMS, WIDER], to_cut=2)

    assert sorted((row["id"], row["n"]) for row in head_rows(lake, head)) == [(1, 1), (2, 2), (3, 3)]
    steps = [(each.segment, each.step) for each in opened(lake, head).commits(head.version - base.version)]
    assert steps == [(0, "data"), (1, "shape"), (1, "data")]
    assert head.schema_id == WIDER.schema_id


def test_each_segment_has_a_transaction_of_its_own(lake: Path) -> None:
    base = copied(None, lake, ITEMS)
    head = applied(None, lake, two_inserts(), in_two_segments(base), [ITEMS, WIDER], to_cut=2)
    table = opened(lake, head)
    app_id = f"p/{'7000000000000000001-1-walbridge-0/1000'}/{ITEMS.table.relation_id}"

    versions = [table.transaction_version_at(version, app_id) for version in range(base.version, head.version + 1)]

    assert versions == [4096, 2 * 4096, 2 * 4096, 2 * 4096 + 1]


@pytest.mark.parametrize("applied_before", [False, True])
def test_commit_of_another_program_is_undone(lake: Path, applied_before: bool) -> None:
    base = copied(None, lake, INSERTS, {"n": 1})
    head = changed(None, lake, base, insert(2)) if applied_before else base
    strange_commit(lake, head)

    assert numbers(lake, changed(None, lake, base, insert(2))) == [1, 2]


@pytest.mark.parametrize("says", [None, {"commitInfo": {"operation": "WRITE", "operationParameters": "unknown"}}])
@pytest.mark.parametrize("applied_before", [False, True])
def test_commit_that_does_not_say_whose_it_is_is_undone(lake: Path, applied_before: bool, says: object) -> None:
    """Delta leaves it to who writes what a commit says, and whether."""
    base = copied(None, lake, INSERTS, {"n": 1})
    head = changed(None, lake, base, insert(2)) if applied_before else base
    strange_commit(lake, head)
    newest = max((lake / head.path / "_delta_log").glob("*.json"))
    lines = [line for line in newest.read_text().splitlines() if "commitInfo" not in line]
    newest.write_text("\n".join(lines if says is None else [json.dumps(says), *lines]))

    assert numbers(lake, changed(None, lake, base, insert(2))) == [1, 2]


def test_base_that_already_holds_the_plan_is_refused_not_applied_twice(lake: Path) -> None:
    """``_cuts`` may be older than the tables, or the work of newer code."""
    head = changed(None, lake, copied(None, lake, INSERTS), insert(1))

    with pytest.raises(OperatorError, match="cut 2 would be applied twice"):
        changed(None, lake, head, insert(1))
    assert numbers(lake, head) == [1]


def test_base_that_holds_the_plan_before_takes_the_next(lake: Path) -> None:
    head = changed(None, lake, copied(None, lake, INSERTS), insert(1))
    next_one = changed(None, lake, head, insert(2), to_cut=3)
    strange_commit(lake, next_one)

    assert numbers(lake, changed(None, lake, head, insert(2), to_cut=3)) == [1, 2]


def test_table_that_was_rolled_back_or_is_gone_stops_the_plan(lake: Path) -> None:
    """I7: its rows would be missing."""
    head = changed(None, lake, copied(None, lake, INSERTS), insert(1))
    newest = lake / head.path / "_delta_log" / f"{head.version:020}.json"
    newest.rename(lake / "elsewhere.json")
    with pytest.raises(OperatorError, match="before version 2 that was published"):
        changed(None, lake, head, insert(2), to_cut=3)

    (lake / head.path).rename(lake / "elsewhere")
    with pytest.raises(OperatorError, match="is gone"):
        changed(None, lake, head, insert(2), to_cut=3)


def test_records_of_a_schema_that_has_no_segment_stop_the_plan(lake: Path) -> None:
    """I7: no segment would take them."""
    head = copied(None, lake, ITEMS)
    log = Log()
    log.add(Event(WIDER, "c", LSN, 0, after={"id": 1}))

    with pytest.raises(OperatorError, match="that no cut announces"):
        applied(None, lake, log, table_plan(ITEMS, head), [ITEMS, WIDER], to_cut=2)


@pytest.mark.parametrize(
    ("value", "said"),
    [(b"{}", "holds 1 records that walbridge did not write"), (b"\xc3\x01" + bytes(9), "needs schema")],
)
def test_records_of_nobody_known_stop_the_plan(lake: Path, value: bytes, said: str) -> None:
    """I7."""
    head = copied(None, lake, ITEMS)
    log = Log()
    log.add_bytes(ITEMS.topic, value)

    with pytest.raises(OperatorError, match=said):
        applied(None, lake, log, table_plan(ITEMS, head), [ITEMS], to_cut=2)


def test_tombstone_is_counted_and_changes_nothing(lake: Path) -> None:
    head = copied(None, lake, ITEMS, {"id": 1, "n": 1}, {"id": 2, "n": 2})
    log = Log()
    log.add(Event(ITEMS, "d", LSN, 0, before={"id": 1}))
    log.add_bytes(ITEMS.topic, None, b"of that row")

    after = applied(None, lake, log, table_plan(ITEMS, head), [ITEMS], to_cut=2)

    assert [row["id"] for row in head_rows(lake, after)] == [2]


def test_table_that_is_emptied_may_have_any_shape_afterwards(lake: Path) -> None:
    """No row is left whose values could differ."""
    text = relation([column("id", "int4", is_key=True, attnum=1), column("n", "jsonb", attnum=2)], revision=2)
    head = copied(None, lake, ITEMS, {"id": 1, "n": 1})
    log = Log()
    log.add(Event(ITEMS, "u", LSN, 0, after={"id": 1, "n": 2}))
    log.add(Event(text, "c", LSN + 8, 0, after={"id": 2, "n": "{}"}))
    part = table_plan(text, head, [Segment(0, text.schema_id, Position(Lsn(LSN + 8), 0), None, empties=True)])

    head = applied(None, lake, log, part, [ITEMS, text], to_cut=2)

    assert [(row["id"], row["n"]) for row in head_rows(lake, head)] == [(2, "{}")]


def test_key_that_changes_between_segments_is_held_against_the_segment_before(lake: Path) -> None:
    """I5: rows that were written under the old key would not be found by the new one."""
    on = column("on", "date", attnum=2)
    before = relation([column("id", "int4", is_key=True, attnum=1), on])
    after = relation([column("id", "int4", attnum=1), column("on", "date", is_key=True, attnum=2)], revision=1)
    log = Log()
    log.add(Event(before, "r", 0x1000, -1, after={"id": 1}, exceptional={"on": "infinity"}))
    head = applied(None, lake, log, table_plan(before, None), [before])

    with pytest.raises(OperatorError, match=r"the key of table public\.t changed"):
        applied(None, lake, Log(), in_two_segments(head, before, after), [before, after], to_cut=2)


def test_column_that_was_added_is_there_from_its_segment_on(lake: Path) -> None:
    more = relation([*ITEMS.table.columns, column("more", attnum=3)], revision=1)
    head = copied(None, lake, ITEMS, {"id": 1, "n": 1})
    log = Log()
    log.add(Event(ITEMS, "c", LSN, 0, after={"id": 2, "n": 2}))
    log.add(Event(more, "c", LSN + 8, 0, after={"id": 3, "n": 3, "more": "x"}))

    head = applied(None, lake, log, in_two_segments(head, after=more), [ITEMS, more], to_cut=2)

    assert sorted((row["id"], row["more"]) for row in head_rows(lake, head)) == [(1, None), (2, None), (3, "x")]


def test_state_has_begun_where_it_first_was(lake: Path) -> None:
    head = copied(None, lake, INSERTS)
    later = changed(None, lake, head, insert(1))

    assert (head.since, later.since) == (0x2000, 0x2000)
    long_current = TableHead(**{name: getattr(head, name) for name in head.__slots__} | {"since": 7})
    assert changed(None, lake, long_current, insert(1)).since == 7


def test_commit_at_the_same_moment_is_met_with_another_try_and_in_the_end_with_a_stop(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = copied(None, lake, INSERTS)
    rivals = iter(range(ATTEMPTS_MAX - 1))

    def rival(name: str) -> None:
        if name == "apply:table-reshaped" and next(rivals, None) is not None:
            strange_commit(lake, base)

    monkeypatch.setattr(apply, "kill_point", rival)
    assert numbers(lake, changed(None, lake, base, insert(1))) == [1]

    rivals = iter(range(99))
    with pytest.raises(OperatorError, match="another program keeps committing"):
        changed(None, lake, base, insert(1), to_cut=3)


def test_broker_that_leaves_while_a_table_is_applied_is_asked_no_second_time(lake: Path) -> None:
    """Its records are not looked through for one that does not decode."""
    table = opened(lake, copied(None, lake, BAG))
    asked = []

    def away() -> DataFrame:
        asked.append(1)
        raise PySparkException("org.apache.kafka.common.errors.DisconnectException")

    records = TableRecords(away, {BAG.schema_id: Volume(1, 1)}, None)
    with pytest.raises(RetryableError, match="went away"):
        write_changes(table, records, TableShape(BAG), Segment(0, BAG.schema_id, None, None), Commit("p"))
    assert asked == [1]


def test_table_of_which_only_properties_were_set_is_not_put_back(lake: Path) -> None:
    """As maintenance does between two plans."""
    base = copied(None, lake, INSERTS, {"n": 1})
    DeltaTable(f"{lake}/{base.path}").alter.set_table_properties({"delta.checkpointInterval": "20"})
    head = changed(None, lake, base, insert(2))

    assert numbers(lake, head) == [1, 2]
    assert head.version == base.version + 2

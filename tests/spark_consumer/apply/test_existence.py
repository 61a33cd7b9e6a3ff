"""New rows are appended without a search, others must be found: what operations tell, and what is held against it."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.examples import examples
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import Log, applied, changed, column, copied, head_rows, relation, table_plan
from walbridge.schemas.errors import COPY_TABLE, OperatorError
from walbridge.spark_consumer.apply import changes
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.apply.arrow_spool import Spool
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.plan.plan import Segment, TableHead

LSN = 0x1100
ITEMS = relation([column("id", "int4", is_key=True), column("n", "int4")])
UNEXPECTED = "did not hold what the source changed"


def c(key: int, ordinal: int, n: int = 0, lsn: int = LSN) -> Event:
    return Event(ITEMS, "c", lsn, ordinal, after={"id": key, "n": n})


def u(key: int, ordinal: int, n: int = 0, lsn: int = LSN) -> Event:
    return Event(ITEMS, "u", lsn, ordinal, after={"id": key, "n": n})


def d(key: int, ordinal: int, lsn: int = LSN) -> Event:
    return Event(ITEMS, "d", lsn, ordinal, before={"id": key}, before_image="key")


def rows(lake: Path, head: TableHead) -> list[tuple[int, int]]:
    return sorted((row["id"], row["n"]) for row in head_rows(lake, head))


def operations(lake: Path, head: TableHead, base: TableHead) -> list[str]:
    """What was done to the table since the base, oldest first."""
    newest = DeltaTable(f"{lake}/{head.path}").history(head.version - base.version) if head != base else []
    return [entry["operation"] for entry in reversed(newest)]


def opened(lake: Path, head: TableHead) -> LakeTable:
    table = LakeTable.open(f"{lake}/{head.path}", {})
    assert table is not None
    return table


def strange_commit(lake: Path, head: TableHead) -> None:
    table = opened(lake, head)
    table.append(table.query("SELECT * FROM target"), Commit(plan=None))


def test_new_rows_are_appended_as_their_last_events_have_them(lake: Path) -> None:
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})

    head = changed(None, lake, base, c(2, 0), u(2, 1, n=5), c(3, 2), d(3, 3), c(4, 4), d(4, 5), c(4, 6, n=7))

    assert rows(lake, head) == [(1, 1), (2, 5), (4, 7)]
    assert operations(lake, head, base) == ["WRITE"]


def test_new_rows_are_appended_once_though_the_job_dies_behind_their_commit(lake: Path, crash_at: Counter[str]) -> None:
    """I5: no position is compared."""
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})
    crash_at["apply:segment-applied"] = 1
    with pytest.raises(Crash):
        changed(None, lake, base, c(2, 0))

    head = changed(None, lake, base, c(2, 0))

    assert rows(lake, head) == [(1, 1), (2, 0)]
    assert operations(lake, head, base) == ["WRITE"]


def test_rows_that_come_and_go_within_a_segment_leave_nothing(lake: Path) -> None:
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})

    assert changed(None, lake, base, c(2, 0), d(2, 1)) == base


def test_new_rows_beside_others_are_merged_in_one_commit(lake: Path) -> None:
    base = copied(None, lake, ITEMS, *[{"id": key, "n": 0} for key in (1, 2, 3)])

    head = changed(None, lake, base, u(1, 0, n=1), d(2, 1), c(4, 2), c(5, 3), d(5, 4), d(3, 5), c(3, 6, n=3))

    assert rows(lake, head) == [(1, 1), (3, 3), (4, 0)]
    assert operations(lake, head, base) == ["MERGE"]


def test_a_key_that_changed_is_searched_for(lake: Path) -> None:
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})

    head = changed(None, lake, base, d(1, 0), c(2, 1, n=1))

    assert rows(lake, head) == [(2, 1)]
    assert operations(lake, head, base) == ["MERGE"]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([u(9, 0)], "held 0 of 1 rows that were updated or deleted, and lacked 0 of 0"),
        ([d(9, 0)], "held 0 of 1 rows that were updated or deleted, and lacked 0 of 0"),
        ([u(1, 0), c(2, 1)], "held 1 of 1 rows that were updated or deleted, and lacked 0 of 1"),
        ([c(1, 0), u(9, 1)], "held 0 of 1 rows that were updated or deleted, and lacked 0 of 1"),
        # As a deferrable key lets two rows swap theirs: its events do not tell which row is last.
        ([d(1, 0), c(2, 1), d(2, 2), c(1, 3)], "held 2 of 1 rows"),
    ],
    ids=[
        "an update of no row",
        "a delete of no row",
        "an insert of a row that is there",
        "one of each",
        "two keys that are swapped",
    ],
)
def test_rows_that_are_not_as_their_operations_tell_stop_the_job_again_and_again(
    lake: Path, events: list[Event], said: str
) -> None:
    """I7: what the source changed was not what the lake held, so more than these rows may differ."""
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1}, {"id": 2, "n": 2})

    for _ in range(2):
        with pytest.raises(OperatorError, match=UNEXPECTED) as stopped:
            changed(None, lake, base, *events)
        assert said in stopped.value.what
        assert stopped.value.remedy == COPY_TABLE


def test_a_job_killed_before_it_could_compare_compares_when_it_goes_on(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: the merge is committed by then, and nothing is left to do but to publish it."""
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})

    def killed(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(changes, "refuse_other_matches", killed)
        with pytest.raises(Crash):
            changed(None, lake, base, u(1, 0), u(9, 1))

    with pytest.raises(OperatorError, match=UNEXPECTED):
        changed(None, lake, base, u(1, 0), u(9, 1))


def test_a_source_that_does_not_tell_all_changes_may_change_any_row(lake: Path) -> None:
    """Rows that came to it by replication, and are not told, are updated where they were not known."""
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})

    head = changed(None, lake, base, u(9, 0, n=9), d(8, 1), source_sends_all=False)
    assert rows(lake, head) == [(1, 1), (9, 9)]

    later = changed(None, lake, head, c(1, 0, n=7, lsn=LSN + 8), to_cut=3, source_sends_all=False)
    assert rows(lake, later) == [(1, 7), (9, 9)]


def test_a_table_that_another_program_changed_is_put_back_and_searched(lake: Path) -> None:
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})
    strange_commit(lake, base)

    head = changed(None, lake, base, c(2, 0))

    assert rows(lake, head) == [(1, 1), (2, 0)]
    assert operations(lake, head, base) == ["WRITE", "RESTORE", "MERGE"]


def test_a_table_that_was_compacted_is_in_no_doubt(lake: Path) -> None:
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})
    base = changed(None, lake, base, c(2, 0))
    DeltaTable(f"{lake}/{base.path}").optimize.compact()

    head = changed(None, lake, base, c(3, 0, lsn=LSN + 8), to_cut=3)

    assert rows(lake, head) == [(1, 1), (2, 0), (3, 0)]
    assert operations(lake, head, base) == ["OPTIMIZE", "WRITE"]


@pytest.mark.parametrize("state", ["stale", "copying"])
def test_rows_of_a_table_that_may_differ_from_the_source_are_searched_for(lake: Path, state: str) -> None:
    """I5: what is called new may be there."""
    base = copied(None, lake, ITEMS, {"id": 1, "n": 1})
    doubted = TableHead(**{name: getattr(base, name) for name in base.__slots__} | {"state": state})
    log = Log()
    log.add(c(1, 0, n=2))
    part = table_plan(ITEMS, doubted, [Segment(0, ITEMS.schema_id, None, None)])

    head = applied(None, lake, log, part, [ITEMS], to_cut=2)

    assert rows(lake, head) == [(1, 2)]


def test_rows_of_a_partitioned_table_are_searched_for_and_not_counted(lake: Path) -> None:
    """I5: a partition that was detached and filled in again by hand brings rows that the lake still holds."""
    root = replace(ITEMS, table=replace(ITEMS.table, root_relation_id=ITEMS.table.relation_id))
    base = copied(None, lake, root, {"id": 1, "n": 1})

    head = changed(None, lake, base, replace(c(1, 0, n=2), relation=root), replace(u(9, 1, n=9), relation=root))

    assert rows(lake, head) == [(1, 2), (9, 9)]


class Items:
    """A table of few keys, and the events of its random changes. Without values that an update leaves out."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[int, int] = {}
        self.lsn = LSN

    def transaction(self, *, only_inserts: bool) -> list[Event]:
        self.lsn += 8
        events: list[Event] = []
        for _ in range(self.random.randint(1, 6)):
            self._statement(events, only_inserts=only_inserts)
        return events

    def _statement(self, events: list[Event], *, only_inserts: bool) -> None:
        n, at = self.random.randrange(1000), (len(events), self.random.randrange(12))
        ordinal, free = at
        held = self.random.choice([*self.rows]) if self.rows else None
        kind = "insert" if only_inserts or held is None else self.random.choice(["insert", "update", "delete", "move"])
        if kind in ("insert", "move") and free in self.rows:
            return
        if kind == "insert":
            events.append(c(free, ordinal, n, self.lsn))
        elif kind == "update":
            assert held is not None
            free = held
            events.append(u(held, ordinal, n, self.lsn))
        else:
            assert held is not None
            del self.rows[held]
            events.append(d(held, ordinal, self.lsn))
            if kind == "delete":
                return
            events.append(c(free, ordinal + 1, n, self.lsn))
        self.rows[free] = n


def refuse_differences(lake: Path, crash_at: Counter[str], seed: int, appliers: Appliers | None = None) -> None:
    """Plans of inserts and others in any order, each applied again after deaths and foreign commits."""
    world = Items(seed)
    head = copied(None, lake, ITEMS)
    for to_cut in range(2, 7):
        only_inserts = world.random.random() < 0.5
        events = [e for _ in range(world.random.randint(1, 3)) for e in world.transaction(only_inserts=only_inserts)]
        if not events:
            continue
        base = head
        crash_at["apply:segment-applied"] = world.random.randint(1, 2)
        for _ in range(3):
            try:
                head = changed(None, lake, base, *events, to_cut=to_cut, appliers=appliers)
                break
            except Crash:
                if world.random.random() < 0.3:
                    strange_commit(lake, base)
        crash_at.clear()
        assert changed(None, lake, base, *events, to_cut=to_cut, appliers=appliers) == head, "applied twice (I5)"
        assert rows(lake, head) == sorted(world.rows.items()), f"seed {seed}, cut {to_cut}"


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_the_lake_equals_the_source_whatever_is_appended_merged_killed_or_undone(
    tmp_path_factory: pytest.TempPathFactory, crash_at: Counter[str], seed: int
) -> None:
    """I5, I8"""
    refuse_differences(tmp_path_factory.mktemp("lake"), crash_at, seed)


@pytest.mark.soak
@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_the_lake_equals_the_source_whatever_spark_merges_while_it_is_killed_and_undone(
    tmp_path_factory: pytest.TempPathFactory,
    crash_at: Counter[str],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """I5, I8: rows of every second merge or so come by a folder."""
    monkeypatch.setattr(Spool, "is_in_memory", property(lambda rows: rows.rows % 2 == 0))
    lake = tmp_path_factory.mktemp("lake")
    refuse_differences(lake, crash_at, seed, Appliers("spark", spark, aside=lake / "aside"))
    assert not [*(lake / "aside").glob("*")]

"""Random histories of a table, plan by plan: the lake holds what the source does, whatever happens on the way."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.in_soak import in_variants
from tests.spark_consumer.crash import Crash
from tests.spark_consumer.events import PIPELINE, Log, head_rows, table_records
from tests.spark_consumer.world import (
    KEYED,
    MULTISET,
    KeyedWorld,
    MultisetWorld,
    World,
    canonical,
    copy_barriers,
    cut,
    lake_rows,
)
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.apply.apply import apply_table
from walbridge.spark_consumer.apply.job_lake import JobLake
from walbridge.spark_consumer.fold import large_values, segment_rows
from walbridge.spark_consumer.kafka import change_reader, slices
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.plan import Plan, TableHead, make_plan

FEW = settings(
    max_examples=1, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
pytestmark = pytest.mark.usefixtures("engine")
# Both engines, both appliers, keys that change and keys that do not; the rest is drawn in ``make soak``.
KEYED_RUNS = [("driver", False, "local"), ("spark", True, "spark")]
MORE_KEYED_RUNS = [
    ("driver", True, "local"),
    ("driver", True, "spark"),
    ("spark", False, "local"),
    ("spark", True, "local"),
]


class Follower:
    """Applies a world's transactions plan by plan, in a lake of its own."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Path,
        of: RelationRecord,
        crash_at: Counter[str],
        patch: pytest.MonkeyPatch,
        applier: str = "local",
    ) -> None:
        self.appliers = Appliers(applier, spark)
        self.spark, self.lake, self.of, self.crash_at, self.patch = spark, lake, of, crash_at, patch
        self.head: TableHead | None = None
        self.cut_id = 0

    def follow(self, world: World) -> None:
        """One plan of what happened since; it is killed at random places, and applied twice."""
        events, barriers = world.take()
        log = Log()
        for event in events:
            log.add(event)
            if event.op in "cud" and event.relation is KEYED and world.random.random() < 0.1:
                log.add(event)
        first = copy_barriers(self.of) if self.head is None else []
        self.cut_id += 1
        heads = {} if self.head is None else {self.head.relation_id: self.head}
        made = make_plan([(0, cut(self.cut_id, self.of, len(log.rows), first + barriers, world.lsn))], heads)
        relations = {self.of.schema_id: self.of}
        plan = LakeState(PIPELINE).with_folders(made, relations)
        # So must records that are decoded without their large values.
        self.patch.setattr(change_reader, "LARGE_BYTES", world.random.choice([150, 250, 2**18]))
        self.patch.setattr(large_values, "VALUE_BYTES_MAX", world.random.choice([0, 10]))
        records = table_records(log.frame(self.spark), plan.tables[0])
        # Small plans in many slices must come to the same.
        self.patch.setattr(slices, "SLICE_ROWS_MAX", world.random.choice([5, 100_000]))
        # So must keys that come once, and are not folded.
        self.patch.setattr(segment_rows, "ONE_TASK_ROWS_MAX", world.random.choice([0, 20_000]))
        self.patch.setattr(segment_rows, "REPEATED_MAX", world.random.choice([1, 50_000]))
        for point in ("apply:table-created", "apply:table-emptied", "apply:segment-applied"):
            self.crash_at[point] = world.random.randint(1, 4)
        for _ in range(4):
            try:
                head = self._apply(records, relations, plan)
                break
            except Crash:
                continue
        self.crash_at.clear()
        again = self._apply(records, relations, plan)
        assert again == head, "applying a plan twice must change nothing (I5)"
        self.head = head

    def _apply(self, records: TableRecords, relations: Mapping[str, RelationRecord], plan: Plan) -> TableHead:
        lake = JobLake(str(self.lake), PIPELINE, appliers=self.appliers)
        return apply_table(lake, records, relations, plan.tables[0], plan)

    def rows(self) -> list[dict[str, Any]]:
        assert self.head is not None
        return list(lake_rows(head_rows(self.lake, self.head)))


@pytest.mark.parametrize(
    ("engine", "keys_change", "applier"),
    [
        in_variants(*KEYED_RUNS[0]),
        *KEYED_RUNS[1:],
        *(pytest.param(*run, marks=pytest.mark.soak) for run in MORE_KEYED_RUNS),
    ],
    indirect=["engine"],
)
@FEW
@given(seed=st.integers(0, 2**32))
def test_lake_equals_the_source_after_every_plan(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    crash_at: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    keys_change: bool,
    applier: str,
) -> None:
    """I5, I6, I8: unchanged columns, exceptional values and keys, moved rows, truncates, crashes."""
    world = KeyedWorld(seed, keys_change=keys_change)
    follower = Follower(spark, tmp_path_factory.mktemp("lake"), KEYED, crash_at, monkeypatch, applier)
    for plan in range(4):
        for _ in range(world.random.randint(1, 12)):
            world.transaction()
        if plan % 2:
            world.truncate(KEYED)
            world.transaction()
        follower.follow(world)

        expected = sorted(map(canonical, world.rows))
        assert sorted(map(canonical, follower.rows())) == expected, f"seed {seed}, plan {plan}"


# What rows without a key come to is Spark's work in either engine.
@pytest.mark.parametrize("engine", ["spark", pytest.param("driver", marks=pytest.mark.soak)], indirect=True)
@FEW
@given(seed=st.integers(0, 2**32))
def test_multiset_equals_the_source_after_every_plan(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    crash_at: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """Of several equal rows exactly one goes with each change."""
    world = MultisetWorld(seed)
    follower = Follower(spark, tmp_path_factory.mktemp("lake"), MULTISET, crash_at, monkeypatch)
    for plan in range(4):
        for _ in range(world.random.randint(1, 8)):
            world.transaction()
        if plan == 2:
            world.truncate(MULTISET)
            world.transaction()
        follower.follow(world)

        assert Counter(map(canonical, follower.rows())) == Counter(map(canonical, world.rows)), f"seed {seed}"

"""A pipeline in memory: cuts and records as a producer writes them, and the job over them without Kafka and Spark.

Tables are real, by delta-rs, or by Spark where a test asks for it. Records come to the driver, as small tables' do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.contract_events import copy_barriers, last_commit
from tests.contract_writer import Event
from tests.spark_consumer.events import EPOCH, PIPELINE, Log
from tests.spark_consumer.memory_topics import MemoryTopics
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, TableChanges, encode_cut
from walbridge.schemas.control.metadata_record import RelationRecord, encode_metadata
from walbridge.schemas.errors import TableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, metadata_topic
from walbridge.spark_consumer import job, plan_runner
from walbridge.spark_consumer.apply.copies import copy_builds
from walbridge.spark_consumer.apply.copies.copy_builds import CopyBuild
from walbridge.spark_consumer.delta.maintenance.revisits import Revisits
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.control.copy_requests import CopyRequests
from walbridge.spark_consumer.kafka.control.cuts_source import CutsFrom, CutsSource
from walbridge.spark_consumer.kafka.many.spooled_records import SpooledRecords, ignored
from walbridge.spark_consumer.kafka.ranges import pieces
from walbridge.spark_consumer.plan import ended_copies
from walbridge.spark_consumer.plan.plan import Plan

CUTS, METADATA = cuts_topic(PIPELINE), metadata_topic(PIPELINE)
Rest = Callable[[], None]
Barriers = Sequence[tuple[RelationRecord, Barrier]]
_SPARK = MagicMock()
"""It has no state, and to make another one costs more than a plan."""


@dataclass(frozen=True)
class Beside:
    """How copies are written beside the plans: those of so many records, done when it is asked for or not yet."""

    deferred_from: int = ended_copies.DEFERRED_RECORDS_MIN
    gets_on: Callable[[], bool] = lambda: True


@dataclass
class MemoryPipeline:
    """``end_lsn`` and ``cut_id`` go on by themselves."""

    topics: MemoryTopics = field(default_factory=MemoryTopics)
    log: Log = field(default_factory=Log)
    lost: dict[str, TableError] = field(default_factory=dict)
    """Topics whose records cannot be had."""
    last: Cut = field(default=Cut(EPOCH, 0, 0x1000, 0x1000, None, None, 0, True, 0))
    rest: Rest = lambda: None
    """What the stream calls while it has nothing to bring."""
    beside: Beside = field(default_factory=Beside)
    visits: bool = False
    """Whether each job visits tables at rest between its plans: it costs half of the job, and most tests none."""

    def announce(self, *relations: RelationRecord) -> None:
        for relation in relations:
            offset = self.topics.add(METADATA, encode_metadata(relation))
            self.last = replace(self.last, metadata_end_offset=offset + 1)

    def send(self, *events: Event, barriers: Barriers = (), complete: bool = True, **altered: Any) -> Cut:
        """One cut, its events table by table. ``altered``: fields of the cut, to break it."""
        relations = {each.topic: each for each in [*[of for of, _ in barriers], *[event.relation for event in events]]}
        parts, tables = [], []
        for topic, relation in relations.items():
            mine = [event for event in events if event.relation.topic == topic]
            start = len(self.log.rows)
            for event in mine:
                self.log.add(event)
            if mine:
                parts.append(PartitionRange(topic, 0, start, start + len(mine), len(mine)))
            own = tuple(barrier for of, barrier in barriers if of.topic == topic)
            tables.append(TableChanges(relation.table.relation_id, topic, (relation.schema_id,), len(mine), own))
        before = self.last
        end_lsn = before.end_lsn + 16 if complete else before.end_lsn
        cut = replace(
            before, cut_id=before.cut_id + 1, previous_end_lsn=before.end_lsn, end_lsn=end_lsn, complete=complete,
            partitions=tuple(parts), tables=tuple(tables), commit_lsn=last_commit(events),
        )  # fmt: skip
        self.last = replace(cut, **altered)
        self.topics.add(CUTS, encode_cut(self.last))
        return self.last

    def copy(self, *relations: RelationRecord, **row: Any) -> Cut:
        """Each table's first copy, of one row."""
        events = [Event(of, "r", 0x1000, -1, after=row) for of in relations]
        return self.send(*events, barriers=[each for of in relations for each in copy_barriers(of, 0x1000)])

    @contextmanager
    def copied(self, _log: object, plan: Plan, on_step: Callable[[], None]) -> Iterator[TableRecords]:
        """Stands for ``copied_records``."""
        on_step()
        with self.planned(_log, plan, on_step) as found:
            yield found.of(plan.tables[0].topic)

    @contextmanager
    def planned(self, _log: object, plan: Plan, on_step: Callable[[], None] = ignored) -> Iterator[PlannedInMemory]:
        found = PlannedInMemory(self.log, plan, self.lost, on_step)
        try:
            yield found
        finally:
            for each in found.on_disk:
                each.close()

    def follow(self, source: CutsSource, act: Callable[[CutsFrom], None]) -> None:
        """A stream whose checkpoint was lost: it has a trigger for each cut there is, the log's end is the same."""
        end = 2 * len(self.topics.records[CUTS, 0])
        for _ in self.topics.records[CUTS, 0]:
            act(lambda offset: source.read(offset, end))


@dataclass(frozen=True)
class PlannedInMemory:
    """Stands for ``PlannedRecords``: what is in the plan's ranges."""

    log: Log
    plan: Plan
    lost: Mapping[str, TableError]
    on_step: Callable[[], None]
    on_disk: list[SpooledRecords] = field(default_factory=list)

    def of(self, topic: str) -> TableRecords:
        if topic in self.lost:
            raise self.lost[topic]
        part = self.plan.ranges.get((topic, 0))
        bounds = pieces((part.start_offset, part.end_offset), self.plan.gaps.get((topic, 0), ())) if part else ()
        mine = [row for start, end in bounds for row in self.log.rows[start:end] if row["topic"] == topic]
        assert len(mine) == (part.records if part else 0), "a plan says how many records it reads"
        records = replace(Log(mine).on_driver(topic), on_step=self.on_step)
        if self.plan.to_cut % 2:
            return records
        # Every second plan is one whose records are fetched to disk.
        self.on_disk.append(Log(mine).on_disk())
        return replace(records, spooled=self.on_disk[-1])


@contextmanager
def job_over(
    pipeline: MemoryPipeline, lake: Path, *, origin: str = "any", spark: Any = None, **options: Any
) -> Iterator[Callable[..., None]]:
    """Call it to run a new job over everything there is; ``follows``: and over all of it again, as a stream.

    ``stop``: what a signal sets. ``origin``: of [postgres]; ``options``: of [lake]. ``spark``: writes to tables, where
    ``applier`` asks for it; of Kafka it sees nothing.
    """

    def has_ended(build: CopyBuild, wait_s: float = 0.0) -> bool:
        """It is done in the job's own thread, so that a death ends it too, and may be seen to be done later."""
        if wait_s or build.is_cancelled:
            awaited.append(build)
        if not build._over.is_set() and (build in awaited or pipeline.beside.gets_on()):
            build.run()
        return build._over.is_set() and (build in awaited or pipeline.beside.gets_on())

    def next_visit(revisits: Revisits, now: datetime) -> str | None:
        return visited(revisits, now) if pipeline.visits else None

    awaited: list[CopyBuild] = []
    visited = Revisits.next

    of_lake = {"path": str(lake), "plan_rows_max": 4, "apply_threads": 2} | options
    settings = Settings(name=PIPELINE, lake=of_lake, postgres={"origin": origin})  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "KafkaLog", lambda _spark, _settings: pipeline.topics)
        patch.setattr(plan_runner, "planned_records", pipeline.planned)
        patch.setattr(copy_builds, "planned_records", pipeline.planned)
        patch.setattr(copy_builds, "copied_records", pipeline.copied)
        patch.setattr(CopyBuild, "start", lambda _build: None)
        patch.setattr(CopyBuild, "has_ended", has_ended)
        patch.setattr(ended_copies, "DEFERRED_RECORDS_MIN", pipeline.beside.deferred_from)
        patch.setattr(Revisits, "next", next_visit)
        patch.setattr(plan_runner, "CopyRequests", lambda _, *of: CopyRequests(_SPARK, *of))

        def run(*, follows: bool = False, stop: threading.Event | None = None) -> None:
            def follow(
                source: CutsSource, _start: int, act: Callable[[CutsFrom], None], _stop: object, rest: Rest, **_: Any
            ) -> None:
                pipeline.rest = rest
                if follows:
                    pipeline.follow(source, act)

            patch.setattr(CutsSource, "follow", follow)
            started = job.Job(spark or _SPARK, settings, stop or threading.Event())
            started.run(once=True)

        yield run

"""What the Spark job refuses, made in a real broker and lake: its words, its remedy, and the lake as it was (I7)."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tests import contract_writer
from tests.contract_events import Row, copied, copy_begin, copy_end
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.in_soak import others_in_soak, others_in_variants
from tests.wait import wait_until
from walbridge.check.finding import Finding, refused, warning
from walbridge.check.job.unread import log_starts, unread_findings
from walbridge.check.lake import lake_findings
from walbridge.control_records import cuts_from, relations
from walbridge.embedded.kafka import KafkaBroker
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import COPY_ALL_ANEW, NEWER_WALBRIDGE, OperatorError
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, metadata_topic
from walbridge.spark_consumer.job import Job
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.read import published, tables_at

pytestmark = pytest.mark.fault


@dataclass
class Lake:
    """A table of two rows, published."""

    spark: SparkSession
    writer: ContractWriter
    path: Path
    table: RelationRecord
    patch: pytest.MonkeyPatch
    visible_timeout_s: int = 60
    patience: dict[str, int] = field(default_factory=dict)
    """How long Spark's clients wait for what never comes."""

    def settings(self, on_table_error: str = "stop") -> Settings:
        return Settings(
            name=self.writer.pipeline,
            kafka={"bootstrap_servers": self.writer.bootstrap_servers, "spark": self.patience},  # type: ignore[arg-type]
            lake={  # type: ignore[arg-type]
                "path": str(self.path),
                "visible_timeout_s": self.visible_timeout_s,
                "on_table_error": on_table_error,
            },
        )

    def run(self, on_table_error: str = "stop") -> None:
        job = Job(self.spark, self.settings(on_table_error), threading.Event())
        try:
            job.run(once=True)
        finally:
            job.close()

    def said_by_check(self) -> list[str]:
        """Of the table, where its copy is the remedy."""
        return [each.text for each in lake_findings(self.settings()) if each.remedy == "walbridge copy public.t"]

    def said_of_unread(self, on_table_error: str = "stop") -> list[Finding]:
        """By check, of what was not applied yet."""
        settings = self.settings(on_table_error)
        counts = TopicAdmin(settings).partition_counts()
        cuts, starts = partial(cuts_from, settings, counts), partial(log_starts, settings)
        return list(unread_findings(settings, None, relations(settings, counts), cuts, starts))

    def insert(self) -> None:
        n = self.writer.cut_id
        self.writer.send([Event(self.table, "c", 0x2000 + 16 * n, 0, after={"id": n, "v": "secret words"})])

    def published(self) -> tuple[TableEntry, ...]:
        return tuple(sorted(published(str(self.path))[-1].tables, key=lambda entry: entry.relation_id))

    def another_table(self) -> RelationRecord:
        """A table of one row, copied beside the stream."""
        other = self.writer.relation("other", [ColumnSpec("id", "int4", is_key=True), ColumnSpec("v")], relation_id=2)
        self._copy(other, {"id": 1, "v": "a"})
        return other

    def copy_again(self, row: Row) -> None:
        """The table in trouble has this row alone."""
        self._copy(self.table, row)

    def _copy(self, of: RelationRecord, row: Row) -> None:
        lsn = self.writer.end_lsn
        begun, begin = copy_begin(of, lsn)
        ended, end = copy_end(of, lsn)
        self.writer.send([begun, *copied(of, lsn, row)], barriers=[begin])
        self.writer.send([ended], barriers=[end])

    def standing(self) -> tuple[object, int]:
        """What readers see, and the data table's version."""
        entry = published(str(self.path))[-1]
        return entry, DeltaTable(f"{self.path}/{entry.tables[0].path}").version()

    def begin_anew(self) -> None:
        """COPY_ALL_ANEW, as far as the lake has to do with it: a new epoch begins, and the table is copied in it."""
        self.writer = ContractWriter(
            self.writer.bootstrap_servers, self.writer.pipeline
        )  # it makes topics that are gone
        self.writer.new_epoch(0x9000)
        self.visible_timeout_s, self.patience = 60, {}  # what is waited for comes now, on a busy machine late
        self.table = self.writer.relation("t", [ColumnSpec("id", "int4", is_key=True), ColumnSpec("v")], relation_id=1)
        self.writer.send(barriers=[(self.table, Barrier("dropped", Position(Lsn(0x9000), COPIED_ORDINAL)))])
        self.writer.send()  # a topic that was made anew has outgrown the place up to which the lake had read
        self.run()
        (stale,) = self.published()
        assert (stale.state, stale.version is None) == ("stale", False)
        self.copy_again({"id": 3, "v": "c"})
        self.run()
        assert [row["id"] for row in tables_at(self.spark, str(self.path))["public.t"].collect()] == [3]

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.writer.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(60)
        wait_until(lambda: topic not in admin.list_topics(timeout=60).topics, f"{topic} to be gone")

    def remake(self, topic: str) -> None:
        self.delete(topic)
        admin = AdminClient({"bootstrap.servers": self.writer.bootstrap_servers})

        def made() -> bool:
            with contextlib.suppress(Exception):  # its last life is still being deleted
                admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
            return topic in admin.list_topics(timeout=60).topics

        wait_until(made, f"{topic} to be made anew")


@pytest.fixture
def settled(
    spark: SparkSession, kafka: KafkaBroker, pipeline_name: str, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> Lake:
    writer = ContractWriter(kafka.bootstrap_servers, pipeline_name)
    table = writer.relation("t", [ColumnSpec("id", "int4", is_key=True), ColumnSpec("v")], relation_id=1)
    made = Lake(spark, writer, lake, table, monkeypatch)
    writer.copy([(table, [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])])
    made.run()
    return made


def _data_topic_made_anew(lake: Lake) -> None:
    lake.insert()
    lake.remake(lake.table.topic)
    lake.visible_timeout_s = 1  # what is waited for never comes


def _folder_deleted(lake: Lake) -> None:
    (entry,) = lake.published()
    shutil.rmtree(lake.path / entry.path)
    assert lake.said_by_check() == [f"the lake's table {entry.path} is gone: readers of public.t fail"]
    lake.insert()


def _corrupt_bytes(lake: Lake) -> None:
    whole = contract_writer.encode_event
    lake.patch.setattr(contract_writer, "encode_event", lambda *of: whole(*of)[:-9])
    lake.insert()


def _write_newer(lake: Lake, topic: str) -> None:
    """A control record of a schema that this code does not have."""
    newer = Producer({"bootstrap.servers": lake.writer.bootstrap_servers})
    newer.produce(topic, b"\xc3\x01" + bytes(20), b"new")
    assert newer.flush(60) == 0


def _newer_metadata(lake: Lake) -> None:
    _write_newer(lake, metadata_topic(lake.writer.pipeline))
    lake.writer.metadata_end_offset += 1
    lake.insert()


def _metadata_made_anew(lake: Lake) -> None:
    lake.insert()
    lake.remake(metadata_topic(lake.writer.pipeline))
    lake.visible_timeout_s = 1


def _metadata_deleted(lake: Lake) -> None:
    lake.insert()
    lake.delete(metadata_topic(lake.writer.pipeline))
    lake.patience = {"request.timeout.ms": 2_000, "default.api.timeout.ms": 2_000}


def _newer_manifest(lake: Lake) -> None:
    """With the first row that has a new column, as ``Manifest.append`` writes it."""
    more = pa.table({"sequence": [1_000_000], "bytes": [1]})
    write_deltalake(str(lake.path / "_cuts"), more, mode="append", schema_mode="merge")


GUARDS: dict[str, tuple[Callable[[Lake], object], str, str]] = {
    "data topic made anew": (_data_topic_made_anew, "are not visible after 1 s", "kafka-transactions.sh abort --topic"),
    "cuts topic made anew": (
        lambda lake: lake.remake(cuts_topic(lake.writer.pipeline)),
        "ends before what this lake has applied: it was made anew",
        COPY_ALL_ANEW,
    ),
    "event bytes that were changed": (_corrupt_bytes, "offset", "copy"),
    "metadata topic made anew": (
        _metadata_made_anew,
        "or the topic was made anew",
        f"or raise [lake] visible_timeout_s; else {COPY_ALL_ANEW}",
    ),
    "metadata topic deleted": (
        _metadata_deleted,
        "does not exist at",
        COPY_ALL_ANEW,
    ),
    "cut of newer code": (
        lambda lake: _write_newer(lake, cuts_topic(lake.writer.pipeline)),
        "holds a record that this version cannot read",
        NEWER_WALBRIDGE,
    ),
    "metadata of newer code": (_newer_metadata, "holds a record that this version cannot read", NEWER_WALBRIDGE),
}


LIKE_ANOTHER = {"cuts topic made anew", "metadata topic made anew", "metadata of newer code"}
"""A topic of all tables that was deleted is noticed in the same way, and a cut of newer code refused in the same."""


@pytest.mark.parametrize("state", others_in_soak(GUARDS, GUARDS.keys() - LIKE_ANOTHER))
def test_state_is_refused_with_its_remedy_and_the_lake_is_as_it_was(settled: Lake, state: str) -> None:
    bring, what, remedy = GUARDS[state]
    bring(settled)
    before = settled.standing()

    with pytest.raises(OperatorError) as refusal:
        settled.run()

    assert what in refusal.value.what
    assert remedy in refusal.value.remedy
    assert "secret words" not in str(refusal.value)
    assert settled.standing() == before
    if refusal.value.remedy.endswith(COPY_ALL_ANEW):
        settled.begin_anew()


TROUBLES: dict[str, tuple[Callable[[Lake], object], str, str]] = {
    "event bytes that were changed": (_corrupt_bytes, "quarantined", "though they say so: partition 0 offsets"),
    "data topic made anew": (_data_topic_made_anew, "quarantined", "are not visible after 1 s"),
    "folder deleted": (_folder_deleted, "stale", "is gone"),
}


@pytest.mark.parametrize("state", others_in_variants(TROUBLES, ["folder deleted"]))
def test_trouble_of_one_table_is_a_state_of_it_until_it_is_copied_and_others_go_on(settled: Lake, state: str) -> None:
    """I8: with Kafka, Spark and Delta; with each harm in memory in ``test_table_trouble.py``."""
    bring, called, why = TROUBLES[state]
    (before,) = settled.published()
    with pytest.MonkeyPatch.context() as settled.patch:
        bring(settled)
    other = settled.another_table()
    settled.run("quarantine")

    found, beside = settled.published()
    assert (found.state, found.version, why in (found.why or "")) == (called, before.version, True)
    assert "secret words" not in (found.why or "")
    assert (beside.name, beside.state) == ("other", "current")
    (said,) = settled.said_by_check()
    assert said.startswith(f"table public.t is {called} since ")
    with pytest.raises(OperatorError, match=f"public.t is {called} since") as refusal:
        tables_at(settled.spark, str(settled.path))
    assert "walbridge copy public.t" in refusal.value.remedy
    assert [*tables_at(settled.spark, str(settled.path), tables=["public.other"])] == ["public.other"]

    settled.visible_timeout_s = 60
    settled.copy_again({"id": 5, "v": "e"})
    settled.writer.send([Event(other, "c", 0x9000, 0, after={"id": 2, "v": "b"})])
    settled.run("quarantine")
    assert settled.said_by_check() == []
    frames = tables_at(settled.spark, str(settled.path))
    assert [(row["id"], row["v"]) for row in frames["public.t"].collect()] == [(5, "e")]
    assert frames["public.other"].count() == 2


def test_records_that_expired_before_they_were_applied_are_told_by_check_as_the_job_tells_them(settled: Lake) -> None:
    """I7: so that a person knows it before a start, and may copy the table at once."""
    settled.insert()
    place = TopicPartition(settled.table.topic, 0, OFFSET_END)
    admin = AdminClient({"bootstrap.servers": settled.writer.bootstrap_servers})
    admin.delete_records([place])[place].result(60)

    (told,), (warned,) = settled.said_of_unread(), settled.said_of_unread("quarantine")
    with pytest.raises(OperatorError) as refusal:
        settled.run()
    assert told == refused("lake", refusal.value)
    what = f"table public.t takes no more changes until it is copied again: {refusal.value.what}"
    assert warned == warning("lake", what, "walbridge copy public.t")

    settled.run("quarantine")
    settled.copy_again({"id": 5, "v": "e"})
    settled.run("quarantine")
    assert [row["id"] for row in tables_at(settled.spark, str(settled.path))["public.t"].collect()] == [5]
    assert settled.said_of_unread() == []

    shutil.rmtree(settled.path)
    (empty,) = settled.said_of_unread()
    with pytest.raises(OperatorError) as refusal:
        settled.run()
    assert empty == refused("lake", refusal.value)


def test_manifest_of_newer_code_is_refused_by_job_and_readers(settled: Lake) -> None:
    version = DeltaTable(str(settled.path / "_cuts")).version() + 1
    _newer_manifest(settled)

    for look in (settled.run, lambda: published(str(settled.path))):
        with pytest.raises(OperatorError, match="columns that this version does not know: bytes") as refusal:
            look()
        assert "run the version of walbridge that wrote it" in refusal.value.remedy
    assert DeltaTable(str(settled.path / "_cuts")).version() == version

"""The open batch: what goes into one Kafka transaction, in which order, and what its cut says of it."""

from __future__ import annotations

import pytest

from tests.producer.avro_reader import record_of
from tests.producer.kept import Kept
from tests.producer.written_record import KEYED, Written
from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.schemas.control.cut import Barrier, Cut, TableChanges
from walbridge.schemas.position import Lsn, Position

RECORD = KafkaRecord(b"key", b"value")


def writer() -> RecordWriter:
    return Written(KEYED).writer


def cut_of(kept: Kept) -> Cut:
    assert kept.last.cut is not None
    return kept.last.cut


def test_progress_and_then_the_cut_are_the_last_records_of_a_transaction() -> None:
    """A reader that sees the cut can read all that it names."""
    kept = Kept()
    kept.out.open()
    kept.out.send(writer(), RECORD)
    kept.out.close(None)

    assert kept.last.topics == ["p.progress", "p.cuts"]
    assert [row.value for row in kept.last.rows] == [b"value"]


def test_progress_is_ours_only_after_kafka_has_committed_it() -> None:
    """I1"""
    kept = Kept()
    kept.out.open()
    kept.out.batch.end_lsn = Lsn(300)
    kept.kafka.refuses = True

    with pytest.raises(BatchAborted):
        kept.out.close(None)

    assert (kept.tracker.progress, kept.tracker.confirmable_lsn) == (kept.progress, 200)


def test_cut_counts_the_rows_of_each_table_in_every_batch() -> None:
    """I7: the job compares them with what it reads."""
    kept, to = Kept(), writer()
    for count in (2, 3):
        kept.out.open()
        for _ in range(count):
            kept.out.send(to, RECORD)
        kept.out.close(None)

        changes = TableChanges(KEYED.relation_id, to.topic, (to.relation.schema_id,), count)
        assert cut_of(kept).tables == (changes,)


def test_cut_names_every_version_whose_rows_it_holds_once() -> None:
    """I2: what the job must know before it reads them."""
    kept, one = Kept(), writer()
    other = RecordWriter(record_of(*KEYED.columns[:2]), "p", "shop")
    kept.out.open()
    for each in (one, other, one):
        kept.out.send(each, RECORD)
    kept.out.close(None)

    assert [t.schema_ids for t in cut_of(kept).tables] == [(one.relation.schema_id, other.relation.schema_id)]


def test_cut_says_how_far_the_metadata_topic_must_be_read() -> None:
    """I2"""
    kept = Kept()
    kept.metadata.write([Written(KEYED).record])
    kept.out.open()
    kept.out.close(None)

    assert cut_of(kept).metadata_end_offset == 1


def test_truncate_goes_to_each_partition_and_counts_as_often() -> None:
    """I3: its order must hold for every key."""
    kept, to = Kept(), writer()
    kept.out.open()
    kept.out.send_to_all_partitions(to, KafkaRecord(None, b"t"))
    kept.out.close(None)

    assert [row.partition for row in kept.last.rows] == [0, 1, 2, 3]
    assert [t.row_count for t in cut_of(kept).tables] == [4]


@pytest.mark.parametrize("kind", ["copy_begin", "shape"])
def test_barrier_that_begins_a_schema_names_it(kind: str) -> None:
    kept, to = Kept(), writer()
    kept.out.add_barrier(to, kind, Position(Lsn(5), 1))

    assert kept.out.batch.tables[KEYED.relation_id].barriers == [
        Barrier(kind, Position(Lsn(5), 1), to.relation.schema_id)
    ]


def test_batch_that_is_given_up_leaves_nothing_to_the_next() -> None:
    """Its rows come again from Postgres."""
    kept = Kept()
    kept.out.open()
    kept.out.send(writer(), RECORD)
    kept.out.abandon()
    kept.out.open()
    kept.out.close(None)

    assert kept.happened == ["begin", "abort", "begin", "commit"]
    assert (kept.last.rows, cut_of(kept).tables) == ([], ())


def test_batch_that_is_open_is_not_begun_again() -> None:
    kept = Kept()
    kept.out.open()
    kept.out.send(writer(), RECORD)
    kept.out.open()

    assert kept.happened == ["begin"]
    assert kept.out.batch.row_count == 1


def test_origin_of_a_transaction_is_that_of_its_plain_rows_and_of_no_later_ones() -> None:
    kept = Kept()
    kept.out.open()
    before = dict(kept.out.plain_tails)
    kept.out.set_origin(b"\x02\x10")
    told = dict(kept.out.plain_tails)
    kept.out.set_origin(b"\x00")

    assert {op: rest[:2] for op, rest in told.items()} == dict.fromkeys("cur", b"\x02\x10")
    assert kept.out.plain_tails == before

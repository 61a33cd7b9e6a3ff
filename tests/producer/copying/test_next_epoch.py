"""What remains of a pipeline's progress when its epoch cannot go on: topics and names; every table is stale."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.batch.progress import Batch, ProgressTracker
from walbridge.producer.copying.next_epoch import Recorded, begins_again, metadata_begins_at, next_epoch
from walbridge.schemas.control.cut import chain_break
from walbridge.schemas.control.progress_record import Progress, Split, decode_progress, encode_progress
from walbridge.schemas.control.table_progress import TableCopy, TableProgress
from walbridge.schemas.control.table_request import COPY, FORGET, TableRequest, read_until, to_copy
from walbridge.schemas.position import Lsn

AT = Lsn(0x50)
"""A restored server's WAL is behind what was published."""
ORDERS = TableProgress(1, "current", "p.public.orders", "id", "member", Lsn(0x10), storage="file")
LAST = Progress(
    "streaming",
    "7",
    1,
    "s",
    "shop",
    Lsn(0x10),
    cut_id=9,
    end_lsn=Lsn(0x90),
    done=Lsn(0x95),
    floor=Lsn(0x80),
    split=Split(Lsn(0x97), 700, 3, 3, "00"),
    tables={1: ORDERS},
    options={"walbridge.requests_read": "5", "walbridge.publication": "16400", "walbridge.timeline": "2"},
    last_message_lsn=0x91,
)
NEW = Progress("creating", "7", 3, "s", "shop", options={"proto_version": "4", "walbridge.requests_read": "0"})


def following(last: Progress = LAST, *requests: TableRequest) -> Progress:
    recorded = Recorded({1: "public.orders", 2: "public.b"}, {2: "p.public.b"}, 0)
    return next_epoch(last, NEW, "slot s is gone", requests, 12, recorded)


def test_every_table_is_stale_since_what_was_published_and_is_to_be_copied() -> None:
    """I8. LSNs and memberships of the epoch that ended may mean something else by now: none of them is compared again.
    A topic that was made again meanwhile would be another one (I7)."""
    progress = following()

    why, name = "slot s is gone", "public.orders"
    stale = TableProgress(1, "stale", "p.public.orders", "id", since=Lsn(0x95), why=why, name=name)
    assert progress.tables == {1: stale}
    assert (to_copy(progress), read_until(progress)) == (frozenset({1}), 12)
    assert (progress.timeline, progress.split, progress.last_message_lsn, progress.done) == (3, None, None, 0)
    assert {"walbridge.publication", "walbridge.timeline"}.isdisjoint(progress.options)


@pytest.mark.parametrize(
    ("state", "since"), [("current", 0x95), ("copying", 0x95), ("stale", 0x20), ("quarantined", 0x20)]
)
def test_table_that_was_stale_before_is_so_since_then(state: str, since: int) -> None:
    known = TableProgress(2, state, since=Lsn(0x20), copy=TableCopy(Lsn(0x20)) if state == "copying" else None)
    (table,) = following(replace(LAST, tables={2: known})).tables.values()

    assert (table.state, table.since, table.topic, table.copy) == ("stale", since, "p.public.b", None)


def test_table_that_left_or_has_no_name_is_copied_only_if_it_is_noticed_again() -> None:
    tables = {1: replace(ORDERS, state="dropped"), 3: TableProgress(3, "stale")}
    progress = following(replace(LAST, tables=tables))

    assert [table.state for table in progress.tables.values()] == ["dropped", "dropped"]
    assert to_copy(progress) == set()


def test_requests_that_came_meanwhile_are_taken_with_that_for_a_copy_of_all() -> None:
    tables = {1: ORDERS, 2: TableProgress(2, "dropped")}
    progress = following(
        replace(LAST, tables=tables), *(TableRequest(FORGET, each) for each in (1, 2)), TableRequest(COPY, 0)
    )

    assert {*progress.tables} == {1}, "a table that is followed is not forgotten"


def test_epoch_is_known_to_begin_until_its_first_cut_and_that_begins_a_chain() -> None:
    """I4: progress says so in the Kafka transaction of the cut."""
    creating = following()
    assert begins_again(decode_progress(encode_progress(creating)))
    assert not begins_again(LAST)
    assert not begins_again(NEW)
    tracker = ProgressTracker(LAST)
    tracker.committed(creating)

    progress, cut = tracker.begin_epoch(Batch(), [], 4, 1, AT)

    assert not begins_again(progress)
    assert (progress.state, progress.consistent_point, progress.floor, progress.done) == ("streaming", AT, AT, AT)
    assert (cut.cut_id, cut.previous_end_lsn, cut.end_lsn, cut.complete) == (1, AT, AT, True)
    assert cut.epoch == progress.epoch != LAST.epoch
    _, before = ProgressTracker(LAST).close(Batch(), [], 0, None, 0)
    assert chain_break(before, cut) is None


def test_tables_of_another_cluster_are_those_of_the_same_names_under_its_relation_ids() -> None:
    """A relation id of before may be another table's by now; a table that is not there is not known any more."""
    tables = {
        1: ORDERS,
        2: TableProgress(2, "current", "p.public.b_2", name="public.b"),
        3: TableProgress(3, "dropped"),
    }
    others = {"public.b": 1, "public.orders": 9, "public.new": 3}
    recorded = Recorded({1: "public.orders"}, {}, 40)
    progress = next_epoch(replace(LAST, tables=tables), NEW, "why", (), 12, recorded, others)

    assert {each: (table.relation_id, table.topic) for each, table in progress.tables.items()} == {
        9: (9, "p.public.orders"),
        1: (1, "p.public.b_2"),
    }
    assert to_copy(progress) == frozenset({1, 9})
    assert progress.options["walbridge.metadata_from"] == "40"
    assert next_epoch(progress, NEW, "why", (), 12, Recorded({}, {}, 44)).options["walbridge.metadata_from"] == "40"


def test_partitions_that_the_topics_were_made_with_are_those_of_the_old_epoch() -> None:
    """I3: the settings may name others by now, and then each table needs another topic."""
    last = replace(LAST, options=LAST.options | {"walbridge.partitions": "3"})
    assert following(last).options["walbridge.partitions"] == "3"
    assert "walbridge.partitions" not in following().options


@pytest.mark.parametrize(("metadata_end", "begins_at"), [(40, 40), (41, 40), (39, 0), (0, 0)])
def test_metadata_topic_that_was_made_anew_is_of_this_cluster_alone(metadata_end: int, begins_at: int) -> None:
    """I2: what its records say of relation ids holds from the first one on."""
    progress = replace(LAST, options={"walbridge.metadata_from": "40"})
    assert metadata_begins_at(progress, metadata_end) == begins_at
    assert metadata_begins_at(LAST, metadata_end) == 0

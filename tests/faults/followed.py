"""Remedies followed to the letter: what an operator types after a refusal, up to a pipeline that streams again."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.faults.topic_life import TopicLife
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.drop import drop
from walbridge.init import initialise
from walbridge.producer.kafka.table_requests import copy_of_all_asked
from walbridge.schemas.control.table_progress import CURRENT, DROPPED
from walbridge.schemas.control.table_request import to_copy
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import load_settings
from walbridge.schemas.topics import progress_topic
from walbridge.tables.copy_all import copy_all
from walbridge.tables.read_tables import read_tables


def settings_of(producer: ProducerUnderTest) -> Settings:
    """As the command reads them from the file that its last start was given."""
    return load_settings(producer.folder / "walbridge.toml")


def drop_slot_only(producer: ProducerUnderTest) -> None:
    """``walbridge drop --slot-only --yes``."""
    code = drop(
        settings_of(producer), slot_only=True, keep_publication=False, yes=True, ask=bool, say=lambda line: None
    )
    assert code == 0


def copy_first(producer: ProducerUnderTest) -> None:
    """COPY_ALL_FIRST: the topics that are there hold what came before and what comes now."""
    drop_slot_only(producer)
    _streams(producer)


def copy_first_without_progress(producer: ProducerUnderTest) -> None:
    """The same, once the topic of progress was deleted."""
    TopicLife(producer).delete(progress_topic(producer.name))
    copy_first(producer)


def copy_all_again(producer: ProducerUnderTest, *, whole: bool = True) -> str | None:
    """COPY_ALL; the program that was refused does not run. The next start does what the command said that it would.
    Why the stream could not go on; None where it did.

    Args:
        whole: whether the topics still hold all that was ever published, to be compared with the source.
    """
    said, told = list[str](), list[str]()
    assert copy_all(settings_of(producer), wait=False, say=said.append, out=told.append) == 0
    lost: str | None = json.loads(told[0])["stream_lost"]
    running = producer.start_streaming()
    wait_until_current(producer)
    if whole:
        producer.check_equal()
    running.stop()
    begun = [line for line in running.log.splitlines() if "a new epoch begins" in line]
    if lost is None:
        assert (said[1][:19], begun) == ("the stream goes on ", [])
    else:
        assert said[1] == f"the stream cannot go on: {lost}"
        lost = lost.removesuffix(" is gone, and with it the records that were in it")  # the start makes the topic again
        assert [lost.replace('"', '\\"') in line for line in begun] == [True]
    return lost


def copy_all_into_what_is_left(producer: ProducerUnderTest) -> None:
    """COPY_ALL, where a topic of all tables was lost: what becomes of the lake is in ``test_topic_of_all_lost.py``."""
    assert copy_all_again(producer, whole=False) is not None


def wait_until_current(producer: ProducerUnderTest) -> None:
    """Every table that is published is copied, also as ``walbridge copy --all`` asked before."""
    settings = settings_of(producer)

    def is_done() -> bool:
        with producer.topics() as topics:
            progress = topics.progress()
        assert progress is not None
        if copy_of_all_asked(settings, progress) is not None:  # not read yet: the states are those of before
            return False
        states = {each: table.state for each, table in progress.tables.items() if table.state != DROPPED}
        # What has just come to the publication is not among them before a cut has told of it.
        is_known = producer.published().keys() <= states.keys()
        return progress.state == "streaming" and is_known and {*states.values()} == {CURRENT} and not to_copy(progress)

    wait_until(is_done, "all tables to be current")


def states_by_name(settings: Settings) -> dict[str | None, str]:
    """Of the tables that the newest progress knows: one that no cut has announced yet is not among them."""
    tables = read_tables(settings, needs_postgres=True).tables
    return {table.name: table.progress.state for table in tables if table.progress is not None}


def follow_as_new_pipeline(producer: ProducerUnderTest) -> None:
    """NEW_PIPELINE."""
    another = replace(producer, name=f"{producer.name}_new", _running=[])
    try:
        another.write_settings()
        initialise(settings_of(another), None, lambda line: None)
        _streams(another)
    finally:
        another.kill_all()


def drop_and_copy_all_again(producer: ProducerUnderTest) -> None:
    """The slot is somebody else's: both ways that there are, one after the other."""
    follow_as_new_pipeline(producer)
    producer.write_settings()
    producer.database.execute(f"SELECT pg_drop_replication_slot('{producer.slot}');")
    copy_all_again(producer)


def _streams(producer: ProducerUnderTest) -> None:
    running = producer.start_streaming()
    producer.check_equal()
    running.stop()

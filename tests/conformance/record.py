"""Records the conformance set from real servers: ``python -m tests.conformance.record`` writes ``schemas/conformance``.

In: a Postgres and a broker of its own, the scenario. Out: the records of all topics but progress, which is the
producer's own, and what they are in the other formats (``formats.py``); what they say, event by event and transaction
by transaction, as this code reads it; and the tables as Postgres itself has them at the end, which no code of ours has
touched. ``test_recorded.py`` holds them to each other.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.conformance import expected, formats, optional, scenario
from tests.conformance.recorded import (
    CONTROL,
    FOLDER,
    OPTIONAL,
    PIPELINE,
    TRANSACTIONS,
    Recording,
    record_line,
    write_lines,
)
from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest
from tests.topic_reader import Topics
from walbridge.consumer.client import record_of
from walbridge.consumer.cut_groups import CutGroups
from walbridge.consumer.event import KafkaRecord
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer


def record() -> None:
    """Write both sets anew."""
    play_and_write(scenario.play, FOLDER, scenario.NAMES)
    play_and_write(optional.play, FOLDER / OPTIONAL, optional.NAMES)
    formats.write()


def play_and_write(play: Callable[[ProducerUnderTest], None], folder: Path, names: Iterable[str]) -> None:
    """With servers of its own."""
    with (
        PostgresServer() as server,
        KafkaBroker() as broker,
        new_database(server) as database,
        tempfile.TemporaryDirectory() as home,
    ):
        producer = ProducerUnderTest(PIPELINE, database, broker, Path(home), as_command=True)
        try:
            play(producer)
            write(folder, producer, names)
        finally:
            producer.kill_all()


def write(folder: Path, producer: ProducerUnderTest, names: Iterable[str]) -> None:
    """What is in the topics and in these tables now."""
    with producer.topics() as topics:
        found = _records(topics, producer.name)
    _write(folder, found)
    wanted = expected.tables(producer.database, names)
    (folder / "tables.json").write_text(json.dumps(wanted, ensure_ascii=False, indent=1) + "\n")


def _records(topics: Topics, pipeline: str) -> list[KafkaRecord]:
    control = [pipeline + end for end in CONTROL]
    by_setting = [topic for topic in [pipeline + TRANSACTIONS] if topics.reader(topic).exists]
    data = [*sorted({relation.topic for relation in topics.relations()}), *by_setting]
    found = [record_of(message) for topic in (*control, *data) for message in topics.reader(topic).read_to_end()]
    order = {topic: number for number, topic in enumerate((*control, *data))}
    return sorted(found, key=lambda each: (order[each.topic], each.partition, each.offset))


def _write(folder: Path, found: list[KafkaRecord]) -> None:
    recording = Recording(found)
    decoder, groups = recording.decoder(), CutGroups(lambda relation_id, topic: True)
    write_lines(folder, "records.jsonl", map(record_line, found))
    write_lines(folder, "events.jsonl", (expected.event_line(decoder.decode(each)) for each in recording.data))
    whole = [group for offset, cut in recording.cuts if (group := groups.receive(cut, offset)) is not None]
    lines = (expected.transaction_line(group, recording.places) for group in whole if group.ranges)
    write_lines(folder, "transactions.jsonl", lines)
    if recording.messages:
        write_lines(folder, "messages.jsonl", optional.message_lines(recording))
        write_lines(folder, "boundaries.jsonl", optional.boundary_lines(recording))


if __name__ == "__main__":
    record()

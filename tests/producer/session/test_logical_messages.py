"""Logical messages: what they become, and which come twice."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import fastavro
import pytest

from tests.producer.kept import Kept
from tests.producer.streaming_progress import SPLIT, STREAMING
from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.errors.rows import row_too_large
from walbridge.producer.pgoutput.messages import LogicalMessage
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.logical_messages import LogicalMessages, MessageWriter
from walbridge.schemas.avro.codec import decode_body, long_bytes
from walbridge.schemas.avro.framing import frame_of
from walbridge.schemas.control.message_schema import message_relation
from walbridge.schemas.control.metadata_record import RelationRecord, decode_metadata, encode_metadata
from walbridge.schemas.control.progress_record import Progress, Split
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Postgres

RELATION = message_relation("p-1")
MESSAGE = LogicalMessage(True, Lsn(0x200), "app", b"\xff\x00")
SOURCE = TransactionSource.of(0x300, 1_700_000_000_000_000, 7, "elsewhere", 0x99)
TS_MS = b"\x02" + long_bytes(42)


def written(message: LogicalMessage = MESSAGE) -> bytes:
    record = MessageWriter(RELATION, "p-1", "shop").message(message, SOURCE, 3, TS_MS)
    assert record.key is None
    return record.value or b""


def test_message_is_an_m_of_no_table_in_the_envelope_of_all_topics() -> None:
    """Debezium's shape of it."""
    value = written()
    event = decode_body(value, fastavro.parse_schema(json.loads(RELATION.value_schema)))

    assert frame_of(value).frame_id == RELATION.schema_id
    assert event["message"] == {"prefix": "app", "content": b"\xff\x00"}
    assert (event["op"], event["before"], event["after"], event["ts_ms"]) == ("m", None, None, 42)
    source = event["source"]
    assert (source["schema"], source["table"], source["relation_id"]) == ("", "", 0)
    assert (source["commit_lsn"], source["ordinal"], source["txId"]) == (0x300, 3, 7)
    assert (source["origin"], source["origin_lsn"]) == ("elsewhere", 0x99)


def test_readers_of_the_metadata_topic_take_the_record_of_messages_for_a_relation_without_columns() -> None:
    decoded = decode_metadata(encode_metadata(RELATION))

    assert isinstance(decoded, RelationRecord)
    assert decoded == RELATION
    assert (decoded.topic, decoded.partition_count, decoded.table.columns) == ("p-1.messages", 1, ())


def test_message_that_is_too_large_is_told_by_its_place_alone() -> None:
    """I10"""
    refusal = row_too_large(RELATION, written(), 10)

    assert refusal.what.startswith("a logical message takes ")
    assert "0/300" in refusal.what
    assert "message_prefixes" in refusal.remedy


def test_message_from_before_a_half_published_transaction_that_was_not_published_is_refused() -> None:
    """I4: what is filtered was changed, though the options say otherwise."""
    split = Split(Lsn(0x300), 7, 10, 10, "")
    progress = Progress("streaming", "1", 1, "s", "shop", split=split, last_message_lsn=0x150)
    out = cast(OpenBatch, SimpleNamespace(tracker=SimpleNamespace(progress=progress)))
    messages = LogicalMessages(Settings.model_validate({"name": "p-1"}), cast(Tables, None), out)
    outside: dict[str, Any] = {"sent_us": 0, "ends_lsn": True}

    assert not messages.publish_outside(LogicalMessage(False, Lsn(0x150), "app", b""), **outside)
    with pytest.raises(OperatorError, match="0/200 was not published before transaction 7"):
        messages.publish_outside(MESSAGE, **outside)


OUTSIDE = replace(MESSAGE, transactional=False)


def publishing(progress: Progress = STREAMING, prefixes: tuple[str, ...] = ()) -> tuple[Kept, LogicalMessages]:
    """A session that asked for messages."""
    postgres = Postgres(messages=True, message_prefixes=prefixes)
    kept = Kept(settings=Settings(name="p", postgres=postgres), progress=progress)
    return kept, LogicalMessages(kept.settings, kept.tables, kept.out)


def test_each_message_is_published_once_however_often_its_session_begins_before_it() -> None:
    """I4: by the last one that progress knows, and not by one more or less."""
    kept, messages = publishing(replace(STREAMING, last_message_lsn=0x200))
    told = [0x1F8, 0x200, 0x208, 0x208, 0x210]

    came = [messages.publish_outside(replace(OUTSIDE, message_lsn=Lsn(lsn)), 0, ends_lsn=True) for lsn in told]

    assert came == [False, False, True, False, True]
    assert kept.out.batch.row_count == 2
    assert (kept.out.batch.last_message_lsn, kept.out.batch.end_lsn) == (0x210, 0x210)


def test_message_inside_an_open_transaction_is_remembered_and_ends_no_lsn() -> None:
    """I1, I4"""
    kept, messages = publishing()
    messages.publish_outside(OUTSIDE, 0, ends_lsn=False)

    assert (kept.out.batch.last_message_lsn, kept.out.batch.end_lsn) == (0x200, None)


@pytest.mark.parametrize(("lsn", "is_refused"), [(0x2FF, True), (0x300, True), (0x301, False)])
def test_message_up_to_the_commit_of_a_half_published_transaction_must_have_been_published(
    lsn: int, is_refused: bool
) -> None:
    """I4: its first part was cut behind all that came before its commit."""
    _, messages = publishing(replace(STREAMING, split=replace(SPLIT, commit_lsn=Lsn(0x300))))
    with pytest.raises(OperatorError) if is_refused else nullcontext():
        messages.publish_outside(replace(OUTSIDE, message_lsn=Lsn(lsn)), 0, ends_lsn=True)


@pytest.mark.parametrize(("prefixes", "wanted"), [((), True), (("app", "b"), True), (("ap",), False)])
def test_messages_of_the_operators_prefixes_are_wanted_and_without_any_all(
    prefixes: tuple[str, ...], wanted: bool
) -> None:
    _, messages = publishing(prefixes=prefixes)

    assert messages.wants(MESSAGE) is wanted

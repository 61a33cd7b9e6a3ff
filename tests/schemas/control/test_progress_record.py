"""What a restart believes is what was written, of the slot and of each table; newer code's records are refused."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given

from tests.schemas.strategies import PROGRESS, TABLES
from walbridge.schemas.avro.codec import decode_control, encode_control
from walbridge.schemas.control.cut import Epoch
from walbridge.schemas.control.progress_record import Progress, decode_progress, encode_progress, read_back
from walbridge.schemas.control.table_progress import (
    FORMAT_VERSION,
    TableProgress,
    decode_table,
    encode_table,
    table_key,
)
from walbridge.schemas.control.table_request import (
    COPY,
    TableRequest,
    encode_request,
    key_json,
    key_values,
    request_key,
    request_of,
)
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

STREAMING = Progress("streaming", "7000000000000000000", 2, "walbridge", "shop", consistent_point=Lsn(0x1000))
ORDERS, ITEMS, NOTES, LEDGER = 16_385, 16_390, 16_398, 16_401
FORMAT_1 = json.loads(Path("tests/data/progress/format_1.json").read_text())
"""Records that the last code of format 1 wrote, of a pipeline with the four tables."""
Records = Sequence[tuple[bytes | None, bytes | None]]


def records_of(progress: Progress) -> Records:
    """As one transaction writes them: the slot's last."""
    tables = [(table_key(progress.slot, each), encode_table(table)) for each, table in progress.tables.items()]
    return [*tables, (progress.key, encode_progress(progress))]


def found(*records: tuple[bytes | None, bytes | None], slot: str = "walbridge") -> Progress | None:
    return read_back(slot, reversed(records))


def of_format_1(state: str) -> Progress:
    progress = found((FORMAT_1["key"].encode(), bytes.fromhex(FORMAT_1["records"][state])))
    assert progress is not None
    return progress


@given(PROGRESS)
def test_progress_that_is_read_back_is_the_written_one(progress: Progress) -> None:
    progress = replace(progress, slot="walbridge")
    assert found(*records_of(progress)) == replace(progress, tables=dict(sorted(progress.tables.items())))


@given(TABLES)
def test_decoded_table_is_the_encoded_one(table: TableProgress) -> None:
    assert decode_table(encode_table(table)) == table


def test_what_is_asked_of_a_table_is_no_record_of_it() -> None:
    request = TableRequest(COPY, ORDERS)
    progress = replace(STREAMING, tables={ORDERS: TableProgress(ORDERS, "current")})
    asked = request_key("walbridge", request), encode_request(request)

    assert found(*records_of(progress), asked) == progress
    assert request_of("walbridge", *asked) == request
    assert [request_of("walbridge", key or b"", value) for key, value in records_of(progress)] == [None, None]
    assert request_of("walbridge2", *asked) is None


def test_request_of_the_lake_is_told_from_an_operators_by_its_key_alone() -> None:
    """Earlier code takes it for an operator's."""
    request, of_lake = TableRequest(COPY, ORDERS), TableRequest(COPY, ORDERS, by_lake=True)
    key = request_key("walbridge", of_lake)
    progress = replace(STREAMING, tables={ORDERS: TableProgress(ORDERS, "current")})

    assert encode_request(of_lake) == encode_request(request)
    assert request_of("walbridge", key, encode_request(of_lake)) == of_lake
    assert key.count(b"/") == 3  # of those that earlier code reads
    assert found(*records_of(progress), (key, encode_request(of_lake))) == progress


def test_request_of_keys_is_read_as_it_was_asked_and_takes_no_other_ones_place() -> None:
    keys = [key_json({"b": "ä", "a": "1"}), key_json({"a": "2", "b": "/"})]
    one, other = (TableRequest.of_keys(ORDERS, each, 7) for each in (keys, keys[:1]))
    assert [request_of("walbridge", request_key("walbridge", each), encode_request(each)) for each in (one, other)] == [
        one,
        other,
    ]
    assert len({request_key("walbridge", each) for each in (one, other, TableRequest(COPY, ORDERS))}) == 3
    assert request_key("walbridge", one) == request_key("walbridge", replace(one, written_at_us=9))
    assert key_values(keys[0]) == {"a": "1", "b": "ä"}
    progress = replace(STREAMING, tables={ORDERS: TableProgress(ORDERS, "current")})
    assert found(*records_of(progress), (request_key("walbridge", one), encode_request(one))) == progress


def test_doubt_is_read_as_it_was_written_by_a_key_that_earlier_code_passes_over() -> None:
    doubt = TableRequest.of_doubt(ORDERS, 7)
    key = request_key("walbridge", doubt)
    progress = replace(STREAMING, tables={ORDERS: TableProgress(ORDERS, "current")})

    assert request_of("walbridge", key, encode_request(doubt)) == doubt
    assert key.count(b"/") not in (2, 3)  # what earlier code took for a request
    assert found(*records_of(progress), (key, encode_request(doubt))) == progress


def test_progress_of_newer_code_is_refused() -> None:
    with pytest.raises(ProtocolError, match=f"progress format {FORMAT_VERSION + 1} is newer"):
        decode_progress(encode_progress(replace(STREAMING, format_version=FORMAT_VERSION + 1)))
    with pytest.raises(ProtocolError, match=f"progress format {FORMAT_VERSION + 1} is newer"):
        decode_table(encode_table(TableProgress(1, "current", format_version=FORMAT_VERSION + 1)))


def test_progress_is_keyed_by_its_slot_so_that_another_servers_record_is_found() -> None:
    assert STREAMING.key == replace(STREAMING, system_id="1", timeline=9).key == b"walbridge"


def test_epoch_of_progress_is_that_of_its_cuts() -> None:
    assert STREAMING.epoch == Epoch("7000000000000000000", 2, "walbridge", 0x1000)


def table(relation_id: int, state: str = "current") -> TableProgress:
    return TableProgress(relation_id, state)


TWO = replace(STREAMING, tables={ORDERS: table(ORDERS), ITEMS: table(ITEMS)})


def test_newest_record_of_each_table_counts() -> None:
    later = replace(TWO, cut_id=8, tables={ORDERS: table(ORDERS), ITEMS: table(ITEMS, "stale")})
    records = [*records_of(TWO), (table_key("walbridge", ITEMS), encode_table(later.tables[ITEMS]))]

    assert found(*records, (later.key, encode_progress(later))) == later
    assert later.relation_ids == (ORDERS,)


def test_table_whose_record_was_removed_is_none() -> None:
    later = replace(TWO, tables={ORDERS: table(ORDERS)})
    removed = (table_key("walbridge", ITEMS), None)

    assert found(*records_of(TWO), removed, (later.key, encode_progress(later))) == later
    assert found(*records_of(TWO), removed, *records_of(TWO)) == TWO


def test_no_more_is_read_than_up_to_the_oldest_record_that_counts() -> None:
    """The topic may hold months that Kafka has not compacted."""

    def newest_first() -> Iterator[tuple[bytes | None, bytes | None]]:
        for cut_id in range(9, 5, -1):
            yield TWO.key, encode_progress(replace(TWO, cut_id=cut_id))
        yield from reversed(records_of(TWO))
        pytest.fail("all was there before this")

    assert read_back("walbridge", newest_first()) == replace(TWO, cut_id=9)


def test_missing_record_of_a_table_is_noticed() -> None:
    """I7: its changes would be those of a table without a copy."""
    with pytest.raises(ProtocolError, match="1 of the 2 records of tables are gone"):
        found(*records_of(TWO)[1:])


def test_records_of_another_slot_are_not_ours() -> None:
    other = replace(TWO, slot="walbridge2", tables={LEDGER: table(LEDGER)})

    assert found(*records_of(TWO), *records_of(other)) == TWO
    assert found(*records_of(other)) is None
    assert found() is None


@pytest.mark.parametrize("options", [{}, {"walbridge.tables": "many"}])
def test_progress_without_a_number_of_tables_is_malformed(options: dict[str, str]) -> None:
    _, record = decode_control(encode_progress(TWO))
    with pytest.raises(ProtocolError, match="malformed"):
        decode_progress(encode_control("Progress", record | {"options": options}))


@pytest.mark.parametrize(
    ("written", "state", "tables"),
    [
        ("creating", "creating", {}),
        ("copying, before its first cut", "copying", {}),
        ("copying", "copying", dict.fromkeys((ORDERS, ITEMS, NOTES, LEDGER), "copying")),
        ("streaming, after the copy", "streaming", dict.fromkeys((ORDERS, ITEMS, NOTES, LEDGER), "current")),
        ("streaming", "streaming", dict.fromkeys((ORDERS, ITEMS, NOTES, LEDGER), "current")),
        ("split", "streaming", dict.fromkeys((ORDERS, ITEMS, NOTES, LEDGER), "current")),
        (
            "a table left the publication",
            "streaming",
            {ORDERS: "current", ITEMS: "current", NOTES: "dropped", LEDGER: "current"},
        ),
        (
            "a table lost a value",
            "streaming",
            {ORDERS: "current", ITEMS: "current", NOTES: "dropped", LEDGER: "stale"},
        ),
        ("streaming, before baselines", "streaming", {ORDERS: "current", ITEMS: "current"}),
    ],
)
def test_record_of_format_1_says_the_same_of_each_table(written: str, state: str, tables: dict[int, str]) -> None:
    """A pipeline of earlier code goes on without a copy."""
    progress = of_format_1(written)

    assert (progress.format_version, progress.state) == (1, state)
    assert {relation_id: each.state for relation_id, each in progress.tables.items()} == tables
    assert not {"walbridge.members", "walbridge.unfollowed", "walbridge.tables"} & progress.options.keys()


def test_rest_of_a_record_of_format_1_is_as_it_was_written() -> None:
    """I4: what is skipped inside the half published transaction above all."""
    progress = of_format_1("split")

    assert progress.split is not None
    assert (progress.split.xid, progress.split.messages_done, progress.split.next_ordinal) == (812, 10_000, 10_004)
    assert (progress.consistent_point, progress.cut_id, progress.floor) == (0x15A3F20, 4, 0x15A4320)
    assert {each: progress.tables[each].membership for each in progress.tables} == {
        ORDERS: "16403", ITEMS: "16404", NOTES: "16405+16406", LEDGER: "*",
    }  # fmt: skip
    assert progress.options["walbridge.timeline"] == "2"
    assert progress.options["walbridge.topics"].startswith("shop.metadata:mEtaDaTa shop.cuts:c+t/cuts ")


def test_reason_of_a_table_that_format_1_called_unfollowed_is_told() -> None:
    left = of_format_1("a table lost a value").tables[LEDGER]

    assert (left.since, left.why) == (None, "a value of a row was nowhere")


def test_table_record_of_the_first_schema_is_read() -> None:
    """Written by the code of before: what it did not know yet is unknown."""
    known = TableProgress(7, "stale", topic="p.t", name="public.t", since=Lsn(5), why="because")
    record = asdict(known)
    del record["storage"], record["troubles"]

    assert decode_table(encode_control("TableProgress", record)) == known

"""What status prints: every section, also of peers that are away; nothing that has to be guessed."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.text import Text

from tests.walbridge.status.test_pipeline_status import AWAY, status
from walbridge.producer.postgres.slots.slot_row import Prepared, Slot, Source
from walbridge.status.json_object import as_json
from walbridge.status.pipeline_status import (
    UNKNOWN,
    Copying,
    Lake,
    LeftOut,
    PipelineStatus,
    Published,
    Silent,
    TableState,
)
from walbridge.status.read_status import without_forgotten
from walbridge.status.show import TABLES_SHOWN_MAX, as_table, as_text

SLOT = Slot(
    active_pid=42, wal_status="reserved", retained_bytes=12_345, safe_wal_size_bytes=None, confirmed_flush_lsn=1
)


def text_of(slot: Slot | None, state: str | None = "streaming") -> str:
    there = status()
    assert isinstance(there.source, Source)
    assert isinstance(there.published, Published)
    return as_text(
        replace(there, source=replace(there.source, slot=slot), published=replace(there.published, state=state))
    )


def test_lines_say_where_each_stands_and_how_far_behind_it_is() -> None:
    assert text_of(SLOT).splitlines() == [
        "pipeline     p, 2026-01-31 12:00:00Z",
        "server       Postgres 18.1, WAL up to 0/3E8",
        "slot         s: in use (pid 42), holds 12.3 kB of WAL, wal_status reserved, no limit but the disk",
        "producer     streaming",
        "in Kafka     cut 9 at 0/384: 100 B and at most 2.0 s behind the server",
        "in the lake  cut 7 at 0/2BC, committed 2026-01-31 11:59:30Z: 300 B and at most 30 s behind the server, "
        "200 B behind Kafka",
    ]


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        (None, "s does not exist"),
        (replace(SLOT, active_pid=None), "nobody reads it"),
        (replace(SLOT, safe_wal_size_bytes=5_000_000_000), "lost after 5.0 GB more"),
        (replace(SLOT, wal_status="lost", retained_bytes=None), "holds no WAL, wal_status lost"),
    ],
)
def test_slot_line_says_what_an_operator_must_know(slot: Slot | None, words: str) -> None:
    assert words in text_of(slot).splitlines()[2]


def test_prepared_transactions_are_shown_with_age_and_what_they_hold_back() -> None:
    prepared = replace(SLOT, prepared=Prepared(2, "it's", 200), confirmed_flush_lsn=900)
    assert text_of(prepared).splitlines()[3].strip() == (
        "prepared and not ended: 2, the oldest 'it''s' for 3 min 20 s; 100 B of WAL are read again at each start, "
        "until COMMIT PREPARED or ROLLBACK PREPARED"
    )


@pytest.mark.parametrize(
    ("slot", "state", "words"),
    [
        (SLOT, "streaming", "streaming"),
        (replace(SLOT, active_pid=None), "streaming", "streaming, but not running now"),
        (replace(SLOT, active_pid=None), "copying", "copying"),
        (None, None, "never started"),
    ],
)
def test_producer_line_tells_stopped_from_running(slot: Slot | None, state: str | None, words: str) -> None:
    assert text_of(slot, state).splitlines()[3] == f"producer     {words}"


def test_tables_that_are_not_current_come_first_and_many_current_ones_are_counted() -> None:
    current = tuple(TableState(f"public.t{number}", "current", 1) for number in range(TABLES_SHOWN_MAX + 1))
    stale = TableState("public.zebra", "stale", 255)

    lines = as_text(replace(status(), lake=Lake(True, "p", None, (*current, stale)))).splitlines()

    assert lines[-2:] == ["tables       public.zebra  stale since 0/FF", "             31 tables are current"]


def test_terminal_shows_the_same_words() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    console.print(as_table(status()))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()

    for words in ("Postgres 18.1", "cut 9 at 0/384", "200 B behind Kafka"):
        assert words in shown


def test_peers_that_are_away_are_named_in_their_own_section() -> None:
    lines = as_text(replace(status(), source=AWAY, published=AWAY, lake=AWAY)).splitlines()

    assert lines[1:] == [
        "server       unreachable: away",
        "slot         s: not known",
        "producer     not known",
        "in Kafka     unreachable: away",
        "in the lake  unreachable: away",
    ]


def red_rows(there: PipelineStatus) -> list[str]:
    """Headings of the rows that a terminal shows in red."""
    headings, texts = as_table(there).columns
    cells = zip(headings.cells, texts.cells, strict=True)
    return [str(heading) for heading, text in cells if isinstance(text, Text) and text.style == "red"]


def with_slot(slot: Slot | None) -> PipelineStatus:
    there = status()
    assert isinstance(there.source, Source)
    return replace(there, source=replace(there.source, slot=slot))


def test_terminal_shows_in_red_what_is_wrong_and_nothing_else() -> None:
    current = TableState("public.lost_items", "current", None)
    well = with_slot(replace(SLOT, safe_wal_size_bytes=5_000_000_000))

    assert red_rows(replace(well, lake=Lake(True, "p", None, (current, current)))) == []
    assert red_rows(with_slot(replace(SLOT, wal_status="lost"))) == ["slot"]
    assert red_rows(replace(well, published=AWAY, lake=AWAY)) == ["in Kafka", "in the lake"]


def test_lake_of_another_pipeline_has_no_lag_and_no_tables() -> None:
    there = status()
    assert isinstance(there.lake, Lake)
    table = TableState("public.orders", "current", None)
    foreign = replace(there, lake=replace(there.lake, pipeline="other", tables=(table,)))

    assert as_text(foreign).splitlines()[-1] == "in the lake  lake belongs to pipeline other, this one is p"
    assert (foreign.lake_lag, foreign.lake_behind_kafka_bytes) == (UNKNOWN, None)
    assert as_json(foreign)["lake"]["pipeline"] == "other"
    assert red_rows(foreign) == ["slot", "in the lake"]


def test_lake_that_was_not_asked_is_no_alarm() -> None:
    there = replace(with_slot(SLOT), lake=Silent("not looked at: deltalake is not installed here", away=False))

    assert as_text(there).splitlines()[-1] == "in the lake  not looked at: deltalake is not installed here"
    assert red_rows(there) == []


def test_tables_that_came_after_the_copy_are_named_with_since_and_why() -> None:
    there = status()
    assert isinstance(there.published, Published)
    left = LeftOut("public.late", 0x2BC, "added after the copy")
    shown = replace(there, published=replace(there.published, left_out=(left,)))

    assert "not in Kafka public.late  stale since 0/2BC: added after the copy" in as_text(shown).splitlines()
    assert as_json(shown)["producer"] == {
        "reachable": True,
        "state": "streaming",
        "left_out": [
            {"table": "public.late", "state": "stale", "since_lsn": "0/2BC", "why": "added after the copy"},
        ],
        "copying": [],
    }


def test_copies_that_go_on_are_shown_with_their_share() -> None:
    there = status()
    assert isinstance(there.published, Published)
    copying = (Copying("public.late", 1000, 12_345, 0.42), Copying("public.new", 1, 20, None))
    shown = replace(there, published=replace(there.published, copying=copying))

    assert "copied now   public.late  copying 42 %, 1,000 rows, 12.3 kB" in as_text(shown).splitlines()
    assert "             public.new  copying, 1 row, 20 B" in as_text(shown).splitlines()
    assert as_json(shown)["producer"]["copying"][0] == {
        "table": "public.late",
        "rows": 1000,
        "bytes": 12_345,
        "share": 0.42,
    }


def test_table_that_was_forgotten_is_shown_no_more() -> None:
    lake = Lake(
        True, "p", None, (TableState("public.a", "stale", 1, relation_id=1), TableState("b", "stale", 1, None, 2))
    )
    assert without_forgotten(lake, Published("streaming", None, known=frozenset({2}))) == replace(
        lake, tables=lake.tables[1:]
    )
    assert without_forgotten(lake, Published("copying", None)) == lake


def test_table_in_trouble_is_shown_with_why_and_what_mends_it() -> None:
    left = TableState("public.a", "stale", 255, "its folder is gone")
    shown = replace(with_slot(SLOT), lake=Lake(True, "p", None, (left,)))

    assert "public.a  stale since 0/FF: its folder is gone (walbridge copy public.a)" in as_text(shown)
    assert as_json(shown)["lake"]["tables"][0]["why"] == "its folder is gone"


def test_table_in_trouble_whose_copy_goes_on_needs_nothing() -> None:
    left = TableState("public.a", "stale", 255, "its folder is gone", is_mended=True)
    shown = replace(with_slot(SLOT), lake=Lake(True, "p", None, (left,)))

    assert "public.a  stale since 0/FF: its folder is gone (a copy goes on)" in as_text(shown)

"""The demo's view says what was measured."""

import io

import pytest
from rich.console import Console

from walbridge.demo.measures import Measure
from walbridge.demo.view import View, lag

TABLES = ("public.pgbench_accounts", "public.pgbench_history")


def measure(at_s: float, written: int, records: int, rows: int) -> Measure:
    name = TABLES[0]
    return Measure(at_s, 5_000, 2_000, {name: written}, {name: records}, {name: rows}, lag_s=1.25)


def shown(*measures: Measure, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    with View(TABLES, console, seconds=30) as view:
        for each in measures:
            view.show(each)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_line_has_rates_per_table_lake_rows_and_lag() -> None:
    text = shown(measure(10, 100, 50, 7), measure(15, 1_100, 550, 4_007), terminal=False)

    assert text.splitlines()[-1] == (
        "  5 s  table, Postgres/Kafka rows/s, lake rows: accounts 200/100 4,007 · history 0/0 0 · lag 3 kB, 1.2 s"
    )


def test_without_a_terminal_a_line_comes_every_few_seconds_only() -> None:
    measures = [measure(at_s, 0, 0, 0) for at_s in range(11)]

    assert len(shown(*measures, terminal=False).splitlines()) == 3


def test_on_a_terminal_there_is_a_table() -> None:
    text = shown(measure(10, 100, 50, 7), measure(15, 1_100, 550, 4_007), terminal=True)

    for part in ("Postgres rows/s", "Kafka rows/s", "lake rows", "public.pgbench_accounts", "4,007", "lag 3 kB"):
        assert part in text


@pytest.mark.parametrize("published_lsn", [None, 2_000])
def test_lag_is_unknown_before_a_cut_holds_what_was_seen(published_lsn: int | None) -> None:
    assert lag(Measure(0, 5_000, published_lsn, {}, {}, {}, lag_s=None)) == "not known yet"


def test_lake_ahead_of_the_last_look_is_not_behind() -> None:
    assert Measure(0, 1_000, 2_000, {}, {}, {}, lag_s=0.0).lag_bytes == 0

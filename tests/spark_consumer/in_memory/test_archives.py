"""A table of which not all operations come: its rows stay, and nobody is told that it equals the source (I7, I8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract_events import copy_barriers
from tests.contract_writer import Event
from tests.spark_consumer.events import column, relation
from tests.spark_consumer.memory_pipeline import MemoryPipeline, job_over
from tests.spark_consumer.two_tables import cut_rows, rows_of
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.readable_tables import readable_tables

COLUMNS = [column("id", "int4", is_key=True), column("n", "int4")]
WHOLE = relation(COLUMNS, name="whole", relation_id=1)
EVENTS = relation(COLUMNS, name="events", relation_id=2, operations=("insert",))
LOG = relation([column("n", "int4")], name="log", relation_id=3, operations=("insert", "truncate"))


def entries(lake: Path) -> dict[str, TableEntry]:
    return {entry.name: entry for entry in cut_rows(lake)[-1].tables}


def test_archive_keeps_each_row_as_it_came_last_and_is_told_apart_from_a_table_that_equals_its_source(
    tmp_path: Path,
) -> None:
    """A row that was deleted unseen comes again: it is one row, also where no plan was begun before a kill."""
    lake, pipeline = tmp_path / "lake", MemoryPipeline()
    pipeline.announce(WHOLE, EVENTS, LOG)
    with job_over(pipeline, lake) as run:
        pipeline.send(
            *(Event(of, "r", 0x1000, -1, after={"id": 1, "n": 0}) for of in (WHOLE, EVENTS)),
            Event(LOG, "r", 0x1000, -1, after={"n": 0}),
            barriers=[each for of in (WHOLE, EVENTS, LOG) for each in copy_barriers(of, 0x1000)],
        )
        run()
        for n in (1, 2):
            lsn = 0x2000 + 16 * n
            pipeline.send(
                Event(WHOLE, "u", lsn, 0, after={"id": 1, "n": n}),
                Event(EVENTS, "c", lsn, 1, after={"id": 1, "n": n}),
                Event(EVENTS, "c", lsn, 2, after={"id": n + 1, "n": 10 * n}),
                Event(LOG, "c", lsn, 3, after={"n": n}),
            )
            run()
    found = entries(lake)

    assert {name: entry.state for name, entry in found.items()} == {
        "whole": "current",
        "events": "archive",
        "log": "archive",
    }
    assert rows_of(lake, found["events"]) == [2, 10, 20]
    assert rows_of(lake, found["log"]) == [0, 1, 2]
    assert found["events"].since == cut_rows(lake)[0].end_lsn, "it is one since its copy"

    row = cut_rows(lake)[-1]
    with pytest.raises(OperatorError, match=r"table public\.events is an archive") as refused:
        readable_tables(row)
    assert "accept it with states=('current', 'archive')" in refused.value.remedy
    assert {*readable_tables(row, states=("current", "archive"))} == {"public.whole", "public.events", "public.log"}

"""docs/cuts.md, the writer of ``_cuts`` and its readers say the same: strangers read the table by that page alone."""

import dataclasses
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.documents import PAGES, blocks, table
from walbridge.lake import tables_at
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.delta.manifest import newest_cut
from walbridge.spark_consumer.delta.manifest.manifest_schema import SCHEMA
from walbridge.spark_consumer.delta.manifest.newest_cut import NEWEST_CUT_FILE, NewestCutFile
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry, by_name
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy

PAGE = "docs/cuts.md"
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
ORDERS = TableEntry(7, "public", "orders", "p.public.orders", "public/orders", 0, "0" * 16, "current", 5)
ROW = CutRow(1, "published", "p", "7-1-s-0/10", 1, 1, 2, 0x16_B374D848, NOON, NOON, (ORDERS,))


@pytest.fixture
def manifest(lake: Path) -> Manifest:
    write_deltalake(str(lake / "public" / "orders"), pa.table({"n": [1]}))
    return Manifest(str(lake), "p", {})


def told(lake: Path) -> Any:
    return json.loads((lake / NEWEST_CUT_FILE).read_text())


def written_types(of: Any) -> dict[str, str]:
    """Column → type, as Delta calls it."""
    return {each["name"]: each["type"] if isinstance(each["type"], str) else each["type"]["type"] for each in of}


def fields_of_the_table(manifest: Manifest, lake: Path) -> Any:
    assert manifest.version == 0
    return json.loads(DeltaTable(str(lake / "_cuts")).schema().to_json())["fields"]


def test_page_lists_every_column_with_its_type_in_order(manifest: Manifest, lake: Path) -> None:
    fields = fields_of_the_table(manifest, lake)
    of_tables = next(each for each in fields if each["name"] == "tables")["type"]["elementType"]["fields"]

    for first, found in (("column", fields), ("field", of_tables)):
        assert [(name.strip("`"), kind) for name, kind, _ in table(PAGE, first)] == list(written_types(found).items())


def test_row_that_is_written_is_all_that_a_row_holds() -> None:
    """A field that the table's schema lacks would be left out without a word."""
    assert [field.name for field in dataclasses.fields(CutRow)] == SCHEMA.names
    entry = SCHEMA.field("tables").type.value_type
    # Of PendingCopy, but a field of its own: it came later.
    assert [*(field.name for field in dataclasses.fields(TableEntry)), "shapes_at_end"] == [
        field.name for field in entry
    ]


def test_program_of_the_page_finds_what_tables_at_finds(manifest: Manifest, lake: Path) -> None:
    """I8: the second version is of no published cut yet."""
    manifest.append(ROW)
    write_deltalake(str(lake / "public" / "orders"), pa.table({"n": [2]}), mode="append")
    manifest.append(replace(ROW, sequence=2, kind="plan"))
    program = next(block for block in blocks(PAGES[PAGE]) if block.startswith("import pyarrow"))
    found: dict[str, Any] = {}

    exec(program.replace("/data/lake", str(lake)), found)

    ours = tables_at(str(lake))
    assert (format_lsn(found["row"]["end_lsn"]), found["orders"].version()) == (ours.lsn, ours["public.orders"].version)


def test_newest_published_cut_is_told_as_json_as_the_page_shows_it(manifest: Manifest, lake: Path) -> None:
    left = replace(ORDERS, relation_id=8, name="left", path="public/left", state="stale", why="a reason")
    first = replace(left, name="first", path="", version=None, state="copying", since=None, why=None)
    manifest.append(replace(ROW, tables=(ORDERS, left, first, replace(ORDERS, name="gone", state="dropped"))))
    manifest.append(replace(ROW, sequence=2, kind="plan"))

    shown = json.loads(next(block for block in blocks(PAGES[PAGE]) if block.startswith('{"format"')))
    assert [list(each) for each in (told(lake), told(lake)["tables"][0])] == [list(shown), list(shown["tables"][0])]
    assert told(lake) | {"tables": []} == shown | {
        "pipeline": "p",
        "epoch": "7-1-s-0/10",
        "sequence": 1,
        "commit_time": "2026-07-01T12:00:00.000000Z",
        "written_at": "2026-07-01T12:00:00.000000Z",
        "tables": [],
    }
    assert {
        each["table"]: (each["version"], each["state"], each["since"], each["why"]) for each in told(lake)["tables"]
    } == {
        "orders": (0, "current", "0/5", None),
        "left": (0, "stale", "0/5", "a reason"),
        "first": (None, "copying", None, None),
    }
    assert not [path for path in lake.iterdir() if path.name.startswith(".")]


def test_page_says_which_of_two_tables_has_a_name() -> None:
    """Step 2, written from the page, against what readers do."""
    states = [
        replace(ORDERS, state="stale"),
        replace(ORDERS, state="stale", copy_from=PendingCopy("t", (CopyShape(1, -1, "0" * 16),))),
        replace(ORDERS, state="stale", why="a reason"),
        replace(ORDERS, state="current"),
        replace(ORDERS, state="dropped"),
    ]
    for states_of_three in product(states, repeat=3):
        rows = [replace(entry, path=path) for entry, path in zip(states_of_three, "abc", strict=True)]
        left_in = [each for each in rows if each.state != "dropped"]
        preferred = [each for each in left_in if each.state in ("current", "copying") or each.copy_from or each.why]

        assert [*by_name(rows).values()] == (preferred or left_in)[-1:]


def test_file_is_replaced_on_an_object_store(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same calls, over a folder."""
    monkeypatch.setattr(NewestCutFile, "_local_file", lambda self: None)
    lake.mkdir(exist_ok=True)
    file = NewestCutFile(str(lake), {})

    file.remove()
    file.write(ROW)
    file.write(replace(ROW, sequence=2))

    assert told(lake)["sequence"] == 2
    file.remove()
    assert not list(lake.iterdir())


def test_cut_is_published_also_where_the_file_cannot_be_written(
    manifest: Manifest, lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    manifest.append(ROW)
    with monkeypatch.context() as refused:
        refused.setattr(newest_cut.NewestCutFile, "_replace", refuse)
        manifest.append(replace(ROW, sequence=2))
        manifest.append(replace(ROW, sequence=3))

    assert capsys.readouterr().out.count("is not written") == 1
    assert (told(lake)["sequence"], len(DeltaTable(str(lake / "_cuts")).file_uris())) == (1, 3)
    manifest.append(replace(ROW, sequence=4))
    assert told(lake)["sequence"] == 4


def test_lake_that_is_begun_anew_has_no_file_of_the_one_before(lake: Path) -> None:
    """I8: its versions would be those of other tables."""
    lake.mkdir(exist_ok=True)
    (lake / NEWEST_CUT_FILE).write_text(newest_cut.newest_cut_json(ROW))

    Manifest(str(lake), "p", {})

    assert not (lake / NEWEST_CUT_FILE).exists()

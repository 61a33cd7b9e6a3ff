"""Names of tables, and what ``walbridge copy`` and ``walbridge tables`` say of each: no server is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.copying.copy_share import TableSize, seconds_left
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import FIRST_COPY_WAITS, TableCopy, TableProgress
from walbridge.schemas.control.table_request import READ_OPTION, to_copy_option
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.tables.copy import CopyWait, copy, is_wanted, refuse_without_requests
from walbridge.tables.copy_all import asked_text
from walbridge.tables.forget import words
from walbridge.tables.known import KnownTable, single_table, tables_named
from walbridge.tables.read_tables import InPostgres, PipelineTables
from walbridge.tables.table_status import LakeEntry, as_json, lines, state_text, table_statuses

ORDERS, ITEMS, OTHERS = 16_385, 16_390, 16_398
HALF = TableCopy(Lsn(0x2BC), rows=50_000, bytes=1_234_567, chunks=7)
COPYING = TableProgress(ORDERS, "copying", since=Lsn(0x2BC), copy=HALF)
CURRENT = TableProgress(ORDERS, "current", since=Lsn(0x100))
STALE = TableProgress(ORDERS, "stale", since=Lsn(0x200), why="its topic is gone")


def known(
    name: str, relation_id: int = ORDERS, progress: TableProgress | None = CURRENT, *, published: bool | None = True
) -> KnownTable:
    return KnownTable(relation_id, name, f"p.{name}", progress, published)


def progress(*tables: TableProgress, read: int = 10, asked: frozenset[int] = frozenset()) -> Progress:
    options = {READ_OPTION: str(read)} | to_copy_option(asked)
    return Progress("streaming", "7", 1, "s", "shop", tables={t.relation_id: t for t in tables}, options=options)


def pipeline_tables(*tables: KnownTable, asked: frozenset[int] = frozenset(), rows: int = 100_000) -> PipelineTables:
    sizes = {table.relation_id: TableSize(rows, 10**7) for table in tables}
    of_progress = [table.progress for table in tables if table.progress is not None]
    return PipelineTables(progress(*of_progress, asked=asked), list(tables), InPostgres([], sizes, producer_runs=True))


@pytest.mark.parametrize("name", ["public.orders", "orders", '"public"."orders"', '"orders"'])
def test_table_is_named_with_and_without_its_schema_and_as_sql_quotes_it(name: str) -> None:
    orders = known("public.orders")
    assert tables_named(name, [orders, known("public.items", ITEMS)]) == [orders]


def test_name_that_is_in_two_schemas_has_to_be_told_with_its_schema() -> None:
    both = [known("a.items", ITEMS), known("b.items", OTHERS)]
    with pytest.raises(OperatorError) as refused:
        single_table("items", tables_named("items", both))
    assert "items may be any of a.items, b.items" in refused.value.what
    assert single_table("b.items", tables_named("b.items", both)).relation_id == OTHERS


def test_copy_of_a_table_that_is_being_copied_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        "walbridge.tables.copy.read_tables", lambda *_, **__: pipeline_tables(known("public.orders", progress=COPYING))
    )
    assert copy(Settings(name="p"), ["orders", "public.orders"], wait=False, say=said.append) == 0
    (line,) = said
    assert line.startswith("public.orders: is being copied already")


def test_name_without_a_schema_is_not_taken_for_the_one_in_public() -> None:
    both = [known("public.items", ITEMS), known("other.items", OTHERS)]
    assert tables_named("items", both) == tables_named('"items"', both) == both
    assert tables_named("public.items", both) == both[:1]


def test_of_a_table_that_was_made_again_under_its_name_the_newest_is_meant() -> None:
    both = [known("public.items", ITEMS), known("public.items", OTHERS)]
    assert single_table("items", tables_named("items", both)).relation_id == OTHERS


@pytest.mark.parametrize(
    ("standing", "asked", "words"),
    [
        (CURRENT, frozenset(), []),
        (STALE, frozenset(), []),
        (COPYING, frozenset(), ["public.orders: is being copied already 50 %"]),
        (CURRENT, frozenset({ORDERS}), ["public.orders: asked for already; its copy has not begun"]),
        (None, frozenset(), ["public.orders: came a moment ago; the producer copies it by itself"]),
    ],
)
def test_copy_is_asked_for_unless_it_comes_anyway(
    standing: TableProgress | None, asked: frozenset[int], words: list[str]
) -> None:
    said: list[str] = []
    table = known("public.orders", progress=standing)
    assert is_wanted(table, pipeline_tables(table, asked=asked), said.append) == (not words)
    assert said == words


@pytest.mark.parametrize(
    ("before", "now", "result"),
    [
        (CURRENT, progress(CURRENT, read=7), None),
        (CURRENT, progress(CURRENT, asked=frozenset({ORDERS})), None),
        (CURRENT, progress(COPYING), None),
        (CURRENT, progress(replace(CURRENT, since=Lsn(0x400))), ""),
        (CURRENT, progress(replace(CURRENT, why="not copied again: it has no key")), "not copied again: it has no key"),
        (CURRENT, progress(CURRENT), "it left the publication meanwhile"),
        (CURRENT, progress(), "it is gone from the pipeline"),
        (STALE, progress(STALE), "it is stale: its topic is gone"),
        (STALE, progress(CURRENT), ""),
    ],
    ids=["not read", "not begun", "copying", "copied", "refused", "left", "gone", "still stale", "stale no more"],
)
def test_wait_ends_when_the_table_is_current_or_will_not_be(
    before: TableProgress, now: Progress, result: str | None
) -> None:
    assert CopyWait(known("public.orders", progress=before), 7).result(now) == result


@pytest.mark.parametrize("standing", [None, STALE, replace(CURRENT, state="quarantined")])
def test_wait_for_a_table_that_is_in_no_publication_any_more_ends(standing: TableProgress | None) -> None:
    """Whether its request is kept or not, nothing comes of it."""
    now = progress(*[standing] if standing else [], asked=frozenset({ORDERS}))
    wait = CopyWait(known("public.orders", progress=standing), 7)
    assert wait.result(now, is_published=False) == "it is in no publication now, and is copied when it is back in one"
    assert wait.result(now) is None


def test_wait_for_a_copy_that_does_not_go_on_says_why() -> None:
    table = known("public.orders", progress=replace(COPYING, why="the role may not read it"))
    seen = pipeline_tables(table)
    assert CopyWait(table, 7).line(seen.progress, seen).endswith("; it does not go on: the role may not read it")


def test_nothing_is_asked_of_a_pipeline_that_would_not_read_it() -> None:
    earlier = replace(progress(CURRENT), options={})
    with pytest.raises(OperatorError, match="of an earlier version"):
        refuse_without_requests(Settings(name="p"), earlier)
    with pytest.raises(OperatorError, match="the first copy of pipeline p is not complete"):
        refuse_without_requests(Settings(name="p"), replace(earlier, state="copying"))
    refuse_without_requests(Settings(name="p"), progress(CURRENT))


def test_lines_say_state_share_topic_and_where_in_the_lake() -> None:
    tables = [
        known("public.items", ITEMS, replace(CURRENT, relation_id=ITEMS)),
        known("public.orders", progress=COPYING),
        known("public.others", OTHERS, replace(STALE, relation_id=OTHERS)),
    ]
    lake = {ITEMS: LakeEntry(ITEMS, "current", "public/items", 7), OTHERS: LakeEntry(OTHERS, "stale", "public/o", 3)}
    found = table_statuses(pipeline_tables(*tables), lake)

    assert [" ".join(line.split()) for line in lines(found, lake_is_known=True)] == [
        "public.items current topic p.public.items lake public/items version 7",
        "public.orders copying 50 % 50,000 rows, 1.2 MB topic p.public.orders not in the lake",
        "public.others stale since 0/200: its topic is gone topic p.public.others lake public/o version 3 stale",
    ]
    assert as_json(found[1]) == {
        "table": "public.orders",
        "relation_id": ORDERS,
        "state": "copying",
        "since_lsn": "0/2BC",
        "why": None,
        "copy_is_asked_for": False,
        "copy": {"begun_lsn": "0/2BC", "rows": 50_000, "bytes": 1_234_567, "chunks": 7, "share": 0.5},
        "topic": "p.public.orders",
        "lake": None,
    }


def test_table_that_waits_for_its_first_copy_is_not_copied_again() -> None:
    waits = replace(STALE, since=None, why=FIRST_COPY_WAITS)
    (found,) = table_statuses(pipeline_tables(known("public.orders", progress=waits)), None)

    assert state_text(found) == state_text(replace(found, is_asked=True)) == "stale: its first copy has not begun"


def test_copy_that_waits_for_a_person_says_for_what() -> None:
    waits = replace(COPYING, why="permission denied for table orders")
    (found,) = table_statuses(pipeline_tables(known("public.orders", progress=waits)), None)

    assert state_text(found) == "copying 50 %, waits: permission denied for table orders"


def test_share_is_of_the_rows_that_the_server_expects_and_never_whole() -> None:
    assert TableSize(1000, 10**6).share(250, 1) == 0.25
    assert TableSize(1000, 10**6).share(5000, 1) == 0.99
    assert TableSize(0, 0).share(0, 0) == 0.99


def test_share_of_a_table_that_was_never_analysed_is_told_by_its_size() -> None:
    never = TableSize(None, 128_000)
    assert never.share(0, 0) is None
    assert never.share(100, 10_000) == 0.1


def test_time_left_is_that_of_the_pace_so_far() -> None:
    assert seconds_left(0.5, 0.25, 10) == 20
    assert seconds_left(0.5, 0.5, 10) is None
    assert seconds_left(None, 0.5, 10) is None


def left_behind(*others: KnownTable, lake: dict[int, LakeEntry] | None) -> list[str]:
    """What is said of ``orders``, which left, without the first line."""
    orders = known("public.orders", progress=replace(CURRENT, state="dropped"), published=False)
    settings = Settings.model_validate({"name": "p", "lake": {"path": "lake"}})
    first, *more = words(settings, orders, pipeline_tables(orders, *others), lake)
    assert first == f"public.orders (relation {ORDERS}): forgotten; the lake keeps its rows as they were"
    return [line.strip().partition(";")[0] + line.rpartition(" ")[2] for line in more]


def test_folder_of_a_forgotten_table_is_that_which_the_lake_says() -> None:
    """It may have had another name when the folder was made."""
    entry = LakeEntry(ORDERS, "stale", "public/purchases", 3)
    assert left_behind(lake={ORDERS: entry}) == [
        "its topic remainsp.public.orders",
        "its folder remainslake/public/purchases",
    ]
    assert left_behind(lake={}) == ["its topic remainsp.public.orders"]
    settings = Settings.model_validate({"name": "p", "lake": {"dropped_tables": "drop"}})
    taken_out = words(settings, orders := known("public.orders"), pipeline_tables(orders), {})
    assert next(taken_out).endswith("forgotten; walbridge materialize deletes its rows")
    assert left_behind(lake=None)[1].startswith("its folder remains, if it has one of its own: where the lake can be")


def test_topic_and_folder_that_another_table_has_by_now_are_not_to_be_deleted() -> None:
    again = known("public.orders", ITEMS, replace(CURRENT, relation_id=ITEMS))
    entries = {each: LakeEntry(each, "current", "public/orders", 3) for each in (ORDERS, ITEMS)}
    assert left_behind(again, lake=entries) == []


def test_copy_of_all_tables_says_where_there_are_none() -> None:
    """With ``--wait`` it ends at once."""
    assert asked_text(3).startswith("all 3 tables: asked to be copied again")
    assert asked_text(0) == "the pipeline has no tables: nothing is copied, and there is nothing to wait for"

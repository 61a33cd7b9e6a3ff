"""``walbridge sql``: rows of all tables at one LSN, or an error that says what to do."""

import csv
import json
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.spark_consumer.delta.marked_rows import mark
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.__main__ import main
from walbridge.lake import LakeTable, tables_at
from walbridge.sql import result

ORDERS = {"id": pa.int64(), "customer": pa.int64(), "amount": pa.decimal128(20, 2), "note": pa.string()}
ROWS: list[dict[str, Any]] = [
    {"id": 1, "customer": 7, "amount": Decimal("10.50"), "note": 'says "hi",\nand goes'},
    {"id": 2, "customer": 8, "amount": Decimal("-3.00"), "note": ""},
    {"id": 3, "customer": 8, "amount": None, "note": None},
]
Ran = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HandmadeLake:
    """Published at 0/64 with two orders less; at 0/C8 as above."""
    monkeypatch.chdir(tmp_path)
    Path("walbridge.toml").write_text('name = "shop"\n[lake]\npath = "lake"')
    shop = HandmadeLake(tmp_path / "lake", "shop")
    shop.write("public.orders", ORDERS, ROWS[:1])
    shop.write("sales.Customers", {"id": pa.int64(), "full name": pa.string()}, [{"id": 8, "full name": "Ada"}])
    shop.publish(100)
    shop.write("public.orders", ORDERS, ROWS)
    shop.publish(200)
    return shop


@pytest.fixture
def run(shop: HandmadeLake, capsys: pytest.CaptureFixture[str]) -> Ran:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["sql", *arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_rows_are_a_table_to_read(run: Ran) -> None:
    query = (
        """SELECT id, "full name", amount FROM orders o LEFT JOIN sales."Customers" c ON c.id = customer ORDER BY 1"""
    )

    assert run(query.replace("SELECT id", "SELECT o.id")) == (
        0,
        "id | full name | amount\n"
        "---+-----------+-------\n"
        " 1 | NULL      |  10.50\n"
        " 2 | Ada       |  -3.00\n"
        " 3 | Ada       |   NULL\n"
        "(3 rows)\n",
        "at 0/C8\n",
    )


def test_all_tables_are_as_they_were_at_an_lsn(run: Ran) -> None:
    """I8."""
    code, out, err = run('SELECT count(*) n FROM public.orders, sales."Customers"', "--at", "0/C7", "--csv")

    assert (code, out, err) == (0, "n\n1\n", "at 0/64\n")


def test_json_is_an_object_a_row(run: Ran) -> None:
    query = (
        "SELECT id, amount, note, [id] AS many, 'NaN'::double AS f, {'a': _walbridge.op} AS s FROM orders ORDER BY id"
    )

    code, out, _ = run(query, "--json")

    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"id": 1, "amount": 10.5, "note": ROWS[0]["note"], "many": [1], "f": "NaN", "s": {"a": "r"}},
        {"id": 2, "amount": -3.0, "note": "", "many": [2], "f": "NaN", "s": {"a": "r"}},
        {"id": 3, "amount": None, "note": None, "many": [3], "f": "NaN", "s": {"a": "r"}},
    ]


def test_csv_tells_an_empty_text_from_null(run: Ran) -> None:
    code, out, _ = run("SELECT id, note FROM orders ORDER BY id", "--csv")

    assert code == 0
    assert list(csv.reader(out.splitlines(keepends=True)))[1] == ["1", ROWS[0]["note"]]
    assert out.splitlines()[-2:] == ['2,""', "3,"]


def test_rows_that_are_marked_beside_their_file_are_left_out(run: Ran, shop: HandmadeLake) -> None:
    mark(shop.path / "public" / "orders", [1])
    shop.publish(300)

    assert run("SELECT id FROM orders ORDER BY id -- as Spark deletes", "--csv")[1] == "id\n1\n3\n"


def test_a_table_may_be_read_twice_by_one_query(run: Ran) -> None:
    _, out, _ = run("SELECT count(*) FROM orders WHERE customer = (SELECT max(customer) FROM orders);", "--csv")

    assert out.splitlines()[1:] == ["2"]


def test_statements_before_the_last_one_are_run(run: Ran) -> None:
    assert run("CREATE TABLE mine AS FROM orders; SELECT max(id) AS n FROM mine", "--csv")[1] == "n\n3\n"
    assert run("COPY orders TO 'orders.parquet'")[:2] == (0, "")
    assert run("SELECT count(*) AS n FROM 'orders.parquet'", "--csv")[1] == "n\n3\n"
    assert "FILTER" in run("EXPLAIN SELECT * FROM orders WHERE id > 1")[1].upper()


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT count(*) FROM orders", {"id"}),
        ("SELECT note FROM orders WHERE amount > 1", {"note", "amount"}),
        ("SELECT o.note FROM orders o JOIN orders p USING (id) WHERE p.customer = 8", {"note", "id", "customer"}),
        ("SELECT _walbridge.op, id FROM orders", {"_walbridge", "id"}),
        ("WITH m AS MATERIALIZED (FROM orders) SELECT id FROM m UNION ALL SELECT customer FROM m", {"id", "customer"}),
        ("FROM orders", None),
        ("SELECT orders FROM orders", None),
        ("SELECT 1; SELECT note FROM orders", None),
    ],
)
def test_query_reads_no_column_that_it_does_not_need(
    run: Ran, monkeypatch: pytest.MonkeyPatch, query: str, read: set[str] | None
) -> None:
    """None: all of them."""
    streams: list[set[str]] = []
    reader = LakeTable.reader

    def seen(table: LakeTable) -> object:
        streams.append(set(table.schema.names))
        return reader(table)

    monkeypatch.setattr(LakeTable, "reader", seen)

    assert run(query, "--csv")[0] == 0
    assert set().union(*streams) == (read or {*ORDERS, "_walbridge"})


def test_column_that_was_not_read_fails_the_query_that_needs_it(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never silently wrong: were the plan to tell too little, nothing would be answered."""
    monkeypatch.setattr(result, "scanned_columns", lambda *_: {"id"})

    code, out, err = run("SELECT id, count(note) AS n FROM orders GROUP BY id", "--csv")

    assert (code, "2" in out.splitlines()) == (2, False)
    assert "DuckDB needs columns that its plan did not name" in err
    assert run("SELECT 1; SELECT count(note) AS n FROM orders", "--csv")[1] == "n\n2\n"


def test_more_rows_than_a_person_reads_are_said_to_be_left_out(run: Ran) -> None:
    query = "SELECT * FROM range(1001)"

    assert run(query)[1].splitlines()[-1] == "(the first 1,000 rows; --csv and --json print all)"
    assert len(run(query, "--csv")[1].splitlines()) == 1002


def test_table_that_is_not_current_is_refused_where_the_query_means_it(run: Ran, shop: HandmadeLake) -> None:
    """I8."""
    shop.publish(300, state="stale")

    code, out, err = run("SELECT count(*) FROM orders")

    assert (code, out) == (2, "")
    assert "table public.orders is stale at 0/12C: it does not equal the source" in err
    assert "walbridge copy public.orders" in err
    assert "--any-state" in err
    assert run("SELECT 'orders' AS word", "--csv")[:2] == (0, "word\norders\n")
    code, out, err = run("SELECT count(*) AS n FROM orders", "--csv", "--any-state")
    assert (code, out) == (0, "n\n3\n")
    assert "table public.orders is stale: it does not equal the source" in err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["SELECT * FROM nothing"], "Table with name nothing does not exist"),
        (["SELECT * FROM sales.orders"], "does not exist"),
        (["SELECT nothing FROM orders"], "nothing"),
        (["SELEC 1"], "syntax error"),
        (["SELECT 1", "--at", "0/1"], "nothing is published in lake at or before 0/1"),
        (["SELECT 1", "--at", "noon"], "'noon' is no LSN, and no time with its zone"),
        (["SELECT 1", "--json", "--csv"], "say --json or --csv"),
    ],
)
def test_mistake_is_told_in_words(run: Ran, arguments: list[str], what: str) -> None:
    code, out, err = run(*arguments)

    assert (code, out) == (2, "")
    assert what in err
    assert "Traceback" not in err


def test_query_from_a_terminal_in_latin_1_is_told(run: Ran) -> None:
    query = "SELECT 'é' AS e"

    code, _, err = run(os.fsdecode(query.encode("latin-1")))
    assert (code, "the query is no text in UTF-8" in err, "to UTF-8" in err) == (2, True, True)
    assert run(os.fsdecode(query.encode()), "--csv")[:2] == (0, "e\né\n")


def test_unknown_table_is_told_with_the_names_there_are(run: Ran) -> None:
    assert "remedy: at 0/C8 the lake has: public.orders, sales.Customers" in run("FROM nothing")[2]


def test_tables_that_differ_in_case_are_told_apart_by_their_spelling(run: Ran, shop: HandmadeLake) -> None:
    shop.write("public.Orders", {"id": pa.int64()}, [{"id": 99}])
    shop.publish(300)

    assert run('SELECT max(id) AS n FROM "Orders"', "--csv")[1] == "n\n99\n"
    assert run("SELECT max(id) AS n FROM orders", "--csv")[1] == "n\n3\n"
    assert run('SELECT * FROM "Orders", orders')[0] == 2
    assert "differ in case only" in run("SELECT * FROM ORDERS")[2]


TOLD_APART = {
    'SELECT count(*) AS n FROM "T"': 2,
    "SELECT count(*) AS n FROM t": 1,
    "SELECT count(*) AS n FROM T": 2,
    "SELECT count(*) AS n FROM public.t -- not T": 1,
    """SELECT count(*) AS n FROM t WHERE 'T' <> $$"T"$$ /* "T" */""": 1,
    'SELECT count(*) AS n FROM (SELECT "T" FROM t)': 1,
    'SELECT count("t") AS n FROM "T" AS x WHERE x.t IS NOT NULL': 2,
    "WITH w AS (FROM t) SELECT count(*) AS n FROM w": 1,
    "SET memory_limit = '1GB'; SELECT count(*) AS n FROM t": 1,
    "CREATE TEMP TABLE x AS FROM t; SELECT count(*) AS n FROM x": 1,
    'SELECT count(*) AS n FROM "S".u': 2,
    "SELECT count(*) AS n FROM s.u": 1,
    "WITH t AS (SELECT 1) SELECT count(*) AS n FROM orders": 3,
    "SELECT count(*) AS n FROM orders WHERE note <> 't'": 2,
}


@pytest.mark.parametrize("query", TOLD_APART)
def test_table_is_the_one_that_the_query_spells_whatever_else_stands_there(
    run: Ran, shop: HandmadeLake, query: str
) -> None:
    for name, column in ("public.T", "t"), ("public.t", "T"), ("S.u", "a"), ("s.u", "a"):
        rows = 1 if name in ("public.t", "s.u") else 2
        shop.write(name, {column: pa.int64()}, [{column: n} for n in range(rows)])
    shop.publish(300)

    code, out, err = run(query, "--csv")
    assert (code, out) == (0, f"n\n{TOLD_APART[query]}\n"), err


@pytest.mark.parametrize(
    "query", ['FROM "Orders", orders', "FROM ORDERS", 'SELECT * FROM "Orders" JOIN orders USING (id)']
)
def test_two_tables_that_differ_in_case_only_are_refused_together(run: Ran, shop: HandmadeLake, query: str) -> None:
    shop.write("public.Orders", {"id": pa.int64()}, [{"id": 99}])
    shop.publish(300)

    code, _, err = run(query)
    assert code == 2
    assert "differ in case only" in err


def test_lake_without_a_published_cut_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["sql", "SELECT 1"]) == 2
    assert "nothing is published in lake yet" in capsys.readouterr().err


def test_lake_of_another_pipeline_is_refused(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALBRIDGE_NAME", "other")

    assert "belongs to pipeline shop" in run("SELECT 1")[2]


def test_without_duckdb_the_extra_is_named(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "duckdb" or "walbridge.sql" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "duckdb", None)

    code, _, err = run("SELECT 1")

    assert code == 2
    assert "this verb needs the package duckdb" in err
    assert "pip install '.[sql]'" in err


def test_file_that_is_gone_is_told(run: Ran, shop: HandmadeLake) -> None:
    for file in (shop.path / "public" / "orders").glob("*.parquet"):
        file.unlink()

    code, _, err = run("SELECT count(note) FROM orders")

    assert code == 2
    assert "vacuumed" in err


@pytest.mark.parametrize("schema", ["main", "Temp", "system", "memory"])
def test_table_of_a_schema_that_duckdb_has_itself_is_refused_and_never_taken_for_another(
    run: Ran, shop: HandmadeLake, schema: str
) -> None:
    """A bare name would be looked for there, too, once public has no such table."""
    shop.write(f"{schema}.invoices", {"id": pa.int64()}, [{"id": 9}])
    shop.publish(300)

    code, out, err = run("SELECT * FROM invoices", "--csv")

    assert (code, out) == (2, "")
    assert f"table {schema}.invoices cannot be queried here: DuckDB has a schema {schema.lower()} of its own" in err
    assert "read it in Python: walbridge.lake" in err
    assert tables_at("lake")[f"{schema}.invoices"].reader().read_all().to_pydict()["id"] == [9]
    assert run("SELECT count(*) AS n FROM orders", "--csv")[:2] == (0, "n\n3\n")


def test_table_with_columns_that_duckdb_takes_for_one_is_refused_and_never_answers_with_the_other_one(
    run: Ran, shop: HandmadeLake
) -> None:
    """DuckDB 2 gives the second one another name, and ``"id"`` would mean the first."""
    shop.write("public.alike", {"Id": pa.int64(), "id": pa.int64()}, [{"Id": 1, "id": 10}])
    shop.publish(300)

    code, out, err = run('SELECT "id" FROM alike', "--csv")

    assert (code, out) == (2, "")
    assert "table public.alike cannot be queried here: DuckDB takes its columns Id and id for one" in err
    table = tables_at("lake")["public.alike"]
    with duckdb.connect() as connection:
        connection.register("of_one", table.select(["id"]))
        assert connection.execute("SELECT id FROM of_one").fetchall() == [(10,)]
    assert run("SELECT count(*) AS n FROM orders", "--csv")[:2] == (0, "n\n3\n")

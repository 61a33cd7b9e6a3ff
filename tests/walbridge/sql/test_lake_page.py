"""The queries of docs/lake.md answer what the page says, as it shows them."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.documents import PAGES, blocks
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.__main__ import main

QUERIES = [block for block in blocks(PAGES["docs/lake.md"]) if block.startswith("SELECT")]
COMMANDS = [block for block in blocks(PAGES["docs/lake.md"]) if block.startswith("walbridge sql")]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HandmadeLake:
    monkeypatch.chdir(tmp_path)
    shop = HandmadeLake(tmp_path / "lake")
    shop.write("public.customers", {"id": pa.int64(), "name": pa.string()}, [{"id": 1, "name": "Ada"}])
    orders = {"id": pa.int64(), "customer": pa.int64(), "amount": pa.decimal128(12, 2), "status": pa.string()}
    row = {"customer": 1, "amount": Decimal("1.50"), "status": "paid"}
    shop.write(
        "public.orders",
        orders,
        [row | {"id": number} for number in range(4)],
        ops=["r", "c", "u", "c"],
        commit_times=[datetime(2026, 7, 1, hour, tzinfo=UTC) for hour in (13, 14, 13, 12)],
        positions=[(50, -1), (60, 0), (55, 1), (54, 0)],
    )
    until: list[dict[str, Any]] = [
        {"id": 1, "valid_until": date(2030, 1, 1)},
        {"id": 2, "valid_until": date(2020, 1, 1)},
        *({"id": number, "valid_until": None} for number in (3, 4, 5, 6, 7)),
    ]
    exceptional = ("infinity", "-infinity", "10000-01-01", "0044-03-15 BC")
    texts = [{}, {}, *({"valid_until": text} for text in exceptional), {}]
    shop.write("public.contracts", {"id": pa.int64(), "valid_until": pa.date32()}, until, exceptional=texts)
    shop.publish(100)
    return shop


@pytest.mark.usefixtures("shop")
def test_queries_of_the_page_answer_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for query in QUERIES:
        assert main(["sql", "--json", query]) == 0
        answers.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])

    assert answers == [
        [{"name": "Ada", "orders": 4, "amount": 6.0}],
        [
            {"id": 1, "valid_until": "2030-01-01"},
            {"id": 3, "valid_until": "infinity"},
            {"id": 5, "valid_until": "10000-01-01"},
        ],
        [
            {"id": 2, "status": "paid", "op": "u", "commit_time": "2026-07-01 13:00:00+00"},
            {"id": 1, "status": "paid", "op": "c", "commit_time": "2026-07-01 14:00:00+00"},
        ],
    ]


@pytest.mark.usefixtures("shop")
def test_first_look_of_the_page_is_a_command_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = COMMANDS

    assert main(["sql", command.split('"')[1]]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "paid   |            4"

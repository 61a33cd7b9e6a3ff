"""Names and types of what readers without Spark get."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from tests.documents import PAGES
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.lake import tables_at
from walbridge.schemas.topics import lake_column_names

TYPES = {
    "id": pa.int64(),
    "Größe (cm)": pa.string(),
    "a b": pa.decimal128(20, 4),
    "at": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "day": pa.date32(),
    "raw": pa.binary(),
    "many": pa.list_(pa.string()),
    "_walbridge": pa.bool_(),
}
ROW = {
    "id": 2**62,
    "Größe (cm)": "groß",
    "a b": Decimal("-12.5000"),
    "at": datetime(1, 1, 1, tzinfo=UTC),
    "local": datetime(9999, 12, 31, 23, 59, 59, 999999),
    "day": date(1, 1, 1),
    "raw": b"\x00\xff",
    "many": ["x", None, ""],
    "_walbridge": True,
}


def test_columns_have_the_names_and_types_of_the_source(lake: Path) -> None:
    """But for one that is called as our own struct, which keeps the lake's name for it."""
    handmade = HandmadeLake(lake)
    handmade.write("public.Orders", TYPES, [ROW, dict.fromkeys(TYPES)], exceptional=[{}, {"day": "infinity"}])
    handmade.publish(100)

    table = tables_at(str(lake))["public.Orders"]

    named = {name if name != "_walbridge" else "_u005fwalbridge": kind for name, kind in TYPES.items()}
    found = table.reader().read_all()
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) | named == dict(
        zip(found.schema.names, found.schema.types, strict=True)
    )
    assert table.schema.names == [*named, "_walbridge"]
    rows = sorted(found.to_pylist(), key=lambda row: row["id"] is None)
    assert [list(row.values())[:-1] for row in rows] == [list(ROW.values()), [None] * len(TYPES)]
    assert [row["_walbridge"]["exceptional"] for row in rows] == [None, [("day", "infinity")]]


def test_page_says_how_others_than_we_see_a_name_that_delta_refuses(lake: Path) -> None:
    handmade = HandmadeLake(lake)
    handmade.write("public.t", TYPES, [ROW])

    fields = DeltaTable(str(lake / "public" / "t")).schema().fields

    shown = {field.metadata["pg.name"]: field.name for field in fields if "pg.name" in field.metadata}
    assert shown == dict(zip(TYPES, lake_column_names([*TYPES]), strict=True))
    assert f"`Größe (cm)` is `{shown['Größe (cm)']}`" in PAGES["docs/lake.md"]


def test_a_column_that_was_added_later_stands_before_our_struct(lake: Path) -> None:
    handmade = HandmadeLake(lake)
    handmade.write("public.t", {"id": pa.int64()}, [{"id": 1}])
    delta = DeltaTable(str(lake / "public" / "t"))
    delta.alter.add_columns([Field("note", PrimitiveType("string"), metadata={"pg.name": "note"})])
    handmade.publish(100)

    assert Schema.from_arrow(delta.schema()).fields[-1].name == "note"
    assert tables_at(str(lake))["public.t"].schema.names == ["id", "note", "_walbridge"]

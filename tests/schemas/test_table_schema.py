"""A table's key is what its columns say."""

from tests.schemas.strategies import column, table


def test_key_columns_stand_in_the_order_of_the_table() -> None:
    keyed = table(column("b", 23, is_key=True), column("x", 25), column("a", 23, is_key=True))

    assert [key.name for key in keyed.key_columns] == ["b", "a"]


def test_under_full_the_replica_identity_flag_makes_no_key() -> None:
    assert table(column("a", 23, in_replica_identity=True)).key_columns == ()


def test_qualified_name_is_schema_and_table() -> None:
    assert table(namespace="shop", name="orders").qualified_name == "shop.orders"

"""Of which columns a table's log and files tell bounds.

In: a table's columns. Out: what has no writer tell bounds that are not exact. Engines believe them: a row outside is
not found, and where both are one value that is taken for the value of every row. Delta-rs writes those of decimals into
the log as doubles, and leaves NaN out of all, which is larger than every number to Spark, as it is to Postgres.
"""

import re
from collections.abc import Mapping, Sequence

from deltalake import ColumnProperties, WriterProperties

from walbridge.schemas.topics import LAKE_STRUCT
from walbridge.spark_consumer.delta.columns import LakeField
from walbridge.spark_consumer.delta.dialect import SPARK

STATISTICS = "delta.dataSkippingStatsColumns"
_COLUMNS_MAX = 32
"""As many as have bounds where nobody says which."""
_EXACT = frozenset({"integer", "long", "date", "timestamp", "timestamp_ntz", "string"})
_DECIMAL = re.compile(r"decimal\((\d+),\d+\)")
DICTIONARY_BYTES = 256 * 2**10
"""From this size on a column's values are written without a dictionary. A key or a time of day fills even one of a
megabyte, which delta-rs takes by itself: a merge then takes a fifth more of CPU, and files are a fifth larger."""
_DIGITS_MAX = 15
"""Of a decimal: so many a double gives back as they were."""


def exact_bounds(fields: Sequence[LakeField]) -> dict[str, str]:
    """The property of a table with these columns; none where all bounds are exact."""
    return {STATISTICS: _named(fields)} if any(map(_is_inexact, fields)) else {}


def kept_bounds(
    found: Sequence[LakeField], wanted: Sequence[LakeField], configuration: Mapping[str, str]
) -> dict[str, str]:
    """What to set before a table with the columns ``found`` gets those that are ``wanted``. A new one has no bounds
    yet: Spark refuses names that the table does not have."""
    if not any(map(_is_inexact, [*found, *wanted])):
        return {}
    exact = {field.name for field in found if _is_exact(field)}
    named = {STATISTICS: _named([field for field in wanted if field.name in exact])}
    return named if named.items() - configuration.items() else {}


def without_bounds(fields: Sequence[LakeField]) -> WriterProperties:
    """How delta-rs writes files of these columns: as by itself, but for floats, and with small dictionaries."""
    floats = {field.name: ColumnProperties(statistics_enabled="NONE") for field in fields if _is_float(field)}
    return WriterProperties(
        compression="SNAPPY", column_properties=floats or None, dictionary_page_size_limit=DICTIONARY_BYTES
    )


def _named(fields: Sequence[LakeField]) -> str:
    """In an order that is not the table's, which may change. Never nothing: our struct is in every table."""
    exact = [SPARK.quoted(field.name) for field in fields if _is_exact(field)]
    return ",".join([*sorted(exact[:_COLUMNS_MAX]), LAKE_STRUCT])


def _is_exact(field: LakeField) -> bool:
    return (isinstance(field.type, str) and field.type in _EXACT) or (
        _digits(field) is not None and not _is_inexact(field)
    )


def _is_inexact(field: LakeField) -> bool:
    return _is_float(field) or (_digits(field) or 0) > _DIGITS_MAX


def _is_float(field: LakeField) -> bool:
    return field.type in ("float", "double")


def _digits(field: LakeField) -> int | None:
    found = _DECIMAL.fullmatch(field.type) if isinstance(field.type, str) else None
    return int(found[1]) if found else None

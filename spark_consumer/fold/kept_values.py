"""Which changes of a column's type keep every value that its rows have in the lake. Pure.

In: a column as the lake has it, and as it is to be. Out: whether its old values are valid in the new type, and whether
they have to be written in another form.

PostgreSQL rewrites no row where the new type reads the bytes of the old one (``tablecmds.c``,
``ATColumnChangeRequiresRewrite``): casts ``WITHOUT FUNCTION``, no modifier where there was one, domains without
constraints, timestamps with and without a zone while ``TimeZone`` is UTC, and modifiers whose cast is known to do
nothing (``varchar_support``, ``varbit_support``, ``numeric_support``, ``interval_support``, ``TemporalSimplify``).
All of these are followed where the text stays, too: not ``cidr`` to ``inet``, ``xml`` to ``text``, ``oid`` to ``int4``.
What it rewrites the producer sees in the table's files, whatever is said here, and copies; except for casts that
are known to keep every value (``producer/guards/doubts/columns/kept_casts.py``), all of which have their place here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from walbridge.schemas.errors import TableError
from walbridge.schemas.pg_types import DECIMAL_PRECISION_MAX, numeric_digits, numeric_modifier
from walbridge.spark_consumer.delta.columns import LakeField

_WIDER = frozenset(
    {
        ("int2", "int4"), ("int2", "int8"), ("int4", "int8"), ("float4", "float8"),
        ("varchar", "text"), ("varchar", "citext"), ("text", "citext"), ("citext", "text"),
        ("_int2", "_int4"), ("_int2", "_int8"), ("_int4", "_int8"),
        ("uuid", "text"), ("json", "text"), ("jsonb", "text"), ("text", "json"), ("varchar", "json"),
        ("_uuid", "_text"), ("_json", "_text"), ("_jsonb", "_text"), ("_varchar", "_text"),
    }
)  # fmt: skip
_WIDER_WITHOUT_LIMIT = frozenset(
    {
        ("text", "varchar"), ("citext", "varchar"), ("bit", "varbit"),
        ("text", "bpchar"), ("varchar", "bpchar"), ("citext", "bpchar"),
        ("uuid", "varchar"), ("json", "varchar"), ("jsonb", "varchar"),
        ("_uuid", "_varchar"), ("_json", "_varchar"), ("_jsonb", "_varchar"), ("_text", "_varchar"),
    }
)  # fmt: skip
_PRINTED = frozenset({("text", -1), ("varchar", -1), ("_text", -1), ("_varchar", -1)})
_ZONED = frozenset({"timestamp", "timestamptz"})
_ZONES = [("timestamp", "timestamp_ntz"), ("timestamp_ntz", "timestamp")]
_FRACTION_DIGITS_MAX = 6
_INTERVAL_FIELDS_ALL = 0x7FFF


def refuse_changed_values(origin: LakeField, field: LakeField, table_name: str, *, is_label: bool = False) -> None:
    """Refuse a new type of a column if Postgres may have changed its old values.

    Args:
        is_label: the old type is user-defined and stored as its text, such as an enum, or an array of it.

    Raises:
        TableError: Postgres may have changed the values (I7).
    """
    old_type, new_type = origin.metadata.get("pg.type"), field.metadata["pg.type"]
    old_typmod, typmod = int(origin.metadata.get("pg.typmod", -1)), int(field.metadata["pg.typmod"])
    if old_type == new_type and origin.type == field.type and old_typmod == typmod:
        return
    # A domain's values are those of the type under it.
    (old_base, old_typmod), (base, typmod) = _base(origin.metadata), _base(field.metadata)
    if _keeps_values(origin, field, (old_base, old_typmod), (base, typmod)):
        return
    if is_label and origin.type == field.type and (base, typmod) in _PRINTED:
        return
    raise TableError(
        f"column {field.metadata['pg.name']} of table {table_name} was {old_type} and is {new_type} now: "
        "Postgres may have changed the values of all its rows, and sends none of them"
    )


def becomes_text(origin: LakeField, field: LakeField) -> bool:
    """Whether a decimal becomes text: the numeric lost its limit of digits, or got one that a decimal cannot hold. Its
    exceptional texts, such as NaN, then become ordinary values."""
    return str(origin.type).startswith("decimal(") and field.type == "string"


def changes_zone(origin: LakeField, field: LakeField) -> bool:
    """Whether a timestamp gets a time zone or loses it. Exceptional texts, of years that no timestamp holds, would read
    differently."""
    return (origin.type, field.type) in _ZONES


def _keeps_values(origin: LakeField, field: LakeField, old: tuple[str, int], new: tuple[str, int]) -> bool:
    (old_base, old_typmod), (base, typmod) = old, new
    if old_base != base:
        if old_base in _ZONED and base in _ZONED:
            return _fraction_digits(old_typmod) <= _fraction_digits(typmod)
        return (old_base, base) in _WIDER or (typmod == -1 and (old_base, base) in _WIDER_WITHOUT_LIMIT)
    if origin.type == field.type and typmod in (old_typmod, -1):
        return True
    longer = _LONGER.get(base)
    return longer is not None and longer(old_typmod, typmod)


def _base(metadata: Mapping[str, Any]) -> tuple[str, int]:
    if metadata.get("pg.base"):
        return str(metadata["pg.base"]), int(metadata.get("pg.base_typmod") or -1)
    return str(metadata.get("pg.type")), int(metadata.get("pg.typmod", -1))


def _has_more_characters(old: int, new: int) -> bool:
    return new == -1 or -1 < old <= new


def _fraction_digits(typmod: int) -> int:
    return _FRACTION_DIGITS_MAX if typmod < 0 else min(typmod, _FRACTION_DIGITS_MAX)


def _has_more_fraction_digits(old: int, new: int) -> bool:
    return _fraction_digits(old) <= _fraction_digits(new)


def _has_more_of_an_interval(old: int, new: int) -> bool:
    """The upper bits of the modifier are the fields, the lower ones the digits of seconds (``INTERVAL_TYPMOD``)."""
    fields = [_INTERVAL_FIELDS_ALL if each < 0 else each >> 16 & _INTERVAL_FIELDS_ALL for each in (old, new)]
    digits = [_fraction_digits(each if each < 0 else each & 0xFFFF) for each in (old, new)]
    return fields[1] in (fields[0], _INTERVAL_FIELDS_ALL) and digits[0] <= digits[1]


def _has_more_digits(old: int, new: int) -> bool:
    """A numeric without a modifier, or too long for a decimal, is text in the lake, where trailing zeros count."""
    fewer, more = numeric_modifier(old), numeric_modifier(new)
    if more is None:
        return True
    if fewer is None:
        return False
    (old_precision, old_scale), (precision, scale) = fewer, more
    if (numeric_digits(new) or (0, 0))[0] > DECIMAL_PRECISION_MAX:
        return scale == old_scale and precision >= old_precision
    return scale >= old_scale and precision - scale >= old_precision - old_scale


_LONGER: Mapping[str, Callable[[int, int], bool]] = {
    "varchar": _has_more_characters,
    "_varchar": _has_more_characters,
    "varbit": _has_more_characters,
    "timestamp": _has_more_fraction_digits,
    "timestamptz": _has_more_fraction_digits,
    "time": _has_more_fraction_digits,
    "timetz": _has_more_fraction_digits,
    "interval": _has_more_of_an_interval,
    "numeric": _has_more_digits,
}
"""By type: whether every value of the old modifier is one of the new, with the same text."""

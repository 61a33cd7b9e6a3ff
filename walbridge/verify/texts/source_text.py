"""SQL that gives each column's canonical text: the form in which both sides are hashed.

In: a column's type from the catalogue. Out: an SQL expression, null where the column is null.
``lake_text.py`` computes the same texts from Arrow arrays; the two modules share no code with
each other nor with the producer, so one fault in decoding cannot hide on both sides.

Canonical text, where it is not simply what Postgres prints:

| type | text |
|---|---|
| bool | ``true``, ``false`` |
| float4, float8 | hexadecimal IEEE bits, one NaN |
| bytea | hexadecimal |
| date | days since 1970 for years 1-9999, else what Postgres prints |
| timestamp | microseconds since 1970 for years 1-9999, else what Postgres prints |
| timestamptz | the same and ``Z``, so that a moment and a local time never look alike |
| one-dimensional array of these | its elements one after the other, each with its length |
| hstore | keys and values in turn, by the keys' bytes, each with its length |
| vector, halfvec | as an array of float4 |
| domain | as the type under it |

An element or a column is written ``<bytes>:<text>``, null as ``N``, so that no two rows share a
text. ``concat`` calls the type's output function; a cast would not do: it strips the blanks of
char(n) and prints bool and inet differently. ``IS NOT DISTINCT FROM NULL`` is true for a null
and not for a composite whose fields are null, which ``IS NULL`` confuses.
"""

from dataclasses import dataclass

from walbridge.schemas.pg_types import DECIMAL_PRECISION_MAX, numeric_digits

_IN_YEARS_1_TO_9999 = {
    "date": "{0} BETWEEN date '0001-01-01' AND date '9999-12-31'",
    "timestamp": "({0} >= timestamp '0001-01-01' AND {0} < timestamp '10000-01-01')",
    "timestamptz": "({0} >= timestamptz '0001-01-01 00:00+00' AND {0} < timestamptz '10000-01-01 00:00+00')",
}
# Whole seconds and the rest apart: the epoch with its fraction is rounded before version 14 (a float8).
_MICROSECONDS = (
    "(date_part('epoch', date_trunc('second', {0}))::bigint * 1000000"
    " + date_part('microseconds', {0})::bigint % 1000000)"
)
_TEXTS = {
    "bool": "CASE WHEN {0} THEN 'true' ELSE 'false' END",
    "float4": "CASE WHEN {0} = 'NaN' THEN '7fc00000' ELSE encode(float4send({0}), 'hex') END",
    "float8": "CASE WHEN {0} = 'NaN' THEN '7ff8000000000000' ELSE encode(float8send({0}), 'hex') END",
    "bytea": "encode({0}, 'hex')",
    "date": "({0} - date '1970-01-01')::text",
    "timestamp": f"{_MICROSECONDS}::text",
    "timestamptz": f"{_MICROSECONDS}::text || 'Z'",
}

# Array types whose elements the lake holds one by one; every other array is text there.
_BUILTIN_ELEMENTS = frozenset(
    """bool bytea char name int8 int2 int4 text oid json float4 float8 bpchar varchar date time timestamp
    timestamptz interval timetz numeric uuid jsonb""".split()  # noqa: SIM905 - a list would be a page
)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One published column. ``type_name`` is pg_type.typname of a built-in scalar type, or
    hstore, vector or halfvec, else "".

    ``element`` is the element's type name where the column is a true array of a built-in type,
    ``enum`` for an array of enums or of other plain texts, None otherwise. ``namespace`` is where
    the type's functions are. All are those under a domain.
    """

    name: str
    type_name: str
    typmod: int
    element: str | None = None
    namespace: str = "pg_catalog"


def canonical_text(column: SourceColumn, identifier: str, utf8: bool = True) -> str:
    """The SQL of the column's canonical text, null where it is null. ``utf8``: the server's encoding."""
    if column.element == "enum" or column.element in _BUILTIN_ELEMENTS:
        text = _array_text(column.element or "", column.typmod, identifier, utf8)
    elif column.type_name == "hstore":
        text = _map_text(column.namespace, identifier, utf8)
    elif column.type_name in ("vector", "halfvec"):
        text = _array_text("float4", -1, f"({identifier})::float4[]", utf8)
    else:
        text = _scalar_text(column.type_name, identifier)
    return f"CASE WHEN {identifier} IS NOT DISTINCT FROM NULL THEN NULL ELSE {text} END"


def with_length(text: str, utf8: bool) -> str:
    """``<bytes>:<text>``, or N for null; bytes of UTF-8, whatever the server's encoding."""
    octets = f"octet_length({text})" if utf8 else f"octet_length(convert_to({text}, 'UTF8'))"
    return f"coalesce({octets} || ':' || {text}, 'N')"


def _scalar_text(type_name: str, expression: str) -> str:
    text = _TEXTS.get(type_name, "concat({0})")
    if type_name in _IN_YEARS_1_TO_9999:
        text = f"CASE WHEN {_IN_YEARS_1_TO_9999[type_name]} THEN {text} ELSE concat({{0}}) END"
    return text.format(expression)


def _array_text(element: str, typmod: int, expression: str, utf8: bool) -> str:
    """Elements one by one, or what Postgres prints for a shape or element the lake's type lacks."""
    item = f"CASE WHEN e IS NOT DISTINCT FROM NULL THEN NULL ELSE {_scalar_text(element, 'e')} END"
    elements = (
        f"(SELECT string_agg({with_length('t', utf8)}, '' ORDER BY n) FROM"
        f" (SELECT {item} AS t, n FROM unnest({expression}) WITH ORDINALITY AS u(e, n) OFFSET 0) AS s)"
    )
    plain = f"array_ndims({expression}) = 1 AND array_lower({expression}, 1) = 1"
    exceptional = _exceptional_element(element, typmod)
    if exceptional:
        plain += f" AND NOT EXISTS (SELECT 1 FROM unnest({expression}) AS e WHERE {exceptional})"
    return (
        f"CASE WHEN array_ndims({expression}) IS NULL THEN '' WHEN {plain} THEN {elements}"
        f" ELSE concat({expression}) END"
    )


def _map_text(namespace: str, expression: str, utf8: bool) -> str:
    quoted = namespace.replace('"', '""')
    each = f'"{quoted}".each({expression})'
    entry = f"{with_length('k', utf8)} || {with_length('v', utf8)}"
    return f"(SELECT coalesce(string_agg({entry}, '' ORDER BY convert_to(k, 'UTF8')), '') FROM {each} AS p(k, v))"


def _exceptional_element(element: str, typmod: int) -> str | None:
    if element in _IN_YEARS_1_TO_9999:
        return f"NOT {_IN_YEARS_1_TO_9999[element].format('e')}"
    digits = numeric_digits(typmod) if element == "numeric" else None
    if digits is not None and digits[0] <= DECIMAL_PRECISION_MAX:
        return "concat(e) IN ('NaN', 'Infinity', '-Infinity')"
    return None

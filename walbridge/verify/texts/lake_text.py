"""The canonical text of each column, from Arrow arrays: what ``source_text.py`` says in SQL.

In: the lake's arrays and the texts of exceptional values. Out: arrays of text, and the MD5 of
every row. Whole columns at a time; only hashing, decimals and bytea go value by value.
"""

import math
from collections.abc import Callable, Sequence
from hashlib import md5
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Texts: TypeAlias = Any
"""A large_string array, null where the value is null. (pyarrow publishes no types.)"""


def canonical_texts(values: pa.Array) -> Texts:
    """The canonical text of every value."""
    for matches, texts in _TEXTS:
        if matches(values.type):
            return texts(values)
    raise TypeError(f"no Postgres type is stored as {values.type}")


def with_lengths(texts: Texts) -> Texts:
    """``<bytes>:<text>``, N for null."""
    lengths = pc.cast(pc.binary_length(texts), pa.large_string())
    joined = pc.binary_join_element_wise(lengths, texts, pa.scalar(":", pa.large_string()))
    return pc.fill_null(joined, "N")


def with_exceptions(texts: Texts, kind: pa.DataType, exceptions: dict[int, str]) -> Texts:
    """Texts of values that the lake's type cannot hold, put where the value is null; by row.

    One beside a value, or of a value that the type can hold, says something else to each reader:
    it gets a NUL, which no text of Postgres has, and so equals nothing.
    """
    if not exceptions:
        return texts
    mask = np.zeros(len(texts), dtype=bool)
    mask[list(exceptions)] = True
    inserted = [
        f"\0{exceptions[row]}" if texts[row].is_valid or not _is_unholdable(kind, exceptions[row]) else exceptions[row]
        for row in sorted(exceptions)
    ]
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(inserted, pa.large_string()))


def _is_unholdable(kind: pa.DataType, text: str) -> bool:
    if pa.types.is_decimal(kind):
        return text in ("NaN", "Infinity", "-Infinity")
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or (_is_list(kind) and text != ""))


def row_digests(columns: Sequence[Texts], rows: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The MD5 of every row: a (rows, 2) array of its big-endian halves.

    ``columns`` hold texts with their lengths, in the source's column order.
    """
    if not columns:
        joined: list[bytes] = [b""] * rows
    else:
        whole = columns[0]
        if len(columns) > 1:
            whole = pc.binary_join_element_wise(*columns, pa.scalar("", pa.large_string()))
        joined = whole.cast(pa.large_binary()).to_pylist()
    digests = b"".join([md5(row, usedforsecurity=False).digest() for row in joined])
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def _printed(values: pa.Array) -> Texts:
    return values.cast(pa.large_string())


def _float_bits(values: pa.Array) -> Texts:
    size = values.type.bit_width // 8
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(f">f{size}")
    numbers[np.isnan(numbers)] = math.nan  # one NaN, whatever its sign and payload
    digits = pa.py_buffer(numbers.tobytes().hex().encode())
    fixed = pa.Array.from_buffers(pa.binary(size * 2), len(values), [None, digits])
    return _null_where(fixed.cast(pa.large_binary()).cast(pa.large_string()), values)


def _null_where(texts: Texts, values: pa.Array) -> Texts:
    return pc.if_else(pc.is_valid(values), texts, pa.scalar(None, pa.large_string()))


def _decimal(values: pa.Array) -> Texts:
    # Arrow prints small decimals with an exponent, Postgres never does.
    texts = [None if value is None else format(value, "f") for value in values.to_pylist()]
    return pa.array(texts, pa.large_string())


def _hexadecimal(values: pa.Array) -> Texts:
    return pa.array([None if value is None else value.hex() for value in values.to_pylist()], pa.large_string())


def _days(values: pa.Array) -> Texts:
    return _printed(values.cast(pa.date32()).cast(pa.int32()))


def _microseconds(values: pa.Array) -> Texts:
    texts = _printed(values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()))
    if values.type.tz is None:
        return texts
    return pc.binary_join_element_wise(texts, pa.scalar("Z", pa.large_string()), pa.scalar("", pa.large_string()))


def _elements(values: pa.Array) -> Texts:
    items = with_lengths(canonical_texts(values.flatten()))
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, items), pa.scalar("", pa.large_string()))
    return _null_where(joined, values)


def _entries(values: pa.Array) -> Texts:
    """Keys and values in turn, by the keys' bytes."""
    texts = [None if entries is None else _entries_text(entries) for entries in values.to_pylist()]
    return pa.array(texts, pa.large_string())


def _entries_text(entries: Sequence[tuple[str, str | None]]) -> str:
    in_order = sorted(entries, key=lambda entry: entry[0].encode())
    parts = (part for entry in in_order for part in entry)
    return "".join("N" if part is None else f"{len(part.encode())}:{part}" for part in parts)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


_TEXTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Texts]], ...] = (
    (_is_text, _printed),
    (pa.types.is_null, _printed),  # a column that the lake does not have
    (pa.types.is_integer, _printed),
    (pa.types.is_boolean, _printed),
    (pa.types.is_floating, _float_bits),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date, _days),
    (pa.types.is_timestamp, _microseconds),
    (_is_binary, _hexadecimal),
    (_is_list, _elements),
    (pa.types.is_map, _entries),
)

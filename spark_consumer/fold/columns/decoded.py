"""Decodes the envelopes of many records at once, by the schema that wrote them.

In: the bytes of many records of one schema, and where each value begins and ends. Out: ``Decoded``, one array or two
for each field. Only plain records are decoded so: with a value in a list or map (``unchanged``, exceptional texts,
arrays, hstore) NotPlain is raised, so that nothing that is rare is known twice.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from walbridge.spark_consumer.fold.columns.avro_bytes import AvroBytes, NotPlain, Places

Json = Any
Flags = npt.NDArray[np.bool_]
FOUR_BYTES, EIGHT_BYTES = 4, 8


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value a record: numbers, or where bytes begin and end. ``present``: None where no value is null."""

    first: npt.NDArray[Any]
    end: Places | None = None
    present: Flags | None = None

    def of_rows(self, rows: npt.NDArray[Any]) -> "Leaf":
        """The leaf of some of the records."""
        end = None if self.end is None else self.end[rows]
        return Leaf(self.first[rows], end, None if self.present is None else self.present[rows])

    @property
    def without_nulls(self) -> "Leaf":
        """The same of records of which none has null."""
        return replace(self, present=None)

    def spread(self, rows: npt.NDArray[np.int64], count: int) -> "Leaf":
        """The leaf of ``count`` records, null in all but these rows."""
        present = np.zeros(count, np.bool_)
        present[rows] = True if self.present is None else self.present
        return Leaf(
            _spread(self.first, rows, count), None if self.end is None else _spread(self.end, rows, count), present
        )

    def otherwise(self, other: "Leaf", others: Flags) -> "Leaf":
        """The leaf with the values of another one where ``others`` is set."""
        end = self.end if self.end is None or other.end is None else np.where(others, other.end, self.end)
        present = np.where(others, other.is_present, self.is_present)
        return Leaf(np.where(others, other.first, self.first), end, present)

    @property
    def is_present(self) -> Flags:
        return np.ones(len(self.first), np.bool_) if self.present is None else self.present


def _spread(values: npt.NDArray[Any], rows: npt.NDArray[np.int64], count: int) -> npt.NDArray[Any]:
    spread = np.zeros(count, values.dtype)
    spread[rows] = values
    return spread


Fields = Mapping[str, Leaf]
"""By path: ``after.name``, ``source.commit_lsn``, ``op``."""


def decoded(source: AvroBytes, starts: Places, ends: Places, value_schema: str) -> Fields:
    """The fields of the envelopes between these places, without those that are null in all records.

    Raises:
        NotPlain: a record is not of this schema, or has what is not decoded by columns.
    """
    found: dict[str, Leaf] = {}
    reached = _reader(value_schema)(source, starts, found)
    if not np.array_equal(reached, ends):
        raise NotPlain
    return found


_Read = Callable[[AvroBytes, Places, dict[str, Leaf]], Places]
"""Reads one value of each record, adds its leaves, and returns the places behind it."""


@lru_cache(maxsize=256)
def _reader(value_schema: str) -> _Read:
    return _of(json.loads(value_schema), "", {})


def _of(schema: Json, path: str, named: dict[str, Json]) -> _Read:
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        return _of_union(schema, path, named)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        named[schema["name"]] = schema
        inner = f"{path}." if path else ""
        return _of_record([_of(field["type"], inner + field["name"], named) for field in schema["fields"]])
    return _leaf(path, _PRIMITIVES.get(kind, _refuse))


def _of_record(fields: Sequence[_Read]) -> _Read:
    def read(source: AvroBytes, at: Places, found: dict[str, Leaf]) -> Places:
        for field in fields:
            at = field(source, at, found)
        return at

    return read


def _of_union(branches: Sequence[Json], path: str, named: dict[str, Json]) -> _Read:
    if len(branches) != 2 or "null" not in branches:
        return _leaf(path, _refuse)
    null = branches.index("null")
    inner = _of(branches[1 - null], path, named)

    def read(source: AvroBytes, at: Places, found: dict[str, Leaf]) -> Places:
        present = source.is_present(at, null)
        found[path] = Leaf(present)  # of a record that is all there is
        at = at + 1
        rows = np.flatnonzero(present)
        if len(rows) == 0:
            found[path] = Leaf(present, present=present)
            return at
        if len(rows) == len(at):
            return inner(source, at, found)
        some: dict[str, Leaf] = {}  # a value takes the place of what says whether there is one
        at[rows] = inner(source, at[rows], some)
        found |= {name: leaf.spread(rows, len(at)) for name, leaf in some.items()}
        return at

    return read


def _leaf(path: str, primitive: "Callable[[AvroBytes, Places], tuple[Leaf, Places]]") -> _Read:
    def read(source: AvroBytes, at: Places, found: dict[str, Leaf]) -> Places:
        leaf, at = primitive(source, at)
        found[path] = leaf
        return at

    return read


def _refuse(_source: AvroBytes, _at: Places) -> tuple[Leaf, Places]:
    raise NotPlain


def _null(_source: AvroBytes, at: Places) -> tuple[Leaf, Places]:
    return Leaf(at, present=np.zeros(len(at), np.bool_)), at


def _boolean(source: AvroBytes, at: Places) -> tuple[Leaf, Places]:
    value = source.byte(at)
    if (value > 1).any():
        raise NotPlain
    return Leaf(value.view(np.bool_)), at + 1


def _int(source: AvroBytes, at: Places) -> tuple[Leaf, Places]:
    value, after = source.long(at)
    if not np.array_equal(small := value.astype(np.int32), value):
        raise NotPlain
    return Leaf(small), after


def _long(source: AvroBytes, at: Places) -> tuple[Leaf, Places]:
    value, after = source.long(at)
    return Leaf(value), after


def _float(source: AvroBytes, at: Places) -> tuple[Leaf, Places]:
    return Leaf(source.word(at).astype(np.uint32).view(np.float32)), at + FOUR_BYTES


def _double(source: AvroBytes, at: Places) -> tuple[Leaf, Places]:
    return Leaf(source.word(at).view(np.float64)), at + EIGHT_BYTES


def _bytes(source: AvroBytes, at: Places) -> tuple[Leaf, Places]:
    start, end = source.span(at)
    return Leaf(start, end), end


_PRIMITIVES: Mapping[str, Callable[[AvroBytes, Places], tuple[Leaf, Places]]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _bytes,
}

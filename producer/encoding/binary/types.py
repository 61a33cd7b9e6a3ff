"""Which types' binary format is read, and by what: readers by oid, refusals by column.

In: what the catalogue says of types: their output and send functions, what they hold. Out: a
``Reader`` each. A type is known by both of its functions and by whose they are, never by its name:
two types with the same functions are the same bytes and the same text, and a function of somebody
else's may write what it likes. Such a type, or one that holds it, is refused; nothing is guessed.
A type without a send function comes as text even in this mode; inside of another the server
cannot send it at all.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from walbridge.producer.encoding.binary import extensions, geometry, network, scalars, search, times
from walbridge.producer.encoding.binary.containers import (
    array_reader,
    composite_reader,
    multirange_reader,
    range_reader,
    vector_reader,
)
from walbridge.producer.encoding.binary.reader import Reader
from walbridge.producer.errors.remedies import BINARY_OFF
from walbridge.producer.errors.tables import UnfitTable
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.table_schema import TableSchema

Function = tuple[str, str]
"""Whose it is: an extension's, of nobody known (``?``), or Postgres' own (empty); and its name."""
REMEDY = f"{BINARY_OFF}; or leave the column out by a column list"


@dataclass(frozen=True, slots=True)
class BinaryFacts:
    """A type as the catalogue has it. ``send`` is None where it has no binary format."""

    oid: int
    name: str
    output: Function
    send: Function | None
    element: int | None = None
    base: int | None = None
    """Of a domain."""
    subtype: int | None = None
    """Of a range; of a multirange, its range."""
    fields: tuple[int, ...] = ()
    delimiter: str = ","


def _own(output: str, send: str, read: Reader, owner: str = "") -> tuple[tuple[Function, Function], Reader]:
    return ((owner, output), (owner, send)), read


_READERS: dict[tuple[Function, Function], Reader] = dict(
    (
        *(_own(f"{name}out", f"{name}send", scalars.text_of_text) for name in ("bpchar", "name", "text", "varchar")),
        *(_own(f"{name}_out", f"{name}_send", scalars.text_of_text) for name in ("enum", "json", "xml")),
        _own("citextout", "citextsend", scalars.text_of_text, "citext"),
        _own("boolout", "boolsend", scalars.text_of_bool),
        _own("byteaout", "byteasend", scalars.text_of_bytea),
        _own("charout", "charsend", scalars.text_of_char),
        _own("int2out", "int2send", scalars.text_of_int2),
        _own("int4out", "int4send", scalars.text_of_int4),
        _own("int8out", "int8send", scalars.text_of_int8),
        _own("int2vectorout", "int2vectorsend", vector_reader(scalars.text_of_int2)),
        _own("oidvectorout", "oidvectorsend", vector_reader(scalars.text_of_oid)),
        *(_own(f"{name}out", f"{name}send", scalars.text_of_oid) for name in ("oid", "xid", "cid")),
        _own("xid8out", "xid8send", scalars.text_of_xid8),
        _own("tidout", "tidsend", scalars.text_of_tid),
        _own("pg_lsn_out", "pg_lsn_send", scalars.text_of_lsn),
        *(_own(f"{n}_snapshot_out", f"{n}_snapshot_send", scalars.text_of_snapshot) for n in ("pg", "txid")),
        _own("float4out", "float4send", scalars.text_of_float4),
        _own("float8out", "float8send", scalars.text_of_float8),
        _own("numeric_out", "numeric_send", scalars.text_of_numeric),
        _own("cash_out", "cash_send", scalars.text_of_money),
        _own("uuid_out", "uuid_send", scalars.text_of_uuid),
        _own("bit_out", "bit_send", scalars.text_of_bits),
        _own("varbit_out", "varbit_send", scalars.text_of_bits),
        *(_own(f"{name}_out", f"{name}_send", scalars.text_of_versioned) for name in ("jsonb", "jsonpath")),
        *(_own(f"{n}_out", f"{n}_send", scalars.text_of_versioned, "ltree") for n in ("ltree", "lquery", "ltxtq")),
        _own("date_out", "date_send", times.text_of_date),
        _own("time_out", "time_send", times.text_of_time),
        _own("timetz_out", "timetz_send", times.text_of_timetz),
        _own("timestamp_out", "timestamp_send", times.text_of_timestamp),
        _own("timestamptz_out", "timestamptz_send", times.text_of_timestamptz),
        _own("interval_out", "interval_send", times.text_of_interval),
        *(_own(f"{name}_out", f"{name}_send", network.text_of_inet) for name in ("inet", "cidr")),
        *(_own(f"{name}_out", f"{name}_send", network.text_of_macaddr) for name in ("macaddr", "macaddr8")),
        _own("point_out", "point_send", geometry.text_of_point),
        _own("lseg_out", "lseg_send", geometry.text_of_lseg),
        _own("line_out", "line_send", geometry.text_of_line),
        _own("box_out", "box_send", geometry.text_of_box),
        _own("path_out", "path_send", geometry.text_of_path),
        _own("poly_out", "poly_send", geometry.text_of_polygon),
        _own("circle_out", "circle_send", geometry.text_of_circle),
        _own("tsvectorout", "tsvectorsend", search.text_of_tsvector),
        _own("tsqueryout", "tsquerysend", search.text_of_tsquery),
        _own("hstore_out", "hstore_send", extensions.text_of_hstore, "hstore"),
        _own("vector_out", "vector_send", extensions.text_of_vector, "vector"),
        _own("halfvec_out", "halfvec_send", extensions.text_of_halfvec, "vector"),
        _own("sparsevec_out", "sparsevec_send", extensions.text_of_sparsevec, "vector"),
    )
)
_BEFORE: tuple[tuple[int, tuple[Function, Function], Reader], ...] = (
    (160000, *_own("charout", "charsend", scalars.text_of_char_before_16)),
    (170000, *_own("interval_out", "interval_send", times.text_of_interval_before_17)),
)
"""Output functions that print otherwise from this version on."""
NOT_SENT = "of which the server has no binary format"
"""The stream ends at the first change of such a table, whoever asks for it."""
_ARRAY = ("", "array_out"), ("", "array_send")
_COMPOSITE = ("", "record_out"), ("", "record_send")
_RANGE = ("", "range_out"), ("", "range_send")
_MULTIRANGE = ("", "multirange_out"), ("", "multirange_send")


class TypeReaders(dict[int, Reader]):
    """Readers by type oid; one that is not there yet is made from what the catalogue says.

    Args:
        look_up: facts of these types and of all that they hold.
    """

    def __init__(self, look_up: Callable[[Iterable[int]], Mapping[int, BinaryFacts]], server_version: int) -> None:
        super().__init__()
        self._look_up = look_up
        later = {functions: read for until, functions, read in _BEFORE if server_version < until}
        self._readers = _READERS | later
        self._facts: dict[int, BinaryFacts] = {}

    def __missing__(self, oid: int) -> Reader:
        """Make the reader of a type: of a column's, or of one that a composite value names."""
        self._learn([oid])
        if refusal := self._refusal(oid):
            raise OperatorError(f"a value holds {refusal}", REMEDY)
        read = self[oid] = self._made(self.under(oid))
        return read

    def under(self, oid: int) -> BinaryFacts:
        """Facts of a type that is known; of a domain, those of its base type."""
        facts = self._facts[oid]
        return facts if facts.base is None else self.under(facts.base)

    def of_table(self, table: TableSchema) -> list[BinaryFacts | None]:
        """By column, facts of what its values are in binary; None for one that comes as text.

        Raises:
            UnfitTable: a column's type, or what it holds, has a format that is not known.
        """
        self._learn({column.type_oid for column in table.columns})
        found: list[BinaryFacts | None] = []
        for column in table.columns:
            facts = self._facts.get(column.type_oid)
            if facts is not None and facts.send is None:
                found.append(None)
                continue
            if refusal := self._refusal(column.type_oid):
                raise UnfitTable(
                    f"binary = true: column {column.name} of table {table.qualified_name} is or holds {refusal}", REMEDY
                )
            found.append(self.under(column.type_oid))
        return found

    def _learn(self, oids: Iterable[int]) -> None:
        if unknown := set(oids) - self._facts.keys():
            self._facts |= self._look_up(unknown)

    def _refusal(self, oid: int) -> str | None:
        """Why a value of this type cannot be read, if it cannot."""
        facts = self._facts.get(oid)
        if facts is None:
            return f"a type that is gone from the catalogue (oid {oid})"
        if facts.send is None:
            return f"type {facts.name}, {NOT_SENT}"
        held = [facts.base, facts.subtype, *facts.fields]
        functions = facts.output, facts.send
        if functions == _ARRAY and facts.base is None:
            held.append(facts.element or 0)
        elif facts.base is None and functions not in self._readers and functions not in _HOLDING:
            return f"type {facts.name}, whose binary format walbridge does not know"
        return next((refusal for each in held if each is not None and (refusal := self._refusal(each))), None)

    def _made(self, facts: BinaryFacts) -> Reader:
        assert facts.send is not None
        functions = facts.output, facts.send
        if functions == _ARRAY:
            assert facts.element is not None
            return array_reader(self, self._facts[facts.element].delimiter.encode())
        if functions == _COMPOSITE:
            return composite_reader(self)
        if functions in (_RANGE, _MULTIRANGE):
            assert facts.subtype is not None
            return (range_reader if functions == _RANGE else multirange_reader)(self[facts.subtype])
        return self._readers[functions]


_HOLDING = (_COMPOSITE, _RANGE, _MULTIRANGE)

"""Where labels are in a value of a type: functions that find them, in text and in the binary format.

In: the facts of types. Out: by column a function that takes a value and passes on each name of a label in it that was
not met before (``label_texts.py``). Labels are searched for in enums, domains over enums, arrays of any dimensions,
composites, ranges, multiranges, and any nesting of these. Nothing is refused here: a value that is not of its type has
no labels, or the encoder refuses it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from walbridge.producer.encoding.binary.containers import read_array, read_bounds, read_ranges
from walbridge.producer.pgoutput.wire import WireReader
from walbridge.schemas.pg_types import TypeFacts

VALUES_MAX, VALUE_BYTES_MAX = 256, 128
"""The most values without new names that are remembered of one column type of a table, and their greatest length."""
_NULL, _EMPTY = b"NULL", b"empty"
_BRACES, _COMMA, _QUOTE = b"{}", b",", 34
_ELEMENT = re.compile(rb'"((?:[^"\\]++|\\.)*+)"|([^",{}\\]++)', re.DOTALL)
_FIELD = re.compile(rb'"((?:[^"\\]++|""|\\\\)*+)"|([^",()\\]*+)', re.DOTALL)
_RANGE = re.compile(rb'[\[(](?:[^"()\[\]]++|"(?:[^"\\]++|""|\\\\)*+")*+[\])]', re.DOTALL)

Find = Callable[[bytes], None]
"""Takes one value, and notes the names of labels in it."""


class LabelColumn(NamedTuple):
    """How labels of one column are found: a value that is not in ``known`` is passed to ``find``."""

    known: set[bytes]
    find: Find
    known_binary: set[bytes]
    find_binary: Find


LabelColumns = list[LabelColumn | None] | None
"""By column, None for one without labels; None as a whole: no column has any."""


@dataclass(slots=True)
class MetLabels:
    """What was met in rows of one table: ``texts`` by enum, whole ``values`` by column type and whether it is binary.
    ``is_too_much``: more names came than are kept, so it is not known which."""

    texts: dict[int, set[bytes]] = field(default_factory=dict)
    values: dict[tuple[int, bool], set[bytes]] = field(default_factory=dict)
    is_too_much: bool = False

    def forget(self) -> None:
        """Count all names as new again. The sets themselves stay: writers hold references to them."""
        for each in (*self.texts.values(), *self.values.values()):
            each.clear()


class LabelFinders:
    """Makes the functions that find labels in the columns of one relation version.

    Args:
        note: takes an enum and a name that is not in ``met``.
    """

    def __init__(
        self,
        type_facts: Callable[[int], TypeFacts | None],
        met: MetLabels,
        note: Callable[[int, bytes], None],
    ) -> None:
        self._type_facts, self._met, self._note = type_facts, met, note
        self._binary: dict[int, Find | None] = {}

    def of_column(self, type_oid: int) -> LabelColumn | None:
        """How labels are found in values of this type; None where no label can be in one."""
        facts = self._under(type_oid)
        text = self._text(type_oid)
        if facts is None or text is None:
            return None
        if facts.kind == "e":
            known = self._met.texts[facts.oid]
            return LabelColumn(known, text, known, text)
        binary = self._binary_of(type_oid)
        assert binary is not None
        (known, text), (known_binary, binary) = (self._once(type_oid, each, n) for n, each in enumerate((text, binary)))
        return LabelColumn(known, text, known_binary, binary)

    def _once(self, type_oid: int, find: Find, number: int) -> tuple[set[bytes], Find]:
        """A ``find`` that remembers the first values without new names, and the set of these values."""
        met = self._met
        values = met.values.setdefault((type_oid, bool(number)), set())

        def find_and_remember(value: bytes) -> None:
            find(value)
            if len(values) < VALUES_MAX and len(value) <= VALUE_BYTES_MAX and not met.is_too_much:
                values.add(value)

        return values, find_and_remember

    def _under(self, type_oid: int) -> TypeFacts | None:
        """The base type, through all domains."""
        facts = self._type_facts(type_oid)
        while facts is not None and facts.kind == "d" and facts.base_type is not None:
            facts = self._type_facts(facts.base_type)
        return facts

    def _text(self, type_oid: int) -> Find | None:
        facts = self._under(type_oid)
        match facts:
            case TypeFacts(kind="e"):
                return self._enum(facts.oid)
            case TypeFacts(kind="a", element_type=int(element)):
                find = self._text(element)
                inner = self._under(element)
                known = self._met.texts[inner.oid] if inner is not None and inner.kind == "e" else None
                return None if find is None else _in_array(find, known)
            case TypeFacts(kind="c"):
                finds = [self._text(oid) for _, oid in facts.fields]
                return _in_composite(finds) if any(finds) else None
            case TypeFacts(kind="r" | "m" as kind, element_type=int(element)) if find := self._text(element):
                return _in_each(find, range_bounds if kind == "r" else _RANGE.findall)
        return None

    def _binary_of(self, type_oid: int) -> Find | None:
        """The ``find`` of a type's binary values; these name the types of the values within them."""
        if type_oid not in self._binary:
            self._binary[type_oid] = self._made_binary(type_oid)
        return self._binary[type_oid]

    def _made_binary(self, type_oid: int) -> Find | None:
        facts = self._under(type_oid)
        match facts:
            case TypeFacts(kind="e"):
                return self._enum(facts.oid)
            case TypeFacts(kind="a", element_type=int(element)):
                return None if (find := self._binary_of(element)) is None else _in_each(find, _binary_elements)
            case TypeFacts(kind="c"):
                has_labels = any(self._binary_of(oid) is not None for _, oid in facts.fields)
                return _in_binary_composite(self._binary_of) if has_labels else None
            case TypeFacts(kind="r" | "m" as kind, element_type=int(element)) if find := self._binary_of(element):
                return _in_each(find, read_bounds if kind == "r" else read_ranges)
        return None

    def _enum(self, enum: int) -> Find:
        note, known = self._note, self._met.texts.setdefault(enum, set())

        def find(text: bytes) -> None:
            if text not in known:
                note(enum, text)

        return find


def _in_array(find: Find, known: set[bytes] | None) -> Find:
    """``known``: of an array of labels itself. A bare element is a label as it is printed."""

    def find_in_array(text: bytes) -> None:
        if known is not None and _QUOTE not in text and known.issuperset(text.translate(None, _BRACES).split(_COMMA)):
            return
        for element in array_elements(text):
            find(element)

    return find_in_array


def _in_composite(finds: Iterable[Find | None]) -> Find:
    places = [(n, find) for n, find in enumerate(finds) if find is not None]

    def find_in_composite(text: bytes) -> None:
        is_bare = _QUOTE not in text
        fields: Sequence[bytes | None] = text[1:-1].split(_COMMA) if is_bare else composite_fields(text)
        count = len(fields)
        for n, find in places:
            if n < count and (value := fields[n]) is not None and (value or not is_bare):
                find(value)

    return find_in_composite


def _in_each(find: Find, parts_of: Callable[[bytes], Iterable[bytes]]) -> Find:
    def find_in_each(data: bytes) -> None:
        for each in parts_of(data):
            find(each)

    return find_in_each


def _binary_elements(data: bytes) -> Iterator[bytes]:
    return (element for element in read_array(data).elements if element is not None)


def _in_binary_composite(find_of: Callable[[int], Find | None]) -> Find:
    def find_in_composite(data: bytes) -> None:
        wire = WireReader(data)
        for _ in range(wire.int32()):
            type_oid, size = wire.uint32(), wire.int32()
            if size == -1:
                continue
            value, find = wire.take(size), find_of(type_oid)
            if find is not None:
                find(value)

    return find_in_composite


def array_elements(text: bytes) -> Iterator[bytes]:
    """The elements of an array of any dimensions, as Postgres prints it, but for nulls.

    Source: PostgreSQL manual, "Array Input and Output Syntax".
    """
    begin = text.find(b"=") + 1 if text.startswith(b"[") else 0
    for found in _ELEMENT.finditer(text, begin):
        quoted, bare = found.groups()
        if bare is None:
            yield re.sub(rb"\\(.)", rb"\1", quoted, flags=re.DOTALL) if b"\\" in quoted else quoted
        elif bare != _NULL:
            yield bare


def range_bounds(text: bytes) -> Iterator[bytes]:
    """The finite bounds of a range, as Postgres prints it: quoted as a composite's fields, an infinite one left out as
    a null is."""
    fields = composite_fields(b"(%b)" % text[1:-1]) if text != _EMPTY else ()
    return (bound for bound in fields if bound is not None)


def composite_fields(text: bytes) -> Sequence[bytes | None]:
    """The fields of a composite, as Postgres prints it; None for a null.

    Source: PostgreSQL ``rowtypes.c``, ``record_out``.
    """
    fields: list[bytes | None] = []
    at = 1
    while at < len(text) and (found := _FIELD.match(text, at)) is not None:
        quoted, bare = found.groups()
        if quoted is None:
            fields.append(bare or None)
        else:
            fields.append(quoted.replace(b'""', b'"').replace(b"\\\\", b"\\"))
        at = found.end() + 1
    return fields

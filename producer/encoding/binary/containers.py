"""Arrays, composites, ranges and multiranges: binary format to the text that Postgres prints.

In: one value, and the readers of what it holds. Arrays and composites name the types of their
elements, so their readers are looked up by oid: a composite may have had other fields when the row
was written than the catalogue says now. Source: PostgreSQL ``arrayfuncs.c``, ``rowtypes.c``,
``rangetypes.c``, ``multirangetypes.c``.
"""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from walbridge.producer.encoding.binary.reader import Reader
from walbridge.producer.pgoutput.wire import WireReader

DIMENSIONS_MAX = 6
_BLANKS = frozenset(b" \t\n\r\v\f")
_ARRAY_QUOTED = _BLANKS | frozenset(b'"\\{}')
_COMPOSITE_QUOTED = _BLANKS | frozenset(b'"\\(),')
_RANGE_QUOTED = _BLANKS | frozenset(b'"\\()[],')
_EMPTY, _LOWER_INCLUSIVE, _UPPER_INCLUSIVE, _LOWER_INFINITE, _UPPER_INFINITE = (1 << n for n in range(5))


class Array(NamedTuple):
    """``bounds``: lower bound and length of each dimension; elements flat, None for null."""

    element_type: int
    bounds: tuple[tuple[int, int], ...]
    elements: list[bytes | None]

    @property
    def is_plain(self) -> bool:
        """A list: empty, or of one dimension that begins at 1."""
        return not self.elements or (len(self.bounds) == 1 and self.bounds[0][0] == 1)


def read_array(data: bytes) -> Array:
    """Take an array apart; its elements stay in their binary format."""
    wire = WireReader(data)
    dimensions, _, element_type = wire.int32(), wire.int32(), wire.uint32()
    if not 0 <= dimensions <= DIMENSIONS_MAX:
        raise ValueError("an array of too many dimensions")
    sizes = [(wire.int32(), wire.int32()) for _ in range(dimensions)]
    count = prod(size for size, _ in sizes) if sizes else 0
    if any(size < 0 for size, _ in sizes) or 4 * count > len(data):
        raise ValueError("an array of more elements than bytes")
    elements = [_sized(wire) for _ in range(count)]
    wire.expect_end()
    return Array(element_type, tuple((lower, size) for size, lower in sizes), elements)


def _sized(wire: WireReader) -> bytes | None:
    size = wire.int32()
    return None if size == -1 else wire.take(size)


def array_reader(readers: Mapping[int, Reader], delimiter: bytes = b",") -> Reader:
    """The reader of an array whose elements ``delimiter`` separates: a comma, but for box a semicolon."""
    quoted = _ARRAY_QUOTED | frozenset(delimiter)

    def text_of_array(data: bytes) -> bytes:
        array = read_array(data)
        if not array.elements:
            return b"{}"
        read = readers[array.element_type]
        texts = [b"NULL" if each is None else _array_element(read(each), quoted) for each in array.elements]
        for _, size in reversed(array.bounds):
            texts = [b"{" + delimiter.join(texts[n : n + size]) + b"}" for n in range(0, len(texts), size)]
        if all(lower == 1 for lower, _ in array.bounds):
            return texts[0]
        return b"".join(b"[%d:%d]" % (lower, lower + size - 1) for lower, size in array.bounds) + b"=" + texts[0]

    return text_of_array


def _array_element(text: bytes, quoted: frozenset[int]) -> bytes:
    if text and text.upper() != b"NULL" and quoted.isdisjoint(text):
        return text
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def vector_reader(read: Reader) -> Reader:
    """int2vector and oidvector: sent as arrays, printed as a list."""

    def text_of_vector(data: bytes) -> bytes:
        return b" ".join(read(each or b"") for each in read_array(data).elements)

    return text_of_vector


def composite_reader(readers: Mapping[int, Reader]) -> Reader:
    def text_of_composite(data: bytes) -> bytes:
        wire = WireReader(data)
        texts = []
        for _ in range(wire.int32()):
            type_oid, value = wire.uint32(), _sized(wire)
            texts.append(b"" if value is None else _doubled(readers[type_oid](value), _COMPOSITE_QUOTED))
        wire.expect_end()
        return b"(" + b",".join(texts) + b")"

    return text_of_composite


def _doubled(text: bytes, quoted: frozenset[int]) -> bytes:
    """The text of a field or bound, quoted where it needs to be: there quotes and backslashes are doubled."""
    if text and quoted.isdisjoint(text):
        return text
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'""') + b'"'


def range_reader(read: Reader) -> Reader:
    def text_of_range(data: bytes) -> bytes:
        wire = WireReader(data)
        flags = wire.byte()
        lower = b"" if flags & (_EMPTY | _LOWER_INFINITE) else _bound(wire, read)
        upper = b"" if flags & (_EMPTY | _UPPER_INFINITE) else _bound(wire, read)
        wire.expect_end()
        if flags & _EMPTY:
            return b"empty"
        ends = b"[" if flags & _LOWER_INCLUSIVE else b"(", b"]" if flags & _UPPER_INCLUSIVE else b")"
        return ends[0] + lower + b"," + upper + ends[1]

    return text_of_range


def read_bounds(data: bytes) -> list[bytes]:
    """The finite bounds of a range, in their binary format."""
    wire = WireReader(data)
    flags = wire.byte()
    infinite = [flags & (_EMPTY | each) for each in (_LOWER_INFINITE, _UPPER_INFINITE)]
    return [wire.take(wire.int32()) for each in infinite if not each]


def read_ranges(data: bytes) -> list[bytes]:
    """The ranges of a multirange, in their binary format."""
    wire = WireReader(data)
    return [wire.take(wire.int32()) for _ in range(wire.int32())]


def _bound(wire: WireReader, read: Reader) -> bytes:
    return _doubled(read(wire.take(wire.int32())), _RANGE_QUOTED)


def multirange_reader(read_range: Reader) -> Reader:
    def text_of_multirange(data: bytes) -> bytes:
        wire = WireReader(data)
        ranges = [read_range(wire.take(wire.int32())) for _ in range(wire.int32())]
        wire.expect_end()
        return b"{" + b",".join(ranges) + b"}"

    return text_of_multirange

"""Numbers, bytes and names: binary format to the text that Postgres prints.

In: one value as its type's send function wrote it. Out: what its output function prints under the
pinned settings. A value of another size or form raises ValueError or struct.error, of which the
transcoder makes a ProtocolError. Source: the send and out functions of PostgreSQL's ``utils/adt``.
"""

from struct import Struct

from walbridge.producer.encoding.binary.floats import double_text, float_text
from walbridge.producer.pgoutput.wire import WireReader

_FLOAT, _DOUBLE = Struct(">f"), Struct(">d")
_INT64 = Struct(">q")
_NUMERIC = Struct(">HhHH")
_SPECIAL_NUMERICS = {0xC000: b"NaN", 0xD000: b"Infinity", 0xF000: b"-Infinity"}
_NEGATIVE = 0x4000
_BOOLS = {b"\x01": b"t", b"\x00": b"f"}


def text_of_text(data: bytes) -> bytes:
    """Text types, enums, json and xml: client_encoding is pinned, so both formats are the same bytes."""
    return data


def text_of_bool(data: bytes) -> bytes:
    return _BOOLS[data]


def text_of_bytea(data: bytes) -> bytes:
    """bytea_output = hex."""
    return b"\\x" + data.hex().encode()


def text_of_char(data: bytes) -> bytes:
    r"""``"char"`` from Postgres 16 on: what is no ASCII is printed as ``\ooo``, the zero byte as nothing."""
    (byte,) = data
    return b"" if not byte else data if byte < 0x80 else b"\\%03o" % byte


def text_of_char_before_16(data: bytes) -> bytes:
    """The bare byte, whatever it is."""
    (byte,) = data
    return data if byte else b""


def text_of_int2(data: bytes) -> bytes:
    return _integer(data, 2)


def text_of_int4(data: bytes) -> bytes:
    return _integer(data, 4)


def text_of_int8(data: bytes) -> bytes:
    return _integer(data, 8)


def text_of_oid(data: bytes) -> bytes:
    """oid, xid and cid."""
    return _integer(data, 4, signed=False)


def text_of_xid8(data: bytes) -> bytes:
    return _integer(data, 8, signed=False)


def _integer(data: bytes, size: int, *, signed: bool = True) -> bytes:
    if len(data) != size:
        raise ValueError("an integer of another size")
    return b"%d" % int.from_bytes(data, "big", signed=signed)


def text_of_float4(data: bytes) -> bytes:
    return float_text(_FLOAT.unpack(data)[0])


def text_of_float8(data: bytes) -> bytes:
    return double_text(_DOUBLE.unpack(data)[0])


def text_of_numeric(data: bytes) -> bytes:
    """Groups of four digits; ``weight`` places the first, ``scale`` decimals are shown."""
    count, weight, sign, scale = _NUMERIC.unpack_from(data)
    if len(data) != _NUMERIC.size + 2 * count:
        raise ValueError("a numeric of another size")
    if sign in _SPECIAL_NUMERICS:
        return _SPECIAL_NUMERICS[sign]
    if sign not in (0, _NEGATIVE):
        raise ValueError("a numeric of an unknown sign")
    groups = b"".join(b"%04d" % group for group in Struct(f">{count}H").unpack_from(data, _NUMERIC.size))
    point = 4 * (weight + 1)
    if len(groups) != 4 * count:
        raise ValueError("a group of more than four digits")
    whole = groups[: max(point, 0)].ljust(max(point, 0), b"0").lstrip(b"0") or b"0"
    decimals = groups[point:] if point >= 0 else b"0" * -point + groups
    if decimals[scale:].strip(b"0"):
        raise ValueError("a numeric of more decimals than its scale")
    shown = b"." + decimals[:scale].ljust(scale, b"0") if scale else b""
    return (b"-" if sign else b"") + whole + shown


def text_of_money(data: bytes) -> bytes:
    """lc_monetary = C: dollars, two decimals, a comma every three digits."""
    (cents,) = _INT64.unpack(data)
    return f"{'-' if cents < 0 else ''}${abs(cents) // 100:,}.{abs(cents) % 100:02}".encode()


def text_of_bits(data: bytes) -> bytes:
    """bit and varbit: their number, then bytes that are filled up with zeros."""
    wire = WireReader(data)
    count, packed = wire.int32(), wire.rest()
    if not 0 <= count <= 8 * len(packed) < count + 8:
        raise ValueError("a bit string of another size")
    return bin(int.from_bytes(b"\x01" + packed, "big"))[3 : 3 + count].encode()


def text_of_uuid(data: bytes) -> bytes:
    if len(data) != 16:
        raise ValueError("a uuid of another size")
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}".encode()


def text_of_versioned(data: bytes) -> bytes:
    """jsonb, jsonpath, ltree, lquery, ltxtquery: a version, which is 1, before the text."""
    if data[:1] != b"\x01":
        raise ValueError("an unknown version of a binary format")
    return data[1:]


def text_of_lsn(data: bytes) -> bytes:
    wire = WireReader(data)
    text = b"%X/%X" % (wire.uint32(), wire.uint32())
    wire.expect_end()
    return text


def text_of_tid(data: bytes) -> bytes:
    """Block and place in it."""
    block, place = Struct(">IH").unpack(data)
    return b"(%d,%d)" % (block, place)


def text_of_snapshot(data: bytes) -> bytes:
    """pg_snapshot and txid_snapshot: ``xmin:xmax:those in progress``."""
    wire = WireReader(data)
    count, bounds = wire.int32(), (wire.uint64(), wire.uint64())
    if 8 * count != len(data) - wire.at:
        raise ValueError("a snapshot of another size")
    return b"%d:%d:" % bounds + b",".join(b"%d" % wire.uint64() for _ in range(count))

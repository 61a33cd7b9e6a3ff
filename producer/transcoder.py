"""A tuple as Postgres sends it to the Avro row and key, by a function made for its table.

In: TupleData bytes and where they begin. Out: ``EncodedTuple``: Avro bytes of Row and Key, the
columns that were not sent, the texts that no Avro type holds. One function per relation version
is generated, so that no type is looked up per value; it walks the tuple once and checks every
bound on the way: lengths are read unsigned, so that a wrong one runs past the end, where either
an IndexError or the final comparison refuses it as ``ProtocolError``.
"""

import struct
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from producer.value_encoders import NULL, TEXT_LENGTHS, VALUE, VALUE_OF_LENGTH, encoder_of
from schemas.avro_codec import header, long_bytes, string_value
from schemas.errors import ProtocolError
from schemas.metadata_record import RelationRecord
from schemas.table_schema import Column


class EncodedTuple(NamedTuple):
    """``key`` is None for a table without one, or where a key value was not sent."""

    row: bytes
    key: bytes | None
    unchanged: tuple[str, ...]
    exceptional: dict[str, bytes] | None


Transcoder = Callable[[bytes, int], EncodedTuple]

_HEAD = """
def transcode(data, at):
    exceptional = None
    unchanged = ()
    try:
        (count,) = unpack_count(data, at)
        if count != {columns}:
            raise ProtocolError(f"a tuple of {{count}} fields for the {columns} columns of {table}")
        at += 2
"""
_FIELD = """
        kind = data[at]
        if kind == 116:
            end = at + 5 + unpack_length(data, at + 1)[0]
            text = data[at + 5:end]
            at = end
{value}
        elif kind == 110:
            {out} = NULL
            at += 1
        elif kind == 117:
            {out} = NULL
            unchanged += ({name!r},)
            at += 1
        else:
            raise ProtocolError(f"unknown kind of field {{kind}} in {table}")
"""
_TEXT_VALUE = """
            size = end - at_text
            {out} = (VALUE_OF_LENGTH[size] if size < TEXT_LENGTHS else VALUE + long_bytes(size)) + text
"""
_PLAIN_VALUE = """
            {out} = encode_{i}(text)
"""
_EXCEPTIONAL_VALUE = """
            {out} = encode_{i}(text)
            if {out} is None:
                {out} = NULL
                if exceptional is None:
                    exceptional = {{}}
                exceptional[{name!r}] = text
"""
_TAIL = """
        if at != len(data):
            raise ProtocolError(f"a tuple of {table} ends at {{at}} of {{len(data)}} bytes")
    except (IndexError, ValueError, StructError, OverflowError) as error:
        raise ProtocolError(f"malformed tuple of {table}: {{type(error).__name__}}") from None
    return EncodedTuple(b"".join(({row})), {key}, unchanged, exceptional)
"""


def make_transcoder(record: RelationRecord) -> Transcoder:
    """Generate the function of a relation version."""
    columns = record.table.columns
    scope: dict[str, Any] = dict(_SCOPE)
    # The name stands in generated source inside f-strings and literals: only its safe form may.
    table = repr(record.table.qualified_name)[1:-1].replace("{", "(").replace("}", ")").replace('"', "'")
    source = [_HEAD.format(columns=len(columns), table=table)]
    for i, column in enumerate(columns):
        source.append(_FIELD.format(out=f"c{i}", name=column.name, table=table, value=_value(i, column, scope)))
    row = "".join(f"c{i}, " for i in range(len(columns)))
    source.append(_TAIL.format(row=row, key=_key(record, scope), table=table))
    exec(compile("".join(source), f"<transcoder of relation {record.table.relation_id}>", "exec"), scope)
    transcode: Transcoder = scope["transcode"]
    return transcode


_SCOPE = {
    "unpack_count": Struct(">h").unpack_from,
    "unpack_length": Struct(">I").unpack_from,
    "EncodedTuple": EncodedTuple,
    "ProtocolError": ProtocolError,
    "StructError": struct.error,
    "NULL": NULL,
    "VALUE": VALUE,
    "VALUE_OF_LENGTH": VALUE_OF_LENGTH,
    "TEXT_LENGTHS": TEXT_LENGTHS,
    "long_bytes": long_bytes,
}


def _value(i: int, column: Column, scope: dict[str, Any]) -> str:
    column_type = column.column_type
    if column_type.codec == "string":
        template = _TEXT_VALUE.replace("end - at_text", "len(text)")
    else:
        scope[f"encode_{i}"] = encoder_of(column_type)
        template = _EXCEPTIONAL_VALUE if column_type.may_be_exceptional else _PLAIN_VALUE
    return template.format(out=f"c{i}", i=i, name=column.name).strip("\n")


def _key(record: RelationRecord, scope: dict[str, Any]) -> str:
    """The expression that joins the key. Its fields are encoded as those of the row are."""
    if record.key_schema_id is None:
        return "None"
    scope["KEY_HEADER"] = header(record.key_schema_id)
    scope["key_exceptional"] = key_exceptional
    names = tuple(column.name for column in record.table.key_columns)
    pieces = "".join(f"c{i}, " for i, column in enumerate(record.table.columns) if column.is_key)
    if any(column.column_type.may_be_exceptional for column in record.table.key_columns):
        pieces += f"key_exceptional(exceptional, {names!r}), "
    joined = f'b"".join((KEY_HEADER, {pieces}))'
    return f"{joined} if not unchanged or not set(unchanged) & {set(names)!r} else None"


def key_exceptional(exceptional: dict[str, bytes] | None, names: tuple[str, ...]) -> bytes:
    """The ``_exceptional`` field of a key."""
    return text_map({name: exceptional[name] for name in names if name in exceptional} if exceptional else None)


def text_map(texts: dict[str, bytes] | None) -> bytes:
    """Avro ``["null", map of string]`` of column name to Postgres text, null when empty."""
    if not texts:
        return NULL
    entries = (string_value(name) + long_bytes(len(text)) + text for name, text in texts.items())
    return VALUE + long_bytes(len(texts)) + b"".join(entries) + b"\x00"


def text_array(names: tuple[str, ...]) -> bytes:
    """Avro ``["null", array of string]``, null when empty."""
    if not names:
        return NULL
    return VALUE + long_bytes(len(names)) + b"".join(map(string_value, names)) + b"\x00"

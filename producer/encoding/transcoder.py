"""A tuple as Postgres sends it to Avro, by functions made for its table.

In: TupleData bytes and where they begin. Out: ``EncodedTuple``: Avro bytes of Row and Key, the
columns that were not sent, the texts that no Avro type holds; or, for the common row that has
neither of the two, key and whole envelope at once. Functions are generated per relation version,
so that no type is looked up per value. They walk the tuple once and check every bound on the
way: lengths are read unsigned, so that a wrong one runs past the end, where either an error of
the reading or the final comparison refuses it as ``ProtocolError``.

A session with option ``binary`` has functions of its own, which take each field as text or in its
type's binary format, as its kind says: COPY's rows are text there, too. Both give the same bytes.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from types import CodeType
from typing import Any, NamedTuple

from walbridge.producer.encoding import inline_encoders, templates
from walbridge.producer.encoding.binary import lines
from walbridge.producer.encoding.label_finders import LabelColumn, LabelColumns
from walbridge.producer.pgoutput.copy_text import unescaped
from walbridge.schemas.avro.codec import long_bytes, string_value
from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.avro.recorded_key import column_names
from walbridge.schemas.avro.value_encoders import NULL, VALUE, encoder_of
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import ProtocolError


class EncodedTuple(NamedTuple):
    """``key`` is None for a table without one, or where a key value was not sent."""

    row: bytes
    key: bytes | None
    unchanged: tuple[str, ...]
    exceptional: dict[str, bytes] | None


Transcoder = Callable[[bytes, int], EncodedTuple]
PlainEncoder = Callable[[bytes, int, bytes, bytes, int, bytes], tuple[bytes | None, bytes] | None]
"""(data, at, relation's part of source, transaction's, ordinal, op to the end) → (key, value)."""

LineEncoder = Callable[[bytes, bytes], tuple[bytes | None, bytes] | None]
"""(a line of COPY's text format, relation's part of source) → (key, envelope up to and with that part)."""

BinaryColumns = Sequence[lines.BinaryColumn | None] | None
"""How each column is read in binary, None for one that only comes as text; None as a whole: no binary session."""


def make_transcoder(record: RelationRecord, binary: BinaryColumns = None, labels: LabelColumns = None) -> Transcoder:
    """The function of a relation version for any tuple."""
    key = _key(record)
    if record.table.key_columns:
        names = {column.name for column in record.table.key_columns}
        key = f"({key} if not unchanged or not set(unchanged) & {names!r} else None)"
    transcode: Transcoder = _generate(record, binary, labels, "", templates.ANY, key)
    return transcode


def make_plain_encoder(
    record: RelationRecord, binary: BinaryColumns = None, labels: LabelColumns = None
) -> PlainEncoder:
    """The function for rows whose values are all known and fit their types; of any other row it makes None.

    The envelope has only ``after``; ``rest`` is what follows the ordinal: op, ts_ms and nulls.
    """
    arguments = ", part, transaction, ordinal, rest"
    encode: PlainEncoder = _generate(record, binary, labels, arguments, templates.PLAIN, _key(record))
    return encode


def make_line_encoder(record: RelationRecord) -> LineEncoder:
    """The function for lines of COPY, which are text in every session, whose values all fit their types; of any other
    it makes None. What follows ``part`` in the envelope all rows of a chunk share: it is known when the chunk enters.
    """
    scope, table = _scope(record), _safe_name(record)
    columns = record.table.columns
    values = "line[:-1].split(TAB)" if columns else "line[:-1] and [line]"  # a split has one value at least
    source = [templates.LINE_HEAD.format(columns=len(columns), table=table, values=values)]
    for i, column in enumerate(columns):
        scope[f"encode_{i}"] = encoder_of(column.column_type)
        value = "\n            ".join(inline_encoders.inline_lines(column.column_type, i, column.name))
        source.append(templates.LINE_FIELD.format(i=i, value=value).lstrip("\n"))
    row = "".join(f"c{i}, " for i in range(len(columns)))
    source.append(templates.LINE_TAIL.format(row=row, key=_key(record), table=table))
    exec(_compiled("".join(source), f"<line encoder of relation {record.table.relation_id}>"), scope)
    encode: LineEncoder = scope["encode"]
    return encode


def _scope(record: RelationRecord) -> dict[str, Any]:
    """What generated code names."""
    scope = _SCOPE | {"ENVELOPE_HEAD": record.avro_prefix + NULL + VALUE}
    if record.key_frame_id is not None:
        scope["KEY_HEADER"] = prefix_of(record.key_frame_id)
    return scope


def _safe_name(record: RelationRecord) -> str:
    """The name stands in generated source inside f-strings and literals: only its safe form may."""
    return repr(record.table.qualified_name)[1:-1].replace("{", "(").replace("}", ")").replace('"', "'")


def _generate(
    record: RelationRecord, binary: BinaryColumns, labels: LabelColumns, arguments: str, result: str, key: str
) -> Any:
    columns = record.table.columns
    scope, table = _scope(record), _safe_name(record)
    source = [templates.HEAD.format(arguments=arguments, columns=len(columns), table=table)]
    for i, column in enumerate(columns):
        scope[f"encode_{i}"] = encoder_of(column.column_type)
        found = labels[i] if labels is not None else None
        value = _lines(
            inline_encoders.inline_lines(column.column_type, i, column.name), found, templates.LABELS.format(i)
        )
        is_last = i >= len(columns) - templates.LAST_FIELDS
        head = templates.LAST_FIELD_HEAD if is_last else templates.FIELD_HEAD
        if binary is not None and (sent := binary[i]) is not None:
            binary_value = lines.binary_lines(column.column_type, sent, i, column.name)
            head = _with_binary(head, _lines(binary_value, found, templates.BINARY_LABELS.format(i)), is_last=is_last)
            scope |= {f"binary_{i}": sent.encode, f"read_{i}": sent.read}
        if found is not None:
            scope |= {f"{name}_{i}": each for name, each in found._asdict().items()}
        source.append(head)
        source.append(templates.FIELD.format(i=i, name=column.name, table=table, value=value).lstrip("\n"))
    row = "".join(f"c{i}, " for i in range(len(columns)))
    source.append((templates.TAIL + result).format(row=row, key=key, table=table))
    exec(_compiled("".join(source), f"<transcoder of relation {record.table.relation_id}>"), scope)
    return scope["encode"]


@lru_cache(maxsize=128)
def _compiled(source: str, name: str) -> CodeType:
    """The compiled source, kept because each session asks again for the same tables."""
    return compile(source, name, "exec")


def _lines(value: Sequence[str], labels: LabelColumn | None, notes: str) -> str:
    """The lines that encode a value, after those that collect its labels, if it may have any."""
    return "\n            ".join([*(notes.splitlines() if labels is not None else ()), *value])


def _with_binary(head: str, value: str, *, is_last: bool) -> str:
    """The lines with a branch for binary before that for text: in a binary session most fields are binary."""
    branch = templates.BINARY.lstrip("\n").format(size=templates.LAST_SIZE if is_last else "", value=value)
    return head.replace("        if kind == 116:", branch + "if kind == 116:")


_SCOPE: dict[str, Any] = {
    **inline_encoders.SCOPE,
    **lines.SCOPE,
    "unpack_count": Struct(">h").unpack_from,
    "unpack_field": Struct(">BI").unpack_from,
    "unpack_length": Struct(">I").unpack_from,
    "EncodedTuple": EncodedTuple,
    "ProtocolError": ProtocolError,
    "StructError": struct.error,
    "TAB": b"\t",
    "END": b"\n",
    "BACKSLASH": b"\\",
    "unescaped": unescaped,
    "NULL": NULL,
}


def _key(record: RelationRecord) -> str:
    """The expression that joins the key. Its fields are encoded as those of the row are."""
    if record.key_schema_id is None:
        return "None"
    pieces = "".join(f"c{i}, " for i, column in enumerate(record.table.columns) if column.is_key)
    if any(column.column_type.may_be_exceptional for column in record.table.key_columns):
        pieces += f"key_exceptional(exceptional, {exceptional_names(record)!r}), "
    return f'b"".join((KEY_HEADER, {pieces}))'


def exceptional_names(record: RelationRecord) -> tuple[tuple[str, str], ...]:
    """For each column of the key: its name in the table, and its name in keys."""
    names = column_names(record.key_schema or "", record.table)
    return tuple((name, in_key) for in_key, name in names.items())


def key_exceptional(exceptional: dict[str, bytes] | None, names: tuple[tuple[str, str], ...]) -> bytes:
    """The ``_exceptional`` field of a key. ``names``: as ``exceptional_names`` has them."""
    if not exceptional:
        return NULL
    return text_map({in_key: exceptional[name] for name, in_key in names if name in exceptional})


_SCOPE["key_exceptional"] = key_exceptional


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

"""Encodes TupleData: from fields, or from a new tuple with the values that only its old tuple has.

In: fields, or tuples as pgoutput sends them. Out: TupleData that ``decode_tuple`` reads back as these fields. A value
that was not sent comes from the old tuple, or stays marked as not sent; it never becomes null (I6).
"""

from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Binary, Field, Unsent
from walbridge.schemas.errors import ProtocolError


def fill(new: bytes, old: bytes, wanted: tuple[bool, ...] | None) -> bytes:
    """``new`` with its unchanged TOAST fields taken from ``old``, all of them or the wanted ones."""
    if b"u" not in new:
        return new
    olds = decode_tuple(old)
    news = decode_tuple(new)
    if len(olds) != len(news) or (wanted is not None and len(wanted) != len(news)):
        raise ProtocolError(f"an old tuple of {len(olds)} fields beside a new one of {len(news)}")
    fields = [
        before if after is Unsent.UNCHANGED_TOAST and (wanted is None or wanted[i]) else after
        for i, (after, before) in enumerate(zip(news, olds, strict=True))
    ]
    return encode_tuple(fields)


def encode_tuple(fields: list[Field]) -> bytes:
    """TupleData of these fields, as pgoutput writes it."""
    return len(fields).to_bytes(2, "big") + b"".join(map(_encode_field, fields))


def _encode_field(field: Field) -> bytes:
    if isinstance(field, Unsent):
        return field.value.encode()
    kind, data = (b"b", field.data) if isinstance(field, Binary) else (b"t", field)
    return kind + len(data).to_bytes(4, "big") + data

"""Large values, set aside on disk while their rows are decoded, folded and merged without them (I9).

In: a large record's bytes. Out: a small record that stands in for it, and at the end the row with its
large values again. In the small record a large column is null, and its exceptional text is a token. Every
fold treats a value and its text as one thing, so the token goes where the value would have gone. A token
names the value by its SHA-256, so equal values have equal tokens, which a table without a key needs.

A file without a name holds the values, each as one Arrow array, so a row is complete again without
another copy on Python's heap. Python holds one record at a time.
"""

import hashlib
import mmap
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from walbridge.schemas.avro.codec import decode_body, encode_body
from walbridge.schemas.json_format.codec import avro_value, json_codec
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.fold.local_events import physical_schema
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

VALUE_BYTES_MAX = 2**10
"""Longer values of a large record are set aside. All others of a row are in one page of 8 KiB in Postgres."""

Json = Any


class LargeValues:
    """The large values of one relation version's records, in a file."""

    def __init__(self, shape: TableShape) -> None:
        self._shape = shape
        self._schema, self._names = physical_schema(shape.relation.value_schema)
        fields = [
            LakeField(place_name(place), column.column_type.lake, {}) for place, column in enumerate(shape.columns)
        ]
        self._types = arrow_schema(fields).types
        self._prefix = f"walbridge-{uuid.uuid4().hex}:"
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        self._places: dict[str, tuple[int, int]] = {}

    def close(self) -> None:
        """Close the file. Rows that were restored keep the parts of it that they map."""
        self._file.close()

    def stand_in(self, value: bytes) -> bytes:
        """The record without its large values.

        Raises:
            ProtocolError: not of the schema it names.
        """
        relation = self._shape.relation
        envelope = decode_body(avro_value(value, relation), self._schema)
        del value
        self._lighten(envelope, "after", "exceptional")
        self._lighten(envelope, "before", "before_exceptional")
        light = encode_body(relation.avro_prefix, self._schema, envelope)
        return json_codec(relation).value(light) if relation.is_json else light

    def _lighten(self, envelope: Json, row_name: str, texts_name: str) -> None:
        row = envelope[row_name]
        if row is None:
            return
        texts: dict[str, str] = envelope[texts_name] or {}
        is_of_key_only = row_name == "before" and bool(self._shape.key_places)
        for place, (name, column) in enumerate(zip(self._names, self._shape.columns, strict=True)):
            if place in self._shape.key_places:
                continue
            if is_of_key_only:
                row[name] = None
                texts.pop(column.name, None)
            elif len(texts.get(column.name, "")) > VALUE_BYTES_MAX:
                texts[column.name] = self._put("text", pa.array([texts[column.name]], pa.string()))
            elif _may_exceed(row[name]):
                found = list(row[name].items()) if isinstance(row[name], dict) else row[name]
                row[name], texts[column.name] = None, self._put(str(place), pa.array([found], self._types[place]))
        envelope[texts_name] = texts or None

    def _put(self, kind: str, value: pa.Array) -> str:
        """Write a value to the file; returns the token that stands for it."""
        sink = pa.BufferOutputStream()
        batch = pa.record_batch([value], names=["value"])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        found = sink.getvalue()
        token = f"{self._prefix}{kind}:{hashlib.sha256(found).hexdigest()}"
        if token not in self._places:
            start = self._file.seek(0, 2)
            self._file.write(found)
            self._places[token] = start, found.size
        return token

    def restored(self, slices: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The rows with their large values, each of them in a table of its own. The slices have the lake's types."""
        for rows in slices:
            texts = pc.struct_field(rows.column("change"), "exceptional").to_pylist()
            done = 0
            for at, of_row in enumerate(texts):
                tokens = {name: text for name, text in of_row or () if text.startswith(self._prefix)}
                if not tokens:
                    continue
                if at > done:
                    yield rows.slice(done, at - done)
                yield self._restored_row(rows.slice(at, 1), dict(of_row), tokens)
                done = at + 1
            if done < rows.num_rows or done == 0:
                yield rows.slice(done)

    def _restored_row(self, row: pa.Table, texts: dict[str, str], tokens: Mapping[str, str]) -> pa.Table:
        for name, token in tokens.items():
            kind = token[len(self._prefix) :].partition(":")[0]
            value = self._get(token)
            if kind == "text":
                texts[name] = value[0].as_py()
                continue
            del texts[name]
            row = row.set_column(int(kind), row.schema.field(int(kind)), pa.chunked_array([value]))
        at = row.schema.get_field_index("change")
        return row.set_column(at, row.schema.field(at), _with_texts(row.column("change"), texts))

    def _get(self, token: str) -> pa.Array:
        start, size = self._places[token]
        with pa.ipc.open_stream(self._mapped.slice(start, size)) as reader:
            return reader.read_all().column("value").chunk(0)

    @cached_property
    def _mapped(self) -> pa.Buffer:
        """The whole file, mapped; used only after the last value was put."""
        self._file.flush()
        return pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))


def _with_texts(struct: pa.ChunkedArray, texts: Mapping[str, str]) -> pa.StructArray:
    one = struct.combine_chunks()
    one = one.chunk(0) if isinstance(one, pa.ChunkedArray) else one
    fields = list(one.type)
    values = {field.name: pc.struct_field(one, field.name) for field in fields}
    values["exceptional"] = pa.array([sorted(texts.items()) or None], values["exceptional"].type)
    return pa.StructArray.from_arrays(list(values.values()), fields=fields)


def _may_exceed(value: Json) -> bool:
    """Whether a value may have more than ``VALUE_BYTES_MAX``; of a list the first large item decides."""
    if isinstance(value, str | bytes):
        return len(value) * (4 if isinstance(value, str) else 1) > VALUE_BYTES_MAX
    if isinstance(value, dict):
        value = [part for pair in value.items() for part in pair]
    if not isinstance(value, list):
        return False
    return len(value) * 8 > VALUE_BYTES_MAX or any(map(_may_exceed, value))

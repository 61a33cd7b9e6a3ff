"""Changes to records, whatever relation the bytes name; fastavro must be able to read what comes of them."""

import json

import fastavro

from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.pgoutput.decoder import decode_message
from walbridge.producer.pgoutput.messages import Delete, Insert, Message, Relation, Update
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.table_description import describe
from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.errors import ProtocolError

SOURCE = TransactionSource.of(0x100, 1_700_000_000_000_000, 7, None)
TS_MS = b"\x02\x02"


class Receiver:
    """Transcodes changes of the corpus' relations, whatever relation id the damage left."""

    def __init__(self, corpus: list[bytes]) -> None:
        relations = [message for message in map(decode_message, corpus) if isinstance(message, Relation)]
        cache = RelationCache("p")
        self.writers: dict[int, RecordWriter] = {}
        self.schemas: dict[str, object] = {}
        for relation in relations:
            record = cache.version_of(describe(relation, None, {}), DataTopic("t", 1))
            self.writers[relation.relation_id] = RecordWriter(record, "p", "db")
            self.schemas[record.schema_id] = fastavro.parse_schema(json.loads(record.value_schema))
        self.any_writer = next(iter(self.writers.values()))

    def records(self, message: Message) -> list[KafkaRecord]:
        """The records of a change; none of any other message."""
        if not isinstance(message, Insert | Update | Delete):
            return []
        writer = self.writers.get(message.relation_id, self.any_writer)
        if isinstance(message, Insert):
            return writer.insert(message, SOURCE, 0, TS_MS)
        if isinstance(message, Update):
            return writer.update(message, SOURCE, 0, TS_MS)
        return writer.delete(message, SOURCE, 0, TS_MS)

    def expect_readable(self, record: KafkaRecord) -> None:
        """A reader decodes it with the schema it names."""
        value = record.value or b""
        expect_readable(value, self.schemas[value[2:10].hex()])


def expect_readable(value: bytes, parsed_schema: object) -> None:
    """An Avro reader uses it up."""
    try:
        decode_body(value, parsed_schema)
    except ProtocolError as error:
        # Damage inside a text: Postgres itself never sends other than client_encoding.
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise AssertionError("an Avro reader cannot read what was written") from error

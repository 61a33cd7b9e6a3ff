"""Records as ``RecordWriter`` makes them of changes, read back; and tables of every kind of identity."""

from typing import Any

from tests.producer.avro_reader import envelope, record_of
from tests.producer.pgoutput.encoder import tuple_data
from tests.schemas.strategies import column, table
from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.pgoutput.messages import Delete, Field, Insert, Unsent, Update
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.table_schema import TableSchema

NULL, UNCHANGED = Unsent.NULL, Unsent.UNCHANGED_TOAST
COMMIT_LSN, COMMIT_TIME_US = 0x1_0000_0010, 1_700_000_000_123_456
SOURCE = TransactionSource.of(COMMIT_LSN, COMMIT_TIME_US, 700, None)
TS_MS = b"\x02\x54"  # 42

ID, NAME, BIG = column("id", 23, is_key=True), column("name", 25), column("big", 25)
DAY = column("day", 1082)
KEYED = table(ID, NAME, BIG)
TEXT_KEYED = table(column("code", 25, is_key=True), NAME, BIG)
KEYLESS = TableSchema(16_384, "public", "orders", "f", (column("line", 25), BIG))
FULL = TableSchema(16_384, "public", "orders", "f", (ID, NAME, BIG))


def _data(fields: tuple[Field, ...] | None) -> bytes | None:
    return None if fields is None else tuple_data(*fields)


class Written:
    """The writer of a table, and its records read back."""

    def __init__(self, of: TableSchema) -> None:
        self.record: RelationRecord = record_of(of=of)
        self.writer = RecordWriter(self.record, "p", "shop")

    def read(self, records: list[KafkaRecord]) -> list[dict[str, Any]]:
        return [envelope(self.record, record.value or b"") for record in records]

    def inserted(self, *fields: Field, source: TransactionSource = SOURCE) -> tuple[KafkaRecord, dict[str, Any]]:
        (record,) = self.writer.insert(Insert(16_384, tuple_data(*fields)), source, 3, TS_MS)
        return record, self.read([record])[0]

    def updated(
        self, *new: Field, key: tuple[Field, ...] | None = None, old: tuple[Field, ...] | None = None
    ) -> tuple[list[KafkaRecord], list[dict[str, Any]]]:
        change = Update(16_384, _data(key), _data(old), tuple_data(*new))
        records = self.writer.update(change, SOURCE, 3, TS_MS)
        return records, self.read(records)

    def deleted(
        self, key: tuple[Field, ...] | None = None, old: tuple[Field, ...] | None = None
    ) -> tuple[KafkaRecord, dict[str, Any]]:
        (record,) = self.writer.delete(Delete(16_384, _data(key), _data(old)), SOURCE, 3, TS_MS)
        return record, self.read([record])[0]

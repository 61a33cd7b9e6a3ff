"""Keys of records about a whole table in a compacted topic, where every record needs one.

Pure. No row has such a key, so that compaction keeps the newest of each kind beside the rows.
"""

import json

from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.avro.value_encoders import NULL
from walbridge.schemas.control.metadata_record import RelationRecord

TRUNCATED = "t"


def whole_table_keys(record: RelationRecord) -> dict[str, bytes]:
    """By kind of record, its key; empty for a table without a key.

    In each key all columns are null, as in no row's. They differ in the length of the first null, for which Avro allows
    several encodings: 00, 80 00, 80 80 00.
    """
    if record.key_frame_id is None:
        return {}
    schema = json.loads(record.key_schema or "")
    nulls = sum(isinstance(each["type"], list) for each in schema["fields"]) - 1
    return {
        what: prefix_of(record.key_frame_id) + b"\x80" * longer + NULL + NULL * nulls
        for longer, what in enumerate((TRUNCATED, "first_in_data_collection", "last_in_data_collection"))
    }

"""Keys of records about a whole table in a compacted topic, where every record needs one.

Pure. No row has such a key, so that compaction keeps the newest of each kind beside the rows.
"""

import json

from walbridge.schemas.avro.framing import prefix_of
from walbridge.schemas.avro.value_encoders import NULL
from walbridge.schemas.control.metadata_record import RelationRecord

TRUNCATED = "t"


def table_keys(record: RelationRecord) -> dict[str, bytes]:
    """By what it is; empty for a table without a key.

    Each has all columns null, as no row has. They differ in how long the first null is written, which Avro lets be:
    00, 80 00, 80 80 00.
    """
    if record.key_frame_id is None:
        return {}
    schema = json.loads(record.key_schema or "")
    nulls = sum(isinstance(each["type"], list) for each in schema["fields"]) - 1
    return {
        what: prefix_of(record.key_frame_id) + b"\x80" * longer + NULL + NULL * nulls
        for longer, what in enumerate((TRUNCATED, "first_in_data_collection", "last_in_data_collection"))
    }

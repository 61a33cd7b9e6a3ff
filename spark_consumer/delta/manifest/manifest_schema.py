"""The columns of the manifest ``<lake>/_cuts``. Pure.

Earlier versions of walbridge did not write the newest columns of an entry: a reader takes them for null there.
"""

import pyarrow as pa

_TIME = pa.timestamp("us", tz="UTC")
_COPY_FROM = pa.struct(
    [
        (
            "shapes",
            pa.list_(pa.struct([("commit_lsn", pa.int64()), ("ordinal", pa.int64()), ("schema_id", pa.string())])),
        ),
        (
            "partitions",
            pa.list_(
                pa.struct(
                    [
                        ("partition", pa.int64()),
                        ("start_offset", pa.int64()),
                        ("end_offset", pa.int64()),
                        ("records", pa.int64()),
                    ]
                )
            ),
        ),
    ]
)
ENTRY = pa.struct(
    [
        ("relation_id", pa.int64()),
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("topic", pa.string()),
        ("path", pa.string()),
        ("version", pa.int64()),
        ("schema_id", pa.string()),
        ("state", pa.string()),
        ("since", pa.int64()),
        ("copy_from", _COPY_FROM),
        ("why", pa.string()),
        ("shapes_at_end", pa.int64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),
        ("kind", pa.string()),
        ("pipeline", pa.string()),
        ("epoch", pa.string()),
        ("from_cut", pa.int64()),
        ("to_cut", pa.int64()),
        ("next_offset", pa.int64()),
        ("end_lsn", pa.int64()),
        ("commit_time", _TIME),
        ("written_at", _TIME),
        ("tables", pa.list_(ENTRY)),
    ]
)

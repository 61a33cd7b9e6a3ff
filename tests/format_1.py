"""Progress as the last code of format 1 wrote it: one record for the slot and all its tables."""

from __future__ import annotations

from walbridge.schemas.avro.codec import decode_control, encode_control
from walbridge.schemas.control.progress_record import Progress, encode_progress


def encode_format_1(progress: Progress) -> bytes:
    """The value of its record."""
    _, record = decode_control(encode_progress(progress))
    options = dict(record["options"])
    del options["walbridge.tables"]
    tables = progress.tables.values()
    members = [f"{table.relation_id}:{table.membership}" for table in tables if table.membership]
    topics = [f"{table.topic}:{table.topic_id}" for table in tables if table.topic]
    unfollowed = [str(table.relation_id) for table in tables if table.state == "stale"]
    if "walbridge.publication" in options:
        options["walbridge.members"] = " ".join(members)
        options["walbridge.topics"] = " ".join([options["walbridge.topics"], *topics])
    if unfollowed:
        options["walbridge.unfollowed"] = " ".join(unfollowed)
    written = {"format_version": 1, "options": options, "relation_ids": list(progress.relation_ids)}
    return encode_control("Progress", record | written)

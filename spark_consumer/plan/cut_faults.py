"""Why a cut cannot be applied: a broken chain, a hole in a range, counts that differ (I7). Pure."""

from collections import Counter
from dataclasses import replace

from walbridge.schemas.control.cut import Cut, chain_break, count_mismatch
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID


def cut_fault(previous: Cut | None, cut: Cut) -> str | None:
    """Why ``cut`` cannot be applied after ``previous``: a broken chain, or records that do not add up and belong to
    no table, and so would be dropped silently (I7)."""
    if broken := chain_break(previous, cut):
        return broken
    of_tables = {table.topic for table in cut.tables if table.relation_id != MESSAGES_RELATION_ID}
    return next((fault for topic, fault in topic_faults(cut).items() if topic not in of_tables), None)


def topic_faults(cut: Cut) -> dict[str, str]:
    """By topic: a hole in a range, or other records in its partitions than its table has (I7)."""
    faults = {}
    # ``count_mismatch`` names the first fault only, so it is asked again without the topics found so far.
    while torn := count_mismatch(replace(cut, partitions=tuple(p for p in cut.partitions if p.topic not in faults))):
        faults[torn.topic] = (
            f"cut {cut.cut_id} names {torn.records} records in "
            f"{torn.topic}[{torn.partition}] from {torn.start_offset} to {torn.end_offset}"
        )
    in_partitions, in_tables = Counter[str](), Counter[str]()
    for part in cut.partitions:
        in_partitions[part.topic] += part.records
    for table in cut.tables:
        in_tables[table.topic] += table.row_count
    for topic in in_partitions | in_tables:
        if in_partitions[topic] != in_tables[topic]:
            faults[topic] = f"cut {cut.cut_id} counts the records of {topic} differently by table and by partition"
    return faults

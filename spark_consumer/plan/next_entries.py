"""One table's entry in the next row of ``_cuts``. Pure.

In: its entry in the row before, and what a plan does to the table: the plan is about to write it, has written it, goes
on copying it, or cannot apply it. Out: its entry. A table is current only where all of it was applied (I8).
"""

from collections.abc import Mapping
from dataclasses import replace

from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.table_progress import ARCHIVE, CURRENT, STALE
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.pending_copy import PendingCopy
from walbridge.spark_consumer.plan.plan import SUPERSEDED, TableHead, TablePlan
from walbridge.spark_consumer.plan.table_head import AWAITING_COPY
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

Relations = Mapping[str, RelationRecord]
"""Relation versions by schema id."""


def planned_entry(table: TablePlan, relations: Relations) -> TableEntry:
    """The entry of a table that a plan is about to write: as it is now; without a version if it does not exist yet."""
    schema_id = table.base.schema_id if table.base else table.segments[0].schema_id
    version = table.base.version if table.base else None
    known = relations.get(schema_id) or relations[table.segments[0].schema_id]
    path = table.base.path if table.base else ""
    return TableEntry(
        table.relation_id,
        known.table.namespace,
        known.table.name,
        table.topic,
        path,
        version,
        schema_id,
        table.state,
    )


def applied_entry(head: TableHead, before: TableEntry | None, end_lsn: int, relations: Relations) -> TableEntry:
    """The entry of a table that a plan has written, up to ``end_lsn``."""
    table = relations[head.schema_id].table
    state = ARCHIVE if head.state == CURRENT and table.is_archive else head.state
    unchanged = before is not None and before.state == state
    since = before.since if before is not None and unchanged else end_lsn
    return TableEntry(
        head.relation_id,
        table.namespace,
        table.name,
        head.topic,
        head.path,
        head.version,
        head.schema_id,
        state,
        since,
    )


def copying_entry(relation_id: int, copy: PendingCopy, before: TableEntry | None, relations: Relations) -> TableEntry:
    """The entry of a table with a pending copy. A table that is copied into another topic keeps its rows. A table of
    another epoch with another topic may have the same relation id by chance.

    Args:
        before: the entry so far, of this table or of the table whose topic it takes over.
    """
    table = relations[copy.schema_id].table
    is_another = before is not None and before.topic != copy.topic and before.state == SUPERSEDED
    if before is None or before.version is None or is_another:
        is_same = before is not None and before.copy_from is not None and before.relation_id == relation_id
        return TableEntry(
            relation_id,
            table.namespace,
            table.name,
            copy.topic,
            before.path if before is not None and is_same and not is_another else "",
            None,
            copy.schema_id,
            "copying",
            copy.start.commit_lsn,
            copy,
        )
    state, since = before.state, before.since
    if state == SUPERSEDED or before.relation_id != relation_id:
        state, since = STALE, before.since if state in (*AWAITING_COPY, SUPERSEDED) else copy.start.commit_lsn
    elif state in (CURRENT, ARCHIVE) and not table.key_columns:
        # Its changes wait until its rows are read, and are not in the topic before.
        state, since = "copying", copy.start.commit_lsn
    if before.relation_id == relation_id:
        before = replace(before, namespace=table.namespace, name=table.name)
    return replace(before, relation_id=relation_id, topic=copy.topic, state=state, since=since, copy_from=copy)


def former_and_others(
    entries: dict[int, TableEntry], relation_id: int, topic: str
) -> tuple[TableEntry | None, dict[int, TableEntry]]:
    """The entry so far of this table, or of the one whose topic it has now; and the entries without those two."""
    before = entries.get(relation_id) or next((entry for entry in entries.values() if entry.topic == topic), None)
    return before, {key: e for key, e in entries.items() if key != relation_id and e.topic != topic}


def entry_in_trouble(
    trouble: TableTrouble, before: TableEntry | None, certain: int, relations: Relations
) -> TableEntry:
    """The entry of a table in trouble.

    Args:
        before: the entry so far.
        certain: the LSN up to which the table is certainly complete.
    """
    if before is None:
        known = relations.get(trouble.schema_id)
        namespace, name = (known.table.namespace, known.table.name) if known else ("", trouble.topic)
        before = TableEntry(
            trouble.relation_id, namespace, name, trouble.topic, "", None, trouble.schema_id, trouble.state, certain
        )
    since = before.since if before.state in (*AWAITING_COPY, SUPERSEDED) else certain
    return replace(before, relation_id=trouble.relation_id, state=trouble.state, since=since, why=trouble.why)


def without_copy(entry: TableEntry, end_lsn: int) -> TableEntry | None:
    """The entry after its copy, if there was one. A table whose copy did not end is stale; one without rows goes."""
    if entry.copy_from is None:
        return entry
    if entry.version is None:
        return None
    if entry.state == "copying":
        entry = replace(entry, state="stale", since=end_lsn)
    return replace(entry, copy_from=None)

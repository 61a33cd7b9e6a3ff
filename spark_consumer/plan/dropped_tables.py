"""Tables that were dropped at the source, or left the publication, out of the lake: ``[lake] dropped_tables = "drop"``.

In: entries as a published row has them, and which of their tables left. Out: the entries without them. Pure.

    stale ──taken out──▶ dropped: no version, its folder waits ──▶ no entry: its folder is deleted

An entry that is dropped holds the folder's name until no kept row of ``_cuts`` names a version in it: a table of
that name which comes meanwhile gets a folder of its own (I8). It is no table to readers, and has neither the relation
id nor the topic of one, so the same table, or another in its topic, may come back beside it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from walbridge.schemas.control.table_progress import DROPPED
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.segments import LEFT

Entries = Mapping[int, TableEntry]


def may_have_left(entries: Entries) -> frozenset[int]:
    """Tables that take no changes, and of which no copy goes on."""
    return frozenset(
        relation_id
        for relation_id, entry in entries.items()
        if entry.state in LEFT and entry.version is not None and entry.copy_from is None
    )


def taken_out(entries: Entries, relation_ids: Collection[int]) -> dict[int, TableEntry]:
    """These tables are dropped; their folders wait under ids that no table has."""
    kept = {relation_id: entry for relation_id, entry in entries.items() if relation_id not in relation_ids}
    lowest = min(0, *entries, *relation_ids)
    for number, relation_id in enumerate(sorted(relation_ids), 1):
        waits = replace(
            entries[relation_id], relation_id=lowest - number, topic="", version=None, state=DROPPED, why=None
        )
        kept[waits.relation_id] = waits
    return kept


def without_folders(entries: Entries, paths: Collection[str]) -> dict[int, TableEntry]:
    """The folders at these paths are deleted."""
    return {
        relation_id: entry for relation_id, entry in entries.items() if not (entry.is_dropped and entry.path in paths)
    }

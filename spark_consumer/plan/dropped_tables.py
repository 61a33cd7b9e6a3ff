"""Removes tables from the lake that the source publishes no more, where ``[lake] dropped_tables = "drop"``.

In: the entries of a published row, and which of their tables are not published any more: they were dropped at the
source, or left the publication. Out: the entries without them. Pure.

    stale ──taken out──▶ dropped: no version, its folder waits ──▶ no entry: its folder is deleted

An entry that is dropped holds the folder's name until no kept row of ``_cuts`` names a version in it: a table of
that name which comes meanwhile gets a folder of its own (I8). It is no table to readers, and has neither the relation
id nor the topic of one, so the same table, or another in its topic, may come back beside it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from walbridge.schemas.control.table_progress import DROPPED
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.table_head import AWAITING_COPY

Entries = Mapping[int, TableEntry]


def may_be_unpublished(entries: Entries) -> frozenset[int]:
    """Tables of which this may be so: they take no changes, and no copy of them goes on."""
    return frozenset(
        relation_id
        for relation_id, entry in entries.items()
        if entry.state in AWAITING_COPY and entry.version is not None and entry.copy_from is None
    )


def taken_out(entries: Entries, relation_ids: Collection[int]) -> dict[int, TableEntry]:
    """The entries with these tables in the state ``dropped``, each under an id that no table has."""
    kept = {relation_id: entry for relation_id, entry in entries.items() if relation_id not in relation_ids}
    lowest = min(0, *entries, *relation_ids)
    for number, relation_id in enumerate(sorted(relation_ids), 1):
        waits = replace(
            entries[relation_id], relation_id=lowest - number, topic="", version=None, state=DROPPED, why=None
        )
        kept[waits.relation_id] = waits
    return kept


def without_folders(entries: Entries, paths: Collection[str]) -> dict[int, TableEntry]:
    """The entries without those dropped tables whose folders, at these paths, have been deleted."""
    return {
        relation_id: entry for relation_id, entry in entries.items() if not (entry.is_dropped and entry.path in paths)
    }

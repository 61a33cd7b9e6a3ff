"""Tables that were renamed, or whose columns changed, where the stream has brought no Relation that shows it.

In: names and columns from the catalogue, once all changes under the earlier ones have come. Out: a version with the new
name or columns and the same topic, and a shape barrier in the cut that ends there, without an event.

After a swap of names two followed tables may have the same name for us, if the stream has shown only one of the new
names. Then the other table's name is looked up at once, so that no cut has the same name for two tables.
"""

from collections.abc import Mapping
from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.errors.tables import UnfitTable
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.registry.refusals import UnfitSchema
from walbridge.producer.relations.table_names import Name
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.fast_path import FastPath
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.position import Lsn, Position

log = structlog.get_logger()


class RenamedTables:
    """Records the new names and columns of one session's tables."""

    def __init__(self, tables: Tables, out: OpenBatch, watch: SourceWatch, fast_path: FastPath) -> None:
        self._tables, self._out, self._watch, self._fast_path = tables, out, watch, fast_path

    def announce(self, lsn: Lsn) -> None:
        """Add new names and columns to the open batch, which ends at ``lsn``."""
        self._rename(self._watch.news.take_renamed(lsn), lsn)
        if displaced := self._tables.versions.take_displaced() & {*self._out.tracker.progress.relation_ids}:
            names = self._watch.now.names_of(displaced)
            # The catalogue may be ahead of this cut: a name that another table still has here does not count yet.
            self._rename({each: name for each, name in names.items() if self._tables.versions.is_free_name(name)}, lsn)

        self._alter(lsn)

    def _alter(self, lsn: Lsn) -> None:
        tracker = self._out.tracker
        for relation_id, altered in self._watch.news.take_altered(lsn).items():
            table = tracker.progress.tables.get(relation_id)
            is_leaving = relation_id in self._out.batch.dropped or relation_id in self._watch.doubts
            if is_leaving or table is None or table.state != CURRENT or table.copy is not None:
                continue
            if self._tables.writers.current_version(relation_id) != altered.known:
                continue  # the stream told more since
            try:
                writer = self._tables.alter(altered.table, altered.facts, altered.types)
            except UnfitTable as reason:
                # There may be no next change that says so, and without the columns it does not equal its source.
                self._watch.doubts.add({relation_id: reason})
                continue
            if writer is not None:
                self._fast_path.forget(relation_id)
                self._out.add_barrier(writer, "shape", Position(lsn, 0))
                log.info("table is altered", table=writer.relation.table.qualified_name, topic=writer.topic)

    def _rename(self, names: Mapping[int, Name], lsn: Lsn) -> None:
        tracker = self._out.tracker
        for relation_id, name in names.items():
            table = tracker.progress.tables.get(relation_id)
            # The copy of a table asks what it is called before each chunk.
            if table is None or table.state != CURRENT or relation_id in self._out.batch.dropped:
                continue
            was = self._tables.writers.name_of(relation_id)
            try:
                writer = self._tables.rename(relation_id, name)
            except UnfitSchema as reason:
                self._watch.doubts.add({relation_id: reason})
                continue
            except UnfitTable:
                continue  # it leaves its topic in this cut, and its copy asks what it is called
            if writer is None:
                continue
            self._fast_path.forget(relation_id)
            self._out.add_barrier(writer, "shape", Position(lsn, 0))
            if table.name is not None:
                tracker.remember_tables({relation_id: replace(table, name=".".join(name))})
            log.info("table is renamed", table=".".join(name), was=".".join(was or ()), topic=writer.topic)

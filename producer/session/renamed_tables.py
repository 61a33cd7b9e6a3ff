"""Tables that were renamed, or whose columns changed, and of which the stream brought no Relation that says so.

In: names and columns that the catalogue told, once all has come that was written under those before. Out: a version
with the new ones and the same topic, and a shape barrier in the cut that ends there; no event goes with it.

Two followed tables have one name when the stream has told the new name of one of them only, as after a swap. What
the other one is called is asked at once, so no cut says both.
"""

from collections.abc import Mapping
from dataclasses import replace

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.errors.tables import KeyAltered, UnfitTable
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.registry.refusals import UnfitSchema
from walbridge.producer.relations.table_names import Name
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.fast_path import FastPath
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.position import Lsn, Position

log = structlog.get_logger()


class RenamedTables:
    """Tells the new names of one session's tables."""

    def __init__(self, tables: Tables, out: OpenBatch, watch: SourceWatch, fast_path: FastPath) -> None:
        self._tables, self._out, self._watch, self._fast_path = tables, out, watch, fast_path

    def announce(self, lsn: Lsn) -> None:
        """Add to the open batch, which ends at ``lsn``, what is known of names and columns there."""
        self._rename(self._watch.take_renamed(lsn), lsn)
        if displaced := self._tables.versions.take_displaced() & {*self._out.tracker.progress.relation_ids}:
            names = self._watch.names_of(displaced)
            # What the catalogue says may be later than this cut: a name that another table has here is none yet.
            self._rename({each: name for each, name in names.items() if self._tables.versions.is_free_name(name)}, lsn)

        self._alter(lsn)

    def _alter(self, lsn: Lsn) -> None:
        tracker = self._out.tracker
        for relation_id, altered in self._watch.take_altered(lsn).items():
            table = tracker.progress.tables.get(relation_id)
            is_leaving = relation_id in self._out.batch.dropped or relation_id in self._watch.doubts
            if is_leaving or table is None or table.state != CURRENT or table.copy is not None:
                continue
            if self._tables.writers.current_version(relation_id) != altered.known:
                continue  # the stream told more since
            try:
                writer = self._tables.alter(altered.table, altered.facts, altered.types)
            except (KeyAltered, UnfitSchema) as reason:
                self._watch.doubts.add({relation_id: reason})  # or each look would ask the registry
                continue
            except UnfitTable:
                continue  # its next change says so
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

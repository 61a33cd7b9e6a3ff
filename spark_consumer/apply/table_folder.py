"""One table's folder in one plan: which folder, and what commits there say of the plan."""

from contextlib import suppress
from dataclasses import dataclass

from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.apply.job_lake import JobLake
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import DamagedTable
from walbridge.spark_consumer.errors import table_lost
from walbridge.spark_consumer.plan.plan import SUPERSEDED, Plan, TableHead, TablePlan
from walbridge.spark_consumer.plan.table_trouble import new_folder

ATTEMPTS_MAX = 3
"""How often a table is begun again because another program committed to it meanwhile."""


@dataclass(frozen=True)
class TableFolder:
    """The folder of one table, as one plan finds it."""

    lake: JobLake
    table_plan: TablePlan
    plan: Plan

    @property
    def path(self) -> str:
        return self.table_plan.path

    @property
    def commit(self) -> Commit:
        """What every commit of this plan on this table says of itself."""
        relation_id = self.table_plan.relation_id
        app_id = f"{self.lake.pipeline}/{self.plan.epoch}/{relation_id}"
        # Not the number alone: another plan up to the same cut has other records, in other segments.
        of_cut = str(self.plan.to_cut)
        if self.table_plan.beside:
            of_cut = f"copy-{of_cut}"
        elif (copy := self.plan.copies.get(relation_id)) is not None and copy.has_ended:
            # Earlier versions ended this copy in the plan, and may have left that half done.
            of_cut = f"{of_cut}-deferred"
        return Commit(plan=f"{app_id}/{of_cut}", app_id=app_id)

    @property
    def needed_base(self) -> TableHead | None:
        """The base that must be in the lake; None where a copy replaces the table, which needs nothing of it."""
        base = self.table_plan.base
        is_copied = self.table_plan.swapped is not None or (base is not None and base.state == SUPERSEDED)
        return None if is_copied else base

    def opened(self) -> tuple[str, LakeTable | None]:
        """The table's folder, and the table if it is there.

        Rows of ``_cuts`` may name versions of the table in its folder. A copy must not begin such versions anew there,
        since those rows would then name a state of another LSN (I8). So if the table is gone, damaged or rolled back,
        or another program set a constraint on it, the copy gets a new folder.
        """
        base, path = self.table_plan.base, self.path
        if self.needed_base is not None:
            return path, self._open(path)
        with suppress(TableError):
            table = self._open(path)
            is_as_published = base is None or (table is not None and table.version >= base.version)
            if is_as_published and not (table is not None and table.constraints):
                return path, table
        path = new_folder(path, self.table_plan.relation_id, self.plan.to_cut)
        return path, self._open(path)

    def lost(self, how: str) -> TableError:
        """The error of a table that is not as a row of ``_cuts`` says."""
        return table_lost(self.path, how)

    def written_by_others(self) -> TableError:
        """The error of a table to which commits come as often as it is tried."""
        return TableError(
            f"another program keeps committing to the lake's table {self.path}",
            first="stop that program: nobody but this job may write to the lake's tables",
        )

    def head(self, path: str, table: LakeTable) -> TableHead:
        """The table after the plan."""
        plan = self.table_plan
        same_state = plan.base is not None and plan.base.state == plan.state
        return TableHead(
            relation_id=plan.relation_id,
            topic=plan.topic,
            path=path,
            version=table.version,
            schema_id=plan.segments[-1].schema_id,
            state=plan.state,
            since=plan.base.since if plan.base is not None and same_state else self.plan.end_lsn,
        )

    def _open(self, path: str) -> LakeTable | None:
        try:
            return LakeTable.open(self.lake.uri(path), self.lake.storage_options)
        except DamagedTable as error:
            raise self.lost(f"cannot be opened: {error.how}") from error

"""How a copy that was written aside, in a folder of its own, gets into its table's folder.

In: the copy's table at its head, and the plan of the table whose rows it is to replace. Out: that table's head, which
holds the copy's rows alone, in the copy's shape. No row is read: the copy's files are moved, and two commits replace
the table's files by them. All other tables wait as long as that takes.

Nothing of it counts before a row of ``_cuts`` names the head (I8). A job that is killed before has moved files that no
commit names, or has left commits that the next plan takes back as those of another program (``apply.py``); the copy is
written again.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pyarrow as pa

from walbridge.runtime.kill_points import kill_point
from walbridge.spark_consumer.apply.job_lake import JobLake
from walbridge.spark_consumer.apply.table_folder import ATTEMPTS_MAX, TableFolder
from walbridge.spark_consumer.delta.adopted_files import AdoptedFiles, MarkedRows
from walbridge.spark_consumer.delta.columns import arrow_schema
from walbridge.spark_consumer.delta.commit import CREATE, SHAPE
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import ConcurrentCommit, DamagedTable
from walbridge.spark_consumer.plan.plan import Plan, TableHead


def enter_copy(lake: JobLake, copy: TableHead, plan: Plan) -> TableHead:
    """Replace what the plan's table holds by a copy of it.

    Raises:
        TableError: what was written of the copy is gone, or another program keeps committing to the table.
    """
    (table_plan,) = plan.tables
    folder = TableFolder(lake, table_plan, plan)
    with _refusing_lost_copy(folder):
        written = LakeTable.open(lake.uri(copy.path), lake.storage_options)
        if written is None or written.version != copy.version:
            raise FileNotFoundError
        files = AdoptedFiles.of(written, lake.storage_options)
        path, table = folder.opened()
        if table is None:
            created = replace(folder.commit, step=CREATE)
            table = LakeTable.create(lake.uri(path), written.fields, created, lake.storage_options)
        files.move(lake.path, copy.path, path, lake.storage_options)
    kill_point("build:moved")
    commit = replace(folder.commit, txn_version=plan.txn_version(0))
    for _ in range(ATTEMPTS_MAX):
        with suppress(ConcurrentCommit):
            # This commit gives the table the copy's columns as well.
            table.overwrite(_no_rows(written), replace(commit, step=SHAPE))
            kill_point("build:emptied")
            files.add_to(table, commit, lake.storage_options)
            kill_point("build:entered")
            return folder.head(path, table)
        table.reload()
    raise folder.written_by_others()


@contextmanager
def _refusing_lost_copy(folder: TableFolder) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, MarkedRows, DamagedTable) as error:
        raise folder.lost("was copied, and another program has changed what was written of the copy") from error


def _no_rows(table: LakeTable) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(arrow_schema(table.fields), [])

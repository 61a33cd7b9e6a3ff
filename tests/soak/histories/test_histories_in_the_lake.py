"""After each step of the histories what the lake calls current equals its source (I8), by ``walbridge verify``."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import ProducerUnderTest
from tests.soak.histories.histories_run import HistoriesRun
from tests.soak.histories.rows_of_the_lake import rows_of_lake, rows_of_source
from tests.soak.histories.test_histories import FILES, UNFIT, histories
from tests.wait import wait_until
from walbridge.lake import tables_at
from walbridge.schemas.control.table_progress import CURRENT, STALE
from walbridge.verify.errors import NotInLake
from walbridge.verify.report import TableResult

pytestmark = [pytest.mark.soak, pytest.mark.servers]
NOTICED_S = 60.0
OF_THE_JOB = ("altered_types",)
"""What the producer leaves to the job, which knows what its columns hold."""
BY_SPARK = ("keys", "stored_values", "altered_types")


@pytest.mark.parametrize(
    ("files", "applier"),
    [*((files, "auto") for files in (*FILES.values(), OF_THE_JOB)), *(((file,), "spark") for file in BY_SPARK)],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_tables_that_the_lake_calls_current_are(
    producer_of_all: ProducerUnderTest, spark: SparkSession, lake: Path, files: tuple[str, ...], applier: str
) -> None:
    run = HistoriesRun(producer_of_all, histories(*files), UNFIT)
    run.begin()
    pipeline = PipelineUnderTest(producer_of_all, spark, lake, applier=applier)
    producer_of_all.start_streaming()
    _check(pipeline, run, "at first")
    with contextlib.closing(run):
        for number in run.numbers():
            run.step(number)
            _check(pipeline, run, f"after step {number}")
    _settle(pipeline)
    _check(pipeline, run, "in the end")
    _check_by_another_reader(pipeline, run)
    assert not run.problems, "\n".join(run.problems)


def _check(pipeline: PipelineUnderTest, run: HistoriesRun, when: str) -> None:
    run.problems += [
        f"{each.table} {when}: {each}" for each in _compared(pipeline) if each.state == CURRENT and _differs(each)
    ]


def _compared(pipeline: PipelineUnderTest) -> list[TableResult]:
    """Once each table that is published has come to the lake."""
    found: list[TableResult] = []

    def have_come() -> bool:
        try:
            found[:] = pipeline.compared()
        except NotInLake:
            return False
        return True

    wait_until(have_come, "all published tables to come to the lake", NOTICED_S, 1.0)
    return found


def _check_by_another_reader(pipeline: PipelineUnderTest, run: HistoriesRun) -> None:
    """By one that has nothing in common with ``walbridge verify``, once every name is the source's."""
    lake = str(pipeline.lake)
    readable = tables_at(lake, states=(CURRENT, STALE))  # what is published no more stays stale
    for name, table in readable.items():
        if table.state != CURRENT:
            continue
        wanted, there = rows_of_source(pipeline.database, table), rows_of_lake(table)
        if wanted != there:
            more, fewer = [*(there - wanted)][:1], [*(wanted - there)][:1]
            run.problems.append(f"{name} in the end: the lake has {more}, the source {fewer}")


def _differs(result: TableResult) -> bool:
    return not result.equal or bool(result.in_flux or result.why_not_compared or result.why_undecided)


def _settle(pipeline: PipelineUnderTest) -> None:
    """A table that is published no more stays as it was."""

    def left() -> list[str]:
        names = {f"{namespace}.{name}" for namespace, name in pipeline.producer.published().values()}
        compared = {each.table: each.state for each in _compared(pipeline)}
        return [each for each in names if compared.get(each) != CURRENT and not each.startswith(UNFIT)]

    wait_until(lambda: not left(), "all tables of the lake to be current", NOTICED_S, 1.0)

"""The job over two tables that are in memory, without Kafka and Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark_consumer.memory_pipeline import MemoryPipeline, job_over
from tests.spark_consumer.two_tables import Run, begun


@pytest.fixture
def pipeline() -> MemoryPipeline:
    return begun()


@pytest.fixture
def run(pipeline: MemoryPipeline, lake: Path) -> Iterator[Run]:
    with job_over(pipeline, lake) as run_job:
        yield run_job

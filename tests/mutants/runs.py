"""Tests of the job as mutants run them: each in a lake, over topics or under settings of its own."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.spark_consumer import two_tables
from tests.spark_consumer.delta.maintenance import test_maintenance
from tests.spark_consumer.in_memory.test_fed_tables_copied_again import Fed
from tests.spark_consumer.memory_pipeline import job_over
from tests.spark_consumer.memory_topics import MemoryTopics
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.kafka.control.metadata_topic import MetadataTopic

Test = Callable[[], object]


def in_lake(test: Callable[..., object], *args: object, lake_first: bool = True) -> Test:
    """The test in an empty lake of its own."""

    def run() -> None:
        with TemporaryDirectory() as folder:
            lake = Path(folder) / "lake"
            test(*((lake, *args) if lake_first else (*args, lake)))

    return run


def patched(test: Callable[..., object], *args: object) -> Test:
    def run() -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            test(*args, monkeypatch)

    return run


def patched_in_lake(test: Callable[..., object]) -> Test:
    def run() -> None:
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
            test(Path(folder) / "lake", monkeypatch)

    return run


def tidied(test: Callable[..., object], *args: object) -> Test:
    """The test over maintenance with small limits."""

    def run() -> None:
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
            lake = Path(folder) / "lake"
            manifest = Manifest(str(lake), "p", {})
            test(test_maintenance.with_small_limits(lake, manifest, monkeypatch), manifest, lake, *args)

    return run


def over_topics(test: Callable[..., object], *args: object) -> Test:
    """The test over a job and topics in memory."""

    def run() -> None:
        pipeline = two_tables.begun()
        with TemporaryDirectory() as folder, job_over(pipeline, Path(folder) / "lake") as run_job:
            test(pipeline, run_job, Path(folder) / "lake", *args)

    return run


def in_fed_lake(test: Callable[[Fed], object]) -> Test:
    """The test in a lake with a table that is fed."""

    def run() -> None:
        with TemporaryDirectory() as folder:
            test(Fed(Path(folder) / "lake"))

    return run


def over_metadata(test: Callable[..., object]) -> Test:
    def run() -> None:
        topics = MemoryTopics()
        test(topics, MetadataTopic(topics, "p"))  # type: ignore[arg-type]

    return run

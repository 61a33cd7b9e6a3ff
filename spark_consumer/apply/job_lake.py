"""The lake as one job writes to it: where it is, whose commits these are, and which engines make them."""

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply.appliers import Appliers


@dataclass(frozen=True)
class JobLake:
    """The lake for all tables and plans of a job.

    Args:
        pipeline: its name, which each commit holds.
        source_sends_all: whether the source sends all changes, also those that came to it by replication.
        appliers: the engines; delta-rs alone unless given.
    """

    path: str
    pipeline: str
    storage_options: dict[str, str] = field(default_factory=dict)
    source_sends_all: bool = True
    appliers: Appliers = field(default_factory=Appliers)

    def uri(self, path: str) -> str:
        """The URI of a table's folder in the lake."""
        return f"{self.path.rstrip('/')}/{path}"


def job_lake(settings: Settings, spark: SparkSession) -> JobLake:
    """The lake of a job, by its settings."""
    return JobLake(
        settings.lake.path.rstrip("/"),
        settings.name,
        flatten(settings.lake.storage_options),
        settings.postgres.origin == "any",
        Appliers.of(settings, spark),
    )

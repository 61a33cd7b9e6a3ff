"""The lake as one job writes to it: where it is, whose commits these are, and which engines make them."""

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.apply.appliers import Appliers


@dataclass(frozen=True)
class JobLake:
    """The same for all tables and plans of a job.

    Args:
        pipeline: whose name each commit bears.
        tells_all: the source tells all its changes, also those that came to it by replication.
        appliers: delta-rs alone, unless others are given.
    """

    path: str
    pipeline: str
    storage_options: dict[str, str] = field(default_factory=dict)
    tells_all: bool = True
    appliers: Appliers = field(default_factory=Appliers)

    def uri(self, path: str) -> str:
        """Of a table's folder in the lake."""
        return f"{self.path.rstrip('/')}/{path}"


def job_lake(settings: Settings, spark: SparkSession) -> JobLake:
    """By the job's settings."""
    return JobLake(
        settings.lake.path.rstrip("/"),
        settings.name,
        flatten(settings.lake.storage_options),
        settings.postgres.origin == "any",
        Appliers.of(settings, spark),
    )

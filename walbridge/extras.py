"""Which extra of walbridge brings a package that is not installed here.

In: the error of an import. Out: package and extra, in the words that an operator needs. The
producer's image has no Delta and no Spark, the job's no Postgres: so a verb says what it lacks.
"""

from dataclasses import dataclass

_EXTRAS = {
    "psycopg": "producer",
    "confluent_kafka": "producer",
    "pyspark": "spark",
    "deltalake": "spark",
    "pyarrow": "spark",
    "numpy": "spark",
    "duckdb": "sql",
}
"""Package → the extra of ours that brings it; each is imported by a verb that needs it."""


@dataclass(frozen=True, slots=True)
class MissingPackage:
    """A package of an extra that was left out."""

    name: str
    extra: str

    @property
    def install(self) -> str:
        """The command that brings it."""
        return f"in a checkout of walbridge: pip install '.[{self.extra}]'"


def missing_package(error: ModuleNotFoundError) -> MissingPackage | None:
    """What is missing; None where it is a module of ours or of no extra, which is a bug."""
    name = (error.name or "").partition(".")[0]
    return MissingPackage(name, _EXTRAS[name]) if name in _EXTRAS else None

"""The whole ``walbridge.toml`` as one frozen object; both programs take their part.

In: values and ``WALBRIDGE_*`` variables. Out: settings within their limits. Unknown keys are
refused: a misspelt limit would otherwise be ignored. Secrets print as
``***``. Each setting is in ``settings_sections.py``; reading the file is ``settings_file.py``.
"""

import re
from typing import Any

from pydantic import field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from walbridge.schemas.dsn import MASK, mask_dsn
from walbridge.schemas.settings_sections import Kafka, Lake, Metrics, Postgres, Producer, Spark, Topics
from walbridge.schemas.topics import is_pipeline_name

ENV_PREFIX = "WALBRIDGE_"
_SPARK_REDACTS = re.compile(r"(?i)secret|password|token|access[.]?key")
"""``spark.redaction.regex``, and what other stores' properties add to it is named alike."""


class Settings(BaseSettings):
    """Everything an operator can set."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    name: str = "walbridge"
    formerly: str | None = None
    """The name that the pipeline had before: its slot is made anew, and its lake goes on."""
    postgres: Postgres = Postgres()
    topics: Topics = Topics()
    kafka: Kafka = Kafka()
    producer: Producer = Producer()
    lake: Lake = Lake()
    spark: Spark = Spark()
    metrics: Metrics = Metrics()

    @field_validator("name", "formerly")
    @classmethod
    def _name_is_a_topic_prefix(cls, value: str | None) -> str | None:
        if value is not None and not is_pipeline_name(value):
            raise ValueError("letters, digits, '-' and '_' only, at most 64")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Variables win over the file, whose values arrive as arguments."""
        return env_settings, init_settings


def effective(settings: Settings) -> dict[str, Any]:
    """The settings in force, secrets masked; the DSN keeps all but its password."""
    shown: dict[str, Any] = settings.model_dump(mode="json")
    shown["postgres"]["dsn"] = mask_dsn(settings.postgres.dsn.get_secret_value())
    if not settings.postgres.publications:
        (shown["postgres"]["publication"],) = settings.postgres.publication_names
    conf = settings.spark.conf
    shown["spark"]["conf"] = {name: MASK if _SPARK_REDACTS.search(name) else conf[name] for name in conf}
    return shown

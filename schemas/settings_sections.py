"""The tables of ``walbridge.toml``: every setting with its default, its limits and its unit.

In: values. Out: frozen sections of ``Settings``, or pydantic's errors, which name the setting.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from walbridge.schemas.properties import flatten
from walbridge.schemas.setting_checks.contradictions import (
    refuse_brief_retention,
    refuse_endless_compaction,
    refuse_two_protocols,
    refuse_unused_prefixes,
)
from walbridge.schemas.setting_checks.lake_path import read_alike
from walbridge.schemas.setting_checks.section import Section

_PUBLICATION = "walbridge"


class Postgres(Section):
    """Where changes come from."""

    dsn: SecretStr = SecretStr("")
    password_file: str | None = None
    """Holds the password and nothing else, as secrets of containers do."""
    publication: str | None = None
    """``walbridge``, unless ``publications`` names others."""
    publications: tuple[str, ...] = ()
    """Several, followed as one: what any of them publishes of a table."""
    slot: str = Field(default="walbridge", pattern=r"^[a-z0-9_]{1,63}$")
    binary: bool = False
    """Values in their types' binary format, which makes the same events; Postgres 14 or newer."""
    origin: Literal["any", "none"] = "any"
    """``none``: nothing that replication from elsewhere wrote to this server, so that pipelines in a ring end."""
    copy_foreign_rows: bool = False
    """With ``origin = "none"``: copy also tables that a subscription writes to, with its rows as they are then."""
    archives: bool = False
    """Follow tables of which publications leave out deletes, updates or truncates: they do not equal the source."""
    messages: bool = False
    """Publish logical messages (``pg_logical_emit_message``) on ``<p>.messages``; Postgres 14 or newer."""
    message_prefixes: tuple[str, ...] = ()
    """Only those with one of these prefixes; empty: all."""
    streaming: Literal["auto", "off", "on", "parallel"] = "auto"
    """Large transactions come before their commit and wait in a spool here; ``auto``: where the server can."""
    two_phase: bool = False
    """Prepared transactions come at their prepare, not at their commit. The slot is made for it, and stays so."""
    failover: bool = False
    """The slot is kept by standbys that take slots over, so that it is there after a failover; Postgres 17 or newer."""
    publication_tables: tuple[str, ...] = ()
    """Tables (``schema.table``; a part with a dot is quoted) of the publication to make; empty: never make one."""
    status_interval_ms: int = Field(default=10_000, ge=100, le=60_000)
    """Upper bound; never more than a third of the server's wal_sender_timeout."""
    silence_timeout_ms: int = Field(default=60_000, ge=1_000)
    """A server that says nothing for so long, though asked, is connected to anew."""
    start_timeout_s: int = Field(default=30, ge=1)

    @model_validator(mode="after")
    def _prefixes_are_of_messages(self) -> Self:
        refuse_unused_prefixes(self.message_prefixes, messages=self.messages)
        return self

    @property
    def publication_names(self) -> tuple[str, ...]:
        """Those that are followed, in the order given."""
        return self.publications or (self.publication or _PUBLICATION,)

    @model_validator(mode="after")
    def _publications_are_named_once(self) -> Self:
        if self.publications and self.publication:
            raise ValueError("publication and publications exclude each other: name all of them in publications")
        if len({*self.publications}) < len(self.publications) or not all(self.publications):
            raise ValueError("publications names one twice, or one without a name")
        if len(self.publications) > 1 and self.publication_tables:
            raise ValueError(
                "publication_tables makes one publication: of several in publications, create each by SQL instead"
            )
        return self


Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class Topics(Section):
    """How data topics are created; checked at every start."""

    partitions: int = Field(default=1, ge=1, le=1000)
    """Of tables with a key; frozen once the topic exists. Tables without one have exactly 1."""
    replication_factor: int = Field(default=-1, ge=-1, le=2**15 - 1)
    """-1: the broker's default."""
    retention_ms: int = Field(default=7 * 24 * 3600 * 1000, ge=-1, le=2**62 - 1)
    """The cuts are kept twice as long, which Kafka counts in 64 bits."""
    names: dict[str, str] = Field(default_factory=dict)
    """Operator's own topic names: ``"schema.table" = "topic"``."""
    format: Literal["auto", "single-object", "confluent", "json"] = "auto"
    """What keys and values are: Avro after one of two framings, or JSON. ``auto``: what the pipeline's topics have; of
    a new pipeline ``confluent`` where ``registry_url`` is set, else ``single-object``. Another one copies tables into
    new topics."""
    cleanup: dict[str, Literal["delete", "compact"]] = Field(default_factory=dict)
    """What Kafka does with old records of a table's topic: ``"schema.table" = "compact"``, else ``delete``. Another one
    copies the table into a new topic."""
    compression: Compression = "lz4"
    """The compression of batches that the producer writes from now on; what is in a topic stays as it is."""
    source_sequence: bool = False
    """Whether events from now on have Debezium's ``source.sequence``."""
    transaction_block: bool = False
    """Whether events from now on have Debezium's ``transaction``."""
    transaction_topic: bool = False
    """Whether begin and end of each transaction from now on are told on ``<p>.transaction``, as Debezium does."""
    tombstones: bool = False
    """Whether a record of its key without a value follows each delete from now on, as Kafka's compaction asks for."""
    registry_url: str | None = None
    """The address of a schema registry with Confluent's API."""
    registry_user: str | None = None
    registry_password: SecretStr | None = None
    registry_password_file: str | None = None
    """Holds the password and nothing else."""
    registry_ca_file: str | None = None
    """PEM certificates of the authorities to trust; not set: the system's."""
    registry_certificate_file: str | None = None
    """PEM certificate that the registry knows this producer by; with ``registry_key_file``."""
    registry_key_file: str | None = None

    @field_validator("registry_url")
    @classmethod
    def _registry_url_is_an_address(cls, value: str | None) -> str | None:
        if value is not None:
            address = urlsplit(value)
            if address.scheme not in ("http", "https") or not address.hostname:
                raise ValueError("not an http or https address")
            if address.username is not None or address.password is not None:
                raise ValueError("holds a user: use registry_user and registry_password_file, which are never shown")
        return value

    @model_validator(mode="after")
    def _ids_have_a_registry(self) -> Self:
        if self.format == "confluent" and self.registry_url is None:
            raise ValueError('format = "confluent" needs registry_url, the address of a schema registry')
        return self

    @model_validator(mode="after")
    def _compaction_begins(self) -> Self:
        refuse_endless_compaction(self.compacted, self.retention_ms)
        return self

    @property
    def compacted(self) -> frozenset[str]:
        """Tables (``schema.table``) whose topics keep the newest record of every key."""
        return frozenset(table for table, policy in self.cleanup.items() if policy == "compact")

    @field_validator("replication_factor")
    @classmethod
    def _topics_have_a_replica(cls, value: int) -> int:
        if value == 0:
            raise ValueError("a topic has 1 replica at least; -1 is the broker's default")
        return value

    @field_validator("retention_ms")
    @classmethod
    def _rows_can_be_read(cls, value: int) -> int:
        refuse_brief_retention(value)
        return value


class Kafka(Section):
    """The broker, with properties passed through to either client."""

    bootstrap_servers: str = "127.0.0.1:9092"
    client: dict[str, SecretStr] = Field(default_factory=dict)
    """librdkafka properties; nested tables become dotted names."""
    spark: dict[str, SecretStr] = Field(default_factory=dict)
    """Java client properties, without Spark's ``kafka.`` prefix."""
    client_files: dict[str, str] = Field(default_factory=dict)
    """librdkafka properties whose values are in files: ``"sasl.password" = "/run/secrets/kafka"``."""
    spark_files: dict[str, str] = Field(default_factory=dict)

    @field_validator("client", "spark", "client_files", "spark_files", mode="before")
    @classmethod
    def _flatten(cls, value: Any) -> Any:
        return flatten(value) if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _properties_agree(self) -> Self:
        client, spark = (
            {name: value.get_secret_value() for name, value in each.items()} for each in (self.client, self.spark)
        )
        in_files = frozenset(
            name for name, each in (("client", self.client_files), ("spark", self.spark_files)) if each
        )
        refuse_two_protocols(client, spark, in_files)
        return self


class Producer(Section):
    """Limits of one Kafka transaction; the first that is reached closes it."""

    batch_rows_max: int = Field(default=20_000, ge=1)
    batch_bytes_max: int = Field(default=16 * 2**20, ge=1024)
    batch_ms_max: int = Field(default=250, ge=1)
    cut_bytes_max: int = Field(default=500_000, ge=10_000)
    commit_suspect_ms: int = Field(default=5_000, ge=100)
    """A commit slower than this replaces the producer instance."""
    idle_cut_interval_ms: int = Field(default=2_000, ge=10)
    transaction_timeout_ms: int = Field(default=300_000, ge=1_000, le=900_000)
    row_bytes_max: int = Field(default=16 * 2**20, ge=1024, le=499_000_000)
    """A record may have twice this and some more, and librdkafka sends none of more than 1 GB."""
    spool_dir: str | None = None
    """Where transactions wait that came before their commit; not set: ``TMPDIR``, else ``/var/tmp``."""
    spool_bytes_max: int = Field(default=64 * 2**30, ge=2**20)
    first_copy: Literal["snapshot", "beside"] = "snapshot"
    """``snapshot``: all tables in the slot's snapshot, before the stream. ``beside``: each table beside the stream."""
    copy_bytes_per_s: int = Field(default=0, ge=0)
    """How fast tables are read that are copied beside the stream; 0: as fast as they can be."""
    copy_workers: int | None = Field(default=None, ge=0, le=8)
    """Processes that read and encode tables that are copied; 0 or 1: the producer does so itself."""
    on_unknown_value: Literal["refuse", "stale"] = "refuse"
    """When a row filter turns an UPDATE into an INSERT without its unchanged values: stop, or mark the table stale."""
    on_table_error: Literal["copy", "quarantine", "stop"] = "copy"
    """When one table cannot be followed any more: copy it again beside the stream, leave it out, or stop."""


class Lake(Section):
    """Where tables go."""

    path: Annotated[str, AfterValidator(read_alike)] = "lake"
    plan_rows_max: int = Field(default=250_000, ge=1)
    """Rows of one plan, rounded up to whole cuts."""
    plan_bytes_max: int = Field(default=64 * 2**30, ge=2**20)
    """Bytes that the records of one plan may take on disk, rounded up to whole cuts."""
    apply_threads: int = Field(default=4, ge=1, le=64)
    trigger_interval_ms: int = Field(default=0, ge=0)
    publish_interval_ms: int = Field(default=3_000, ge=0, le=3_600_000)
    """A state is published at most so often; what comes meanwhile is gathered into the next one."""
    visible_timeout_s: int = Field(default=60, ge=1)
    """How long a cut's rows may take to become readable once the cut is."""
    start_timeout_s: int = Field(default=30, ge=1)
    executor_timeout_s: int = Field(default=120, ge=1)
    """On a standalone cluster: how long the job waits for an executor before it ends."""
    all_cuts_hours: int = Field(default=1, ge=1, le=8 * 24)
    """How long every published state can be read."""
    minute_cuts_hours: int = Field(default=24, ge=1, le=8 * 24)
    """How long one published state a minute can be read."""
    cut_retention_hours: int = Field(default=7 * 24, ge=1, le=8 * 24)
    """How long one published state an hour can be read; no state is kept longer."""
    on_table_error: Literal["copy", "quarantine", "stop"] = "copy"
    """When a table cannot be written on: leave it, as stale, and ask the producer to copy it; leave it; or stop."""
    dropped_tables: Literal["keep", "drop"] = "keep"
    """When a table was dropped at the source, or left the publication: keep it as it was, or delete its folder once no
    published state that is kept names it."""
    applier: Literal["auto", "local", "spark"] = "auto"
    """What merges changes into a table: delta-rs on the driver, or Spark, which marks deleted rows beside the files."""
    storage_options: dict[str, SecretStr] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _merges_by_spark_are_fenced(self) -> Self:
        if self.applier == "spark" and "://" in self.path:
            raise ValueError(
                'applier = "spark" needs a lake on a file system: on an object store nothing would keep a second job '
                "from committing the same version"
            )
        return self

    @model_validator(mode="after")
    def _cuts_grow_fewer(self) -> Self:
        if self.all_cuts_hours > self.minute_cuts_hours:
            raise ValueError(
                f"all_cuts_hours ({self.all_cuts_hours}) is longer than minute_cuts_hours ({self.minute_cuts_hours}): "
                "set both, the first no longer than the second"
            )
        return self


class Spark(Section):
    """The session that ``python -m walbridge.spark_consumer`` makes; ``spark-submit`` brings its own."""

    jars_dir: str | None = None
    master: str = "local[*]"
    driver_memory: str = "1g"
    conf: dict[str, str] = Field(default_factory=dict, repr=False)
    """Spark properties; those with a name that Spark itself redacts are masked when shown."""

    @field_validator("conf", mode="before")
    @classmethod
    def _flatten(cls, value: Any) -> Any:
        return flatten(value) if isinstance(value, Mapping) else value


class Metrics(Section):
    """Where either program shows ``/metrics`` and ``/healthz``."""

    host: str = "127.0.0.1"
    producer_port: int = Field(default=9470, ge=0, le=65535)
    """0: a free one, which the log names."""
    job_port: int = Field(default=9471, ge=0, le=65535)
    verify_port: int = Field(default=9472, ge=0, le=65535)
    stalled_after_s: int = Field(default=300, ge=1)
    """Without progress for so long, a program is unhealthy."""
    wal_bytes_max: int | None = Field(default=None, ge=1)
    """How much WAL the slot may keep on the server's disk, where the server itself sets no limit: for metrics alone."""
    state_dir: str | None = None
    """Where a program leaves why it ended, if its peer cannot be told; not set: below TMPDIR, /var/tmp or /tmp."""

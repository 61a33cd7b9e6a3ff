"""Which framing the records of a topic have, and the registry's ids that Confluent's wire format needs.

In: relation versions, as the metadata topic holds them and as they are made; a schema registry. Out: the same with ids.
A topic keeps the framing of its first record for life, and a schema its id: what is known is never asked for again,
so only a new schema needs the registry. An id stands in the metadata topic before a record that names it (I2), and
means one schema for ever: a registry that says otherwise is another one, and stops the producer (I7).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog

from walbridge.producer.errors.topics import format_set
from walbridge.producer.registry import refusals
from walbridge.producer.registry.client import Registry
from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.avro.framing import CONFLUENT, JSON, SINGLE_OBJECT, Framing
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, RegistryAway
from walbridge.schemas.settings import Settings

log = structlog.get_logger()

_FORMATS = {"single-object": SINGLE_OBJECT, "confluent": CONFLUENT, "json": JSON}


def format_name(framing: Framing) -> str:
    """As settings call it."""
    return next(name for name, each in _FORMATS.items() if each == framing)


class RegistryIds:
    """The ids of one pipeline's schemas.

    Args:
        on_wait: called between two questions; may raise to give up.
    """

    def __init__(self, settings: Settings, on_wait: Callable[[], None]) -> None:
        self._settings, self._on_wait = settings, on_wait
        self._registry: Registry | None = None
        self._is_compared = False
        self._framings: dict[str, Framing] = {}
        """By topic."""
        self._newest: Framing | None = None
        """The framing of the record that was written last."""
        self._ids: dict[tuple[str, str], int] = {}
        """By subject and schema: those that were registered."""
        self._of_schema: dict[str, int] = {}
        self._schema_of: dict[int, str] = {}

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._registry is not None:
            self._registry.close()

    def remember(self, record: RelationRecord) -> None:
        """Take over framing and ids of a record that the metadata topic holds."""
        self._framings.setdefault(record.topic, record.framing)
        if record.table.relation_id != MESSAGES_RELATION_ID:
            self._newest = record.framing
        for subject, schema, an_id in _subjects(record):
            if an_id is not None:
                self._take(subject, schema, an_id)

    @property
    def wanted(self) -> Framing:
        """The framing for topics that have none yet."""
        topics = self._settings.topics
        if topics.format != "auto":
            return _FORMATS[topics.format]
        if self._newest is not None:
            return self._newest
        return SINGLE_OBJECT if topics.registry_url is None else CONFLUENT

    def is_other_format(self, record: RelationRecord) -> bool:
        """Whether the settings ask for another format than the record's topic has."""
        return self._settings.topics.format != "auto" and record.framing != self.wanted

    def framing_of(self, topic: str) -> Framing:
        """The framing that the topic's records have, or will have."""
        return self._framings.get(topic, self.wanted)

    def suits(self, topic: str) -> bool:
        """Whether the topic's framing is the one that the settings ask for."""
        return self._settings.topics.format == "auto" or self.framing_of(topic) == self.wanted

    def framed(self, record: RelationRecord) -> RelationRecord:
        """The record with the ids that its topic's framing needs, each of them registered.

        Raises:
            RegistryAway: the registry does not answer.
            OperatorError: it refuses, or is another one than before.
            UnfitSchema: its rule forbids this schema.
            UnfitTable: any of that, where settings have the table leave this topic: it waits for none.
        """
        if record.value_registry_id is not None or self.framing_of(record.topic) != CONFLUENT:
            return record
        key_id, value_id = None, None
        for subject, schema, _ in _subjects(record):
            value_id = self._id_of(record, subject, schema)
            key_id = value_id if subject.endswith(_KEY) else key_id
        return replace(record, value_registry_id=value_id, key_registry_id=key_id)

    def _id_of(self, record: RelationRecord, subject: str, schema: str) -> int:
        known = self._ids.get((subject, schema))
        if known is not None:
            return known
        kill_point("registry:before-register")
        try:
            found = self._registered(record, subject, schema)
        except (OperatorError, RegistryAway):
            if self.suits(record.topic) or record.table.relation_id == MESSAGES_RELATION_ID:
                raise
            table, wanted = record.table.qualified_name, format_name(self.wanted)
            raise format_set(table, record.topic, format_name(CONFLUENT), wanted) from None
        self._on_wait()
        kill_point("registry:registered")
        self._take(subject, schema, found)
        log.info("schema is registered", subject=subject, id=found)
        return found

    def _registered(self, record: RelationRecord, subject: str, schema: str) -> int:
        registry, table = self._opened(), record.table
        found = registry.register(subject, schema)
        if found is None:
            is_table = table.relation_id != MESSAGES_RELATION_ID
            raise refusals.schema_incompatible(registry.url, subject, table.qualified_name if is_table else None)
        if self._of_schema.get(schema, found) != found:
            raise refusals.registry_id_differs(registry.url, subject, found, self._of_schema[schema])
        if self._schema_of.get(found, schema) != schema:
            raise refusals.registry_id_taken(registry.url, subject, found)
        return found

    def _take(self, subject: str, schema: str, an_id: int) -> None:
        self._ids[subject, schema] = self._of_schema[schema] = an_id
        self._schema_of[an_id] = schema

    def compare(self, records: Iterable[RelationRecord]) -> None:
        """Check once that the registry has the schemas that these records name. Readers need it, the producer does not:
        if the registry is away, it goes on with known schemas.

        Raises:
            OperatorError: the registry lacks one or has another id for it, or does not let us in.
        """
        framed = [record for record in records if record.framing == CONFLUENT]
        if self._is_compared or not framed or self._settings.topics.registry_url is None:
            return
        registry = self._opened()
        try:
            for record in framed:
                for subject, schema, an_id in _subjects(record):
                    found = registry.known_id(subject, schema)
                    if found != an_id and an_id is not None:
                        raise refusals.registry_id_differs(registry.url, subject, found, an_id)
                    self._on_wait()
        except RegistryAway as away:
            log.warning(
                "schemas are not compared with the registry, and no new one can be registered", reason=str(away)
            )
            return
        self._is_compared = True

    def reach(self) -> None:
        """Before a first copy: check that the registry answers, if one is needed.

        Raises:
            RegistryAway, OperatorError: as ``framed``.
        """
        if self.wanted == CONFLUENT:
            self._opened().reach()

    def _opened(self) -> Registry:
        if self._registry is None:
            self._registry = Registry(self._settings)
        return self._registry


_KEY, _VALUE = "-key", "-value"


def _subjects(record: RelationRecord) -> list[tuple[str, str, int | None]]:
    """Subject, schema and id of key and value, as Confluent's TopicNameStrategy names subjects."""
    of_value = (record.topic + _VALUE, record.value_schema, record.value_registry_id)
    if record.key_schema is None:
        return [of_value]
    return [(record.topic + _KEY, record.key_schema, record.key_registry_id), of_value]

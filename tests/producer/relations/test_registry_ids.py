"""Ids of a registry: asked for once, kept for ever, one for one schema (I2, I7)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.producer.registry.answering import FirstRegistered, answering
from tests.schemas.strategies import column, table
from walbridge.producer.errors.tables import UnfitTable
from walbridge.producer.registry.refusals import UnfitSchema
from walbridge.producer.relations.registry_ids import RegistryIds
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.schemas.avro.framing import CONFLUENT, SINGLE_OBJECT
from walbridge.schemas.control.message_schema import message_relation
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, RegistryAway
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Topics

AWAY = "http://127.0.0.1:1"
ORDERS = table(column("id", 23, is_key=True), column("note", 25))
ORDERS_2 = table(column("id", 23, is_key=True), column("note", 25), column("more", 25))


def version(cache: RelationCache, of_table: object = ORDERS, topic: str = "p.public.t") -> RelationRecord:
    return cache.version_of(of_table, DataTopic(topic, 1))  # type: ignore[arg-type]


def ids_of(topics: Topics, *known: RelationRecord) -> RegistryIds:
    ids = RegistryIds(Settings(topics=topics), lambda: None)
    for record in known:
        ids.remember(record)
    return ids


def at(url: str, **more: object) -> Topics:
    return Topics(registry_url=url, **more)  # type: ignore[arg-type]


def framed_by(registry: FirstRegistered, *tables: object) -> list[RelationRecord]:
    """Versions of one table, each remembered before the next is made."""
    cache, found = RelationCache("p"), []
    with answering(registry) as url:
        ids = ids_of(at(url))
        for each in tables:
            record = ids.framed(version(cache, each))
            cache.remember(record)
            ids.remember(record)
            found.append(record)
    return found


def test_key_and_value_are_registered_under_the_topics_subjects() -> None:
    registry = FirstRegistered()

    [record] = framed_by(registry, ORDERS)

    assert {subject: json.loads(schema)["name"] for subject, schema in registry.known} == {
        "p.public.t-key": "Key",
        "p.public.t-value": "Envelope",
    }
    assert (record.key_frame_id, record.frame_id) == ("00000001", "00000002")


def test_key_that_stays_is_not_asked_for_again_and_keeps_its_bytes() -> None:
    """I3: the bytes of a key choose its partition."""
    registry = FirstRegistered()

    first, second = framed_by(registry, ORDERS, ORDERS_2)

    assert (first.key_registry_id, len(registry.asked)) == (second.key_registry_id, 3)


def test_what_the_metadata_topic_knows_needs_no_registry() -> None:
    [known] = framed_by(FirstRegistered(), ORDERS)
    cache = RelationCache("p", [known])

    assert ids_of(at(AWAY), known).framed(version(cache)) == known


def test_new_schema_waits_for_a_registry_that_is_away() -> None:
    [known] = framed_by(FirstRegistered(), ORDERS)

    with pytest.raises(RegistryAway):
        ids_of(at(AWAY), known).framed(version(RelationCache("p", [known]), ORDERS_2))


def test_registry_that_gives_a_known_schema_another_id_is_refused() -> None:
    [known] = framed_by(FirstRegistered(), ORDERS)
    elsewhere = replace(known, topic="p.public.t_2", value_registry_id=None, key_registry_id=None)

    with (
        answering(FirstRegistered(40)) as url,
        pytest.raises(OperatorError, match="its id is 1, and"),
    ):
        ids_of(at(url), known).framed(elsewhere)


def test_registry_that_gives_a_known_id_to_another_schema_is_refused() -> None:
    [known] = framed_by(FirstRegistered(), ORDERS)

    with answering(FirstRegistered()) as url, pytest.raises(OperatorError, match="knows another schema"):
        ids_of(at(url), known).framed(version(RelationCache("p", [known]), ORDERS_2))


def test_registry_that_lost_a_schema_is_refused_at_a_start() -> None:
    [known] = framed_by(FirstRegistered(), ORDERS)

    with answering(FirstRegistered()) as url, pytest.raises(OperatorError, match="does not know it"):
        ids_of(at(url), known).compare([known])


def test_registry_that_is_away_does_not_keep_a_pipeline_from_going_on() -> None:
    [known] = framed_by(FirstRegistered(), ORDERS)

    ids_of(at(AWAY), known).compare([known])


def test_topic_keeps_its_framing_whatever_the_settings_say() -> None:
    cache = RelationCache("p")
    plain = version(cache)
    cache.remember(plain)

    assert ids_of(at(AWAY, format="confluent"), plain).framed(version(cache, ORDERS_2)).framing == SINGLE_OBJECT


def test_topic_that_settings_have_a_table_leave_waits_for_no_registry_and_is_stopped_by_none() -> None:
    """Where the registry was lost, another format is the remedy: it must help a table that was altered, too."""
    [known] = framed_by(FirstRegistered(), ORDERS)
    cache = RelationCache("p", [known])

    with answering(FirstRegistered()) as other:
        for topics in (
            Topics(format="single-object"),
            at(AWAY, format="single-object"),
            at(other, format="single-object"),
        ):
            with pytest.raises(UnfitTable, match=r"is in format confluent, and .* is single-object by now"):
                ids_of(topics, known).framed(version(cache, ORDERS_2))


@pytest.mark.parametrize(
    ("topics", "wanted"),
    [
        (Topics(), SINGLE_OBJECT),
        (at(AWAY), CONFLUENT),
        (at(AWAY, format="single-object"), SINGLE_OBJECT),
        (at(AWAY, format="confluent"), CONFLUENT),
    ],
)
def test_new_pipeline_takes_a_registry_that_it_is_given(topics: Topics, wanted: object) -> None:
    assert ids_of(topics).wanted == wanted


def test_auto_is_what_the_pipelines_tables_have() -> None:
    plain = version(RelationCache("p"))
    ids = ids_of(at(AWAY), plain)

    assert (ids.wanted, ids.is_other_format(plain)) == (SINGLE_OBJECT, False)


def test_topic_of_messages_decides_for_no_table() -> None:
    assert ids_of(at(AWAY), message_relation("p")).wanted == CONFLUENT


@pytest.mark.parametrize(("wanted", "is_other"), [("single-object", False), ("confluent", True)])
def test_other_format_than_the_topics_is_noticed(wanted: str, is_other: bool) -> None:
    plain = version(RelationCache("p"))

    assert ids_of(at(AWAY, format=wanted), plain).is_other_format(plain) is is_other


def test_schema_that_the_registry_forbids_is_its_tables_trouble_and_a_messages_everybodys() -> None:
    """Nothing else can be published on a topic of messages, whose schema never changes."""
    with answering(lambda _: (409, {"error_code": 409})) as url:
        ids = ids_of(at(url))
        with pytest.raises(UnfitSchema, match=r"table public.*p.public.t-key: it is not compatible") as unfit:
            ids.framed(version(RelationCache("p")))
        with pytest.raises(OperatorError, match="not compatible") as stops:
            ids.framed(message_relation("p"))
    assert f"/config/p.public.t-key; then walbridge copy {ORDERS.qualified_name}" in unfit.value.remedy
    assert not isinstance(stops.value, UnfitTable)
    assert stops.value.remedy.endswith("then start walbridge produce again")

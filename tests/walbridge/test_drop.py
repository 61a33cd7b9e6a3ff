"""``walbridge drop`` removes what is this pipeline's, after asking, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from tests.fix_postgres import Database
from tests.wait import wait_until
from walbridge.drop import drop
from walbridge.embedded.kafka import KafkaBroker
from walbridge.init import initialise
from walbridge.producer.postgres.slots import slot
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Kafka


@pytest.fixture
def settings(database: Database, kafka: KafkaBroker, pipeline_name: str) -> Iterator[Settings]:
    """Slot, publication and topics are there, as ``walbridge init`` makes them."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE others (id int PRIMARY KEY)")
    slot = pipeline_name.replace("-", "_").lower()
    sections = {
        "postgres": {"dsn": database.dsn, "slot": slot, "publication_tables": ["public.orders"], "start_timeout_s": 5},
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
    }
    made = Settings.model_validate({"name": pipeline_name, **sections})
    initialise(made, "reader", lambda line: None)
    yield made
    database.rows("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (slot,))


def left(settings: Settings, database: Database, kafka: KafkaBroker) -> tuple[int, int, int]:
    """How many slots, publications and topics of this pipeline there are."""
    slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=60).topics
    return (
        database.value(slots, (settings.postgres.slot,)),
        database.value("SELECT count(*) FROM pg_publication"),
        sum(name.startswith(f"{settings.name}.") for name in topics),
    )


def comes_to(settings: Settings, database: Database, kafka: KafkaBroker, wanted: tuple[int, int, int]) -> None:
    """A broker may list a topic for a moment after it has said that it is deleted, or not yet when it is made."""
    wait_until(lambda: left(settings, database, kafka) == wanted, f"{wanted} slots, publications and topics")


def dropped(settings: Settings, *, yes: bool = True, slot_only: bool = False, keep: bool = False) -> tuple[int, str]:
    lines: list[str] = []
    code = drop(settings, slot_only=slot_only, keep_publication=keep, yes=yes, ask=lambda _: False, say=lines.append)
    return code, "\n".join(lines)


def test_slot_publication_and_topics_are_removed_and_a_second_run_finds_nothing(
    settings: Settings, database: Database, kafka: KafkaBroker
) -> None:
    comes_to(settings, database, kafka, (1, 1, 5))

    code, said = dropped(settings)

    assert code == 0
    assert said.index(f"slot {settings.postgres.slot}: dropped") < said.index(f"topic {settings.name}.cuts: deleted")
    comes_to(settings, database, kafka, (0, 0, 0))
    code, said = dropped(settings)
    assert (code, "Nothing is left" in said) == (0, True)


def test_without_a_person_to_ask_nothing_is_removed_until_it_is_told_yes(
    settings: Settings, database: Database, kafka: KafkaBroker
) -> None:
    with pytest.raises(OperatorError, match="nobody is here to answer") as refused:
        dropped(settings, yes=False)

    assert refused.value.remedy == "run walbridge drop --yes"
    comes_to(settings, database, kafka, (1, 1, 5))
    assert dropped(settings, yes=True)[0] == 0
    comes_to(settings, database, kafka, (0, 0, 0))


def test_no_is_an_answer(
    settings: Settings, database: Database, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)

    code, said = dropped(settings, yes=False)

    assert (code, said.splitlines()[-1]) == (0, "nothing was removed")
    comes_to(settings, database, kafka, (1, 1, 5))


def test_slot_alone_goes_when_asked(settings: Settings, database: Database, kafka: KafkaBroker) -> None:
    assert dropped(settings, slot_only=True)[0] == 0

    comes_to(settings, database, kafka, (0, 1, 5))


def test_without_kafka_the_slot_goes_and_what_stays_is_said(
    settings: Settings, database: Database, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walbridge.drop.left_behind.ANSWER_S", 1.0)
    away = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})})

    code, said = dropped(away)

    assert (code, f"topics       {settings.name}.*" in said) == (2, True)
    comes_to(settings, database, kafka, (0, 0, 5))


def test_mistake_in_the_settings_is_no_broker_that_is_away(
    settings: Settings, database: Database, kafka: KafkaBroker
) -> None:
    """Kafka alone knows whose the slot is: it is asked, or told why not."""
    wrong = Kafka(bootstrap_servers=kafka.bootstrap_servers, client={"no.such.property": SecretStr("x")})

    with pytest.raises(OperatorError, match=r"\[kafka\.client\] is not accepted"):
        dropped(settings.model_copy(update={"kafka": wrong}))

    comes_to(settings, database, kafka, (1, 1, 5))


def test_server_that_leaves_while_it_is_asked_is_told_as_such(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walbridge.drop.left_behind._RETAINED", "SELECT pg_terminate_backend(pg_backend_pid()), %s")

    with pytest.raises(RetryableError, match="terminating connection"):
        dropped(settings)


def test_publication_stays_when_asked(settings: Settings, database: Database, kafka: KafkaBroker) -> None:
    dropped(settings, keep=True)

    comes_to(settings, database, kafka, (0, 1, 0))


def test_publication_that_publishes_more_than_ours_stays(
    settings: Settings, database: Database, kafka: KafkaBroker
) -> None:
    database.execute("ALTER PUBLICATION walbridge ADD TABLE others")

    said = dropped(settings)[1]

    assert "it is not what [postgres] publication_tables makes" in said
    comes_to(settings, database, kafka, (0, 1, 0))


def test_slot_of_another_plugin_is_left_alone(settings: Settings, database: Database, kafka: KafkaBroker) -> None:
    name = settings.postgres.slot
    database.value("SELECT pg_drop_replication_slot(%s)", (name,))
    database.value("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (name,))

    with pytest.raises(OperatorError, match="is of plugin test_decoding"):
        dropped(settings)

    comes_to(settings, database, kafka, (1, 1, 5))


def test_slot_that_is_in_use_or_not_ours_stays_until_the_remedy_was_followed(
    settings: Settings, database: Database, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walbridge.drop.left_behind.LEAVE_S", 0.1)
    name, other = settings.postgres.slot, f"{settings.postgres.slot}_other"
    database.execute(f"SELECT pg_create_logical_replication_slot('{other}', 'test_decoding')")
    try:
        postgres = settings.postgres.model_copy(update={"slot": other})
        told = refusal(settings.model_copy(update={"postgres": postgres}))
        assert told.startswith("name the pipeline's own in [postgres] slot")
    finally:
        database.execute(f"SELECT pg_drop_replication_slot('{other}')")
    with closing(psycopg.connect(database.dsn, replication="database", autocommit=True)) as producer:
        options = "proto_version '1', publication_names 'walbridge'"
        producer.execute(f"START_REPLICATION SLOT {name} LOGICAL 0/0 ({options})".encode())
        assert refusal(settings) == ("stop walbridge produce and walbridge materialize, then run walbridge drop again")
        with database.connect() as connection, pytest.raises(OperatorError, match="in use by another client") as held:
            slot.drop(connection, name, timeout_s=0.1)
        find = held.value.remedy.removeprefix("stop that client: ")
        database.execute(f"SELECT pg_terminate_backend(pid) FROM ({find}) AS held (pid)")
        # It was told, and ends a moment later.
        wait_until(
            lambda: not database.value(f"SELECT count(active_pid) FROM ({find}) AS held"), "the slot to be let go"
        )
    printed: list[str] = []

    code = drop(settings, slot_only=False, keep_publication=False, yes=True, ask=bool, say=print, out=printed.append)

    assert code == 0
    found = json.loads(printed[0])
    assert (found["removed"], found["slot"], found["stays"][0]["kind"]) == (True, name, "lake")
    comes_to(settings, database, kafka, (0, 0, 0))


def refusal(settings: Settings) -> str:
    with pytest.raises(OperatorError) as refused:
        dropped(settings)
    return refused.value.remedy

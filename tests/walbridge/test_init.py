"""``walbridge init`` makes what it says, once, and prints SQL that gives just enough rights."""

import re
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from psycopg import sql

from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.init import initialise
from walbridge.producer import start
from walbridge.producer.kafka.topic_specs import SEGMENT, status_topic_spec
from walbridge.role import administrator_sql
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings

ODD_TABLE = 'Line "items".€'
TABLES = sql.SQL(
    """CREATE SCHEMA "Odd schema"; CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE hidden (id int);
    CREATE TABLE "Odd schema".{} (note text); INSERT INTO orders VALUES (1)"""
).format(sql.Identifier(ODD_TABLE))


@pytest.fixture
def settings(database: Database, kafka: KafkaBroker, pipeline_name: str) -> Settings:
    database.execute(TABLES.as_string(None))
    sections = {
        "postgres": {"dsn": database.dsn, "publication_tables": ["public.orders", f"Odd schema.{ODD_TABLE}"]},
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
        "topics": {"partitions": 3},
    }
    return Settings.model_validate({"name": pipeline_name, **sections})


def said(settings: Settings) -> list[str]:
    lines: list[str] = []
    initialise(settings, "reader", lines.append)
    return lines


REFUSED = {
    "a filter that may lose values": (
        "WHERE (id > 5)",
        "unchanged values of note",
        "ALTER TABLE {table} REPLICA IDENTITY FULL;",
    ),
    "operations that do not come": (
        "WITH (publish = 'insert')",
        "does not publish update, delete, truncate",
        """ALTER PUBLICATION "walbridge" SET (publish = 'insert, update, delete, truncate');""",
    ),
}


@pytest.mark.parametrize(("options", "what", "remedy"), REFUSED.values(), ids=REFUSED)
def test_what_a_start_would_refuse_of_a_publication_is_refused_before_topics_and_slot(
    settings: Settings, database: Database, kafka: KafkaBroker, options: str, what: str, remedy: str
) -> None:
    """I6: a slot would hold WAL back for a copy that the producer does not begin."""
    table = sql.Identifier("Odd schema", ODD_TABLE).as_string(None)
    database.execute(
        f"ALTER TABLE {table} ADD id int PRIMARY KEY; CREATE PUBLICATION walbridge FOR TABLE {table} {options}"
    )
    with pytest.raises(OperatorError, match=what) as refusal:
        said(settings)
    assert remedy.format(table=table) in refusal.value.remedy
    assert database.rows("SELECT 1 FROM pg_replication_slots WHERE database = current_database()") == []
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=60).topics
    assert not [name for name in topics if name.startswith(f"{settings.name}.")]


def test_table_that_was_added_to_publication_tables_only_is_told_with_the_sql_that_publishes_it(
    settings: Settings, database: Database
) -> None:
    """A publication that exists is left as it is: init once said only that it does."""
    database.execute("CREATE PUBLICATION walbridge FOR TABLE orders")

    told = said(settings)[1]

    assert told.startswith("publication walbridge: does not publish all that publication_tables names, and is left as")
    database.execute(told.partition("as it is: ")[2])
    assert database.value("SELECT count(*) FROM pg_publication_tables") == 2
    assert not [line for line in said(settings) if "does not publish" in line]


def test_status_topic_of_before_is_compacted_sooner_from_here_on(settings: Settings, kafka: KafkaBroker) -> None:
    """Else the records of a running producer hide how a program ended after half a day."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    spec = status_topic_spec(settings)
    of_before = {name: value for name, value in spec.config.items() if name != SEGMENT}
    admin.create_topics([NewTopic(spec.name, 1, 1, config=of_before)])[spec.name].result(60)

    assert f"topic {spec.name}: partitions 1" in said(settings)

    resource = ConfigResource(ResourceType.TOPIC, spec.name)
    wait_until(
        lambda: admin.describe_configs([resource])[resource].result(60)[SEGMENT].value == "14400000",
        "the broker to tell the new setting",
    )


def test_publication_and_topics_are_made_once(settings: Settings, database: Database, kafka: KafkaBroker) -> None:
    assert said(settings)[0] == "publication walbridge: created"
    assert said(settings)[0] == "publication walbridge: exists"

    published = database.rows("SELECT schemaname, tablename FROM pg_publication_tables ORDER BY 1")
    assert published == [("Odd schema", ODD_TABLE), ("public", "orders")]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def ours() -> dict[str, int]:
        topics = admin.list_topics(timeout=60).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(f"{settings.name}.")}

    wait_until(lambda: len(ours()) >= 6, "the broker to list what it has made")
    assert ours() == {
        f"{settings.name}.metadata": 1,
        f"{settings.name}.cuts": 1,
        f"{settings.name}.progress": 1,
        f"{settings.name}.status": 1,
        f"{settings.name}.public.orders": 3,
        f"{settings.name}.Odd_u0020schema.Line_u0020_u0022items_u0022_u002e_u20ac": 1,  # no key, no other order
    }


def test_slot_that_another_init_makes_at_the_same_time_is_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one of them has the slot's lock: the other finds the slot once it has it."""
    begin = start.start

    def beside_another(*parts: Any) -> start.Parts:
        monkeypatch.setattr(start, "start", begin)
        assert start.reserve_slot(settings)
        return begin(*parts)

    monkeypatch.setattr(start, "start", beside_another)
    assert said(settings)[-1] == "slot walbridge: exists"


def test_slot_is_made_once_and_never_taken_from_somebody_else(settings: Settings, database: Database) -> None:
    assert said(settings)[-1].startswith("slot walbridge: created")
    assert said(settings)[-1] == "slot walbridge: exists"
    assert database.rows("SELECT plugin FROM pg_replication_slots WHERE slot_name = 'walbridge'") == [("pgoutput",)]

    foreign = settings.model_copy(update={"name": f"{settings.name}-other"})
    with pytest.raises(OperatorError, match="slot walbridge exists"):
        said(foreign)
    # Without its publication it is still nobody's but that one's, and nothing was missed that this pipeline followed.
    database.execute("DROP PUBLICATION walbridge")
    with pytest.raises(OperatorError, match="slot walbridge exists"):
        said(foreign.model_copy(update={"name": f"{settings.name}-third"}))


def test_running_producer_is_not_disturbed(producer: ProducerUnderTest) -> None:
    """Opening a second transactional instance would fence it."""
    producer.database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    producer.publish("orders")
    running = producer.start_streaming()
    sections = {
        "postgres": {"dsn": producer.database.dsn, "slot": producer.slot},
        "kafka": {"bootstrap_servers": producer.kafka.bootstrap_servers},
    }

    lines = said(Settings.model_validate({"name": producer.name, **sections}))

    assert lines[-1] == f"slot {producer.slot}: exists"
    producer.database.execute("INSERT INTO orders VALUES (1)")
    producer.check_equal()
    assert running.process.poll() is None


def test_publication_dropped_beside_its_slot_is_not_made_again_as_if_nothing_had_been_missed(
    settings: Settings, database: Database
) -> None:
    said(settings)
    database.execute("DROP PUBLICATION walbridge")

    with pytest.raises(OperatorError, match="was dropped"):
        said(settings)


def test_publication_is_never_made_unasked(settings: Settings) -> None:
    unasked = settings.model_copy(update={"postgres": settings.postgres.model_copy(update={"publication_tables": ()})})

    with pytest.raises(OperatorError, match="publication walbridge does not exist"):
        said(unasked)


def test_printed_role_may_read_the_published_tables_and_replicate_and_no_more(
    settings: Settings, database: Database
) -> None:
    role = f'{settings.name} "reader"'
    printed = initialise(settings, role, lambda line: None).role_sql
    try:
        database.execute(printed)
        dsn = psycopg.conninfo.make_conninfo(database.dsn, user=role)
        with psycopg.connect(dsn, autocommit=True) as reader:
            assert reader.execute("SELECT id FROM orders").fetchall() == [(1,)]
            odd = sql.SQL('SELECT * FROM "Odd schema".{}').format(sql.Identifier(ODD_TABLE))
            assert reader.execute(odd).fetchall() == []
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute("SELECT id FROM hidden")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute("DELETE FROM orders")
        with psycopg.connect(dsn, replication="database", autocommit=True) as walsender:
            walsender.execute("CREATE_REPLICATION_SLOT init_test TEMPORARY LOGICAL pgoutput")
    finally:
        name = sql.Identifier(role)
        undo = sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(name, name)
        database.execute(undo.as_string(None))


def test_printed_sql_says_what_pg_hba_needs(settings: Settings, database: Database) -> None:
    printed = initialise(settings, "reader", lambda line: None).role_sql

    assert f'--   hostssl  "{database.name}"  "reader"' in printed


def test_role_that_exists_is_not_printed_again(settings: Settings, database: Database) -> None:
    role = settings.name
    database.execute(f'CREATE ROLE "{role}"')
    try:
        lines: list[str] = []
        assert initialise(settings, role, lines.append).role_sql == ""
        assert lines[-1] == f"role {role}: exists; walbridge check says which rights it lacks"
    finally:
        database.execute(f'DROP ROLE "{role}"')


def as_role(settings: Settings, database: Database, role: str) -> Settings:
    """The same pipeline, whose connection string names the role that is to be made."""
    dsn = psycopg.conninfo.make_conninfo(database.dsn, user=role)
    return Settings.model_validate(settings.model_dump() | {"postgres": {**settings.postgres.model_dump(), "dsn": dsn}})


def test_sql_from_settings_alone_makes_a_role_that_init_needs_no_more_rights_than(
    settings: Settings, database: Database
) -> None:
    role = f'{settings.name} "reader"'
    own = as_role(settings, database, role)
    database.execute(administrator_sql(own, None))
    try:
        lines: list[str] = []
        assert initialise(own, role, lines.append).role_sql == ""
        assert lines[0] == "publication walbridge: exists"
        published = database.rows("SELECT schemaname, tablename FROM pg_publication_tables ORDER BY 1")
        assert published == [("Odd schema", ODD_TABLE), ("public", "orders")]
    finally:
        database.execute(
            "SELECT pg_drop_replication_slot('walbridge') FROM pg_replication_slots WHERE database = current_database()"
        )
        name = sql.Identifier(role)
        database.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(name, name).as_string(None))


def test_role_that_may_make_no_role_is_the_one_that_init_looks_for(settings: Settings, database: Database) -> None:
    """Who made a role of another name is not asked to make one named walbridge beside it."""
    own = as_role(settings, database, settings.name)
    database.execute(administrator_sql(own, None))
    try:
        lines: list[str] = []
        assert initialise(own, None, lines.append).role_sql == ""
        assert lines[-1] == f"role {settings.name}: exists; walbridge check says which rights it lacks"
    finally:
        database.execute(
            "SELECT pg_drop_replication_slot('walbridge') FROM pg_replication_slots WHERE database = current_database()"
        )
        name = sql.Identifier(settings.name)
        database.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(name, name).as_string(None))


def test_administrator_is_given_the_sql_of_a_role_named_walbridge(settings: Settings) -> None:
    assert 'CREATE ROLE "walbridge" LOGIN REPLICATION;' in initialise(settings, None, lambda line: None).role_sql


def test_sql_from_settings_alone_is_made_wholly_or_not_at_all(settings: Settings, database: Database) -> None:
    own = as_role(settings, database, settings.name)
    database.execute("DROP TABLE orders")

    with pytest.raises(psycopg.errors.UndefinedTable):
        database.execute(administrator_sql(own, None))
    assert database.rows("SELECT 1 FROM pg_roles WHERE rolname = %s", (settings.name,)) == []


@pytest.mark.parametrize(
    ("postgres", "remedy"),
    [
        ({}, r"\[postgres\] dsn"),
        ({"dsn": "host=h user=u", "publication_tables": ["a"]}, "add dbname="),
        ({"dsn": "host=h dbname=d"}, "create the publication yourself"),
    ],
)
def test_sql_from_settings_that_do_not_name_database_and_tables_is_refused(
    postgres: dict[str, object], remedy: str
) -> None:
    with pytest.raises(OperatorError) as refusal:
        administrator_sql(Settings.model_validate({"postgres": postgres}), None)
    assert re.search(remedy, refusal.value.remedy)

"""One right at a time is missing to the producer: each start ends with exit code 2 and names it, and what its remedy
says lets the next one begin.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.security.locked import Locked, assert_rights, refused
from tests.secured_servers import PRODUCER
from tests.wait import wait_until

pytestmark = pytest.mark.servers
MISSING_IN_KAFKA = {
    ("topic", "DescribeConfigs"): ("settings of topic", "grant Describe and DescribeConfigs on the topics"),
    ("topic", "Read"): ("may not be read: ", "READ and DESCRIBE topic"),
    ("topic", "Write"): ("may not be written: ", "grant Write on topics "),
    ("transactional-id", "Write"): ("Kafka refuses transactional id ", "grant Write and Describe on that"),
    ("group", "Read"): ("may not be read: ", "and READ group walbridge-"),
}
"""What a start of the producer says without that right, and what of its remedy names the right."""
FOUND_BY_CHECK = {
    ("topic", "DescribeConfigs"): "grant Describe and DescribeConfigs on the topics",
    ("topic", "Read"): "may not be read: ",
    ("topic", "Write"): "rights: the topics of pipeline ",
    ("transactional-id", "Write"): "rights: Kafka refuses transactional ids ",
    ("group", "Read"): "and READ group walbridge-",
}
"""What ``walbridge check`` says meanwhile."""
TOPICS = 4
"""That take records as large as a row may be: one table's, and three of all tables."""
NO_ROLE = "grant the role what it lacks: walbridge init --admin-dsn does"
MISSING_IN_POSTGRES = {
    "ALTER ROLE {role} NOREPLICATION": NO_ROLE,
    "REVOKE CONNECT ON DATABASE {database} FROM PUBLIC, {role}": NO_ROLE,
    "REVOKE USAGE ON SCHEMA public FROM PUBLIC, {role}": 'GRANT USAGE ON SCHEMA "public" TO',
    "REVOKE SELECT ON t FROM {role}": 'GRANT SELECT ON "public"."t" TO',
}


def test_each_right_that_is_missing_in_kafka_is_named_and_granting_it_mends_the_start(locked: Locked) -> None:
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    with locked.without(rights[PRODUCER, "topic", "Create"]):
        said = locked.run("init", "--admin-dsn", "user=postgres", code=2)
        assert re.search(r"error: topic \S+ could not be created: .*uthorization failed", said)
        assert "grant Create on it to walbridge's principal" in said
    locked.run("init")
    locked.start_streaming().stop()
    of_producer = {(kind, operation) for who, kind, operation in rights if who == PRODUCER}
    assert of_producer == MISSING_IN_KAFKA.keys() | {("topic", "Create")}

    for (kind, operation), (words, told) in MISSING_IN_KAFKA.items():
        with locked.without(rights[PRODUCER, kind, operation]):
            locked.producer.database.execute("INSERT INTO t SELECT max(id) + 1 FROM t")
            assert told in refused(locked, words)
            assert FOUND_BY_CHECK[kind, operation] in locked.run("check", code=2)
            if (kind, operation) == ("topic", "Write"):
                progress = f"{locked.producer.name}.progress"
                assert f"let walbridge's principal WRITE topic {progress}" in locked.run("copy", "t", code=2)
    locked.run("copy", "t")
    locked.producer.settings["producer"] = {"row_bytes_max": 20 * 2**20}
    for _ in range(TOPICS):
        remedy = refused(locked, "takes smaller records than [producer] row_bytes_max needs")
        (command,) = re.findall(r"--topic (\S+) --add-config (\S+)=(\d+); or lower \[producer\]", remedy)
        locked.configure(*command)
    locked.start_streaming()
    newest = f'"key": {{"id": {len(MISSING_IN_KAFKA) + 1}}}'
    wait_until(lambda: newest in locked.run("tail", "public.t"), "the rows that were written meanwhile")


def test_check_says_of_rights_what_it_asked_and_asks_whether_a_table_may_come(locked: Locked) -> None:
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    password = Path(locked.producer.settings["postgres"]["password_file"])
    password.write_text("none yet")
    said = locked.run("check", code=2)  # there is no role yet
    password.unlink()
    assert "may write its topics" not in said, said
    assert "may read its topics" not in said, said
    assert "walbridge produce may open transactions; Write on its topics is asked for once they are there" in said, said
    locked.run("init", "--admin-dsn", "user=postgres")
    with locked.without(rights[PRODUCER, "topic", "Create"]):
        said = locked.run("check")
        assert "rights: a topic for a table that comes could not be made: " in said, said
        assert "grant Create on topics " in said
    assert_rights(locked)


def test_each_right_that_is_missing_in_postgres_is_named_and_init_grants_it_again(locked: Locked) -> None:
    locked.grant(*locked.printed_rights().values())
    init = ("init", "--admin-dsn", "user=postgres")
    locked.run(*init)
    for revoke, told in MISSING_IN_POSTGRES.items():
        database = locked.producer.database
        database.execute(revoke.format(role=locked.role, database=database.name))
        assert told in refused(locked, "")
        locked.run(*init)
    locked.start_streaming()

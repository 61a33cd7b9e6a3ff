"""On a broker with access control the rights that the page of settings names are enough."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.documents import table
from tests.fix_producer import ROOT, ProducerUnderTest
from tests.spark_consumer.program import START_S, environment
from tests.wait import wait_until
from walbridge.__main__ import main
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.kafka import KafkaBroker

ADMIN, PRODUCER, JOB, READER = "admin", "producer", "job", "reader"
OTHERS = {"Spark job": JOB, "a reader with `walbridge.consumer`": READER}
"""Whose rights are not the producer's, as the page calls them."""
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{0}" password="{0}"{1};'
USERS = "".join(f' user_{name}="{name}"' for name in (ADMIN, PRODUCER, JOB, READER))
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": LOGIN.format(ADMIN, USERS),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:ANONYMOUS",  # who speaks to the controller is anonymous
}
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "group": ResourceType.GROUP,
    "the cluster": ResourceType.BROKER,
}
OPERATIONS = {operation.name.lower().replace("_", ""): operation for operation in AclOperation}


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(SETTINGS) as broker:
        yield broker


def login(user: str) -> dict[str, Any]:
    """Properties of librdkafka."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": user,
    }


def java_login(user: str) -> dict[str, str]:
    """Properties of a Java client."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN.format(user, ""),
    }


def rights(pipeline: str) -> Iterator[AclBinding]:
    """The rows of the page's table; a row without a first cell is of the one above."""
    user = ""
    for who, operations, on in table("docs/settings.md", "who"):
        user = OTHERS.get(who, PRODUCER) if who else user
        found = re.fullmatch(r"([a-z ]+?)(?: `(.+)`)?", on)
        assert found is not None, on
        name = (found[2] or "kafka-cluster").replace("<name>", pipeline).replace("<schema>.<table>", "public.t")
        pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
        for each in operations.split(", "):
            allowed = OPERATIONS[each.lower()], AclPermissionType.ALLOW
            yield AclBinding(RESOURCES[found[1]], name.rstrip("*"), pattern, f"User:{user}", "*", *allowed)


def test_rights_that_the_page_names_are_enough_for_both_programs_and_all_verbs(
    broker: KafkaBroker, producer: ProducerUnderTest, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    producer.kafka = broker
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    producer.database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    producer.publish("t")
    producer.settings |= {
        "kafka": {"client": login(PRODUCER), "spark": java_login(JOB)},
        "lake": {"path": str(lake)},
        "spark": {"jars_dir": str(spark_jars()[0].parent), "master": "local[2]"},
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers} | login(ADMIN))
    for granted in admin.create_acls(list(rights(producer.name))).values():
        granted.result()

    settings = str(producer.write_settings())

    def run(*verb: str) -> str:
        capsys.readouterr()
        code, said = main([*verb, "--config", settings]), capsys.readouterr()
        assert code == 0, f"{verb}\n{said.out}{said.err}"
        return said.out

    run("init")
    assert "may not be seen" not in run("check")
    running = producer.start_streaming()
    job = [sys.executable, "-m", "walbridge.spark_consumer", "--once", "--config", settings]
    done = subprocess.run(
        job, cwd=ROOT, env=environment({}), capture_output=True, text=True, timeout=START_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"key": {"id": 1}' in run("tail", "public.t")
    assert "current since" in run("status")
    run("copy", "t", "--wait")
    producer.database.execute("ALTER PUBLICATION walbridge ADD TABLE other")
    wait_until(lambda: "public.other  current" in run("tables"), "the table to be copied")
    producer.database.execute("DROP TABLE other")
    wait_until(lambda: "public.other  dropped" in run("tables"), "the table to be dropped")
    run("forget", "other")
    wait_until(lambda: "public.other" not in run("tables"), "the table to be forgotten")
    running.stop()
    run("drop", "--yes")

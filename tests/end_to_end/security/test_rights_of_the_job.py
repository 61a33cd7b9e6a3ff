"""One right at a time is missing to the Spark job: it says so, and ``walbridge check`` before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from tests import secured_servers as secured
from tests.end_to_end.security.locked import Locked, assert_rights
from tests.secured_servers import JOB, PRODUCER

pytestmark = pytest.mark.servers
OF_THE_JOB = {
    ("topic", "Read"): "the Spark job may not read ",
    ("group", "Read"): "the Spark job may not read with group ",
    ("topic", "Write"): "so it cannot ask for copies itself",
}
"""The same of the job's rights; the last is advice."""


@pytest.mark.soak
def test_topics_that_the_job_may_not_read_are_named_and_granting_it_mends_the_next_run(locked: Locked) -> None:
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    locked.run("init", "--admin-dsn", "user=postgres")
    locked.start_streaming()
    with locked.without(rights[JOB, "topic", "Read"]):
        said = locked.run_job(code=2)
        assert "Not authorized to access topics" in said
        assert "remedy: grant the job's principal Read on topics" in said
    locked.run_job()


def test_rights_that_the_job_lacks_are_found_by_check_and_granting_them_mends_that(locked: Locked) -> None:
    """Asked with its own login, and without a JVM."""
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    locked.run("init", "--admin-dsn", "user=postgres")
    locked.start_streaming()
    for (kind, operation), words in OF_THE_JOB.items():
        with locked.without(rights[JOB, kind, operation]):
            said = locked.run("check", code=0 if operation == "Write" else 2)
            assert words in said, said
            assert "walbridge init --acls prints the command" in said
    unseen = "the brokers' settings may not be seen"
    assert unseen in locked.run("check")
    cluster = ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL
    of = AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW
    locked.grant(AclBinding(*cluster, f"User:{PRODUCER}", "*", *of))
    assert unseen not in locked.run("check")
    secret = Path(locked.producer.settings["kafka"]["spark_files"]["sasl.jaas.config"])
    right = secret.read_text()
    secret.write_text(secured.SCRAM.format(JOB, "wrong"))
    said = locked.run("check", code=2)
    assert "rights: as the Spark job: Kafka at" in said, said
    assert "check [kafka.spark]: security.protocol, sasl.mechanism, sasl.jaas.config" in said
    secret.unlink()
    said = locked.run("check")
    assert f"not asked as the Spark job: [kafka] spark_files: {secret} cannot be read" in said, said
    secret.write_text(right)
    assert_rights(locked)

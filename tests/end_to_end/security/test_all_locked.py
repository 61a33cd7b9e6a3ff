"""All doors locked at once: TLS everywhere, a least-privileged role, SCRAM, and no right in Kafka but those printed.

Both programs and all verbs pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType

from tests import secured_servers as secured
from tests.end_to_end.security.locked import Locked, assert_rights
from tests.secured_servers import JOB, PRODUCER
from tests.spark_consumer.program import START_S
from tests.wait import wait_until

pytestmark = pytest.mark.servers


def test_both_programs_and_all_verbs_pass_with_the_rights_that_init_prints(locked: Locked) -> None:
    run, producer = locked.run, locked.producer
    rights = granted(locked)
    running = locked.start_streaming()
    assert_rights(locked)
    with locked.job():
        assert '"equal": true' in run("verify", "--json", "--timeout", str(START_S))
    assert '"key": {"id": 1}' in run("tail", "public.t")
    assert "current since" in run("status")
    run("copy", "t", "--wait")
    producer.database.execute("CREATE TABLE other (id int PRIMARY KEY); ALTER PUBLICATION walbridge ADD TABLE other")
    run("init", "--admin-dsn", "user=postgres")  # grants what the new table needs
    wait_until(lambda: "public.other  current" in run("tables"), "the table to be copied")
    producer.database.execute("DROP TABLE other")
    wait_until(lambda: "public.other  dropped" in run("tables"), "the table to be dropped")
    run("forget", "other")
    assert "errors: 0" in run("check")
    assert run("sql", "--json", "SELECT count(*) AS rows FROM t").splitlines()[0] == '{"rows": 1}'
    running.stop()

    told = run("drop", "--yes", code=2)
    assert (
        "remedy: give walbridge's principal DELETE on it (and delete.topic.enable=true), then run walbridge drop"
        in told
    )
    locked.grant(*_drop_right(rights))
    run("drop", "--yes")


@pytest.mark.variant(of="test_both_programs_and_all_verbs_pass_with_the_rights_that_init_prints")
def test_both_programs_pass_with_certificates_in_place_of_passwords(locked: Locked) -> None:
    """The same principals: nothing else than the connection to Kafka differs."""
    run, producer = locked.run, locked.producer
    granted(locked)
    authority = locked.authority.certificate
    kafka = producer.settings["kafka"]
    kafka |= {"bootstrap_servers": locked.kafka.mtls_servers, "client_files": {}, "spark_files": {}}
    kafka["client"] = secured.mtls_of(locked.authority.issue(PRODUCER), authority)
    kafka["spark"] = secured.java_mtls(locked.authority.issue(JOB), authority)
    producer.database.execute("INSERT INTO t VALUES (2)")
    locked.start_streaming()
    wait_until(lambda: '"key": {"id": 2}' in run("tail", "public.t"), "the row of a client with a certificate")
    with locked.job():
        assert '"equal": true' in run("verify", "--json", "--timeout", str(START_S))
    assert "errors: 0" in run("check")
    assert_rights(locked)
    assert run("sql", "--json", "SELECT count(*) AS rows FROM t").splitlines()[0] == '{"rows": 2}'


def granted(locked: Locked) -> dict[tuple[str, str, str], AclBinding]:
    """The rights that ``init`` prints; with them it makes the pipeline."""
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    locked.run("init", "--admin-dsn", "user=postgres")
    assert "errors: 0" in locked.run("check")
    return rights


def _drop_right(rights: dict[tuple[str, str, str], AclBinding]) -> Iterator[AclBinding]:
    of = rights[PRODUCER, "topic", "Write"]
    resource = of.restype, of.name, of.resource_pattern_type
    yield AclBinding(*resource, of.principal, "*", AclOperation.DELETE, AclPermissionType.ALLOW)

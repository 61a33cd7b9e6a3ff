"""The whole stack in containers: healthy, equal, hardened, and back by itself after any crash.

Tests run in the order of this file, on one stack; each leaves it healthy.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping

import pytest

from tests.compose.stack import Stack, crash, docker, health_of, service_of
from tests.wait import wait_until

pytestmark = pytest.mark.compose

SERVICES = ("postgres", "kafka", "producer", "spark-master", "spark-worker", "job")
ARRIVES_S = 300
MANY_ORDERS = "INSERT INTO orders (customer_id, total) SELECT 1 + i % 10, i FROM generate_series(1, 100000) i;"
"""More than a plan of few records, which the driver reads by itself."""


def test_configuration_is_valid_also_without_the_samples_servers(stack: Stack) -> None:
    own = stack.compose("-f", "docker-compose.yml", "-f", "docker/external.yml", "config", "--services")

    assert set(stack.compose("config", "--services").stdout.split()) == {*SERVICES, "load"}
    assert set(own.stdout.split()) == {"producer", "spark-master", "spark-worker", "job"}


def test_every_service_is_healthy(stack: Stack) -> None:
    found = {service_of(each): health_of(each) for each in stack.containers()}

    assert found == dict.fromkeys(SERVICES, "healthy") | {"load": "running"}


def test_containers_are_not_root_can_gain_no_rights_and_cannot_write_their_root_file_system(stack: Stack) -> None:
    """Asked from inside; /proc tells what the kernel grants, whatever the settings say."""
    ask = "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; touch /x /usr/x 2>&1 || true; ls /x 2>&1"
    for container in stack.containers():
        name = service_of(container)
        said = docker("exec", container["Id"], "sh", "-c", ask, check=False)
        assert int(said.split()[0]) != 0, name
        assert re.findall(r"(\w+):\s+0*(\d)\b", said) == [("CapEff", "0"), ("CapBnd", "0"), ("NoNewPrivs", "1")], name
        assert said.count("Read-only file system") == 2, f"{name}: {said}"
        assert container["HostConfig"]["Memory"] > 0, name


def test_no_password_is_in_a_container_s_settings_or_arguments(stack: Stack) -> None:
    """I10."""
    for container in stack.containers():
        assert "sample-" not in docker("inspect", container["Id"])


def test_ports_are_on_loopback_only(stack: Stack) -> None:
    for container in stack.containers():
        for bound in container["NetworkSettings"]["Ports"].values():
            assert {each["HostIp"] for each in bound or []} <= {"127.0.0.1"}, service_of(container)


def test_published_cut_equals_the_source_under_load(stack: Stack) -> None:
    before = stack.published()
    stack.check_equal()

    assert stack.published()["cut"] > before["cut"], "the load does not reach the lake"
    assert stack.published()["rows"]["customers"] == 10


def test_rows_alter_and_truncate_through_psql_arrive(stack: Stack) -> None:
    stack.sql("ALTER TABLE customers ADD COLUMN email text; UPDATE customers SET email = 'a@b.c' WHERE id < 4;")
    stack.sql("TRUNCATE order_lines; INSERT INTO customers VALUES (1001, 'new', '{}', 0, 'n', 'new@b.c');")

    def has_arrived() -> bool:
        found = stack.published()
        return "email" in found["columns"]["customers"] and found["rows"]["customers"] == 11

    wait_until(has_arrived, "the new column and the new row", ARRIVES_S, poll_s=1)
    stack.check_equal()


def test_operators_commands_answer_in_the_containers(stack: Stack) -> None:
    assert '"op"' in stack.walbridge("tail", "public.orders", "--last", "1", service="producer").stdout
    assert stack.walbridge("check", check=False).returncode == 0
    assert "streaming" in stack.walbridge("status").stdout


KILLED = [(name,) for name in SERVICES if name != "spark-master"]


@pytest.mark.parametrize("victims", [*KILLED, ("postgres", "kafka")], ids="+".join)
def test_killed_under_load_it_comes_back_by_itself_and_nothing_is_lost(stack: Stack, victims: tuple[str, ...]) -> None:
    """I8. Who loses a peer waits for it: only what was killed starts anew."""
    before = stack.published()["lsn"]
    restarts = stack.restarts()
    began_s = time.monotonic()
    stack.kill(*victims)
    wait_until(lambda: _has_risen(stack.restarts(), restarts, victims), f"{victims} to be started again", 120)
    stack.wait_healthy(*SERVICES)
    stack.seconds[f"back after a kill of {'+'.join(victims)}"] = round(time.monotonic() - began_s, 1)
    stack.check_equal()

    assert stack.published()["lsn"] > before
    assert {name for name in SERVICES if stack.restarts()[name] > restarts[name]} == {*victims}


def test_job_that_a_killed_master_forgot_starts_anew_once_a_plan_needs_executors(stack: Stack) -> None:
    """I8. Plans of few records need none: until a large one comes the job goes on without a master."""
    restarts = stack.restarts()
    stack.kill("spark-master")
    wait_until(lambda: _has_risen(stack.restarts(), restarts, ["spark-master"]), "the master to be started again", 120)
    stack.sql(MANY_ORDERS)
    wait_until(lambda: _has_risen(stack.restarts(), restarts, ["job"]), "the job to be started again", ARRIVES_S)
    stack.wait_healthy(*SERVICES)
    stack.check_equal()

    assert {name for name in SERVICES if stack.restarts()[name] > restarts[name]} == {"spark-master", "job"}


def _has_risen(now: Mapping[str, int], before: Mapping[str, int], names: Collection[str]) -> bool:
    return all(now[name] > before[name] for name in names)


OPEN_PLAN = """
import sys, time
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_rows, open_table
until = time.monotonic() + 300
while time.monotonic() < until:
    newest = newest_rows(open_table("/lake", {}), 1)[-1]
    if newest.kind == "plan" and newest.to_cut - newest.from_cut >= 3:
        print("true"); sys.exit()
    time.sleep(0.05)
print("false")
"""


def test_one_of_two_workers_killed_in_the_middle_of_a_plan_costs_nothing(stack: Stack) -> None:
    """I8: its tasks are done again by the other."""
    stack.up("--no-recreate", "--scale", "spark-worker=2", name="second worker")
    stack.sql(MANY_ORDERS)
    assert stack.python(OPEN_PLAN), "no large plan was seen"
    crash(stack.of("spark-worker")[:1])
    stack.check_equal()
    stack.wait_healthy(*SERVICES)
    stack.up("--no-recreate", "--scale", "spark-worker=1", name="back to one worker")


BY_THE_SIGNAL = 128 + 15
"""How a JVM ends that was told to, also when all went well."""


@pytest.mark.parametrize(("service", "code"), [("producer", 0), ("job", BY_THE_SIGNAL)])
def test_program_that_is_stopped_ends_what_it_began_first(stack: Stack, service: str, code: int) -> None:
    """SIGTERM reaches Spark's JVM, which is the job's container's program, and through it the job."""
    stack.compose("stop", service)

    assert stack.of(service)[0]["State"]["ExitCode"] == code, "137: killed after the grace period"
    assert stack.logs(service).rstrip().count("event=stopped") >= 1
    stack.up("--no-recreate", name=f"{service} again")


def test_down_and_up_again_goes_on_where_it_was(stack: Stack) -> None:
    before = stack.published()
    stack.down()
    stack.up(name="up again")
    stack.check_equal()
    after = stack.published()

    assert after["epoch"] == before["epoch"], "a new epoch is a new copy"
    assert after["cut"] > before["cut"]


BROKEN = {
    "wrong password": ("producer", {"WALBRIDGE_POSTGRES__PASSWORD_FILE": "/etc/hostname"}, "password"),
    "broker that never answers": ("producer", {"WALBRIDGE_KAFKA__BOOTSTRAP_SERVERS": "192.0.2.1:9092"}, "192.0.2.1"),
    "broker that the job never hears": ("job", {"WALBRIDGE_KAFKA__BOOTSTRAP_SERVERS": "192.0.2.1:9092"}, "192.0.2.1"),
    "lake that cannot be written": ("job", {"WALBRIDGE_LAKE__PATH": "/usr/lake"}, "/usr/lake cannot be written"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_bad_configuration_is_said_once_and_ends_with_code_2(stack: Stack, what: str) -> None:
    service, variables, words = BROKEN[what]
    short = {"WALBRIDGE_POSTGRES__START_TIMEOUT_S": "5", "WALBRIDGE_LAKE__START_TIMEOUT_S": "5"}
    given = [part for name, value in (short | variables).items() for part in ("-e", f"{name}={value}")]
    ended = stack.compose("run", "--rm", "--no-deps", "-T", *given, service, check=False)
    said = ended.stdout + ended.stderr

    assert ended.returncode == 2, said[-3000:]
    assert len(re.findall(r"(?m)^error: ", said)) == len(re.findall(r"(?m)^remedy: ", said)) == 1, said[-3000:]
    assert words in said
    assert "Traceback" not in said
    assert "\tat " not in said, "a Java stack"


def test_service_that_cannot_start_is_seen_in_ps_and_says_why_each_time(stack: Stack) -> None:
    alone = Stack({"KAFKA_BOOTSTRAP_SERVERS": "192.0.2.1:9092", "START_TIMEOUT_S": "2", "POSTGRES_DSN": "dbname=x"})
    try:
        alone.compose("up", "--detach", "--no-deps", "producer")
        wait_until(lambda: alone.restarts()["producer"] >= 1, "the second attempt", ARRIVES_S)
        wait_until(lambda: alone.of("producer")[0]["State"]["Restarting"], "the pause after it", ARRIVES_S)
        assert "Restarting (2)" in alone.compose("ps", "--all").stdout
        said = alone.logs("producer")
        assert said.count("\nerror: ") == said.count("\nremedy: ") >= 2, said
    finally:
        alone.close()


def test_down_with_volumes_leaves_nothing(stack: Stack) -> None:
    stack.down("--volumes", name="down -v")
    mine = f"--filter=label=com.docker.compose.project={stack.project}"

    assert stack.containers() == []
    assert docker("volume", "ls", "--quiet", mine) == ""
    assert docker("network", "ls", "--quiet", mine) == ""
    assert stack.project not in docker("volume", "ls")

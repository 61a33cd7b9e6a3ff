"""Where the simulated world is put under the real producer, and taken away again.

Only what touches the outside is replaced: the Kafka client's classes, the Postgres connection, the
catalogue's queries, the clock, the log. Everything between is the producer's own code: Pipeline,
Session, OpenBatch, Publisher, ProgressTracker, ReplicationStream, Tables.
"""

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from producer.kafka.topics import TopicSpec
from producer.postgres.facts import PublicationState
from producer.postgres.publication import EVERY_TABLE
from schemas.pg_types import TypeFacts
from schemas.position import Lsn
from tests.simulation.broker import Broker
from tests.simulation.kafka_consumer import Consumer
from tests.simulation.kafka_producer import Producer
from tests.simulation.postgres import Select, Server, Walsender
from tests.simulation.world import Clock, Silence, World

_MODULES = (
    "producer.batch.open_batch",
    "producer.batch.cut_maker",
    "producer.pipeline",
    "producer.start",
    "producer.follow",
    "producer.guards.source_watch",
    "producer.waits",
    "producer.session.transaction_spool",
    "producer.session.loop",
    "producer.session.replay",
    "producer.relations.tables",
    "producer.session.pending_transactions",
    "producer.kafka.control_topics",
    "producer.kafka.instance",
    "producer.kafka.partition_log",
    "producer.kafka.publisher",
    "producer.postgres.replication_stream",
    "producer.postgres.requirements",
)


class Admin:
    """Topics are there when they are asked for."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def ensure(self, specs: Iterable[TopicSpec]) -> dict[str, int]:
        """As ``TopicAdmin.ensure``."""
        wanted = {spec.name: spec.partition_count for spec in specs}
        for name, count in wanted.items():
            self._broker.partition_counts.setdefault(name, count)
        return {name: self._broker.partition_counts[name] for name in wanted}

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """As ``TopicAdmin.topic_ids``: nobody makes one anew."""
        return dict.fromkeys(names, "one")

    def partition_counts(self) -> dict[str, int]:
        """As ``TopicAdmin.partition_counts``."""
        return dict(self._broker.partition_counts)

    def check(self, specs: Iterable[TopicSpec]) -> None:
        """Nobody changes a setting."""


def _every_table(connection: object, publication: str, relation_ids: Iterable[int]) -> PublicationState:
    """Nobody changes the publication."""
    return PublicationState(1, (), dict.fromkeys(relation_ids, EVERY_TABLE), Lsn(0))


def _no_facts(connection: object, relation_id: int) -> None:
    """The catalogue says now, the WAL says then: it does not know the table any more."""


def _nobody_alters(connection: object, relation_id: int) -> None:
    """Nor does anybody hold a lock on it."""


def _no_types(connection: object, oids: Iterable[int]) -> dict[int, TypeFacts]:
    return {}


_SETTINGS = {"wal_level": "logical", "server_encoding": "UTF8"}


def _replacements(world: World, server: Server, broker: Broker) -> dict[str, dict[str, Any]]:
    """Module → name → what stands there during a run."""

    def kill_point(name: str) -> None:
        world.step(name)

    def connect_sql(*_: Any) -> SimpleNamespace:
        server.connect("catalog")
        return SimpleNamespace(close=lambda: None, info=SimpleNamespace(server_version=180006))

    def make_producer(config: dict[str, Any], **_: Any) -> Producer:
        return Producer(world, broker, config)

    def make_consumer(config: dict[str, Any], **_: Any) -> Consumer:
        return Consumer(world, broker, config)

    shared = {"time": Clock(world), "log": Silence(world), "kill_point": kill_point}
    special: dict[str, dict[str, Any]] = {
        "producer.kafka.instance": {"Producer": make_producer},
        "producer.kafka.control_topics": {"Producer": make_producer},
        "producer.kafka.partition_log": {"Consumer": make_consumer},
        "producer.postgres.source": {
            "connect_sql": connect_sql,
            "connect_walsender": lambda *_: Walsender(server, world),
        },
        "producer.start": {"TopicAdmin": lambda *_: Admin(broker)},
        "producer.postgres.replication_stream": {
            "select": Select(world),
            "walsender_query": lambda *_: [{"setting": "60000"}],
        },
        "producer.postgres.slot": {
            "identify": lambda *_: server.identify(),
            "inspect": lambda *_: server.inspect(),
        },
        "producer.guards.source_watch": {
            "publication_state": _every_table,
            "partition_trees": lambda *_: [],
            "published_tables_unless_locked": lambda *_: [],
            "refuse_unfit_identities": lambda *_: None,
            "refuse_unknown": lambda *_: None,  # nobody wrote the records of a copy that is only assumed
        },
        "producer.postgres.catalog": {
            "publication_exists": lambda *_: True,
            "setting": lambda connection, name: _SETTINGS[name],
            "table_facts": _no_facts,
            "wait_for_alterations": _nobody_alters,
            "type_facts": _no_types,
        },
    }
    wanted = {name: dict(special.get(name, {})) for name in {*_MODULES, *special}}
    for name in _MODULES:
        module = importlib.import_module(name)
        wanted[name] |= {each: value for each, value in shared.items() if hasattr(module, each)}
    return wanted


@contextmanager
def installed(world: World, server: Server, broker: Broker) -> Iterator[None]:
    """The world is under the producer."""
    saved: list[tuple[Any, str, Any]] = []
    try:
        for module_name, names in _replacements(world, server, broker).items():
            module = importlib.import_module(module_name)
            for name, value in names.items():
                saved.append((module, name, getattr(module, name)))
                setattr(module, name, value)
        yield
    finally:
        for module, name, value in reversed(saved):
            setattr(module, name, value)


@contextmanager
def remembered_code() -> Iterator[None]:
    """Generated again and again for the same few tables: compiled once for all seeds."""
    transcoder = importlib.import_module("producer.encoding.transcoder")
    transcoder.__dict__["compile"] = lru_cache(maxsize=1024)(compile)
    try:
        yield
    finally:
        del transcoder.__dict__["compile"]

"""Where the simulated world is put under the real producer, and taken away again.

Only what touches the outside is replaced: the Kafka client's classes, the Postgres connection, the
catalogue's queries, the clock, the log. Everything between is the producer's own code: Pipeline,
Session, OpenBatch, Publisher, ProgressTracker, ReplicationStream, Tables.
"""

import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from tests.simulation.broker import Broker
from tests.simulation.copied import FACTS, CopiedSource, Reader
from tests.simulation.history import COPIED
from tests.simulation.kafka_consumer import Consumer
from tests.simulation.kafka_producer import Producer
from tests.simulation.postgres import Select, Server, Walsender
from tests.simulation.table_requests import RequestsInTurn
from tests.simulation.world import Clock, Silence, World
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.kafka.topic_specs import TopicSpec
from walbridge.producer.postgres.facts import PublicationState, TableFacts, TableStorage
from walbridge.producer.postgres.publications.combined_publications import EVERY_TABLE
from walbridge.producer.session.parts import SessionParts
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.position import Lsn

_MODULES = (
    "walbridge.producer.batch.batch_limits",
    "walbridge.producer.batch.batch_report",
    "walbridge.producer.batch.open_batch",
    "walbridge.producer.batch.cut_maker",
    "walbridge.producer.first_epoch",
    "walbridge.producer.pipeline",
    "walbridge.producer.start",
    "walbridge.producer.follow",
    "walbridge.producer.guards.look_pace",
    "walbridge.producer.guards.doubts.truncations",
    "walbridge.producer.waits",
    "walbridge.producer.session.transactions.transaction_spool",
    "walbridge.producer.session.copies.corrections",
    "walbridge.producer.session.copies.start",
    "walbridge.producer.session.copies.state.copied_table",
    "walbridge.producer.session.copies.state.copy_progress",
    "walbridge.producer.session.copies.state.requested_tables",
    "walbridge.producer.session.copies.state.waits",
    "walbridge.producer.session.copies.answers",
    "walbridge.producer.session.copies.records",
    "walbridge.producer.session.copies.steps",
    "walbridge.producer.session.copies.whole_steps",
    "walbridge.producer.session.left_out_tables",
    "walbridge.producer.session.keepalives",
    "walbridge.producer.session.renamed_tables",
    "walbridge.producer.session.transactions.replay",
    "walbridge.producer.session.copies.state.tables_to_copy",
    "walbridge.producer.relations.recorded_versions",
    "walbridge.producer.relations.tables",
    "walbridge.producer.session.table_trouble",
    "walbridge.producer.session.transactions.pending_transactions",
    "walbridge.producer.kafka.control_topics",
    "walbridge.producer.kafka.instance",
    "walbridge.producer.kafka.partition_log",
    "walbridge.producer.kafka.kafka_transaction",
    "walbridge.producer.kafka.publisher",
    "walbridge.producer.postgres.replication_stream",
    "walbridge.producer.postgres.requirements",
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

    def describe(self, names: Iterable[str]) -> SimpleNamespace:
        """As ``TopicAdmin.describe``: nobody deletes one or makes one anew."""
        found = {name: DescribedTopic("one", self._broker.partition_counts.get(name, 1)) for name in names}
        return SimpleNamespace(names=frozenset(found), is_answered=True, found=lambda: found)

    def cut_short(self, ends: Mapping[PartitionId, int]) -> set[str]:
        """As ``TopicAdmin.cut_short``: this broker loses nothing."""
        return set()

    def wait_decided(self, topics: Iterable[str], timeout_s: float = 0.0) -> None:
        """As ``TopicAdmin.wait_decided``: nobody else has transactions in them."""

    def partition_counts(self) -> dict[str, int]:
        """As ``TopicAdmin.partition_counts``."""
        return dict(self._broker.partition_counts)

    def ask_settings_ahead(self, topics: Iterable[str]) -> None:
        """Nobody changes a setting."""

    def partition_counts_of(self, names: Collection[str]) -> dict[str, int]:
        """As ``TopicAdmin.partition_counts_of``."""
        counts = self._broker.partition_counts
        return {name: counts[name] for name in names if name in counts}

    def check(self, specs: Iterable[TopicSpec]) -> None:
        """Nobody changes a setting."""


class FreeLock:
    """Nobody else wants it."""

    def __init__(self, *_: object) -> None:
        pass

    def take(self, check_stop: Callable[[], None], beside: object = None) -> None:
        """As ``SlotLock.take``."""

    def keep(self, check_stop: Callable[[], None]) -> None:
        """As ``SlotLock.keep``."""

    def refuse_lost(self) -> None:
        """As ``SlotLock.refuse_lost``."""

    def is_told_of_crash(self) -> bool:
        """As ``SlotLock.is_told_of_crash``."""
        return False

    def release(self) -> None:
        """As ``SlotLock.release``."""


def _every_table(connection: object, publications: tuple[str, ...], relation_ids: Iterable[int]) -> PublicationState:
    """Nobody changes the publication."""
    return PublicationState(dict.fromkeys(publications, 1), (), dict.fromkeys(relation_ids, EVERY_TABLE), Lsn(0))


def _no_facts(connection: object, relation_id: int) -> None:
    """The catalogue says now, the WAL says then: it does not know the table any more."""


def _facts(connection: object, relation_id: int) -> TableFacts | None:
    """But that which comes."""
    return FACTS if relation_id == COPIED else None


def _nobody_alters(connection: object, relation_id: int) -> None:
    """Nor does anybody hold a lock on it."""


def _no_types(connection: object, oids: Iterable[int]) -> dict[int, TypeFacts]:
    return {}


class WithoutCopies(SessionParts):
    """No table comes, so none is copied beside the stream."""

    def copy_with(self, reader: object, requests: object) -> Any:
        """As ``SessionParts.copy_with``."""
        return SimpleNamespace(progress=SimpleNamespace(standings=()))


_SETTINGS = {"wal_level": "logical", "server_encoding": "UTF8"}


def _replacements(
    world: World, server: Server, broker: Broker, copied: CopiedSource | None
) -> dict[str, dict[str, Any]]:
    """Module → name → what stands there during a run."""

    def kill_point(name: str) -> None:
        world.step(name)

    def connect_sql(*_: Any) -> SimpleNamespace:
        server.connect("catalog")
        info = SimpleNamespace(server_version=180006)
        return SimpleNamespace(close=lambda: None, info=info, is_told_of_crash=lambda: False)

    def make_producer(config: dict[str, Any], **_: Any) -> Producer:
        return Producer(world, broker, config)

    def make_consumer(config: dict[str, Any], **_: Any) -> Consumer:
        return Consumer(world, broker, config)

    shared = {"time": Clock(world), "log": Silence(world), "kill_point": kill_point}
    special: dict[str, dict[str, Any]] = {
        "walbridge.producer.kafka.instance": {"Producer": make_producer},
        "walbridge.producer.kafka.control_topics": {"Producer": make_producer},
        "walbridge.producer.kafka.partition_log": {"Consumer": make_consumer},
        "walbridge.producer.postgres.source": {
            "connect_sql": connect_sql,
            "connect_walsender": lambda *_: Walsender(server, world),
            "connecting": lambda connect, *_: connect(),
            # Rivals are told by Kafka alone: as where the lock was lost, or an earlier version takes none.
            "SlotLock": FreeLock,
        },
        "walbridge.producer.start": {
            "TopicAdmin": lambda *_: Admin(broker),
            "ddl_publication": lambda *_: None,
            "published_tables_unless_locked": lambda *_: None,
            "named_object_faults": lambda *_: [],
        },
        "walbridge.producer.postgres.replication_stream": {
            "select": Select(world),
            "walsender_query": lambda *_: [{"setting": "60000"}],
            "hung_up_after": lambda *_: nullcontext(),
        },
        "walbridge.producer.postgres.slots.slot": {
            "identify": lambda *_: server.identify(),
            "inspect": lambda *_: server.inspect(),
        },
        "walbridge.producer.follow": {
            "ddl_publication": lambda *_: None,
            "SessionParts": WithoutCopies if copied is None else SessionParts,
            "CopyReader": lambda *_: nullcontext() if copied is None else Reader(copied, world),
            "TableRequests": lambda settings, next_offset: RequestsInTurn(world, settings, next_offset),
        },
        "walbridge.producer.named_publications": {
            "publications_named": lambda connection, names: dict.fromkeys(names, 1),
        },
        "walbridge.producer.guards.news.altered_tables": {"tables_facts": lambda *_: ({}, None)},
        "walbridge.producer.guards.doubts.storage_comparison": {
            "table_storages": lambda _, asked, *__: dict.fromkeys(asked, TableStorage(())),
            "insert_lsn": lambda *_: Lsn(0),
        },
        "walbridge.producer.guards.doubts.new_labels": {"enum_labels": lambda *_: {}},
        "walbridge.producer.guards.look_pace": {"catalog_digest": lambda *_: (1, 1)},
        "walbridge.producer.guards.walsender_cache": {
            "next_xid": lambda *_: copied.next_xid() if copied is not None else 1,
            "publication_state": _every_table,
        },
        "walbridge.producer.guards.unfit.unfit_tables": {"refuse_unfit_identities": lambda *_: None},
        "walbridge.producer.guards.source_watch": {
            "new_members": lambda connection, name, there: set() if copied is None else copied.members(there),
            "ddl_publication": lambda *_: None,
            "partition_trees": lambda *_: [],
        },
        "walbridge.producer.guards.source_now": {
            "next_xid": lambda *_: copied.next_xid() if copied is not None else 1,
            "publication_state": _every_table,
            "table_storages": lambda *_: {},
        },
        "walbridge.producer.guards.opening": {
            "published_tables_unless_locked": lambda *_: [],
            "refuse_unknown": lambda *_: None,  # nobody wrote the records of a copy that is only assumed
        },
        "walbridge.producer.postgres.catalog": {
            "publication_exists": lambda *_: True,
            "setting": lambda connection, name: _SETTINGS[name],
            "is_standby": lambda connection: False,
            "table_facts": _no_facts if copied is None else _facts,
            "tables_facts": lambda *_: ({} if copied is None else {COPIED: FACTS}, None),
            "wait_for_alterations": _nobody_alters,
            "type_facts": _no_types,
        },
    }
    if copied is not None:
        limits = zip(("LISTED_BYTES_READ", "LISTED_BYTES_MAX"), copied.listed_bytes, strict=True)
        special["walbridge.producer.copying.copy_state"] = dict(limits)
    wanted = {name: dict(special.get(name, {})) for name in {*_MODULES, *special}}
    for name in _MODULES:
        module = importlib.import_module(name)
        wanted[name] |= {each: value for each, value in shared.items() if hasattr(module, each)}
    return wanted


@contextmanager
def installed(world: World, server: Server, broker: Broker, copied: CopiedSource | None = None) -> Iterator[None]:
    """The world is under the producer."""
    saved: list[tuple[Any, str, Any]] = []
    try:
        for module_name, names in _replacements(world, server, broker, copied).items():
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
    transcoder = importlib.import_module("walbridge.producer.encoding.transcoder")
    transcoder.__dict__["compile"] = lru_cache(maxsize=1024)(compile)
    try:
        yield
    finally:
        del transcoder.__dict__["compile"]

"""One seed from beginning to end: make the history and the faults, run the producer, drain, check."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from tests.simulation.broker import COMMITTED, Broker
from tests.simulation.copied import CopiedSource
from tests.simulation.copied_reader import CopiedReader
from tests.simulation.early import prepare_some
from tests.simulation.history import CONSISTENT_POINT, TABLES, Transaction, make_history
from tests.simulation.kafka_producer import LOST_BATCH
from tests.simulation.model import SLOT, Model
from tests.simulation.postgres import DATABASE, SYSTEM_ID, TIMELINE, VERSION, Server
from tests.simulation.seams import installed
from tests.simulation.world import Crash, Finished, Violation, World
from walbridge.producer.pipeline import Pipeline
from walbridge.producer.postgres.requirements import stream_options
from walbridge.schemas.control.progress_record import Progress, encode_progress
from walbridge.schemas.control.table_progress import CURRENT, TableProgress, encode_table, table_key
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Postgres, Producer, Topics
from walbridge.schemas.topics import cuts_topic, progress_topic

BOOTS_MAX = 60
FAULTS = (
    *("crash",) * 8,
    *("disconnect",) * 4,
    *("Postgres crash",) * 3,
    "postgres away",
    "status lost",
    "init slow",
    "commit slow",
    "commit retried after a long wait",
    "commit retried on a new connection",
    *("commit done, answer lost",) * 2,
    *("commit lost",) * 2,
    *("commit on its way",) * 2,
    "commit refused",
    *("abort on its way",) * 2,
    "delivery failure",
    LOST_BATCH,
    "queue full",
    *("rival",) * 2,
    *("taken over in doubt",) * 2,
    "transaction timeout",
    "stop",
    "slot moved",
    "publication changed",
)
MAY_FENCE = {"rival", "taken over in doubt", "transaction timeout"}
HIDDEN = ("hidden late commit", "hidden late abort")
"""An EndTxn that the client library repeated without a word: nobody can notice in time."""


@lru_cache(maxsize=2)
def _spool_dir(process: int = 0) -> TemporaryDirectory[str]:
    """Other runs on this machine do not look into it; it goes with this process."""
    return TemporaryDirectory(prefix="walbridge-simulation-")


@lru_cache(maxsize=64)
def settings_of(
    rows_max: int, partitions: int, idle_ms: int, two_phase: bool = False, tells_more: bool = False
) -> Settings:
    """Small limits, so that small histories reach them. ``tells_more``: what topics have by setting alone."""
    return Settings(
        name="p",
        postgres=Postgres(dsn=SecretStr("simulated"), slot=SLOT, two_phase=two_phase),
        topics=Topics(
            partitions=partitions,
            tombstones=tells_more,
            transaction_block=tells_more,
            transaction_topic=tells_more,
            source_sequence=tells_more,
        ),
        producer=Producer(
            batch_rows_max=rows_max,
            batch_bytes_max=1024,
            batch_ms_max=100,
            idle_cut_interval_ms=idle_ms,
            spool_dir=_spool_dir().name,
        ),
    )


@dataclass
class Case:
    """What one run consists of; the seed's own unless given."""

    history: list[Transaction] | None = None
    faults: list[tuple[int, str]] | None = None
    settings: Settings | None = None
    relation_ids: tuple[int, ...] = tuple(TABLES)
    """Tables whose copy the pipeline holds."""
    pause_share: float | None = None
    keepalive_share: float | None = None
    stream_share: float | None = None
    has_copy: bool = False
    """A table comes, and is copied beside the stream."""
    prepare: Callable[["Run"], None] = lambda run: None
    """Anything else: called before the producer starts."""


@dataclass
class Outcome:
    """What a run was; ``violation`` None is the only good one."""

    seed: int
    violation: str | None = None
    refusal: OperatorError | None = None
    """A start that was rightly refused, where the case asks for one."""
    faults: list[str] = field(default_factory=list)
    boots: int = 0
    steps: int = 0
    records: int = 0
    confirmations: int = 0
    copies: int = 0
    """That have come to their end."""
    trace: list[str] = field(default_factory=list)


class Run:
    """The world of one seed with its peers."""

    def __init__(self, seed: int, case: Case, *, traced: bool = False) -> None:
        self.seed, self.case = seed, case
        self.world = world = World(seed, traced=traced)
        random = Random(seed ^ 0x5EED)
        self.settings = case.settings or settings_of(
            random.choice((1, 2, 3, 5, 8, 50)),
            random.choice((1, 3)),
            random.choice((10, 500, 2_000)),
            random.random() < 0.4,
            tells_more=seed % 3 == 0,
        )
        two_phase = self.settings.postgres.two_phase
        self.copied = CopiedSource(world, random) if case.has_copy else None
        if self.copied is not None:
            history = self.copied.history
        else:
            history = make_history(random) if case.history is None else case.history
        world.plan = sorted(_faults(random) if case.faults is None else case.faults, reverse=True)
        hidden = any(fault in HIDDEN for _, fault in world.plan)
        if two_phase:
            prepare_some(random, history)
        reader = None if self.copied is None else CopiedReader(self.copied.at)
        told, name = self.settings.topics, self.settings.name
        self.model = Model(world, name, history, may_be_torn=hidden, two_phase=two_phase, copied=reader, told=told)
        self.broker = Broker(world, random.random() < 0.5, self.model.on_commit)
        self.model.broker = self.broker
        self.broker.rival = self._take_over
        self.server = Server(world, history, self.model.durable_lsn, self.model.half_published)
        self.server.two_phase = two_phase
        if self.copied is not None:
            self.copied.server = self.server
            self.server.work_share = random.choice((0.5, 0.1, 0.03))  # so that much of it comes while rows are read
        self.server.stream_share = random.choice((0.0, 0.4, 0.8)) if case.stream_share is None else case.stream_share
        self.server.pause_share = case.pause_share or random.choice((0.01, 0.05, 0.3))
        self.server.keepalive_share = case.keepalive_share or random.choice((0.03, 0.1, 0.4))
        self.boots = 0
        self._encores = random.random() < 0.3
        self.wants_more: Callable[[], bool] = lambda: False
        """Whether somebody who reads still waits for something."""
        self._write_progress()
        case.prepare(self)

    def _write_progress(self) -> None:
        """The copy is finished: what it leaves behind."""
        progress = Progress(
            state="streaming",
            system_id=SYSTEM_ID,
            timeline=TIMELINE,
            slot=self.settings.postgres.slot,
            database=DATABASE,
            consistent_point=CONSISTENT_POINT,
            end_lsn=CONSISTENT_POINT,
            done=CONSISTENT_POINT,
            floor=CONSISTENT_POINT,
            tables={each: TableProgress(each, CURRENT) for each in self.case.relation_ids},
            options=stream_options(self.settings, VERSION),
        )
        log = self.broker.log(progress_topic(self.settings.name), 0)
        for relation_id, table in progress.tables.items():
            log.append(table_key(progress.slot, relation_id), encode_table(table), None, COMMITTED)
        log.append(progress.key, encode_progress(progress), None, COMMITTED)

    def _is_drained(self) -> bool:
        server = self.server
        if server.must_be_refused == "a gap":
            return False  # the slot was moved by somebody else: what it confirms says nothing of what was published
        if self.model.copied is not None and not self.model.copied.is_current:
            return False
        return server.visible == len(server.history) and server.confirmed >= server.end_lsn and not self.wants_more()

    def _should_stop(self) -> bool:
        world = self.world
        return self._is_stopping or self._is_drained() or bool(world.armed and world.strikes("stop") and self._stop())

    def _stop(self) -> bool:
        self._is_stopping = True
        return True

    def to_the_end(self) -> OperatorError | None:
        """Starts the producer again and again, as a supervisor does, until everything is drained."""
        while not self._is_drained() or self._encores:
            if self._is_drained():
                self._encores = False
                self.server.crash()
            if self.boots == BOOTS_MAX:
                raise Violation(f"not drained after {BOOTS_MAX} starts")
            refusal = self._boot()
            if refusal is not None:
                return refusal
        self.model.check_drained()
        if self.server.must_be_refused is not None:
            raise Violation(f"I7: not refused: {self.server.must_be_refused}")
        return None

    def _boot(self) -> OperatorError | None:
        world = self.world
        self.boots += 1
        self._is_stopping = False
        world.is_process_dead = False
        world.on_death.clear()
        world.note(f"=== start {self.boots}")
        try:
            Pipeline(self.settings, self._should_stop).run()
        except Crash:
            pass
        except OperatorError as error:
            world.note(f"refused: {error.what}")
            wanted = self.server.must_be_refused
            if wanted is not None and wanted in error.what:
                return error
            if "another producer runs" not in error.what or not MAY_FENCE & {*world.struck}:
                raise Violation(f"refused for no reason: {error.what}") from error
        return None

    def _take_over(self) -> None:
        """Another process of this pipeline publishes a few batches, then rests, and never hears that it is fenced."""
        world, cuts = self.world, self.broker.log(cuts_topic(self.settings.name), 0).entries
        wanted, steps_max = len(cuts) + world.random.randint(1, 8), world.step_count + 300
        settings = self.settings.model_copy(
            update={"producer": self.settings.producer.model_copy(update={"spool_dir": _spool_dir(1).name})}
        )
        world.note("=== another process takes over")
        with world.without_faults():
            try:
                Pipeline(settings, lambda: len(cuts) >= wanted or world.step_count > steps_max).run()
            except OperatorError as error:
                world.note(f"refused: {error.what}")
        world.note("=== another process rests")


def _faults(random: Random) -> list[tuple[int, str]]:
    kinds = FAULTS if random.random() > 0.02 else (*FAULTS, *HIDDEN * 20)
    return [(random.randrange(10, 320), random.choice(kinds)) for _ in range(random.choice((0, 1, 2, 3, 4, 6, 9)))]


def run_seed(seed: int, case: Case | None = None, *, traced: bool = False) -> Outcome:
    """The outcome of one seed."""
    outcome = Outcome(seed)
    run = Run(seed, case or Case(), traced=traced)
    with installed(run.world, run.server, run.broker, run.copied):
        try:
            outcome.refusal = run.to_the_end()
        except Finished:
            pass
        except Violation as violation:
            outcome.violation = str(violation)
        except Exception as error:  # an exception of the producer's own is as bad
            outcome.violation = f"{type(error).__name__}: {error}"
    outcome.faults, outcome.boots, outcome.steps = run.world.struck, run.boots, run.world.step_count
    outcome.copies = run.model.copied.copies if run.model.copied is not None else 0
    outcome.records, outcome.confirmations = run.model.records_read, run.server.confirmations
    return replace(outcome, trace=run.world.trace or [])

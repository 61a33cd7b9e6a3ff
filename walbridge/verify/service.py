"""``walbridge verify --every``: the lake is compared with its source again and again, until SIGTERM or Ctrl-C.

In: settings, an interval. Out: what was found, in the log, in ``/metrics`` and in a record that ``walbridge status``
shows; of each table that differs the first keys in a file (``evidence.py``), and a doubt in ``<p>.progress``, which
makes the producer call it stale and copy it, or leave it, as [producer] on_table_error says.

One table after the other is compared, by sweeps of short statements (``sweep.py``). Only a difference that is proved
counts: a lake that is behind, or rows that change all the time, put no table in doubt. A table that cannot be read on
one side is reported, and the next one is compared. A server that is away ends a run; the next run begins a minute
later.
"""

import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial

import structlog

from walbridge.producer.kafka.status_topic import StatusTopic
from walbridge.runtime.monitoring.health import STOPPED
from walbridge.runtime.monitoring.http_endpoint import HttpEndpoint
from walbridge.runtime.reports.run_report import RunReport
from walbridge.runtime.stop_signals import set_on_stop_signals
from walbridge.schemas.control.run_record import VERIFIER
from walbridge.schemas.control.table_request import TableRequest
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.tables.request import write
from walbridge.verify.errors import NotInLake, NotPublished, TableNotCompared
from walbridge.verify.evidence import keep
from walbridge.verify.followed import others_followed
from walbridge.verify.metrics import (
    COMPARING,
    NOT_COMPARED,
    RESTING,
    UNEQUAL,
    WAITING_FOR_PEERS,
    VerifyMetrics,
    result_of,
)
from walbridge.verify.report import TableResult
from walbridge.verify.rounds import chosen_names, compare_on
from walbridge.verify.source import Source
from walbridge.verify.source_connection import Connection, connected
from walbridge.verify.sweep import Rewritten, sweep

log = structlog.get_logger()

TIMEOUT_S = 600.0
"""How long a lake that is behind is waited for: minutes, since nobody waits at a terminal."""
RETRY_S = 60.0
"""The longest pause after a run that ended early."""
_BEAT_S = 5.0
_END_S = 0.2
"""How long a stop waits for the part that is being compared."""


class StopRequested(Exception):
    """The program was asked to stop while a table was compared."""


def verify_every(
    settings: Settings, every_s: float, tables: Sequence[str] | None, timeout_s: float | None = None
) -> int:
    """Compare until SIGTERM or Ctrl-C; the exit code. ``timeout_s``: how long a table waits for its published cut.

    Raises:
        OperatorError: the port for ``/metrics`` cannot be opened.
    """
    is_over, where = threading.Event(), settings.metrics
    metrics = VerifyMetrics(settings.name, every_s, where.stalled_after_s)
    service = Service(settings, every_s, tables, timeout_s or TIMEOUT_S, metrics, is_over)
    report = RunReport(settings, VERIFIER, StatusTopic(settings, VERIFIER), lambda: metrics.summary)
    endpoint = where.host, where.verify_port, metrics.registry, metrics.health, "verify_port"
    set_on_stop_signals(is_over)
    with report, HttpEndpoint(*endpoint) as http:
        log.info("metrics", host=where.host, port=http.port)
        report.begin()
        service.start()
        is_over.wait()
        service.end()
    log.info("stopped")
    sys.stderr.flush()
    os._exit(0)  # does not wait for a running statement of Postgres, read of the lake or Kafka client


def starting_after(names: list[str], ended_at: str | None) -> list[str]:
    """All names, beginning behind the table at which the last run ended: else the last tables might never be compared
    where servers go away again and again."""
    first = names.index(ended_at) + 1 if ended_at in names else 0
    return names[first:] + names[:first]


class Service:
    """The thread that compares."""

    def __init__(
        self,
        settings: Settings,
        every_s: float,
        tables: Sequence[str] | None,
        timeout_s: float,
        metrics: VerifyMetrics,
        is_over: threading.Event,
    ) -> None:
        self._settings, self._every_s, self._tables, self._timeout_s = settings, every_s, tables, timeout_s
        self._metrics, self._is_over = metrics, is_over
        self._ended_at: str | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="verify", daemon=True)

    def start(self) -> None:
        """Begin with the first run."""
        self._thread.start()

    def end(self) -> None:
        """Wait shortly for the thread's end. Raises the exception that ended it, if there was one."""
        self._thread.join(_END_S)
        self._metrics.pulse.enter(STOPPED)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                began_s = time.monotonic()
                self._metrics.pulse.enter(COMPARING)
                is_whole = self._compare_all()
                self._metrics.pulse.enter(RESTING if is_whole else WAITING_FOR_PEERS)
                retry_s = time.monotonic() + min(self._every_s, RETRY_S)
                self._pause(began_s + self._every_s if is_whole else retry_s)
        except StopRequested:
            pass
        except BaseException as error:
            self._failure = error
            self._is_over.set()

    def _pause(self, until_s: float) -> None:
        while (left_s := until_s - time.monotonic()) > 0 and not self._is_over.wait(min(left_s, _BEAT_S)):
            if self._metrics.pulse.state == RESTING:
                self._metrics.pulse.beat()

    def _compare_all(self) -> bool:
        """Compare every table; False if the run ended early."""
        began_s = time.monotonic()
        try:
            with connected(dsn_of(self._settings), self._settings.postgres.start_timeout_s) as connection:
                published = Source(connection).names(self._settings.postgres.publication_names)
                names = self._names(published)
                for name in starting_after(names, self._ended_at):
                    self._beat()
                    self._ended_at = name
                    self._compare(connection, name)
        except (OperatorError, RetryableError) as error:
            what = error.what if isinstance(error, OperatorError) else str(error)
            log.warning("the run ended early", why=what, remedy=getattr(error, "remedy", None))
            self._metrics.run_failed(what)
            return False
        self._ended_at = None
        left_out = self._metrics.run_ended(names)
        event = f"all tables but {left_out} were compared" if left_out else "all tables were compared"
        log.info(event, tables=len(names), seconds=round(time.monotonic() - began_s, 1))
        return True

    def _names(self, published: Sequence[str]) -> list[str]:
        """The tables to compare. One that was asked for by name and is not published stays: comparing it reports it."""
        if not self._tables:
            return chosen_names(published, None, self._settings)
        names: dict[str, bool] = {}
        for name in self._tables:
            try:
                names |= dict.fromkeys(chosen_names(published, [name], self._settings), True)
            except NotPublished:
                names[name] = True
        return list(names)

    def _compare(self, connection: Connection, name: str) -> None:
        view = partial(sweep, beat=self._beat)
        try:
            (result,) = compare_on(connection, self._settings, [name], self._timeout_s, view, self._beat)
        except TableNotCompared as error:
            result = self._without_rows(name, error)
        except Rewritten:
            log.info("the table was rewritten while it was compared: next time", table=name)
            result = TableResult(name, "current", 0, whole=False)
        if result_of(result) == UNEQUAL and (followed := others_followed(self._settings)):
            why = f"the producer follows {', '.join(followed)} until it begins with the publications of the settings"
            result = TableResult(name, "current", 0, whole=False, why_undecided=why)
        if result.why_undecided:
            log.warning("rows of a table differ, and nothing is proved", table=name, why=result.why_undecided)
        self._metrics.found(result)
        if result_of(result) == UNEQUAL:
            self._doubt(name, result)

    def _without_rows(self, name: str, error: TableNotCompared) -> TableResult:
        if isinstance(error, NotInLake):
            return TableResult(name, "not in the lake yet", 0)
        if isinstance(error, NotPublished) and not self._tables:
            return TableResult(name, "no longer published", 0)
        log.warning("a table could not be compared", table=name, why=error.what, remedy=error.remedy)
        return TableResult(name, NOT_COMPARED, 0, why_not_compared=error.what)

    def _doubt(self, name: str, result: TableResult) -> None:
        """Report the difference to the producer. If that fails the run ends early, and the next run finds it again."""
        kept = self._kept(result)
        log.warning("the lake's table differs from its source", table=name, keys_in=kept, **result.counts)
        write(self._settings, [TableRequest.of_doubt(result.relation_id, time.time_ns() // 1000)])
        log.info(
            "the difference is reported to the producer",
            table=name,
            remedy="nothing, if [producer] on_table_error is copy; else mend the cause, then walbridge copy "
            f"{name}, and start the producer where it stopped",
        )

    def _kept(self, result: TableResult) -> str | None:
        try:
            return str(keep(self._settings, result))
        except OSError as error:
            log.warning("the keys that differ cannot be kept", table=result.table, why=error.strerror)
            return None

    def _beat(self) -> None:
        if self._is_over.is_set():
            raise StopRequested
        self._metrics.pulse.beat()

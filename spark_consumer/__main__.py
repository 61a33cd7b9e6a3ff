"""``python -m walbridge.spark_consumer [--config F] [--once]``: Kafka topics to Delta tables.

The same file runs under ``spark-submit --py-files dist/walbridge.zip spark_consumer/__main__.py``.
Exit codes: 0 done or stopped (SIGTERM, Ctrl-C, SIGHUP), 1 a bug, 2 the operator must act, 130 Ctrl-C before
it ran.
"""

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType

from walbridge.runtime.stop_signals import EXIT_CTRL_C, handled_signals, install_empty_handlers, set_on_stop_signals

try:  # for seconds, on a busy machine
    import structlog
    from pyspark.sql import SparkSession

    from walbridge.runtime.logs import FORMATS, configure_logs
    from walbridge.runtime.monitoring.health import STOPPED
    from walbridge.runtime.monitoring.http_endpoint import HttpEndpoint
    from walbridge.runtime.reports.crash_report import report_bug
    from walbridge.runtime.reports.run_report import RunReport
    from walbridge.runtime.streams import hold_streams
    from walbridge.schemas.control.run_record import JOB
    from walbridge.schemas.errors import OperatorError
    from walbridge.schemas.errors import report as say
    from walbridge.schemas.settings import Settings
    from walbridge.schemas.settings_file import load_settings
    from walbridge.spark_consumer.delta.manifest.status_files import LakeStatus
    from walbridge.spark_consumer.delta.worker_threads import reserve_threads
    from walbridge.spark_consumer.errors import classifying_errors
    from walbridge.spark_consumer.job import Job
    from walbridge.spark_consumer.jvm.executors import ending_without_executors
    from walbridge.spark_consumer.jvm.jvm_end import naming_jvm_end, silence_py4j, stop_session
    from walbridge.spark_consumer.jvm.jvm_shutdown import stopping_with_jvm
    from walbridge.spark_consumer.jvm.spark_session import spark_session
    from walbridge.spark_consumer.metrics import JobMetrics
    from walbridge.spark_consumer.other_job import naming_other_job, wait_for_other_job
    from walbridge.spark_consumer.preflight import preflight
    from walbridge.spark_consumer.retry import keep_going
    from walbridge.spark_consumer.stop_in_time import StopInTime
except KeyboardInterrupt:
    sys.exit(EXIT_CTRL_C)

log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    options = _options(arguments)
    read = partial(load_settings, options.config, secrets=("spark",))
    return run(read, once=options.once, log_format=options.log_format)


def run(read_settings: Callable[[], Settings], *, once: bool, log_format: str) -> int:
    """Run the job with settings that may have been read already; returns the exit code."""
    silence_py4j()
    hold_streams()
    configure_logs("info", log_format)
    try:
        _run(read_settings(), once=once)
    except OperatorError as error:
        return say(error)
    except KeyboardInterrupt:  # before a stop is asked for by signals
        return EXIT_CTRL_C
    except SystemExit:
        raise
    except BaseException as error:  # a panic of delta-rs is no Exception
        return report_bug(error)
    return 0


def _run(settings: Settings, *, once: bool) -> None:
    reserve_threads(settings.lake.apply_threads)
    where = settings.metrics
    metrics = JobMetrics(where.stalled_after_s, settings.name, settings.lake.path)
    report = RunReport(settings, JOB, LakeStatus(settings), lambda: metrics.state)
    endpoint = where.host, where.job_port, metrics.registry, metrics.health, "job_port"
    with report, HttpEndpoint(*endpoint) as http:
        log.info("metrics", host=where.host, port=http.port)
        try:
            _materialize(settings, metrics, report, once=once)
        except BaseException as error:
            metrics.failed(error)
            raise
        finally:
            metrics.enter(STOPPED)


def _materialize(settings: Settings, metrics: JobMetrics, report: RunReport, *, once: bool) -> None:
    stop = threading.Event()
    set_on_stop_signals(stop)
    with StopInTime(stop, report, lambda: metrics.open_plan):
        preflight(settings, stop)
        spark = None if stop.is_set() else _session(settings, stop)
        if spark is None:
            log.info("stopped")
            return
        # The report ends inside: under spark-submit the JVM takes this process with it once it goes on.
        with stopping_with_jvm(spark, stop), report:
            try:
                with naming_jvm_end(spark):
                    _Attempts(spark, settings, stop, metrics, report).run(once=once)
            finally:
                stop_session(spark)
            log.info("stopped")


def _session(settings: Settings, stop: threading.Event) -> SparkSession | None:
    """The Spark session; None if a stop was asked for meanwhile, which does not wait for the JVM to start."""
    try:
        with _raising_on_signals():  # Spark's Python side takes Ctrl-C for itself when it starts
            return _started(settings, stop)
    except _StopAsked:
        return None


def _started(settings: Settings, stop: threading.Event) -> SparkSession | None:
    """The Spark session; None if a stop was asked for meanwhile. Service managers signal all processes, and a JVM that
    is starting then simply ends."""
    try:
        with classifying_errors():  # scratch files, before any attempt
            return spark_session(settings)
    except OperatorError:
        if stop.is_set():
            return None
        raise


class _Attempts:
    """Runs one job after another, as long as each ends in a RetryableError."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        stop: threading.Event,
        metrics: JobMetrics,
        report: RunReport,
    ) -> None:
        self._spark, self._settings, self._stop, self._metrics, self._report = spark, settings, stop, metrics, report
        self._status = LakeStatus(settings)
        self._is_started = False

    def run(self, *, once: bool) -> None:
        keep_going(
            lambda: self._attempt(once=once),
            lambda: self._is_started,
            self._stop,
            self._metrics.kafka_away,
            start_timeout_s=self._settings.lake.start_timeout_s,
        )

    def _attempt(self, *, once: bool) -> None:
        # Errors are sorted here too, below the calls that sort their own: Spark uses Kafka and the disk in many places.
        timeout_s = self._settings.lake.executor_timeout_s
        with ending_without_executors(self._spark, timeout_s), classifying_errors():
            job = Job(self._spark, self._settings, self._stop, self._metrics)
            try:
                if not self._report.has_begun:  # the manifest was opened, so the lake is this pipeline's
                    wait_for_other_job(self._status, self._settings.lake.start_timeout_s, self._stop)
                if self._stop.is_set():
                    return
                self._report.begin()
                with naming_other_job(self._status, self._report.is_own):
                    job.run(once=once)
            finally:
                self._is_started = self._is_started or job.is_started
                job.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_consumer", description="Kafka topics to Delta tables.")
    parser.add_argument("--config", help="settings file (default: WALBRIDGE_CONFIG or walbridge.toml)")
    parser.add_argument("--once", action="store_true", help="apply what there is, then exit")
    parser.add_argument("--log-format", default="auto", choices=FORMATS)
    return parser.parse_args(arguments)


class _StopAsked(BaseException):
    """A stop was asked for; no error, so a BaseException, which nothing sorts."""


@contextmanager
def _raising_on_signals() -> Iterator[None]:
    def ask(_signal: int, _frame: FrameType | None) -> None:
        raise _StopAsked

    for each in handled_signals():
        signal.signal(each, ask)
    try:
        yield
    finally:
        install_empty_handlers()


if __name__ == "__main__":
    sys.exit(main())

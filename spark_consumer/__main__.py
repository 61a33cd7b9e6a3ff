"""``python -m spark_consumer [--config F] [--once]``: Kafka topics to Delta tables.

The same file runs under ``spark-submit --py-files dist/walbridge.zip spark_consumer/__main__.py``.
Exit codes: 0 done or stopped (SIGTERM, Ctrl-C), 1 a bug, 2 the operator must act.
"""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

import structlog
from pyspark.sql import SparkSession

from schemas.errors import EXIT_OPERATOR, OperatorError
from schemas.settings import Settings, load_settings
from spark_consumer.job import Job
from spark_consumer.retry import keep_going
from spark_consumer.session import spark_session

START_TIMEOUT_S = 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    options = _options(arguments)
    _configure_logs()
    try:
        _run(load_settings(options.config), once=options.once)
    except OperatorError as error:
        print(f"walbridge: {error}", file=sys.stderr)  # noqa: T201 - the operator reads this
        return EXIT_OPERATOR
    return 0


def _run(settings: Settings, *, once: bool) -> None:
    stop = threading.Event()
    _stop_on_signals(stop)
    spark = spark_session(settings)
    # Spark's Python side takes Ctrl-C for itself when it starts.
    _stop_on_signals(stop)
    try:
        _Attempts(spark, settings, stop).run(once=once)
    finally:
        spark.stop()


class _Attempts:
    """Jobs one after another, until one ends in peace."""

    def __init__(self, spark: SparkSession, settings: Settings, stop: threading.Event) -> None:
        self._spark, self._settings, self._stop = spark, settings, stop
        self._is_started = False

    def run(self, *, once: bool) -> None:
        keep_going(
            lambda: self._attempt(once=once),
            lambda: self._is_started,
            self._stop,
            start_timeout_s=START_TIMEOUT_S,
        )

    def _attempt(self, *, once: bool) -> None:
        job = Job(self._spark, self._settings, self._stop)
        try:
            job.run(once=once)
        finally:
            self._is_started = self._is_started or job.is_started
            job.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_consumer", description="Kafka topics to Delta tables.")
    parser.add_argument("--config", help="settings file (default: WALBRIDGE_CONFIG or walbridge.toml)")
    parser.add_argument("--once", action="store_true", help="apply what there is, then exit")
    return parser.parse_args(arguments)


def _stop_on_signals(stop: threading.Event) -> None:
    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def _configure_logs() -> None:
    # What fails in a call between Python and the JVM is raised too, and sorted there.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
            if sys.stderr.isatty()
            else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


if __name__ == "__main__":
    sys.exit(main())

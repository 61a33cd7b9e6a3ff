"""``python -m walbridge.producer [--config FILE] [--try-again]``: run the producer until SIGTERM or Ctrl-C.

Exit 0: stopped at a batch boundary. 1: a bug; nothing was confirmed, a restart replays.
2: the operator must act; what and how is on stderr. 130: ended by Ctrl-C before it ran, or by a second one.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from walbridge.runtime.stop_signals import EXIT_CTRL_C, handled_signals

try:  # for seconds, on a busy machine
    import structlog

    from walbridge.producer.kafka.status_topic import StatusTopic
    from walbridge.producer.metrics import ProducerMetrics
    from walbridge.producer.pipeline import Pipeline
    from walbridge.producer.postgres.slots.wal_watch import WalWatch
    from walbridge.producer.session.transactions.transaction_spool import spool_parent
    from walbridge.runtime.logs import FORMATS, LEVELS, configure_logs
    from walbridge.runtime.monitoring.health import STOPPED
    from walbridge.runtime.monitoring.http_endpoint import HttpEndpoint
    from walbridge.runtime.reports.crash_report import report_bug
    from walbridge.runtime.reports.run_report import RunReport
    from walbridge.runtime.streams import hold_streams
    from walbridge.schemas.control.run_record import PRODUCER
    from walbridge.schemas.errors import OperatorError
    from walbridge.schemas.errors import report as say
    from walbridge.schemas.settings import Settings
    from walbridge.schemas.settings_file import load_settings
except KeyboardInterrupt:
    sys.exit(EXIT_CTRL_C)

log = structlog.get_logger()


class StopRequest:
    """Set by SIGTERM, SIGINT or SIGHUP, asked at batch boundaries."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        return self.asked

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The signal's receiver; the second Ctrl-C ends the process at once."""
        if self.asked and number == signal.SIGINT:
            raise SystemExit(EXIT_CTRL_C)
        self.asked = True


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(prog="producer", description="Postgres WAL to Kafka topics")
    parser.add_argument("--config", help="settings file, default walbridge.toml")
    parser.add_argument("--log-level", default="info", choices=LEVELS)
    parser.add_argument("--log-format", default="auto", choices=FORMATS)
    parser.add_argument("--try-again", action="store_true", help="stream though Postgres crashed whenever we did")
    arguments = parser.parse_args(argv)
    hold_streams()
    configure_logs(arguments.log_level, arguments.log_format)
    stop = StopRequest()
    for each in handled_signals():
        signal.signal(each, stop.receive)
    try:
        _run(load_settings(arguments.config), stop, tries_again=arguments.try_again)
    except OperatorError as error:
        return say(error)
    except Exception as error:
        return report_bug(error)
    return 0


def _run(settings: Settings, stop: StopRequest, *, tries_again: bool) -> None:
    """The port is taken first: a program that nobody can watch makes nothing durable."""
    where = settings.metrics
    spool = str(spool_parent(settings))
    retention_ms = settings.topics.retention_ms
    metrics = ProducerMetrics(where.stalled_after_s, settings.name, spool, where.wal_bytes_max, retention_ms)
    report = RunReport(settings, PRODUCER, StatusTopic(settings), lambda: metrics.state)
    endpoint = where.host, where.producer_port, metrics.registry, metrics.health, "producer_port"
    with report, HttpEndpoint(*endpoint) as http, WalWatch(settings) as watch:
        metrics.watch_wal(watch)
        log.info("metrics", host=where.host, port=http.port)
        try:
            Pipeline(settings, stop, metrics, report.begin, tries_again=tries_again).run()
        except BaseException as error:
            metrics.failed(error)
            raise
        finally:
            metrics.enter(STOPPED)


if __name__ == "__main__":
    sys.exit(main())

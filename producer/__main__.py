"""``python -m producer [--config FILE]``: run the producer until SIGTERM or Ctrl-C.

Exit 0: stopped at a batch boundary. 1: a bug; nothing was confirmed, a restart replays.
2: the operator must act; what and how is on stderr.
"""

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import structlog

from producer.pipeline import Pipeline
from schemas.errors import EXIT_OPERATOR, OperatorError
from schemas.settings import load_settings


class StopRequest:
    """Set by SIGTERM or SIGINT, asked at batch boundaries."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        return self.asked

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The signal's receiver; the second Ctrl-C ends the process at once."""
        if self.asked and number == signal.SIGINT:
            raise SystemExit(130)
        self.asked = True


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(prog="producer", description="Postgres WAL to Kafka topics")
    parser.add_argument("--config", help="settings file, default walbridge.toml")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    arguments = parser.parse_args(argv)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(arguments.log_level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    stop = StopRequest()
    signal.signal(signal.SIGTERM, stop.receive)
    signal.signal(signal.SIGINT, stop.receive)
    try:
        Pipeline(load_settings(arguments.config), stop).run()
    except OperatorError as error:
        sys.stderr.write(f"error: {error.what}\nremedy: {error.remedy}\n")
        return EXIT_OPERATOR
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Structured logs of either program, on stderr: one event a line.

In: level and format. Out: structlog's configuration. Values are counts, names and LSNs, never
row values or secrets (I10).
"""

import logging
import sys

import structlog

LEVELS = ("debug", "info", "warning")
FORMATS = ("auto", "logfmt", "json")
"""auto: coloured for a terminal, logfmt for everything else."""


def configure_logs(level: str = "info", log_format: str = "auto") -> None:
    """Set up how all loggers of structlog write from now on."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _renderer(log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _renderer(log_format: str) -> structlog.typing.Processor:
    if log_format == "json":
        return structlog.processors.JSONRenderer(ensure_ascii=False)
    if log_format == "auto" and sys.stderr.isatty():
        return structlog.dev.ConsoleRenderer(pad_event_to=0)
    return structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])

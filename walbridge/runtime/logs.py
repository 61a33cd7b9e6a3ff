"""Structured logs of either program, on stderr: one event a line.

In: level and format. Out: structlog's configuration. Values are counts, names and LSNs, never
row values or secrets (I10).
"""

import atexit
import logging
import sys
from typing import TextIO, cast

import structlog

from walbridge.runtime.bars import Bars

LEVELS = ("debug", "info", "warning")
FORMATS = ("auto", "logfmt", "json")
"""auto: coloured for a terminal, with bars for what takes long; logfmt for everything else."""
BAR_S = 0.5
"""How often a bar moves."""

_bars: Bars | None = None


def configure_logs(level: str = "info", log_format: str = "auto") -> None:
    """Set up how all loggers of structlog write from now on."""
    global _bars
    close_bars()
    _bars = Bars() if log_format == "auto" and sys.stderr.isatty() else None
    structlog.configure(
        processors=[
            *([] if _bars is None else [_bars]),
            _without_unknown,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _renderer(log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr if _bars is None else cast(TextIO, _bars)),
    )


def progress_interval_s(line_s: float) -> float:
    """How often to tell how far some work is: so often as a line, or as a bar is moved in a terminal."""
    return line_s if _bars is None else BAR_S


def close_bars() -> None:
    """Leave the terminal as it was; what ends the process without Python's own end calls it first."""
    if _bars is not None:
        _bars.close()


atexit.register(close_bars)


def _without_unknown(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """A line names what it knows: logfmt would show the others as empty, which looks like a name that is lost."""
    return {key: value for key, value in event.items() if value is not None}


def _renderer(log_format: str) -> structlog.typing.Processor:
    if log_format == "json":
        return structlog.processors.JSONRenderer(ensure_ascii=False)
    if log_format == "auto" and sys.stderr.isatty():
        return structlog.dev.ConsoleRenderer(pad_event_to=0)
    return structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])

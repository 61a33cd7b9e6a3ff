"""Ends the process soon after a stop was asked for, without waiting for the plan in work.

In: the event that asks the job to stop, and a block that ends soon after it unless a plan is in work. Out: the process
ends within five seconds, with code 0 and a record of its end. A plan in work is left as by a kill. Nothing is lost: the
next start makes the plan again from its row in ``_cuts`` (I5), and no reader has seen anything of it (I8).

A merge of delta-rs cannot be interrupted, and a cancelled Spark job would look like the trouble of a table. So nothing
is unwound: the process simply exits. Its JVM, and with it every Spark job of the plan, ends when its connection to
Python does, and deletes its scratch files.
"""

import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import structlog

from walbridge.runtime.logs import close_bars
from walbridge.runtime.reports.run_report import RunReport
from walbridge.spark_consumer.plan.plan import Plan

FINISH_S = 2.0
"""Time for a plan that is almost done, and for the session to end in order."""

log = structlog.get_logger()


class StopInTime:
    """A context manager around everything that a stop must end.

    Args:
        open_plan: the plan in work, which is not published yet.
        exit_process: ends the process with this code, at once.
    """

    def __init__(
        self,
        stop: threading.Event,
        report: RunReport,
        open_plan: Callable[[], Plan | None],
        exit_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._stop, self._report, self._open_plan, self._exit_process = stop, report, open_plan, exit_process
        self._exiting = threading.Lock()
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="stop in time", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._exiting:  # a thread that comes here while the process exits never goes on
            self._is_over.set()

    def _watch(self) -> None:
        self._stop.wait()
        if self._is_over.wait(FINISH_S):
            return
        with self._exiting:
            if not self._is_over.is_set():
                self._end()

    def _end(self) -> None:
        try:
            plan = self._open_plan()
            if plan is None:
                log.info("stopped")
            else:
                log.info(
                    "stopped",
                    plan="left unfinished: the next start makes it again",
                    from_cut=plan.from_cut,
                    to_cut=plan.to_cut,
                    rows=plan.rows,
                )
            self._report.end()
            close_bars()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            self._exit_process(0)

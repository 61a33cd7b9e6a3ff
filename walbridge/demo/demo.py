"""The demo from top to bottom.

    servers → pgbench's tables → producer and Spark job → first published cut
            → pgbench under a live view → the lake catches up → verify

In: how long, how large, how fast. Out: exit code 0 if every table is equal, 1 if not, else
the code of the program that failed. However it ends, no process stays behind.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from rich.console import Console

from walbridge.demo import programs, servers
from walbridge.demo.demo_folder import DemoFolder
from walbridge.demo.measures import Measure, PipelineProbe
from walbridge.demo.pgbench import Load
from walbridge.demo.programs import Program, ProgramEnded
from walbridge.demo.queries import deltalake_line, spark_line
from walbridge.demo.view import View
from walbridge.embedded.server_process import exit_on_sigterm
from walbridge.runtime.stop_signals import EXIT_CTRL_C
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import format_lsn
from walbridge.schemas.settings_file import load_settings
from walbridge.verify import verify

FIRST_CUT_S = 600.0
"""For the start of Spark and the first copy: a scale of 100 (10M rows) takes minutes."""
CATCH_UP_S = 600.0
VERIFY_S = 120.0
LOOK_INTERVAL_S = 1.0
STATUS_INTERVAL_S = 5.0


def run(*, seconds: int, scale: int, rate: int, keep: bool) -> int:
    """Run the demo; its exit code.

    Raises:
        OperatorError: something that the demo needs is missing, or a server does not start.
    """
    exit_on_sigterm()
    for name in set(os.environ) - set(programs.environment(os.environ)):
        del os.environ[name]  # nobody's settings but the demo's
    console = Console()
    folder = DemoFolder(keep=keep)
    try:
        return Demo(folder, console, keep=keep).run(seconds, scale, rate)
    except ProgramEnded as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return EXIT_CTRL_C
    finally:
        folder.release()


class Demo:
    """One run."""

    def __init__(self, folder: DemoFolder, console: Console, *, keep: bool) -> None:
        self._folder = folder
        self._console = console
        self._keep = keep
        self._began_s = time.monotonic()
        self._programs: list[Program] = []

    def run(self, seconds: int, scale: int, rate: int) -> int:
        """Run all steps; each prints a line when it begins. Returns the exit code."""
        folder = self._folder
        with ExitStack() as stack:
            running = stack.enter_context(servers.started(folder, self._say, keep=self._keep))
            self._say(f"making pgbench's tables: {scale * 100_000:,} accounts")
            servers.make_tables(running.postgres, scale, folder)
            settings = load_settings(folder.config)
            for start in (programs.producer, programs.spark_job):
                self._programs.append(stack.enter_context(start(folder)))
            self._say("producer and Spark job are starting; then the first copy")
            probe = stack.enter_context(PipelineProbe(settings, servers.TABLES))
            self._wait_for_first_cut(probe)
            self._say(f"pgbench writes for {seconds} s, up to {rate} transactions a second")
            load = stack.enter_context(Load(running.postgres, folder.log("pgbench"), seconds=seconds, rate=rate))
            with View(servers.TABLES, self._console, seconds) as view:
                self._look_until(load.is_done, probe, view.show)
            self._wait_for_lake(probe)
            self._print_where(running)
            self._say("verifying every table, row by row, at one LSN")
            return verify(settings, timeout_s=VERIFY_S)

    def _wait_for_first_cut(self, probe: PipelineProbe) -> None:
        def tell(measure: Measure) -> None:
            self._say(f"{sum(measure.records.values()):,} rows copied to Kafka, not all published yet")

        def has_all() -> bool:
            published = probe.published()
            current = (
                {table.qualified_name for table in published.tables if table.state == CURRENT} if published else ()
            )
            return {*servers.TABLES} <= {*current}

        self._look_until(has_all, probe, tell, interval_s=STATUS_INTERVAL_S, timeout_s=FIRST_CUT_S)
        rows = probe.take().lake_rows
        self._say(f"first cut published: {sum(rows.values()):,} rows in {len(rows)} tables of the lake")

    def _wait_for_lake(self, probe: PipelineProbe) -> None:
        wanted = probe.source_lsn()
        self._say(f"pgbench is done; the lake catches up with {format_lsn(wanted)}")

        def caught_up() -> bool:
            published = probe.published()
            return published is not None and published.end_lsn >= wanted

        def tell(measure: Measure) -> None:
            self._say(f"the lake is {(measure.lag_bytes or 0) / 1000:,.0f} kB behind")

        self._look_until(caught_up, probe, tell, interval_s=STATUS_INTERVAL_S, timeout_s=CATCH_UP_S)

    def _look_until(
        self,
        done: Callable[[], bool],
        probe: PipelineProbe,
        show: Callable[[Measure], None],
        *,
        interval_s: float = LOOK_INTERVAL_S,
        timeout_s: float = float("inf"),
    ) -> None:
        """Show a measure at each interval, until ``done``, a program's end or the timeout."""
        deadline_s = time.monotonic() + timeout_s
        due_s = time.monotonic() + interval_s
        while not done():
            for program in self._programs:
                program.refuse_end()
            if time.monotonic() > deadline_s:
                raise OperatorError(
                    f"the lake did not catch up within {timeout_s:.0f} s",
                    remedy=f"see the logs in {self._folder.path}; on a slow machine try a smaller --scale or --rate",
                )
            if time.monotonic() >= due_s:
                show(probe.take())
                due_s = time.monotonic() + interval_s
            time.sleep(0.2)

    def _print_where(self, running: servers.Servers) -> None:
        folder = self._folder
        kept = "kept" if self._keep else "kept until the next demo or `make clean`"
        self._print(f"\nThe tables are in {folder.lake} ({kept}). To look at them, with Spark:\n")
        self._print(f"  {spark_line(folder)}\n\nor without Java:\n\n  {deltalake_line(folder)}\n")
        self._print(f"Settings and logs are beside them, in {folder.path}.")
        if self._keep:
            self._print(f"Postgres' data: {running.postgres.data}\nKafka's data: {running.kafka.data}")
        self._print("")

    def _say(self, line: str) -> None:
        self._print(f"{time.monotonic() - self._began_s:5.0f} s  {line}")

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)

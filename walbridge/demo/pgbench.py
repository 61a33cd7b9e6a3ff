"""pgbench's own TPC-B-like load, at a rate that leaves the machine's cores to the pipeline.

In: seconds and transactions a second. Out: a process that ends by itself. It begins by emptying
``pgbench_history``, as it always does: so a TRUNCATE goes through the pipeline too.
"""

from pathlib import Path
from typing import Self

from walbridge.demo.programs import ProgramEnded
from walbridge.embedded.postgres import ENVIRON, PostgresServer
from walbridge.embedded.server_process import ServerProcess

CLIENTS = 4


class Load:
    """A running pgbench. A context manager: killed on exit if it runs still."""

    def __init__(self, postgres: PostgresServer, log: Path, *, seconds: int, rate: int) -> None:
        options = [f"--client={CLIENTS}", f"--time={seconds}", f"--rate={rate}", "--jobs=1"]
        command = [str(postgres.bin("pgbench")), *options, postgres.dsn()]
        self._log = log
        self._process = ServerProcess("pgbench", command, log, environ=ENVIRON)

    def is_done(self) -> bool:
        """Whether it has ended, and well.

        Raises:
            ProgramEnded: it failed.
        """
        code = self._process.exit_code
        if code:
            raise ProgramEnded("pgbench", 1, self._log)
        return code == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

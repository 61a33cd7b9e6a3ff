"""What is written to the source while things die: pgbench's own transaction, and keys that move.

An account now and then gets another number, and later its old one back: two events each, in two
partitions. ``balances.py`` says what holds of every state.
"""

from __future__ import annotations

from pathlib import Path

from tests.fix_postgres import Database
from walbridge.embedded.postgres import ENVIRON
from walbridge.embedded.server_process import ServerProcess

PGBENCH_ACCOUNTS = 5_000
TELLERS = 10
TABLES = ("pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history")
SCHEMA = f"""
    CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
    CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
    CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
    CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
    INSERT INTO pgbench_branches VALUES (1, 0);
    INSERT INTO pgbench_tellers SELECT i, 1, 0 FROM generate_series(1, {TELLERS}) i;
    INSERT INTO pgbench_accounts SELECT i, 1, 0, '' FROM generate_series(1, {PGBENCH_ACCOUNTS}) i;
"""
# The branch first: its row lock puts the transactions in a row, so that none waits for two others.
SCRIPT = f"""\
\\set aid random(1, {PGBENCH_ACCOUNTS})
\\set moved :aid + {PGBENCH_ACCOUNTS}
\\set tid random(1, {TELLERS})
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = 1;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid IN (:aid, :moved);
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, 1, :aid, :delta, clock_timestamp());
UPDATE pgbench_accounts SET aid = :moved WHERE aid = :aid AND :delta > 4000;
UPDATE pgbench_accounts SET aid = :aid WHERE aid = :moved AND :delta < -2000;
END;
"""


class Pgbench:
    """pgbench at a steady rate; it ends with every crash of the server and is started again."""

    def __init__(self, database: Database, folder: Path, rate: int, text: str = SCRIPT) -> None:
        script = folder / "pgbench.sql"
        script.write_text(text)
        options = ["--no-vacuum", "--client=4", "--jobs=1", f"--rate={rate}", "--time=86400", f"--file={script}"]
        self._command = [str(database.server.bin("pgbench")), *options, database.dsn]
        self._log = folder / "pgbench.log"
        self._process: ServerProcess | None = None

    def keep_running(self) -> None:
        if self._process is None or not self._process.running:
            self._process = ServerProcess("pgbench", self._command, self._log, environ=ENVIRON)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

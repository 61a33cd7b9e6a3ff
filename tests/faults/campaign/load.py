"""What is written to the source while things die: pgbench's transactions, and a bank.

The bank has one writer whose transactions touch three tables: a transfer moves money between two
of them and appends its number to the third. So at any moment the balances add up, and the
numbers are 0 … n without a gap: ``bank.py`` asks the same of every published cut.
"""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg

from tests.fix_postgres import Database
from walbridge.embedded.postgres import ENVIRON
from walbridge.embedded.server_process import ServerProcess

ACCOUNTS = 10
BALANCE = 1_000
PGBENCH_ACCOUNTS = 5_000
SCHEMA = f"""
    CREATE TABLE bank_left (id int PRIMARY KEY, balance int);
    CREATE TABLE bank_right (id int PRIMARY KEY, balance int);
    CREATE TABLE bank_transfers (step int, amount int);
    INSERT INTO bank_left SELECT i, {BALANCE} FROM generate_series(0, {ACCOUNTS - 1}) i;
    INSERT INTO bank_right SELECT i, {BALANCE} FROM generate_series(0, {ACCOUNTS - 1}) i;
    CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
    CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
    CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
    CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
    INSERT INTO pgbench_branches VALUES (1, 0);
    INSERT INTO pgbench_tellers SELECT i, 1, 0 FROM generate_series(1, 10) i;
    INSERT INTO pgbench_accounts SELECT i, 1, 0, '' FROM generate_series(1, {PGBENCH_ACCOUNTS}) i;
"""
TABLES = (
    "bank_left",
    "bank_right",
    "bank_transfers",
    "pgbench_branches",
    "pgbench_tellers",
    "pgbench_accounts",
    "pgbench_history",
)
# pgbench's own TPC-B-like transaction, over fewer accounts, and sometimes one that moves keys.
PGBENCH = f"""\
\\set aid random(1, {PGBENCH_ACCOUNTS})
\\set tid random(1, 10)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, 1, :aid, :delta, clock_timestamp());
UPDATE pgbench_accounts SET aid = aid + {PGBENCH_ACCOUNTS} WHERE aid = :aid AND :delta > 4500;
DELETE FROM pgbench_accounts WHERE aid = :aid + {PGBENCH_ACCOUNTS} AND :delta < -4500;
END;
"""


class Pgbench:
    """pgbench at a steady rate; it ends with every crash of the server and is started again."""

    def __init__(self, database: Database, folder: Path, rate: int) -> None:
        script = folder / "pgbench.sql"
        script.write_text(PGBENCH)
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


class Bank:
    """The one writer of the bank. A commit whose outcome is unknown is looked up before the next."""

    def __init__(self, database: Database, pause_s: float) -> None:
        self._database, self._pause_s = database, pause_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    def keep_running(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="bank")
            self._thread.start()

    def end(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._transfer_until_the_server_dies()
                except psycopg.OperationalError:
                    self._stop.wait(0.05)
        except BaseException as error:
            self.failure = error

    def _transfer_until_the_server_dies(self) -> None:
        with self._database.connect(connect_timeout=5) as connection:
            row = connection.execute("SELECT coalesce(max(step), -1) + 1 FROM bank_transfers").fetchone()
            assert row is not None
            step = int(row[0])
            while not self._stop.wait(self._pause_s):
                amount, account = 1 + step % 7, step % ACCOUNTS
                with connection.transaction():
                    connection.execute("UPDATE bank_left SET balance = balance - %s WHERE id = %s", (amount, account))
                    connection.execute("UPDATE bank_right SET balance = balance + %s WHERE id = %s", (amount, account))
                    connection.execute("INSERT INTO bank_transfers VALUES (%s, %s)", (step, amount))
                step += 1

"""The bank at the source: its tables, its load, and Postgres' own word of what was committed where.

A transfer locks its accounts and then its lists, each in the order of their ids, so that none waits for two others in
turn; a tenth of them are rolled back, and leave gaps in the ids. Which transfer was committed at which LSN is read from
a second slot with Postgres' own plugin ``test_decoding``: nothing of ours is asked.
"""

from __future__ import annotations

import re

from tests.faults.bank.bank import ACCOUNTS, BALANCE, LISTS, Transfer
from tests.faults.campaign.stage import Play
from tests.fix_postgres import Database
from walbridge.schemas.position import parse_lsn

TABLES = ("accounts", "lists", "transfers")
SCHEMA = f"""
    CREATE TABLE accounts (id int PRIMARY KEY, balance bigint);
    CREATE TABLE lists (id int PRIMARY KEY, items text);
    CREATE TABLE transfers (id bigserial PRIMARY KEY, giver int, taker int, amount int, first_list int,
                            second_list int);
    INSERT INTO accounts SELECT i, {BALANCE} FROM generate_series(1, {ACCOUNTS}) i;
    INSERT INTO lists SELECT i, '' FROM generate_series(1, {LISTS}) i;
"""
SCRIPT = f"""\
\\set a random(1, {ACCOUNTS} - 1)
\\set b random(:a + 1, {ACCOUNTS})
\\set p random(1, {LISTS} - 1)
\\set q random(:p + 1, {LISTS})
\\set amount random(-100, 100)
\\set fails random(1, 10)
BEGIN;
UPDATE accounts SET balance = balance - :amount WHERE id = :a;
UPDATE accounts SET balance = balance + :amount WHERE id = :b;
INSERT INTO transfers VALUES (DEFAULT, :a, :b, :amount, :p, :q) RETURNING id \\gset
UPDATE lists SET items = items || ' ' || :id WHERE id = :p;
UPDATE lists SET items = items || ' ' || :id WHERE id = :q;
\\if :fails = 1
ROLLBACK;
\\else
END;
\\endif
"""


def play(of_lake: str) -> Play:
    return Play(TABLES, SCRIPT, of_lake)


_INSERT = re.compile(r"table public\.transfers: INSERT: (.*)")
_NUMBER = re.compile(r"\]:(-?\d+)")


class TransferLog:
    """Transfers and the ends of their commits, in the order of the WAL."""

    def __init__(self, database: Database, slot: str) -> None:
        self._database, self._slot = database, slot
        self._found: dict[int, tuple[int, Transfer]] = {}
        database.value("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')::text", (slot,))

    def read(self) -> list[tuple[int, Transfer]]:
        """All that are flushed by now. What a crash of the server has it tell again is known by its id."""
        read = "SELECT lsn::text, data FROM pg_logical_slot_get_changes(%s, NULL, NULL, 'include-xids', 'false')"
        with self._database.connect() as connection:
            rows = connection.execute(read.encode(), (self._slot,)).fetchall()
        waiting: list[Transfer] = []
        for lsn, data in rows:
            if found := _INSERT.fullmatch(data):
                waiting.append(Transfer(*map(int, _NUMBER.findall(found[1]))))
            elif data == "COMMIT":
                self._found |= {each.id: (parse_lsn(lsn), each) for each in waiting}
                waiting.clear()
        return sorted(self._found.values(), key=lambda each: each[0])

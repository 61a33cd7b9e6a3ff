"""What the owners of the database do to its tables. No event mends what it broke."""

from __future__ import annotations

from tests.faults.year.year_stage import BUSY, YearStage


def habits(stage: YearStage) -> None:
    """Tables made, altered, renamed, dropped, as their owners do it."""
    with stage.database.connect() as connection:
        for _ in range(25):
            stage.habits.act(connection)


def large_transaction(stage: YearStage) -> None:
    stage.database.execute(
        "CREATE TABLE IF NOT EXISTS large (id bigserial PRIMARY KEY, v text);"
        "INSERT INTO large (v) SELECT repeat('x', i % 90) FROM generate_series(1, 30000) i"
    )


def year_is_closed(stage: YearStage) -> None:
    """History is emptied, accounts are written anew."""
    stage.database.execute("TRUNCATE pgbench_history")
    stage.database.execute(f"VACUUM FULL {BUSY}")


def column_added(stage: YearStage) -> None:
    number = stage.dice.randrange(10**6)
    stage.database.execute(f"ALTER TABLE {BUSY} ADD extra_{number} int DEFAULT {number % 100}")


def values_rewritten(stage: YearStage) -> None:
    stage.database.execute("ALTER TABLE pgbench_tellers ALTER filler TYPE char(84) USING upper(coalesce(filler, 'a'))")


def key_dropped_and_made(stage: YearStage) -> None:
    table = "pgbench_history"
    stage.database.execute(f"ALTER TABLE {table} ADD id bigserial; ALTER TABLE {table} ADD PRIMARY KEY (id)")
    stage.pause(2)
    stage.database.execute(f"ALTER TABLE {table} DROP id")


def transaction_left_open(stage: YearStage) -> None:
    """Somebody goes for lunch: nothing behind it may wait, and what it wrote is rolled back."""
    with stage.database.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(
            "INSERT INTO pgbench_history (tid, bid, aid, delta) SELECT i, 1, i, 0 FROM generate_series(1, 500) i"
        )
        stage.pause(5)


def identity_altered(stage: YearStage) -> None:
    """Full, and back: old rows come whole meanwhile."""
    for identity in ("FULL", "DEFAULT"):
        stage.database.execute(f"ALTER TABLE pgbench_tellers REPLICA IDENTITY {identity}")
        stage.database.execute("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid % 2 = 0")
        stage.pause(1)


def keys_changed(stage: YearStage) -> None:
    """And back: what is a new row of one key is a deleted one of another."""
    for step in (1_000_000, -1_000_000):
        stage.database.execute(f"UPDATE pgbench_tellers SET tid = tid + {step}")


def ddl_told_in_the_stream(stage: YearStage) -> None:
    """Event triggers are made, and tell of a rewrite; then they are taken away."""
    admin = ("--admin-dsn", stage.database.dsn)
    stage.run("init", "--ddl-trigger", "--force", *admin)
    stage.database.execute("ALTER TABLE pgbench_branches ALTER filler TYPE char(88) USING lower(coalesce(filler, 'B'))")
    stage.pause(2)
    stage.run("init", "--no-ddl-trigger", *admin)


def label_renamed(stage: YearStage) -> None:
    """Added, given to rows and called otherwise before anybody can look."""
    number = stage.dice.randrange(10**6)
    execute = stage.database.execute
    execute(
        f"CREATE TYPE mood_{number} AS ENUM ('calm');"
        f"CREATE TABLE moods_{number} (id int PRIMARY KEY, m mood_{number});"
        f"INSERT INTO moods_{number} VALUES (1, 'calm')"
    )
    stage.pause(2)
    execute(f"ALTER TYPE mood_{number} ADD VALUE 'new'")
    execute(f"INSERT INTO moods_{number} VALUES (2, 'new')")
    execute(f"ALTER TYPE mood_{number} RENAME VALUE 'new' TO 'newer'")


def prepared_and_ended_late(stage: YearStage) -> None:
    """Two transactions of another system, of which one is never to be."""
    for gid in ("kept", "void"):
        with stage.database.connect() as connection:
            connection.execute("BEGIN")
            connection.execute("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = %s", [len(gid)])
            connection.execute("INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 1)")
            connection.execute(f"PREPARE TRANSACTION '{gid}'".encode())
        stage.pause(2)
        stage.database.execute(f"{'COMMIT' if gid == 'kept' else 'ROLLBACK'} PREPARED '{gid}'")


def key_widened(stage: YearStage) -> None:
    """Numbers run out. Another day it is made narrow again."""
    is_wide = stage.database.value(
        "SELECT atttypid = 'bigint'::regtype FROM pg_attribute WHERE attrelid = 'pgbench_tellers'::regclass "
        "AND attname = 'tid'"
    )
    stage.database.execute(f"ALTER TABLE pgbench_tellers ALTER tid TYPE {'int' if is_wide else 'bigint'}")


def unlogged_for_a_while(stage: YearStage) -> None:
    """For a bulk load: it is no member of the publication meanwhile."""
    stage.database.execute("CREATE TABLE IF NOT EXISTS loads (id bigserial PRIMARY KEY, v text)")
    stage.pause(2)
    for state in ("UNLOGGED", "LOGGED"):
        stage.database.execute(f"ALTER TABLE loads SET {state}; INSERT INTO loads (v) SELECT generate_series(1, 200)")
        stage.pause(2)

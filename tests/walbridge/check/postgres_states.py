"""States of a server, a role, a publication and its tables, each with the finding that tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from walbridge.check.finding import Severity

TABLE = '"Odd schema"."it""s"'
NAME = 'Odd schema.it"s'
PREPARED = f"""
CREATE SCHEMA "Odd schema";
CREATE TABLE {TABLE} (id int PRIMARY KEY, note text);
CREATE PUBLICATION "Odd ""one" FOR TABLE {TABLE} WITH (publish_via_partition_root);
"""
PUBLICATION = '"Odd ""one"'
ALL = "insert, update, delete, truncate"


@dataclass(frozen=True)
class State:
    """SQL that brings it about, the finding, and the SQL of the remedy that a person runs: all, or one of several.

    ``READER`` stands for the quoted role; ``fill`` for what a person writes in place of dots.
    """

    sql: str
    area: str
    severity: Severity
    text: str
    remedy: str
    run: int | None = None
    fill: Mapping[str, str] = field(default_factory=dict)


ROLE_STATES = {
    "no attribute": State(
        "ALTER ROLE READER NOREPLICATION;",
        "role",
        Severity.ERROR,
        "READER may not replicate",
        "ALTER ROLE READER REPLICATION;",
    ),
    "no SELECT": State(
        f"REVOKE SELECT ON TABLE {TABLE} FROM READER;",
        "role",
        Severity.ERROR,
        f"READER may not read {NAME}",
        f"GRANT SELECT ON TABLE {TABLE} TO READER;",
    ),
    "no USAGE": State(
        'REVOKE USAGE ON SCHEMA "Odd schema" FROM READER;',
        "role",
        Severity.ERROR,
        "READER may not use schema Odd schema",
        'GRANT USAGE ON SCHEMA "Odd schema" TO READER;',
    ),
    "row security": State(
        f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY;",
        "role",
        Severity.ERROR,
        f"row security hides rows of {NAME} from READER",
        "ALTER ROLE READER BYPASSRLS;",
    ),
}
STATES = {
    "publication missing": State(
        f"DROP PUBLICATION {PUBLICATION};",
        "publication",
        Severity.ERROR,
        'publication Odd "one does not exist',
        f"CREATE PUBLICATION {PUBLICATION} FOR TABLE ...; or name its tables in [postgres] publication_tables and "
        "run walbridge init",
        fill={"...": TABLE},
    ),
    "publication empty": State(
        f"ALTER PUBLICATION {PUBLICATION} DROP TABLE {TABLE};",
        "publication",
        Severity.ERROR,
        'publication Odd "one holds no tables',
        f"ALTER PUBLICATION {PUBLICATION} ADD TABLE ...;",
        fill={"...": TABLE},
    ),
    "publication of inserts": State(
        f"ALTER PUBLICATION {PUBLICATION} SET (publish = 'insert, truncate');",
        "publication",
        Severity.ERROR,
        'publication Odd "one does not publish update, delete',
        f"ALTER PUBLICATION {PUBLICATION} SET (publish = '{ALL}');",
    ),
    "each partition by itself": State(
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY HASH (id); "
        "CREATE TABLE leaf PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0); "
        f"ALTER PUBLICATION {PUBLICATION} ADD TABLE parted; "
        f"ALTER PUBLICATION {PUBLICATION} SET (publish_via_partition_root = false);",
        "publication",
        Severity.ADVICE,
        'Odd "one has publish_via_partition_root = false: each partition is a table of its own',
        f"ALTER PUBLICATION {PUBLICATION} SET (publish_via_partition_root = true); before walbridge init",
    ),
    "table without a key, given one": State(
        f'ALTER TABLE {TABLE} DROP CONSTRAINT "it""s_pkey";',
        "tables",
        Severity.ADVICE,
        f"{NAME} has no replica identity: Postgres refuses UPDATE and DELETE of it",
        f"ALTER TABLE {TABLE} ADD PRIMARY KEY (...); or ALTER TABLE {TABLE} REPLICA IDENTITY FULL;",
        0,
        {"...": "id"},
    ),
    "table without a key, given all columns": State(
        f'ALTER TABLE {TABLE} DROP CONSTRAINT "it""s_pkey";',
        "tables",
        Severity.ADVICE,
        f"{NAME} has no replica identity: Postgres refuses UPDATE and DELETE of it",
        f"ALTER TABLE {TABLE} ADD PRIMARY KEY (...); or ALTER TABLE {TABLE} REPLICA IDENTITY FULL;",
        1,
        {"...": "id"},
    ),
    "identity NOTHING": State(
        f"ALTER TABLE {TABLE} REPLICA IDENTITY NOTHING;",
        "tables",
        Severity.ADVICE,
        f"{NAME} has no replica identity: Postgres refuses UPDATE and DELETE of it",
        f"ALTER TABLE {TABLE} REPLICA IDENTITY DEFAULT;",
    ),
    "identity FULL without a key": State(
        f'ALTER TABLE {TABLE} DROP CONSTRAINT "it""s_pkey", REPLICA IDENTITY FULL;',
        "tables",
        Severity.ADVICE,
        f"{NAME} has identity FULL and no key: an update searches the whole lake table",
        f"ALTER TABLE {TABLE} ADD PRIMARY KEY (...);",
        fill={"...": "id"},
    ),
    "row filter": State(
        f"ALTER PUBLICATION {PUBLICATION} SET TABLE {TABLE} WHERE (id > 5);",
        "tables",
        Severity.ERROR,
        f"table {NAME} has a row filter and a replica identity that is not FULL: an UPDATE that moves a row into the "
        "filter is sent as an INSERT without unchanged values of note that are stored out of line",
        f'ALTER TABLE {TABLE} REPLICA IDENTITY FULL; or set [producer] on_unknown_value = "stale": the lake\'s table '
        "is then marked stale when that happens, and the others go on",
    ),
    "partition of another identity": State(
        "CREATE TABLE parted (id int PRIMARY KEY, k int NOT NULL) PARTITION BY RANGE (id); "
        "CREATE TABLE leaf PARTITION OF parted DEFAULT; ALTER TABLE parted REPLICA IDENTITY FULL; "
        f"ALTER PUBLICATION {PUBLICATION} ADD TABLE parted;",
        "tables",
        Severity.ERROR,
        "partition public.leaf has another replica identity than public.parted, through which it is published",
        "ALTER TABLE public.leaf REPLICA IDENTITY FULL;",
    ),
}
SERVER_STATES = {
    "sessions that are never given up": State(
        "ALTER SYSTEM SET wal_sender_timeout = 0; SELECT pg_reload_conf();",
        "server",
        Severity.ADVICE,
        "wal_sender_timeout = 0: after a cut connection the slot stays in use until the server notices",
        "ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf();",
    ),
    "WAL without limit": State(
        "",
        "server",
        Severity.WARNING,
        "max_slot_wal_keep_size = -1: while nobody reads the slot it keeps WAL",
        "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf(); (a slot further behind is then "
        "lost, and a new copy needed); or watch walbridge status",
    ),
    "slots that idle out": State(
        "ALTER SYSTEM SET idle_replication_slot_timeout = '1h'; SELECT pg_reload_conf();",
        "server",
        Severity.ADVICE,
        "idle_replication_slot_timeout = 3600 s: a producer that is stopped for longer loses its slot",
        "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();",
    ),
}

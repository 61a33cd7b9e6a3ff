"""Draws of publications that overlap: filters, lists, operations, all tables, a schema, roots and leaves.

In: a random generator and a server's version. Out: SQL that makes them, tables and a workload whose every table is
written to. Some of what is drawn no server accepts: who runs it leaves that out.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

COLUMNS = "id int, a int NOT NULL, b int, g int {generated}, PRIMARY KEY (id, a)"
SCHEMA = f"""
CREATE SCHEMA s;
CREATE TABLE t ({COLUMNS});
CREATE TABLE s.u ({COLUMNS});
CREATE TABLE p ({COLUMNS}) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (id);
CREATE TABLE s.p21 PARTITION OF p2 FOR VALUES FROM (10) TO (20);
CREATE TABLE p22 PARTITION OF p2 FOR VALUES FROM (20) TO (30);
"""
GENERATED = "GENERATED ALWAYS AS (id * 2) STORED"
TABLES = ("t", "s.u", "p", "p1", "p2", "s.p21", "p22")
WRITTEN = ("t", "s.u", "p")
WRITES = [
    *(f"INSERT INTO {table} (id, a, b) SELECT i, i % 3, 0 FROM generate_series(1, 25) i" for table in WRITTEN),
    *(f"UPDATE {table} SET {change}" for table in WRITTEN for change in (
        "b = id", "a = 1 WHERE a = 0", "a = 0 WHERE a = 2", "id = id + 100 WHERE FALSE", "a = 7 WHERE id = 20")),
    "UPDATE t SET id = id + 30 WHERE id < 6", "UPDATE s.u SET id = id - 30 WHERE id > 20",
    "UPDATE p SET id = 28 WHERE id = 3", "UPDATE p SET id = 2, a = 5 WHERE id = 21",
    *(f"DELETE FROM {table} WHERE id IN (7, 9, 12, 22)" for table in WRITTEN),
]  # fmt: skip
REFILLED = [
    "TRUNCATE t, p",
    *(f"INSERT INTO {table} (id, a, b) VALUES (4, 0, 1), (8, 1, 2), (14, 1, 3), (24, 0, 4)" for table in ("t", "p")),
]
_FILTERS = ("id > 5", "a = 1", "id > 5", "id < 15 AND a = 0", "a IS NULL OR id > 20", "true")
_LISTS = ("(id, a)", "(id, a, b)", "(a, id)", "(id, a, b, g)")
_OPERATIONS = ("insert", "insert, update", "update, delete", "insert, update, delete", "delete, truncate", "truncate")


@dataclass(frozen=True)
class Drawn:
    """``create``: by name."""

    create: dict[str, str]
    writes: tuple[str, ...]


def draw(random: Random, version: int) -> Drawn:
    """Two or three publications, their tables alike enough to overlap."""
    rare = random.choice([0.1, 0.3])
    names = [f"pub_{i}" for i in range(random.choice([2, 2, 3]))]
    focus = random.sample(TABLES, k=random.choice([1, 2, 3]))
    create = {name: f'CREATE PUBLICATION "{name}" {_drawn(random, version, rare, focus)}' for name in names}
    return Drawn(create, tuple([*WRITES, *REFILLED] if random.random() < 0.5 else WRITES))


def _drawn(random: Random, version: int, rare: float, focus: list[str]) -> str:
    via_root = random.random() < 0.6
    options = [f"publish_via_partition_root = {str(via_root).lower()}"]
    if random.random() < rare:
        options.append(f"publish = '{random.choice(_OPERATIONS)}'")
    if version >= 18 and random.random() < rare:
        options.append("publish_generated_columns = stored")
    given = f"WITH ({', '.join(options)})"
    if random.random() < rare:
        return f"FOR ALL TABLES {given}"
    by_schema = random.random() < rare
    tables = [_table(random, table, version, via_root, rare, by_schema) for table in focus if random.random() < 0.9]
    of = ["TABLES IN SCHEMA s"] if by_schema or not tables else []
    return f"FOR {', '.join([*of, *(f'TABLE {each}' for each in tables)])} {given}"


def _table(random: Random, table: str, version: int, via_root: bool, rare: float, by_schema: bool) -> str:
    is_filtered = (via_root or table not in ("p", "p2")) and random.random() < 0.6
    has_list = (via_root or table not in ("p", "p2")) and not by_schema and random.random() < rare
    lists = _LISTS if version >= 18 else _LISTS[:3]
    listed = f" {random.choice(lists)}" if has_list else ""
    return f"{table}{listed}" + (f" WHERE ({random.choice(_FILTERS)})" if is_filtered else "")

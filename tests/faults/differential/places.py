"""What is done with tables as a whole: names, schemas, partitions, publications, types.

In: a scene and a table of it. Out: statements, each with what it means for a copy.
"""

from __future__ import annotations

from tests.faults.differential.statements import OTHER, SAME, Drawn, Scene, Statement
from tests.faults.differential.tables import PARTS, Table

NAMES = tuple(f"t{number}" for number in range(20))
SCHEMAS = ("public", "archive")


_SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|parts|walbridge)' ORDER BY 1"


def _schemas(scene: Scene) -> list[str]:
    return [row[0] for row in scene.connection.execute(_SCHEMAS.encode()).fetchall()]


def new_name(scene: Scene) -> str:
    """One that no table may have."""
    return f"{scene.dice.choice(_schemas(scene))}.{scene.dice.choice(NAMES)}"


def renamed(scene: Scene, table: Table) -> Statement:
    dice = scene.dice
    if dice.random() < 0.3 and not table.is_partition:
        return Statement(
            "set schema", f"ALTER TABLE {table.name} SET SCHEMA {dice.choice(_schemas(scene))}", scene.tree(table)
        )
    others = [each for each in scene.tables if each.namespace == table.namespace and each.oid != table.oid]
    if others and dice.random() < 0.5:
        other = dice.choice(others)
        swap = ((table.bare, "swapped"), (other.bare, table.bare), ("swapped", other.bare))
        text = "; ".join(f"ALTER TABLE {table.namespace}.{old} RENAME TO {new}" for old, new in swap)
        return Statement("swap tables", text, scene.tree(table, other))
    return Statement("rename table", f"ALTER TABLE {table.name} RENAME TO {dice.choice(NAMES)}", scene.tree(table))


def schema_renamed(scene: Scene, table: Table) -> Statement:
    del table
    old = next(each for each in _schemas(scene) if each != "public")
    new = "archive" if old != "archive" else "attic"
    return Statement("rename schema", f"ALTER SCHEMA {old} RENAME TO {new}", frozenset(t.oid for t in scene.tables))


def dropped(scene: Scene, table: Table) -> Statement:
    return Statement("drop table", f"DROP TABLE {table.name} CASCADE", scene.tree(table), OTHER)


def partition_came_or_went(scene: Scene, table: Table) -> Statement | None:
    dice, number = scene.dice, scene.number
    roots = [each for each in scene.tables if each.is_root]
    if not roots:
        return None
    root = dice.choice(roots)
    below = [each for each in scene.tables if root.oid in each.parents]
    start = dice.choice((-100, 40, 120, 160, 200))
    bound = f"FOR VALUES FROM ({start}) TO ({start + dice.choice((20, 40))})"
    name, what = f"{PARTS}.p{number}", dice.random()
    concerned = scene.tree(root)
    if what < 0.25:
        return Statement("make partition", f"CREATE TABLE {name} PARTITION OF {root.name} {bound}", concerned, SAME)
    if what < 0.32:
        text = (
            f"CREATE TABLE {name} PARTITION OF {root.name} {bound} PARTITION BY RANGE (id);"
            f"CREATE TABLE {name}s PARTITION OF {name} DEFAULT"
        )
        return Statement("make partitioned partition", text, concerned, SAME)
    if what < 0.5:
        filled = f"INSERT INTO {name} (id) SELECT i FROM generate_series({start}, {start + 3}) i"
        text = f"CREATE TABLE {name} (LIKE {root.name} INCLUDING ALL); {filled};"
        attach = f"ALTER TABLE {root.name} ATTACH PARTITION {name} {bound}"
        return Statement("attach filled", f"{text} {attach}", concerned, OTHER)
    alone = [each for each in scene.tables if each.namespace == PARTS and not each.is_partition]
    if alone and what < 0.65:
        back = dice.choice(alone)
        text = f"ALTER TABLE {root.name} ATTACH PARTITION {back.name} {bound}"
        return Statement("attach", text, scene.tree(root, back), OTHER)
    if not below:
        return None
    leaf = dice.choice(below)
    if what < 0.8:
        text = f"ALTER TABLE {root.name} DETACH PARTITION {leaf.name}"
        if dice.random() < 0.3:
            return Statement("detach concurrently", f"{text} CONCURRENTLY", concerned, OTHER, alone=True)
        return Statement("detach", text, concerned, OTHER)
    text = f"DROP TABLE {leaf.name}" if what < 0.9 else f"TRUNCATE {leaf.name}"
    return Statement(text.split()[0].lower() + " partition", text, concerned, OTHER)


def type_altered(scene: Scene, table: Table) -> Statement | None:
    del table
    dice, number = scene.dice, scene.number
    labels = scene.connection.execute(
        b"SELECT enumtypid::regtype::text, enumlabel FROM pg_enum ORDER BY 1, enumsortorder"
    ).fetchall()
    a_type, label = dice.choice(labels)
    attributes = [
        row[0]
        for row in scene.connection.execute(
            f"SELECT attname FROM pg_attribute WHERE attrelid = '{PARTS}.pair'::regclass AND NOT attisdropped".encode()
        ).fetchall()
    ]
    pair = f"ALTER TYPE {PARTS}.pair"
    drawn = {
        "rename label": (f"ALTER TYPE {a_type} RENAME VALUE '{label}' TO 'x{number}'", OTHER),
        "add label": (f"ALTER TYPE {a_type} ADD VALUE 'y{number}' BEFORE '{label}'", SAME),
        "add attribute": (f"{pair} ADD ATTRIBUTE {dice.choice(('a', 'b', 'd', 'e'))} text", OTHER),
        "drop attribute": (f"{pair} DROP ATTRIBUTE {dice.choice(attributes)}", OTHER) if len(attributes) > 1 else None,
        "rename attribute": (f"{pair} RENAME ATTRIBUTE {dice.choice(attributes)} TO z{number}", SAME),
        "alter domain": (f"ALTER DOMAIN {PARTS}.amount ADD CHECK (VALUE IS NULL OR VALUE <> -{number + 9999})", SAME),
        "domain default": (f"ALTER DOMAIN {PARTS}.amount SET DEFAULT {number}", SAME),
    }
    kind = dice.choice([*drawn])
    found = drawn[kind]
    return None if found is None else Statement(kind, found[0], _users(scene, found[0].split()[2]), found[1])


def _users(scene: Scene, a_type: str) -> frozenset[int]:
    """Tables with a column of this type, or of arrays of it."""
    query = (
        f"SELECT attrelid::int FROM pg_attribute a JOIN pg_type t ON t.oid = '{a_type}'::regtype "
        "WHERE a.atttypid IN (t.oid, t.typarray) AND NOT a.attisdropped"
    )
    found = {row[0] for row in scene.connection.execute(query.encode()).fetchall()}
    return scene.tree(*(each for each in scene.tables if each.oid in found))


PLACES: tuple[Drawn, ...] = (
    renamed,
    renamed,
    schema_renamed,
    dropped,
    partition_came_or_went,
    partition_came_or_went,
    partition_came_or_went,
    type_altered,
)

"""Every way in which a table is altered, emptied, renamed, taken apart or made anew.

In: a scene and a table of it. Out: statements, each with what it means for a copy.
"""

from __future__ import annotations

from tests.faults.differential.statements import COLUMN_TYPES, OTHER, SAME, UNTOLD, Drawn, Scene, Statement
from tests.faults.differential.tables import PARTS, Column, Table, value

_CONSTANTS = ("int DEFAULT 7", "text DEFAULT 'new'", "boolean NOT NULL DEFAULT true", "numeric(12,4) DEFAULT 1.5")
_VOLATILE = (
    "float8 DEFAULT random()",
    "serial",
    "uuid DEFAULT gen_random_uuid()",
    "timestamptz DEFAULT clock_timestamp()",
)
_WIDER = {
    "character varying(24)": ("varchar(40)", "text"),
    "character varying(40)": ("varchar(60)", "text"),
    "character varying(60)": ("text", "bpchar"),
    "character varying": ("text", "bpchar"),
    "text": ("varchar",),
    "numeric(12,4)": ("numeric(20,4)", "numeric"),
    "numeric(20,4)": ("numeric(40,4)", "numeric"),
    "numeric(40,4)": ("numeric",),
    "timestamp without time zone": ("timestamp(6)", "timestamptz"),
    "timestamp(6) without time zone": ("timestamp",),
    "timestamp with time zone": ("timestamptz(6)", "timestamp"),
    "timestamp(6) with time zone": ("timestamptz",),
}
"""Postgres rewrites no row for these: a copy of one is needless. The owner's ``TimeZone`` is UTC."""
_LONGER = {each: new for each, new in _WIDER.items() if each.startswith(("char", "text"))}
"""Keys of these keep their bytes."""
_CAST = {
    "integer": ("bigint", "numeric", "text", "float8"),
    "bigint": ("numeric(20,4)", "text"),
    "numeric(20,4)": ("text",),
    "integer[]": ("bigint[]",),
    "boolean": ("text",),
    f"{PARTS}.mood": ("text",),
    f"{PARTS}.amount": ("bigint",),
}
"""For these it does, and each value is kept: nobody tells that there was no USING."""

_CHECKED = f"{PARTS}.amount"
"""A domain with a constraint: Postgres rewrites the table, to check the nulls of the rows that are there."""


def column_added(scene: Scene, table: Table) -> Statement:
    dice, name = scene.dice, f"c{scene.dice.randint(1, 9)}"
    what = dice.random()
    if what < 0.4:
        added = dice.choice(COLUMN_TYPES)
        effect = UNTOLD if added == _CHECKED else SAME
    elif what < 0.65:
        added, effect = dice.choice(_CONSTANTS), SAME
    elif what < 0.8:
        added, effect = dice.choice(_VOLATILE), OTHER
    elif what < 0.9:
        added, effect = "int GENERATED ALWAYS AS (id + 1) STORED", OTHER
    else:
        added, effect = f"{PARTS}.mood DEFAULT 'ok'", SAME
    return Statement("add column", f"ALTER TABLE {table.name} ADD {name} {added}", scene.tree(table), effect)


def type_altered(scene: Scene, table: Table) -> Statement | None:
    column = scene.free_column(table)
    if column is None:
        return None
    begun = f"ALTER TABLE {table.name} ALTER {column.name} TYPE"
    if column.type in _WIDER and scene.dice.random() < 0.7:
        new = scene.dice.choice(_WIDER[column.type])
        return Statement("alter type", f"{begun} {new}", scene.tree(table), _effect_of_type(table, column))
    if column.type in _CAST and scene.dice.random() < 0.6:
        new = scene.dice.choice(_CAST[column.type])
        return Statement("alter type, rewriting", f"{begun} {new}", scene.tree(table), UNTOLD)
    using = _using(column)
    return (
        None
        if using is None
        else Statement("alter type using", f"{begun} {column.type} USING {using}", scene.tree(table), OTHER)
    )


def _effect_of_type(table: Table, column: Column) -> str:
    """Postgres makes the key of such a column again, and under FULL and NOTHING nobody tells whether it was away."""
    return UNTOLD if column.is_key and table.identity != "d" else SAME


def _using(column: Column) -> str | None:
    if column.category == "N" and column.base != "boolean":
        return f"({column.name} * 2 + 1)::{column.type}"
    return f"reverse({column.name})::{column.type}" if column.category == "S" else None


def column_dropped(scene: Scene, table: Table) -> Statement | None:
    column = scene.free_column(table)
    if column is None:
        return None
    return Statement("drop column", f"ALTER TABLE {table.name} DROP {column.name}", scene.tree(table), SAME)


def column_renamed(scene: Scene, table: Table) -> Statement | None:
    column = scene.free_column(table)
    if column is None:
        return None
    new = scene.dice.choice(("n", "v", f"c{scene.dice.randint(1, 9)}"))
    text = f"ALTER TABLE {table.name} RENAME {column.name} TO {new}"
    return Statement("rename column", text, scene.tree(table), SAME)


def columns_swapped(scene: Scene, table: Table) -> Statement | None:
    one, other = scene.free_column(table), scene.free_column(table)
    if one is None or other is None or one.name == other.name:
        return None
    names = ((one.name, "x_"), (other.name, one.name), ("x_", other.name))
    text = "; ".join(f"ALTER TABLE {table.name} RENAME {a} TO {b}" for a, b in names)
    return Statement("swap columns", text, scene.tree(table), SAME)


def column_made_again(scene: Scene, table: Table) -> Statement | None:
    column = scene.free_column(table)
    if column is None:
        return None
    new, effect = (column.type, OTHER) if scene.dice.random() < 0.5 else (scene.dice.choice(COLUMN_TYPES), UNTOLD)
    text = f"ALTER TABLE {table.name} DROP {column.name}; ALTER TABLE {table.name} ADD {column.name} {new}"
    return Statement("drop and add column", text, scene.tree(table), effect)


def migrated(scene: Scene, table: Table) -> Statement | None:
    """As frameworks do it: a column beside the old one, filled, that takes its name."""
    column = scene.free_column(table)
    if column is None:
        return None
    name, is_filled = table.name, scene.dice.random() < 0.5
    steps = [
        f"ALTER TABLE {name} ADD x_ {column.type}",
        *([f"UPDATE {name} SET x_ = {value(column, 'id + 5')}"] if is_filled else []),
        f"ALTER TABLE {name} RENAME {column.name} TO y_",
        f"ALTER TABLE {name} RENAME x_ TO {column.name}",
        f"ALTER TABLE {name} DROP y_",
    ]
    return Statement("migrate column", "; ".join(steps), scene.tree(table), UNTOLD if is_filled else OTHER)


_UNSEEN = (
    "ALTER TABLE {0} ALTER id SET STATISTICS 10",
    "ALTER TABLE {0} SET (fillfactor = 90)",
    "ALTER TABLE {0} ADD CHECK (id > -1)",
    "COMMENT ON TABLE {0} IS 'seen'",
    "CREATE INDEX ON {0} (id)",
    "ALTER TABLE {0} ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE {0} ALTER id SET DEFAULT 5",
    "ALTER TABLE {0} ALTER id SET NOT NULL",
    "GRANT SELECT ON {0} TO PUBLIC",
    "CREATE OR REPLACE RULE kept AS ON UPDATE TO {0} WHERE false DO ALSO NOTHING; DROP RULE kept ON {0}",
    "ANALYZE {0}",
)


def unseen(scene: Scene, table: Table) -> Statement:
    return Statement("unseen", scene.dice.choice(_UNSEEN).format(table.name), scene.tree(table), SAME)


_LONG = ("text", "jsonb", "text[]", "integer[]", "character varying")


def rewritten(scene: Scene, table: Table) -> Statement:
    """Without a change of any value."""
    # The TOAST table tells; it goes, too, where the columns that needed it are gone.
    keeps_toast = table.has_toast and any(each.type in _LONG for each in scene.columns(table))
    effect = SAME if keeps_toast and not table.is_partition else UNTOLD
    if scene.dice.random() < 0.3:
        return Statement("vacuum", f"VACUUM {table.name}", scene.tree(table), SAME, alone=True)
    if scene.dice.random() < 0.4:
        return Statement(
            "cluster", f"CLUSTER {table.name} USING {table.bare}_pkey", scene.tree(table), effect, alone=True
        )
    return Statement("vacuum full", f"VACUUM FULL {table.name}", scene.tree(table), effect, alone=True)


def logged(scene: Scene, table: Table) -> Statement | None:
    if table.is_root:
        return None
    what = "LOGGED" if table.persistence == "u" else "UNLOGGED"
    return Statement(f"set {what.lower()}", f"ALTER TABLE {table.name} SET {what}", scene.tree(table), OTHER)


def emptied(scene: Scene, table: Table) -> Statement:
    how = scene.dice.choice(("", "", " CASCADE", " RESTART IDENTITY", " RESTART IDENTITY CASCADE"))
    text, chosen = f"TRUNCATE {table.name}{how}", [table]
    if scene.dice.random() < 0.2:
        chosen.append(scene.dice.choice(scene.tables))
        text = f"TRUNCATE {', '.join(sorted({each.name for each in chosen}))}{how}"
    if "CASCADE" in how:
        chosen = scene.referring(chosen)
    effect = OTHER if any(each.is_partition for each in chosen) else UNTOLD
    return Statement("truncate", text, scene.tree(*chosen), effect)


def emptied_only(scene: Scene, table: Table) -> Statement:
    return Statement("truncate only", f"TRUNCATE ONLY {table.name}", scene.tree(table), UNTOLD)


def referred(scene: Scene, table: Table) -> Statement:
    other = scene.dice.choice(scene.tables)
    text = f"ALTER TABLE {table.name} ADD FOREIGN KEY (id) REFERENCES {other.name} (id) ON DELETE CASCADE NOT VALID"
    return Statement("add foreign key", text, scene.tree(table, other), SAME)


def key_altered(scene: Scene, table: Table) -> Statement:
    name, key = table.name, [each for each in scene.columns(table) if each.is_key]
    constraint = f"(SELECT conname FROM pg_constraint WHERE conrelid = '{name}'::regclass AND contype = 'p')"
    drop = f"DO $$ BEGIN EXECUTE 'ALTER TABLE {name} DROP CONSTRAINT ' || {constraint}; END $$"
    other = scene.free_column(table)
    new = "id" if other is None or scene.dice.random() < 0.6 else f"id, {other.name}"
    add = f"ALTER TABLE {name} ADD PRIMARY KEY ({new})"
    text = add if not key else scene.dice.choice((drop, f"{drop}; {add}"))
    # Under FULL and NOTHING the stream tells no key: rows may have been equal while there was none.
    return Statement("alter key", text, scene.tree(table), UNTOLD)


def key_column_altered(scene: Scene, table: Table) -> Statement | None:
    """In a way that leaves the key what it is."""
    keys = [each for each in scene.columns(table) if each.is_key and each.name != "id" and each.is_local]
    if not keys:
        return None
    column, effect = scene.dice.choice(keys), SAME
    if column.type in _LONGER and scene.dice.random() < 0.5:
        effect = _effect_of_type(table, column)
        text = f"ALTER {column.name} TYPE {scene.dice.choice(_LONGER[column.type])}"
    else:
        text = f"RENAME {column.name} TO {scene.dice.choice(('k', 'l', f'c{scene.dice.randint(1, 9)}'))}"
    return Statement("alter column of the key", f"ALTER TABLE {table.name} {text}", scene.tree(table), effect)


def identified(scene: Scene, table: Table) -> Statement:
    how = scene.dice.choice(("FULL", "FULL", "DEFAULT", "DEFAULT", "NOTHING"))
    text = f"ALTER TABLE {table.name} REPLICA IDENTITY {how}"
    if scene.dice.random() < 0.2:
        index = f"i{scene.number}"
        text = (
            f"ALTER TABLE {table.name} ALTER id SET NOT NULL; CREATE UNIQUE INDEX {index} ON {table.name} (id);"
            f"ALTER TABLE {table.name} REPLICA IDENTITY USING INDEX {index}"
        )
    if table.is_root or (table.is_partition and scene.dice.random() < 0.9):
        below = [each for each in scene.tables if each.oid in scene.tree(table)]
        text = "; ".join(f"ALTER TABLE {each.name} REPLICA IDENTITY {how}" for each in below)
    # An index may be another key than the primary one.
    of_index = "USING INDEX" in text or table.identity == "i"
    return Statement("replica identity", text, scene.tree(table), UNTOLD if of_index else SAME)


def inherited(scene: Scene, table: Table) -> Statement:
    parents = [each for each in scene.tables if each.oid in table.parents and not each.is_root]
    if parents:
        cast_off = f"ALTER TABLE {table.name} NO INHERIT {parents[0].name}"
        return Statement("no inherit", cast_off, scene.tree(table))
    parent = scene.dice.choice(scene.tables)
    return Statement("inherit", f"ALTER TABLE {table.name} INHERIT {parent.name}", scene.tree(table, parent))


ALTERATIONS: tuple[Drawn, ...] = (
    column_added,
    column_added,
    column_added,
    type_altered,
    type_altered,
    column_dropped,
    column_renamed,
    columns_swapped,
    column_made_again,
    migrated,
    unseen,
    rewritten,
    logged,
    emptied,
    emptied,
    emptied_only,
    referred,
    key_altered,
    key_altered,
    key_column_altered,
    key_column_altered,
    identified,
    inherited,
)

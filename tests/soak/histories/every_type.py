"""Columns and keys of types of every kind, with the values at their edges, as histories.

For a server that has the contrib modules and pgvector.
"""

from __future__ import annotations

from tests.soak.histories.histories import History

_EXTENSIONS = "; ".join(
    f"CREATE EXTENSION IF NOT EXISTS {each} SCHEMA public"
    for each in ("hstore", "ltree", "cube", "seg", "isn", "vector", "citext")
)
_TYPES = """
    CREATE TYPE comp AS (a int, b text);
    CREATE DOMAIN dca AS comp[];
    CREATE TYPE md AS ENUM ('sad', 'o''k, "x"');
    CREATE TYPE dr AS RANGE (subtype = text);
    CREATE DOMAIN pos AS int CHECK (VALUE > 0);
    CREATE DOMAIN ad AS pos[];
    CREATE TYPE cc AS (a pos, b text)"""
_COLUMNS = (
    ("public.hstore", '\'a=>1, "b c"=>NULL, "q\\""=>"x\\\\y"\'', "''"),
    ("public.ltree", "'a.b.c'", "''"),
    ("public.cube", "'(1,2),(3,4)'", "'(0)'"),
    ("public.seg", "'1.50 .. 2'", "'~5'"),
    ("public.isbn13", "'978-0-393-04002-9'", "'978-1-4028-9462-6'"),
    ("public.vector(3)", "'[1,2.5,-0]'", "'[0,1e-40,3.4e38]'"),
    ("public.halfvec(3)", "'[1,2,3]'", "'[0,0,65504]'"),
    ("public.sparsevec(5)", "'{1:1.5,3:2}/5'", "'{}/5'"),
    ("text", "'<a>é</a>'", "''"),
    ("pg_lsn", "'FF/FFFFFFFF'", "'0/0'"),
    ("txid_snapshot", "'10:20:10,14,15'", "'10:10:'"),
    ("tsvector", "'a:1A,2 ''b c'''", "''"),
    ("nummultirange", "'{[1.0,2.00),(3,4]}'", "'{}'"),
    ("int[]", "'[2:3]={1,NULL}'", "'{}'"),
    ("dca", "ARRAY[ROW(1,'x,y')::comp]::dca", "'{}'"),
    ("money", "'-12345.67'", "0"),
    ("public.citext", "'MixED'", "''"),
    ("public.citext[]", "'{A,b,NULL}'", "'{}'"),
    ("public.ltree[]", "'{a.b,c}'", "'{}'"),
    ("public.hstore[]", "ARRAY['a=>1'::public.hstore]", "'{}'"),
    ("public.vector[]", "ARRAY['[1,2]'::public.vector]", "'{}'"),
    ("public.lquery", "'a.*{1,2}.c'", "'*'"),
    ("text[]", '\'{"",NULL,"NULL","a\\\\b","q\\""}\'', "'{}'"),
    ("numeric[]", "'{NaN,Infinity,1.00,-0}'", "'{}'"),
    ("bit varying", "''", "'101'"),
    ("macaddr", "'08:00:2b:01:02:03'", "'00:00:00:00:00:00'"),
    ("timetz", "'24:00:00-15:59'", "'00:00:00+15:59'"),
    ("interval", "'-178000000 years 3 mons -4 days -1 us'", "'0'"),
    ("json", '\'{"a" :  1, "a": 2}\'', "'null'"),
    ("jsonb", '\'{"b": 1.0e5, "a": "\\\\u00e9"}\'', "'null'"),
    ("bytea", "'\\x00ff'", "''"),
    ("real", "'1e-45'", "'-0'"),
    ("float8", "'5e-324'", "'-0'"),
    ("date[]", "'{infinity,0044-03-15 BC,5874897-12-31}'", "'{}'"),
    ("timestamptz[]", '\'{-infinity,"294276-12-31 23:59:59.999999+00","0001-01-01 00:00:00+00"}\'', "'{}'"),
    ("md", "'o''k, \"x\"'", "'sad'"),
    ("md[]", "ARRAY['sad',NULL]::md[]", "'{}'"),
    ("dr", "'[,b)'", "'empty'"),
    ("box[]", "'{(1,1),(0,0);(2,2),(1,1)}'", "'{}'"),
    ("pos", "5", "1"),
    ("pos[]", "'{1,2}'", "'{}'"),
    ("ad", "'{1,2}'", "NULL"),
    ("cc", "ROW(1,NULL)::cc", "ROW(NULL,'')::cc"),
)
_KEYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("numeric", ("1.0", "2.00", "-0", "NaN", "1e10", "Infinity")),
    ("float8", ("0", "NaN", "-infinity", "1.5")),
    ("interval", ("1 mon", "2 days", "24:00:00.5")),
    ("jsonb", ('{"a": 1.0}', "[1]", '"x"', "null")),
    ("char(6)", ("a", "b c", "")),
    ("int[]", ("{1,2}", "[2:3]={1,2}", "{}")),
    ("numeric[]", ("{1.0}", "{2.00,NULL}")),
    ("numrange", ("[1.0,2)", "empty", "(,3]")),
    ("tstzrange", ("[2020-01-01,2021-01-01)", "(,infinity)")),
    ("timetz", ("10:00+02", "24:00:00-15:59")),
    ("timestamptz", ("infinity", "2020-01-01 00:00:00.123456+05:30", "0044-03-15 00:00+00 BC")),
    ("bytea", ("\\x", "\\x00ff")),
    ("varbit", ("", "1", "10")),
    ("inet", ("10.0.0.1", "10.0.0.1/8", "::1")),
    ("money", ("-1.50", "2")),
    ("md", ("sad", "o''k, \"x\"")),
    ("tsvector", ("a:1", "''b c''", "")),
    ("pg_lsn", ("0/1", "FFFFFFFF/FFFFFFFF")),
    ("public.citext", ("A", "b")),
    ("public.hstore", ("a=>1", '"x y"=>NULL')),
    ("public.ltree", ("a.b", "a", "")),
    ("comp", ("(1,x)", "(,)", '(2,"a,b")')),
    ("int4multirange", ("{[1,2),[5,6)}", "{}")),
    ("uuid", ("00000000-0000-0000-0000-000000000001",)),
    ("bool", ("t", "f")),
    ('"char"', ("a", "")),
    ("name", ("x", "Y")),
    ("public.cube", ("(1,2)", "(0)")),
    ("public.isbn", ("0-393-04002-X",)),
    ("date", ("infinity", "0001-01-01 BC", "5874897-12-31")),
    ("public.vector", ("[1,2]", "[1,-0]")),
    ("ad", ("{1,2}",)),
    ("xid8", ("5", "18446744073709551615")),
    ("oidvector", ("1 2", "")),
    ("macaddr8", ("08:00:2b:01:02:03:04:05",)),
    ("text", ("NULL", "", "\\N", "a\\tb")),
)
_EQUAL_KEYS = """
    UPDATE k_numeric SET k = 1.000 WHERE k = 1;
    UPDATE k_numeric SET k = 0.00 WHERE k = 0;
    UPDATE k_float8 SET k = '-0' WHERE k = 0;
    UPDATE k_interval SET k = '30 days' WHERE k = '1 mon';
    UPDATE k_jsonb SET k = '{"a": 1.00}' WHERE k = '{"a": 1}';
    UPDATE k_char_6_ SET k = 'a  ' WHERE k = 'a';
    UPDATE k_numeric__ SET k = '{1.00}' WHERE k = '{1}';
    UPDATE k_numrange SET k = '[1,2.0)' WHERE k = '[1,2)';
    UPDATE k_public_citext SET k = 'a' WHERE k = 'A';
    UPDATE k_public_vector SET k = '[1,0]' WHERE k = '[1,-0]'"""
"""Keys that are equal to those before, and print otherwise."""


def of_types() -> list[History]:
    """Each is inserted, copied and copied again."""
    return [_values(), _keys()]


def _values() -> History:
    columns = ", ".join(f"c{number} {name}" for number, (name, _, _) in enumerate(_COLUMNS))
    rows = [
        ", ".join(each) for each in ([a for _, a, _ in _COLUMNS], ["NULL"] * len(_COLUMNS), [b for _, _, b in _COLUMNS])
    ]
    made = [
        _EXTENSIONS,
        _TYPES,
        f"CREATE TABLE t (id int primary key, {columns})",
        f"CREATE TABLE f (id int, {columns})",
        "ALTER TABLE f REPLICA IDENTITY FULL",
        *(f"INSERT INTO t VALUES ({number}, {row})" for number, row in enumerate(rows)),
        "INSERT INTO f SELECT * FROM t",
    ]
    steps = [
        *(f"INSERT INTO t VALUES ({number + 10}, {row})" for number, row in enumerate(rows)),
        "INSERT INTO f SELECT * FROM t",
        "UPDATE f SET id = id + 1",
        "ALTER TABLE t ALTER id TYPE bigint",
        "DELETE FROM f WHERE id > 5",
    ]
    return History("values of every type", ("; ".join(made), *steps))


def _keys() -> History:
    names = {kind: "".join(sign if sign.isalnum() else "_" for sign in kind) for kind, _ in _KEYS}
    made = [_EXTENSIONS, _TYPES]
    for kind, values in _KEYS:
        name, rows = names[kind], ", ".join(f"('{each}', 'v')" for each in values)
        made += [
            f"CREATE TABLE k_{name} (k {kind} primary key, v text)",
            f"CREATE TABLE h_{name} (j int, k {kind}, v text, PRIMARY KEY (j, k))",
            f"INSERT INTO k_{name} VALUES {rows}",
            f"INSERT INTO h_{name} SELECT g, k, v FROM k_{name}, generate_series(1, 3) g",
        ]
    every = names.values()
    steps = [
        "; ".join(f"UPDATE k_{each} SET v = v || '1'; {_rewrite('k', each)}; {_rewrite('h', each)}" for each in every),
        "; ".join(
            f"UPDATE h_{each} SET v = v || '2' WHERE j = 2; UPDATE k_{each} SET v = v || '3'; "
            f"DELETE FROM h_{each} WHERE j = 3"
            for each in every
        ),
        _EQUAL_KEYS,
        "; ".join(f"DELETE FROM k_{each}" for each in list(every)[::2]),
    ]
    return History("keys of every type", ("; ".join(made), *steps))


def _rewrite(table: str, name: str) -> str:
    return f"ALTER TABLE {table}_{name} ALTER v TYPE text USING v || 'r'"

"""Values of every type that has a binary format, as literals: edges by name, random ones by seed.

In: a seed. Out: by type, literals in Postgres' input syntax. Beside the scalars of ``every_type``
(by its own draws) there are the types that travel as text, and containers in one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.integration.binary_draws import (
    any_array,
    any_bits,
    any_box,
    any_cidr,
    any_map,
    any_multirange,
    any_point,
    any_points,
    any_range,
    any_tsquery,
    any_tsvector,
    any_v4,
    any_v6,
    inside,
    integer_range,
    outside,
)
from tests.integration.drawn_values import (
    Draw,
    any_bytea,
    any_float,
    any_integer,
    any_interval,
    any_json,
    any_numeric,
    any_text,
    any_time,
    any_timestamp,
    any_uuid,
    any_zone,
    one_of,
    with_zone,
)
from tests.integration.typed_columns import TypedColumn

TYPES_SQL = """
CREATE TYPE inside AS (n numeric(8,2), t text, f float4, m timestamptz);
CREATE DOMAIN inside_domain AS inside;
CREATE TYPE outside AS (i inside, a inside[], r int4range, d date, v inside_domain, b box[]);
CREATE DOMAIN boxes AS box[];
CREATE DOMAIN one_box AS box;
CREATE TYPE textrange AS RANGE (subtype = text);
CREATE TYPE floatrange AS RANGE (subtype = float8, subtype_diff = float8mi);
CREATE TYPE pairrange AS RANGE (subtype = inside);
"""
EXTENSIONS_SQL = """
CREATE EXTENSION IF NOT EXISTS hstore;
CREATE EXTENSION IF NOT EXISTS citext;
CREATE EXTENSION IF NOT EXISTS ltree;
"""
DOUBLES = tuple(
    sign + text
    for sign in ("", "-")
    for text in (
        *(repr(2.0**n) for n in range(-1074, 1024, 7)), *(f"1e{n}" for n in range(-323, 309)),
        *(f"{digits}e{n}" for digits in ("9", "5", "99999999999999975") for n in range(40)),
        "9007199254740993", "123456789012345678", "0.0001", "0.00001", "999999999999999", "1000000000000000", "0",
    )
)  # fmt: skip
FLOATS = tuple(
    sign + text
    for sign in ("", "-")
    for text in (
        *(repr(2.0**n) for n in range(-149, 128)), *(f"1e{n}" for n in range(-44, 39)), "16777217", "999999", "1000000",
        "3.4028235e38", "1e-45", "8388608.5", "0.0001", "0.00001",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A type with literals of it. ``since``: the oldest server that takes them."""

    sql_type: str
    edges: tuple[str, ...]
    draw: Draw | None = None
    since: int = 14

    @property
    def name(self) -> str:
        return self.sql_type

    def values(self, seed: int, count: int) -> list[str]:
        random = Random(f"{seed} {self.sql_type}")
        return [*self.edges, *((self.draw(random) for _ in range(count)) if self.draw else ())]


_ODD_SCALES = ("numeric(2,-3)", "numeric(3,5)", "numeric(38,-1)")


def cases(columns: tuple[TypedColumn, ...]) -> Iterator[Case]:
    """``columns``: of ``every_type``, whose scalars are taken from there."""
    for column in columns:
        if column.name.startswith(("a_", "n_")) and column.sql_type not in ("mood", '"char"', "interval"):
            yield Case(column.sql_type, column.edges, column.draw, 15 if column.sql_type in _ODD_SCALES else 14)
    yield from _SCALARS
    yield from CONTAINERS
    yield from _OF_EXTENSIONS


_SCALARS = (
    Case("float8", DOUBLES, any_float("<d")),
    Case("float4", FLOATS, any_float("<f")),
    Case("interval", ("0", "1 year 2 mons -3 days 04:05:06.789", "-1 mon +2 days -3.5 h", "1 mon -1 day 1 h",
                      "-13 mons", "-1 year 1 mon", "1 day -00:00:00.000001", "100000 hours", "-178000000 years"),
         any_interval),
    Case("interval", ("178956970 years 7 mons 2147483647 days 2562047788:00:54.775806",), since=15),
    Case("interval", ("infinity", "-infinity"), since=17),
    Case('"char"', tuple("abc,'{\\") + tuple(f"\\{n:03o}" for n in range(1, 128))),
    Case('"char"', tuple(f"\\{n:03o}" for n in range(128, 256)), since=16),
    Case("money", ("0", "-1234567.89", "92233720368547758.07", "-92233720368547758.08", "0.01", "-0.01", "999.99",
                   "1000")),
    Case("inet", ("10.1.2.3/8", "::1", "::", "::ffff:1.2.3.4/128", "::1.2.3.4", "1::", "::2:0", "0:0:1::"), any_v4),
    Case("inet", (), any_v6),
    Case("cidr", ("10.0.0.0/8", "2001:db8::/32", "1.2.3.4", "::1", "0.0.0.0/0"), any_cidr),
    Case("macaddr", ("08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff")),
    Case("macaddr8", ("08:00:2b:01:02:03:04:05",)),
    Case("bit(5)", (), any_bits(5)),
    Case("bit(64)", (), any_bits(64)),
    Case("varbit", ("",), any_bits(None)),
    Case("point", ("(0,-0)", "(1e300,-1.5)"), any_point),
    Case("lseg", (), lambda random: f"[{any_box(random)}]"),
    Case("box", (), any_box),
    Case("line", ("{1,2,3}", "{0,-1,1e15}"), lambda random: f"{{{random.random()},1,{random.randint(-9, 9)}}}"),
    Case("path", (), any_points("({})", 1)),
    Case("path", (), any_points("[{}]", 1)),
    Case("polygon", (), any_points("({})", 1)),
    Case("circle", ("<(1,2),3>",), lambda random: f"<{any_point(random)},{random.random()}>"),
    Case("pg_lsn", ("0/0", "FFFFFFFF/FFFFFFFF", "16/B374D848")),
    Case("xid", ("0", "4294967295")),
    Case("cid", ("0", "4294967295")),
    Case("xid8", ("0", str(2**64 - 1))),
    Case("tid", ("(0,1)", "(4294967295,65535)")),
    Case("int2vector", ("", "1", "-1 2 32767")),
    Case("oidvector", ("", "1", "1 4294967295")),
    Case("pg_snapshot", ("10:20:", "10:20:10,14,15")),
    Case("txid_snapshot", ("10:20:", "10:20:10,14,15")),
    Case("jsonpath", ('$."a b"[*] ? (@ > 1)', "strict $.a")),
    Case("refcursor", ("a", "")),
    Case("tsvector", ("", "'a':1A 'it''s':2", "a b 'c d'"), any_tsvector),
    Case("tsquery", ("", "'a' & !'b'", "!!a", "a <-> (b <-> c)", "(a <-> b) <-> c", "!(a & b) | c",
                     " & ".join("abcd" * 500)), any_tsquery),
    Case("inside_domain", (), inside),
    Case("xml", ("<a/>", "plain", '<?xml version="1.0" encoding="latin1"?><a>é</a>',
                 '<?xml version="1.0" standalone="yes"?><a/>', '<?xml version="1.1"?><a/>')),
)  # fmt: skip
CONTAINERS = (
    Case("int4[]", ("{}", "{{1,2},{3,NULL}}", "[0:1]={1,2}"), any_array(any_integer(30))),
    Case("text[]", (), any_array(any_text(8))),
    Case("float4[]", (), any_array(any_float("<f"))),
    Case("numeric[]", (), any_array(any_numeric(20, 6))),
    Case("timestamptz[]", (), any_array(lambda random: with_zone(any_timestamp(random), random))),
    Case("bytea[]", (), any_array(any_bytea)),
    Case("jsonb[]", (), any_array(any_json)),
    Case("uuid[]", (), any_array(any_uuid)),
    Case("box[]", (), any_array(any_box, ";")),
    Case("boxes", (), any_array(any_box, ";")),
    Case("one_box[]", (), any_array(any_box, ";")),
    Case("int2vector[]", ('{"1 2",NULL}',)),
    Case("timetz[]", (), any_array(lambda random: any_time(random) + any_zone(random))),
    Case("int4range", ("empty", "[1,5)"), integer_range),
    Case("int8range", (), any_range(any_integer(60))),
    Case("numrange", (), any_range(any_numeric(20, 6))),
    Case("daterange", (), any_range(one_of("infinity", "2020-01-01", "0001-01-01 BC"))),
    Case("tsrange", (), any_range(any_timestamp)),
    Case("tstzrange", ('["2024-01-01 00:00:00+05",infinity)',), any_range(any_timestamp)),
    Case("textrange", (), any_range(any_text(8))),
    Case("floatrange", (), any_range(any_float("<d"))),
    Case("pairrange", (), any_range(inside)),
    Case("int4multirange", ("{}", "{[1,3),[5,7)}"), any_multirange(any_integer(20))),
    Case("textmultirange", (), any_multirange(any_text(8))),
    Case("inside", ("(,,,)", '(1,"x, ""y"" \\\\ ()",,infinity)'), inside),
    Case("outside", (), outside),
    Case("outside[]", (), any_array(outside)),
    Case("int4range[]", (), any_array(integer_range)),
    Case("textmultirange[]", (), any_array(any_multirange(any_text(5)))),
)
_OF_EXTENSIONS = (
    Case("hstore", ("", '"a"=>NULL', r'"\\\""=>"=>, \""'), any_map),
    Case("hstore[]", (), any_array(any_map)),
    Case("citext", ("ABC abc",), any_text(20)),
    Case("ltree", ("", "Top.Science.Astronomy_1")),
    Case("lquery", ("*.a|b@*.c{1,2}",)),
    Case("ltxtquery", ("a & b*@ | !c",)),
)
PGVECTOR = (
    Case("vector", ("[0,-0,1]", "[1e-45,3.4028235e38,7.038531e-26,0.1]")),
    Case("halfvec", ("[0,-0,65504]", "[0.1,6e-8]")),
    Case("sparsevec", ("{1:1.5,3:2}/5", "{}/3", "{2:0.1}/16000")),
    Case("vector[]", ('{"[1,2]"}',)),
)

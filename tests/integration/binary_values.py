"""Values of every type that has a binary format, as literals: edges by name, random ones by seed.

In: a seed. Out: by type, literals in Postgres' input syntax. Beside the scalars of ``every_type``
(by its own draws) there are the types that travel as text, and containers in one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.integration.drawn_values import (
    Draw,
    any_bytea,
    any_date,
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
from tests.integration.every_type import TypedColumn, array_literal

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


def any_bits(length: int | None) -> Draw:
    return lambda random: "".join(random.choices("01", k=random.randrange(70) if length is None else length))


def any_v4(random: Random) -> str:
    return ".".join(str(random.choice((0, 255, random.randrange(256)))) for _ in range(4)) + _mask(random, 32)


def any_v6(random: Random) -> str:
    """Zeros often enough that runs of them meet; sometimes what holds an IPv4 address."""
    words = [random.choice((0, 0, 1, 0xFFFF, random.getrandbits(16))) for _ in range(8)]
    zeros = random.choice((0, 0, 5, 6, 7))
    words[:zeros] = [0] * zeros
    if zeros == 5:
        words[5] = 0xFFFF
    return ":".join(f"{word:x}" for word in words) + _mask(random, 128)


def _mask(random: Random, bits: int) -> str:
    return random.choice(("", "", f"/{random.randint(0, bits)}", f"/{bits}"))


def any_cidr(random: Random) -> str:
    bits = random.randint(0, 128)
    address = random.getrandbits(128) >> (128 - bits) << (128 - bits) if bits else 0
    return ":".join(f"{address >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)) + f"/{bits}"


def any_point(random: Random) -> str:
    return f"({_double(random)},{_double(random)})"


def _double(random: Random) -> str:
    return random.choice(("0", "-0", "1e15", "NaN", "Infinity", any_float("<d")(random), repr(random.random())))


def any_points(template: str, least: int) -> Draw:
    def draw(random: Random) -> str:
        return template.format(",".join(any_point(random) for _ in range(random.randint(least, least + 3))))

    return draw


def any_box(random: Random) -> str:
    return f"{any_point(random)},{any_point(random)}"


def any_tsvector(random: Random) -> str:
    def entry() -> str:
        text = any_text(6)(random).replace("\\", "\\\\").replace("'", "''")
        places = ",".join(f"{random.randint(1, 300)}{random.choice('ABCD')}" for _ in range(random.randrange(3)))
        return f"'{text or 'x'}'" + (f":{places}" if places else "")

    return " ".join(entry() for _ in range(random.randrange(5)))


def any_tsquery(random: Random, depth: int = 0) -> str:
    if depth > 4 or random.random() < 0.3:
        text = any_text(4)(random).replace("\\", "\\\\").replace("'", "''")
        marks = random.choice(("", "", ":*", ":A", ":*BD", ":ABCD"))
        return f"'{text or 'x'}'{marks}"
    if random.random() < 0.2:
        return f"!({any_tsquery(random, depth + 1)})"
    operator = random.choice(("&", "|", "<->", "<2>", "<0>"))
    return f"({any_tsquery(random, depth + 1)}) {operator} ({any_tsquery(random, depth + 1)})"


def any_range(draw: Draw) -> Draw:
    """Bounds in their order are what the server insists on: both ends the same value, or one open."""

    def drawn(random: Random) -> str:
        bound = _bound(draw(random))
        return random.choice(("empty", f"[{bound},{bound}]", f"({bound},)", f"[{bound},)", f"(,{bound}]", "(,)"))

    return drawn


def _bound(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def any_multirange(draw: Draw) -> Draw:
    return lambda random: "{" + ",".join(any_range(draw)(random) for _ in range(random.randrange(4))) + "}"


def any_composite(*draws: Draw) -> Draw:
    def draw(random: Random) -> str:
        return "(" + ",".join("" if random.random() < 0.2 else _bound(each(random)) for each in draws) + ")"

    return draw


def any_array(draw: Draw, delimiter: str = ",") -> Draw:
    """Of up to three dimensions, with nulls and lower bounds."""

    def items(random: Random, sizes: list[int]) -> str:
        if sizes:
            return "{" + delimiter.join(items(random, sizes[1:]) for _ in range(sizes[0])) + "}"
        return "NULL" if random.random() < 0.2 else array_literal([draw(random)])[1:-1]

    def drawn(random: Random) -> str:
        sizes = [random.randint(1, 3) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))]
        if not sizes:
            return "{}"
        lowers = [random.choice((1, 1, -2, 5)) for _ in sizes]
        bounds = "".join(f"[{lower}:{lower + size - 1}]" for lower, size in zip(lowers, sizes, strict=True))
        return (f"{bounds}=" if any(lower != 1 for lower in lowers) else "") + items(random, sizes)

    return drawn


def any_map(random: Random) -> str:
    pairs = (f"{_escaped(any_text(5)(random))}=>{_escaped(any_text(9)(random))}" for _ in range(random.randrange(5)))
    return ",".join((*pairs, '"n"=>NULL') if random.random() < 0.3 else pairs)


def _escaped(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_inside = any_composite(
    any_numeric(6, 2), any_text(12), any_float("<f"), lambda random: with_zone(any_timestamp(random), random)
)
_integer_range = any_range(any_integer(20))


def _outside(random: Random) -> str:
    inside = any_array(_inside)
    return any_composite(_inside, inside, _integer_range, any_date, _inside, any_array(any_box, ";"))(random)


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
    Case("inside_domain", (), _inside),
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
    Case("int4range", ("empty", "[1,5)"), _integer_range),
    Case("int8range", (), any_range(any_integer(60))),
    Case("numrange", (), any_range(any_numeric(20, 6))),
    Case("daterange", (), any_range(one_of("infinity", "2020-01-01", "0001-01-01 BC"))),
    Case("tsrange", (), any_range(any_timestamp)),
    Case("tstzrange", ('["2024-01-01 00:00:00+05",infinity)',), any_range(any_timestamp)),
    Case("textrange", (), any_range(any_text(8))),
    Case("floatrange", (), any_range(any_float("<d"))),
    Case("pairrange", (), any_range(_inside)),
    Case("int4multirange", ("{}", "{[1,3),[5,7)}"), any_multirange(any_integer(20))),
    Case("textmultirange", (), any_multirange(any_text(8))),
    Case("inside", ("(,,,)", '(1,"x, ""y"" \\\\ ()",,infinity)'), _inside),
    Case("outside", (), _outside),
    Case("outside[]", (), any_array(_outside)),
    Case("int4range[]", (), any_array(_integer_range)),
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

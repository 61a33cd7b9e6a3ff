"""Values of each kind as literals in Postgres' input syntax: edges by name, and random ones to draw."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

Draw = Callable[[Random], str]


def any_integer(bits: int) -> Draw:
    def draw(random: Random) -> str:
        size = random.randrange(1, bits)
        return str(random.choice((1, -1)) * random.getrandbits(size))

    return draw


def any_float(code: str) -> Draw:
    """Any bits that are no NaN, of which Postgres prints one kind."""

    def draw(random: Random) -> str:
        (value,) = struct.unpack(code, random.randbytes(struct.calcsize(code)))
        if random.random() < 0.3:
            value = round(random.uniform(-1000, 1000), random.randrange(4))
        return "NaN" if value != value else repr(value)

    return draw


def any_numeric(precision: int, scale: int) -> Draw:
    def draw(random: Random) -> str:
        if random.random() < 0.02:
            return "NaN"
        digits = random.randrange(10 ** random.randint(0, precision))
        return f"{random.choice(('', '-'))}{digits}e{-scale}"

    return draw


CHARACTERS = "abcXYZ019 \t\n\r\\\"'{},;:.|()<>éßÅ漢字😀🏳️\u200d\u2028\u00a0\ufeff\x01\x7f\b\f\v"


def any_text(length_max: int) -> Draw:
    def draw(random: Random) -> str:
        length = random.choice((0, 1, 3, random.randrange(length_max + 1)))
        return "".join(random.choices(CHARACTERS, k=min(length, length_max)))

    return draw


def any_bytea(random: Random) -> str:
    return "\\x" + random.randbytes(random.choice((0, 1, random.randrange(60)))).hex()


def any_year(random: Random) -> int:
    return random.choice((random.randint(1, 9999), random.randint(1900, 2100), random.randint(1, 12_000)))


def any_date(random: Random) -> str:
    if random.random() < 0.03:
        return random.choice(("infinity", "-infinity"))
    before_christ = random.random() < 0.03
    year = random.randint(1, 4712) if before_christ else any_year(random)
    return f"{year:04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}{' BC' if before_christ else ''}"


def any_time(random: Random) -> str:
    text = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
    decimals = random.randrange(7)
    return text + (f".{random.randrange(10**decimals):0{decimals}}" if decimals else "")


def any_timestamp(random: Random) -> str:
    day = any_date(random)
    if "infinity" in day:
        return day
    day, _, era = day.partition(" ")
    return f"{day} {any_time(random)} {era}".strip()


def any_zone(random: Random) -> str:
    return f"{random.choice('+-')}{random.randrange(15):02}:{random.choice((0, 15, 30, 45)):02}"


def any_interval(random: Random) -> str:
    parts = random.sample(("years", "mons", "days", "hours", "mins", "secs"), 3)
    return " ".join(f"{random.randint(-500, 500)} {part}" for part in parts)


def any_uuid(random: Random) -> str:
    return random.randbytes(16).hex()


def any_json_value(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(7 if depth < 3 else 5)
    if kind == 5:
        return [any_json_value(random, depth + 1) for _ in range(random.randrange(3))]
    if kind == 6:
        return {any_text(4)(random): any_json_value(random, depth + 1) for _ in range(random.randrange(3))}
    return (None, True, random.randint(-9, 9), random.random(), any_text(8)(random))[kind]


def any_json(random: Random) -> str:
    # Blanks and escapes that json keeps verbatim and jsonb does not.
    ascii_only, indent = random.random() < 0.5, random.choice((None, 1))
    return json.dumps(any_json_value(random), ensure_ascii=ascii_only, indent=indent)


def one_of(*texts: str) -> Draw:
    return lambda random: random.choice(texts)


INTEGER_EDGES = ("0", "1", "-1", "63", "64", "-64", "-65", "127", "128", "8191", "8192", "-8193")
FLOAT_EDGES = ("0", "-0", "NaN", "Infinity", "-Infinity", "1e16", "1e-5", "123456789", "0.1", "-1.5")
DATE_EDGES = (
    "infinity", "-infinity", "0001-01-01", "9999-12-31", "10000-01-01", "0001-12-31 BC", "4713-01-01 BC",
    "5874897-12-31", "1970-01-01", "1969-12-31", "2000-02-29", "1900-03-01", "1582-10-10", "epoch",
)  # fmt: skip
TIMESTAMP_EDGES = (
    "infinity", "-infinity", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00",
    "0001-12-31 23:59:59.999999 BC", "4713-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999",
    "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2000-01-01 00:00:00.000001", "2024-02-29 23:59:59.9",
    "2024-12-31 23:59:60", "2024-05-06 24:00:00", "epoch",
)  # fmt: skip
TEXT_EDGES = (
    "", " ", "NULL", "null", "\\N", "\\", "\\\\", "\t", "\n", "\r\n", "\r", "\b\f\v", '"', "'", "{}", "{,}", ",",
    "é", "😀", "🏳️\u200d🌈", "\u2028", "a\u0300", "\U0010ffff", "\ufffd", "\x01", "\x7f", "\\x00", "\\.", "x" * 4095,
    "x" * 4096, "long " * 3000,
)  # fmt: skip
SHORT_TEXT_EDGES = tuple(text for text in TEXT_EDGES if len(text) < 30)
JSON_EDGES = (
    "null", "true", "0", "-0.0", "1e400", "[]", "{}", '""', '{"b":1,  "a":[1,2 , null]}', '{"a":1,"a":2}',
    '"\\u00e9 \\ud83d\\ude00"', ' { "x" : "\\"{}\\\\" }\n', "12345678901234567890.12345678901234567890",
)  # fmt: skip


def with_zone(text: str, random: Random) -> str:
    if "infinity" in text:
        return text
    day_and_time, space, era = text.partition(" BC")
    return day_and_time + any_zone(random) + space + era

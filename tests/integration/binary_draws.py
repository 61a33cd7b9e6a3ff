"""Random literals of types that only the binary format's tests draw, and of containers."""

from __future__ import annotations

from random import Random

from tests.integration.drawn_values import (
    Draw,
    any_date,
    any_float,
    any_integer,
    any_numeric,
    any_text,
    any_timestamp,
    with_zone,
)
from tests.integration.typed_columns import array_literal


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


inside = any_composite(
    any_numeric(6, 2), any_text(12), any_float("<f"), lambda random: with_zone(any_timestamp(random), random)
)
integer_range = any_range(any_integer(20))


def outside(random: Random) -> str:
    several = any_array(inside)
    return any_composite(inside, several, integer_range, any_date, inside, any_array(any_box, ";"))(random)

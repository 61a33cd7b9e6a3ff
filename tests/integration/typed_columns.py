"""A column of a type: its edge values and its draws, as literals in Postgres' input syntax; and literals of arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from tests.integration.drawn_values import (
    Draw,
)

Literal = str | None


@dataclass(frozen=True)
class TypedColumn:
    """``edges``: values worth a row of their own, as literals; ``draw`` makes a random one.

    ``under``: of a domain the type under it, else the type itself.
    """

    name: str
    sql_type: str
    edges: tuple[str, ...]
    draw: Draw
    domain_over: str = ""

    @property
    def under(self) -> str:
        return self.domain_over or self.sql_type

    @property
    def digits_max(self) -> int:
        """Of a numeric(p,s): the digits that hold each of its values."""
        precision, scale = map(int, self.under.partition("(")[2].partition(")")[0].split(","))
        return max(precision, scale) if scale >= 0 else precision - scale


def array_literal(items: Iterable[Literal]) -> str:
    """Every element quoted, which array input allows."""
    return "{" + ",".join("NULL" if item is None else quoted(item) for item in items) + "}"


def quoted(item: str) -> str:
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array_of(column: TypedColumn) -> TypedColumn:
    """The array of a scalar column: shapes as edges, elements drawn as the scalar's."""
    first, last = column.edges[0], column.edges[-1]
    edges = (
        "{}",
        "{NULL}",
        array_literal([first]),
        array_literal([first, None, last]),
        array_literal(column.edges),
        f"[0:1]={array_literal([first, last])}",
        f"[2:2]={array_literal([first])}",
        f"{{{array_literal([first, last])},{array_literal([None, last])}}}",
        f"[1:1][-1:0]={{{array_literal([first, last])}}}",
    )

    def draw(random: Random) -> str:
        count = random.choice((0, 1, 2, 5))
        return array_literal(None if random.random() < 0.2 else column.draw(random) for _ in range(count))

    over = f"{column.domain_over}[]" if column.domain_over else ""
    return TypedColumn("array_" + column.name[2:], f"{column.sql_type}[]", edges, draw, over)

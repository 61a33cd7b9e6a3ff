"""A relation that was recorded is not searched for uncertain columns, of which it has none (I8)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.relations.announcements import INT4, TEXT, recorded
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.producer.relations.columns.told_columns import NumberedColumns
from walbridge.producer.relations.columns.uncertain_columns import _is_as_recorded, kinds_at_relation
from walbridge.schemas.pg_types import FIRST_USER_OID

TYPES = st.sampled_from([INT4, TEXT, FIRST_USER_OID + 1])
KINDS = st.sampled_from(["add", "add", "drop", "drop", "rename", "retype", "generate", "value", "tell"])


class Step(NamedTuple):
    """``place``: of the column, modulo their count; ``name``: a new one, where no other column has it."""

    kind: str
    place: int
    type_oid: int
    name: str


STEPS = st.lists(st.builds(Step, KINDS, st.integers(0, 5), TYPES, st.sampled_from("ab")), max_size=10)
TELL, ADD = Step("tell", 0, INT4, "a"), Step("add", 0, INT4, "a")
FIRST = TableFacts("f", (ColumnFacts("id", INT4, -1, 1, False, True, True, None),), 1)


def after(now: TableFacts, step: Step) -> TableFacts:
    """The table in the catalogue."""
    columns, names = now.columns, {each.name for each in now.columns}
    if step.kind == "add" and step.name not in names:
        number = now.attnum_max + 1
        added = ColumnFacts(step.name, step.type_oid, -1, number, True, False, False, None)
        return replace(now, columns=(*columns, added), attnum_max=number)
    if not columns or step.kind in ("add", "tell"):
        return now
    place = step.place % len(columns)
    kept = () if step.kind == "drop" else (altered(columns[place], step, names),)
    return replace(now, columns=(*columns[:place], *kept, *columns[place + 1 :]))


def altered(one: ColumnFacts, step: Step, names: set[str]) -> ColumnFacts:
    if step.kind == "rename":
        return replace(one, name=one.name if step.name in names else step.name)
    if step.kind == "retype":
        return replace(one, type_oid=step.type_oid)
    if step.kind == "value":
        return replace(one, missing_value=None if one.missing_value else "1")
    return replace(one, is_generated=True)


def announced(now: TableFacts) -> Relation:
    told = (RelationColumn(False, each.name, each.type_oid, -1) for each in now.columns if not each.is_generated)
    return Relation(16_384, "public", "orders", "f", tuple(told))


@given(STEPS, STEPS)
@example([ADD], [Step("drop", 1, INT4, "a"), ADD])
@settings(max_examples=examples(300), deadline=None)
def test_no_kind_finds_a_column_of_a_relation_that_is_as_it_was_recorded(before: list[Step], since: list[Step]) -> None:
    """Whatever versions there were before it, and whatever came since."""
    now, told = FIRST, []
    for step in [*before, TELL]:
        now = after(now, step)
        if step.kind == "tell":
            told.append((announced(now), now))
    versions, relation = recorded(*told), told[-1][0]
    for step in since:
        now = after(now, step)

    if _is_as_recorded(relation, now, versions):
        numbers = [each.attnum for each in versions[-1].table.columns if each.attnum is not None]
        for kind in (*kinds_at_relation(None), *kinds_at_relation(NumberedColumns(tuple(numbers)))):
            assert kind(relation, now, versions) == []

"""Which casts of ``ALTER TABLE … TYPE`` keep every value of a column: the number or text that it prints. Pure.

In: the types of a table's columns before a command that rewrites it, and the DDL row of that command. Out: whether it
kept all values, and the enums whose labels became text.

Postgres casts numbers to wider ones exactly. It casts to ``text`` and ``varchar`` by what a type prints, where nobody
made a cast that says otherwise (``parse_coerce.c``, ``find_coercion_pathway``); so did the stream, and these types
print the same under any setting. ``json`` keeps the text that it is made of. Arrays are cast element by element.

Not so, and so never here: ``char(n)`` loses its blanks, ``varchar(n)`` may cut some off, ``inet`` gets a mask,
``jsonb`` puts its keys in order, dates and intervals are printed as the session is set that alters the table. Integers
that become decimals or texts have another Avro type, to which no reader of the topic brings them. And arrays of
``real`` with several dimensions stand as texts in topics and lake, with fewer digits than ``double precision`` prints.
"""

from collections.abc import Callable

from walbridge.schemas.ddl_row import DdlRow, Types
from walbridge.schemas.pg_types import BUILTIN_ELEMENTS, TypeFacts

_INT2, _INT4, _INT8, _FLOAT4, _FLOAT8 = 21, 23, 20, 700, 701
_TEXT, _VARCHAR, _UUID, _JSON, _JSONB = 25, 1043, 2950, 114, 3802
_WIDER_INTEGERS = frozenset({(_INT2, _INT4), (_INT2, _INT8), (_INT4, _INT8)})
_WIDER = _WIDER_INTEGERS | {(_FLOAT4, _FLOAT8)}
_TEXTS = frozenset({_TEXT, _VARCHAR})
_PRINTED_ALIKE = frozenset({_UUID, _JSON, _JSONB}) | _TEXTS

Type = tuple[int, int]
"""A type's oid, and its modifier."""
Enums = frozenset[int]
FactsOf = Callable[[int], TypeFacts | None]
NO_ENUMS: Enums = frozenset()


def enums_cast_to_text(before: Types, row: DdlRow, facts_of: FactsOf) -> Enums | None:
    """The enums whose labels a rewrite turned into text, if every column that is there before and after it kept all its
    values; None where a value may have changed.

    Args:
        facts_of: returns the facts of a user type, or None where they are not known.
    """
    was = {number: (of, typmod) for number, of, typmod in before}
    casts = [(was[number], (of, typmod)) for number, of, typmod in row.types if number in was]
    altered = [(old, now) for old, now in casts if old != now]
    # Nothing that is known here explains a rewrite: a column was cast there and back, through a type that nobody knows.
    if all(_are_both_texts(old, now) for old, now in altered):
        return None
    found = [_enums_of_cast(old, now, row.made_casts, facts_of) for old, now in altered]
    kept = [each for each in found if each is not None]
    return NO_ENUMS.union(*kept) if len(kept) == len(found) else None


def may_print_other_numbers(before: Types, now: Types) -> bool:
    """Whether an integer column got a type in which the same bytes may print another number: no row is rewritten for
    that, as from int4 to oid."""
    was = {number: of for number, of, _ in before}
    altered = ((was[number], of) for number, of, _ in now if was.get(number) == _INT4 != of)
    return any(each not in _WIDER for each in altered)


def _are_both_texts(old: Type, now: Type) -> bool:
    return old[0] in _TEXTS and now[0] in _TEXTS


def _enums_of_cast(old: Type, now: Type, made: frozenset[tuple[int, int]] | None, facts_of: FactsOf) -> Enums | None:
    """The enums that the cast of one column turned into text; None where it may change a value. Casts that somebody
    created are ``made``; all others follow Postgres' own rules."""
    if (old[0], now[0]) in _WIDER:
        return NO_ENUMS
    if made is None or (old[0], now[0]) in made:
        return None
    if old[0] in _TEXTS and now[0] == _JSON:
        return NO_ENUMS
    element, element_now = _element(old[0], facts_of), _element(now[0], facts_of)
    if element is None or element_now is None:
        return _enums_printed(old, now, facts_of)
    if (element, element_now) in made:
        return None
    if (element, element_now) in _WIDER_INTEGERS:
        return NO_ENUMS
    return _enums_printed((element, old[1]), (element_now, now[1]), facts_of)


def _enums_printed(old: Type, now: Type, facts_of: FactsOf) -> Enums | None:
    """The same for a cast to text or varchar, which is by what the old type prints. A new length limit may cut it."""
    if now[0] not in _TEXTS or not _has_room(old, now):
        return None
    if old[0] in _PRINTED_ALIKE:
        return NO_ENUMS
    facts = facts_of(old[0])
    return frozenset({old[0]}) if facts is not None and facts.kind == "e" else None


def _has_room(old: Type, now: Type) -> bool:
    return now[1] == -1 or (old[0] == _VARCHAR and -1 < old[1] <= now[1])


def _element(type_oid: int, facts_of: FactsOf) -> int | None:
    if type_oid in BUILTIN_ELEMENTS:
        return BUILTIN_ELEMENTS[type_oid]
    facts = facts_of(type_oid)
    return facts.element_type if facts is not None and facts.kind == "a" else None

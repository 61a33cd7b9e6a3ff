"""The order of a table's key index, as SQL: what to sort by, and which rows come after a given one.

In: the catalogue's row of the index that makes the key. Out: ``ORDER BY`` and conditions that this index
serves without a sort, for any collation, operator class and direction, since operators, collation and
types are those that the catalogue names for the index, each by its schema.

The rows after ``(x, y, z)`` are, in order, those of ``a = x AND b = y AND c after z``, of ``a = x AND b
after y`` and of ``a after x``. Each is one range of the index. A comparison of rows would be one statement,
but Postgres has it for columns of one direction only, and ``OR`` would read again all that has the same ``a``.

Bounds are row values (I10): they travel as a bound parameter into a setting of the transaction, so no
statement has them, and come out of it by ``json_to_record``, which reads a string with the input function
of the type: what the output function wrote means the same again. A cast from text would be the type's own
function, which may mean something else. Source: PostgreSQL manual, "Index Access Method Interface",
``jsonfuncs.c``, ``populate_record_field``.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from walbridge.producer.pgoutput.messages import Field
from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.server_errors import classified
from walbridge.schemas.errors import OperatorError, ProtocolError

BOUND_SETTING = "walbridge.bound"
"""Of the transaction alone: the bound that a condition speaks of, or the keys that are listed, as JSON."""
_DOCUMENT = f"CAST(current_setting('{BOUND_SETTING}') AS json)"

# A string in JSON is a jsonb of its own, so what a jsonb prints is taken as text first. A temporal key (WITHOUT
# OVERLAPS) is a GiST index, which has no order. A key column that may be NULL has rows that come after none.
_KEY = """
    SELECT a.attname::text,
           CASE base.oid WHEN 'pg_catalog.jsonb'::regtype THEN 'text' ELSE format_type(base.oid, -1) END,
           format_type(CASE WHEN taken.typtype = 'p' THEN base.oid ELSE taken.oid END, -1),
           (SELECT quote_ident(n.nspname) || '.' || quote_ident(l.collname) FROM pg_collation l
            JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = i.indcollation[k.number]),
           (i.indoption[k.number] & 2) <> 0, a.attnotnull,
           (SELECT array_agg('OPERATOR(' || quote_ident(n.nspname) || '.' || o.oprname || ')' ORDER BY m.place)
            FROM unnest(CASE WHEN (i.indoption[k.number] & 1) = 0 THEN '{3,5,1}' ELSE '{3,1,5}' END::int2[])
                 WITH ORDINALITY m(strategy, place)
            JOIN pg_amop p ON p.amopfamily = c.opcfamily AND p.amopstrategy = m.strategy
                 AND p.amoplefttype = c.opcintype AND p.amoprighttype = c.opcintype AND p.amoppurpose = 's'
            JOIN pg_operator o ON o.oid = p.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace),
           CASE base.oid WHEN 'pg_catalog.jsonb'::regtype THEN 'text' ELSE format_type(base.oid, base.typmod) END
    FROM pg_class t JOIN pg_index i ON i.indrelid = t.oid
    JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam AND m.amname = 'btree'
    CROSS JOIN LATERAL generate_series(0, i.indnkeyatts - 1) k(number)
    JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[k.number]
    JOIN pg_opclass c ON c.oid = i.indclass[k.number] JOIN pg_type taken ON taken.oid = c.opcintype
    CROSS JOIN LATERAL (
      WITH RECURSIVE under AS (
        SELECT y.oid, y.typtype, y.typbasetype, y.typtypmod, a.atttypmod AS typmod FROM pg_type y
        WHERE y.oid = a.atttypid
        UNION ALL SELECT y.oid, y.typtype, y.typbasetype, y.typtypmod, u.typtypmod FROM pg_type y
                  JOIN under u ON u.typtype = 'd' AND y.oid = u.typbasetype)
      SELECT u.oid, u.typmod FROM under u WHERE u.typtype <> 'd') base
    WHERE t.oid = %s AND i.indisvalid AND i.indislive AND i.indimmediate
    AND CASE t.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
    ORDER BY k.number"""


@dataclass(frozen=True, slots=True)
class Bound:
    """A row's place in the order: the text of each key column. Prints as nothing of it (I10)."""

    values: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, fields: Iterable[Field]) -> "Bound":
        """Of a row's key columns.

        Raises:
            ProtocolError: one has no value.
        """
        return cls(tuple(_text(each) for each in fields))


def _text(field: Field) -> str:
    if not isinstance(field, bytes):
        raise ProtocolError("a key column without a value")
    return field.decode()


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of the index. All but its name is SQL.

    ``value_type`` reads its text: the type under a domain, whose constraints old rows may break.
    ``compared_as``: what the operator class compares. ``follows``: true of a column and what comes before it.
    ``row_type``: with the column's length or precision, which rows that were copied are not held to.
    """

    name: str
    value_type: str
    compared_as: str
    collation: str | None
    nulls_first: bool
    equal: str
    follows: str
    precedes: str
    row_type: str = field(repr=False)

    @property
    def compared(self) -> sql.Composed:
        """The column of the table ``t``, as the index compares it."""
        as_compared = sql.SQL("CAST(t.{} AS {})").format(sql.Identifier(self.name), sql.SQL(self.compared_as))
        return as_compared + sql.SQL(f" COLLATE {self.collation}" if self.collation else "")


def _record_columns(types: Iterable[str]) -> str:
    return ", ".join(f"k{number} {each}" for number, each in enumerate(types))


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The columns of the index, in its order."""

    columns: tuple[KeyColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in the order of a bound's values."""
        return tuple(column.name for column in self.columns)

    @property
    def order_by(self) -> sql.Composed:
        """Behind ``ORDER BY``, of the table ``t``."""
        return sql.SQL(", ").join(
            sql.SQL("{} USING {} NULLS {}").format(
                column.compared, sql.SQL(column.precedes), sql.SQL("FIRST" if column.nulls_first else "LAST")
            )
            for column in self.columns
        )

    @property
    def value_types(self) -> str:
        """SQL: the columns of a record that a bound is read as."""
        return _record_columns(column.value_type for column in self.columns)

    @property
    def row_types(self) -> str:
        """The same for a key that is printed as rows have it."""
        return _record_columns(column.row_type for column in self.columns)

    def ranges_after(self) -> Iterator[sql.Composed]:
        """Conditions on ``t`` whose rows, one condition after the other, are those after the bound."""
        for last in reversed(range(len(self.columns))):
            operators = [column.equal for column in self.columns[:last]] + [self.columns[last].follows]
            yield sql.SQL(" AND ").join(
                sql.SQL("{} {} {}").format(column.compared, sql.SQL(operator), self._bound_value(number))
                for number, (column, operator) in enumerate(zip(self.columns, operators, strict=False))
            )

    def is_listed(self) -> sql.Composed:
        """Condition on ``t``: its key equals one of those that are listed."""
        equalities = sql.SQL(" AND ").join(
            column.compared + sql.SQL(f" {column.equal} CAST(b.k{number} AS {column.compared_as})")
            for number, column in enumerate(self.columns)
        )
        listed = sql.SQL(f"json_to_recordset({_DOCUMENT}) AS b({self.value_types})")
        return sql.SQL("EXISTS (SELECT FROM {} WHERE {})").format(listed, equalities)

    def _bound_value(self, number: int) -> sql.SQL:
        """The server asks for it once a statement, before the first row. Its collation is the other side's."""
        column = self.columns[number]
        record = f"json_to_record({_DOCUMENT}) AS b(k{number} {column.value_type})"
        return sql.SQL(f"(SELECT CAST(b.k{number} AS {column.compared_as}) FROM {record})")


def key_order(connection: SqlConnection, relation_id: int, published: Sequence[str]) -> KeyOrder | None:
    """The order of the index that the key is made of: of the replica identity or, under FULL, the primary key.

    None where there is none, it has no order, or a column of it is not published.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    rows = rows_of(connection, _KEY, (relation_id,))
    if not rows or not all(_is_ordered(*row[-3:-1]) and row[0] in published for row in rows):
        return None
    return KeyOrder(
        tuple(
            KeyColumn(name, value_type, compared_as, collation, nulls_first, equal, follows, precedes, row_type)
            for name, value_type, compared_as, collation, nulls_first, _, (equal, follows, precedes), row_type in rows
        )
    )


def _is_ordered(is_not_null: bool, operators: list[str] | None) -> bool:
    """An operator class of somebody's own may lack operators."""
    return is_not_null and operators is not None and len(operators) == 3


def set_bound(connection: SqlConnection, table: PublishedTable, key: KeyOrder, bound: Bound) -> None:
    """What the conditions of ``ranges_after`` speak of, until the transaction ends.

    Raises:
        OperatorError: Postgres reads the bound as another value than it printed, or not at all: rows would be
            read twice, or never.
        RetryableError: the server is away.
    """
    printed = ", ".join(f"format('%%s', b.k{number})" for number in range(len(key.columns)))
    query = f"SELECT {printed} FROM set_config(%s, %s, true) s(text), json_to_record(CAST(s.text AS json)) AS b("
    try:
        read = connection.execute(
            sql.SQL(query) + sql.SQL(key.value_types.replace("%", "%%")) + sql.SQL(")"),
            (BOUND_SETTING, _json(_fields(bound))),
        ).fetchall()
    except psycopg.DataError:
        read = []
    except psycopg.Error as error:
        raise classified(error) from None
    if read != [bound.values]:
        raise OperatorError(
            f"table {table.qualified_name} has a row whose key Postgres does not read as it prints it, so no copy can "
            "go on after this row",
            remedy="correct the key of that row, which pg_dump could not restore either",
        )


class KeyUnreadable(Exception):
    """Postgres reads one of some texts as no key, or as another one than it prints."""


def printed_keys(connection: SqlConnection, key: KeyOrder, keys: Sequence[Bound]) -> list[Bound]:
    """The keys as rows print them, in their order: ``1.5`` of a numeric(8,3) as ``1.500``.

    Raises:
        KeyUnreadable: one of them.
        RetryableError, OperatorError: the server is away or refuses.
    """
    printed = _printed(connection, key, keys)
    if _printed(connection, key, printed) != printed:
        raise KeyUnreadable
    return printed


def _printed(connection: SqlConnection, key: KeyOrder, keys: Sequence[Bound]) -> list[Bound]:
    columns = ", ".join(f"format('%%s', b.k{number})" for number in range(len(key.columns)))
    types = key.row_types.replace("%", "%%")
    query = f"SELECT {columns} FROM json_to_recordset(CAST(%s AS json)) AS b({types})"
    try:
        rows = connection.execute(query.encode(), (_json([_fields(each) for each in keys]),)).fetchall()
    except psycopg.DataError:
        raise KeyUnreadable from None
    except psycopg.Error as error:
        raise classified(error) from None
    return [Bound(row) for row in rows]


def set_listed(connection: SqlConnection, keys: Sequence[Bound]) -> None:
    """What the condition of ``is_listed`` speaks of, until the transaction ends."""
    try:
        connection.execute("SELECT set_config(%s, %s, true)", (BOUND_SETTING, _json([_fields(key) for key in keys])))
    except psycopg.Error as error:
        raise classified(error) from None


def _fields(bound: Bound) -> dict[str, str]:
    return {f"k{number}": value for number, value in enumerate(bound.values)}


def _json(document: object) -> str:
    # Escapes of characters beyond ASCII would be refused by servers whose encoding is not UTF-8.
    return json.dumps(document, ensure_ascii=False)

"""Names of tables as people write them: in settings and after commands.

In: ``schema.table``. Out: its two parts. Unlike SQL, a name without quotes is taken as it is written, capitals
too, since that is how every page and message of walbridge shows it.
"""

import re

from walbridge.schemas.errors import OperatorError

_QUOTED = r'"((?:[^"]|"")+)"'
_NAME = re.compile(rf'(?:{_QUOTED}|([^".][^.]*))\.(?:{_QUOTED}|([^"].*))', re.DOTALL)


def split_name(table: str) -> tuple[str, str]:
    """Schema and name of a table; ``public`` where no schema is given.

    Double quotes are SQL's and hold a name that has a dot: ``"my.schema"."my table"``. Without them the first
    dot ends the schema.

    Raises:
        OperatorError: it names no table.
    """
    found = _NAME.fullmatch(table)
    if found is None and (table.startswith('"') or "." not in table):
        found = _NAME.fullmatch(f"public.{table}")
    if found is None:
        raise OperatorError(
            f"{table!r} names no table",
            remedy='write it as schema.table; quote a part that has a dot or a quote: "my.schema"."my table"',
        )
    quoted_schema, schema, quoted, name = found.groups()
    return (
        quoted_schema.replace('""', '"') if quoted_schema else schema,
        quoted.replace('""', '"') if quoted else name,
    )


def qualified(table: str) -> str:
    """The name as messages show it, ``schema.table`` without quotes.

    Raises:
        OperatorError: it names no table.
    """
    return ".".join(split_name(table))

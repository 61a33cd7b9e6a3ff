"""Tables that cannot come in binary: looked for before a copy, at each start, and by ``walbridge check``.

In: published tables and the catalogue. Out: a refusal for each that has a column whose binary format is
not known. The server itself would fail at the first change of such a table only, and name no table.
"""

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial

from walbridge.producer.encoding.binary.lines import binary_columns
from walbridge.producer.encoding.binary.types import NOT_SENT, TypeReaders
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.binary_types import binary_facts
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.relations.table_description import announced, describe
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings

_BINARY_SINCE = 140000


def type_readers(connection: SqlConnection, settings: Settings) -> TypeReaders | None:
    """Readers of the types in this connection's catalogue; None where binary is not asked for."""
    if not settings.postgres.binary or connection.info.server_version < _BINARY_SINCE:
        return None
    return TypeReaders(partial(binary_facts, connection), connection.info.server_version)


def binary_faults(
    connection: SqlConnection, settings: Settings, tables: Iterable[PublishedTable]
) -> Iterator[OperatorError]:
    """A fault for each table with a column that cannot come in binary format."""
    readers = type_readers(connection, settings)
    if readers is None:
        return
    wanted = list(tables)
    known, _ = catalog.tables_facts(connection, [table.relation_id for table in wanted])
    for table in wanted:
        facts = known.get(table.relation_id)
        if facts is None:
            continue
        try:
            binary_columns(describe(announced(table, facts), facts, {}), readers)
        except OperatorError as fault:
            yield fault


@contextlib.contextmanager
def naming_unreadable(connection: SqlConnection, settings: Settings) -> Iterator[None]:
    """Around a stream: a composite may get a field that the server cannot send, and no Relation tells of it.

    Raises:
        OperatorError: naming table and column, where that is what ended the stream; else what did.
    """
    try:
        yield
    except OperatorError:
        if settings.postgres.binary:
            with contextlib.suppress(RetryableError):
                published = catalog.published_tables(connection, settings.postgres.publication_names)
                for fault in binary_faults(connection, settings, published):
                    if NOT_SENT in fault.what:
                        raise fault from None
        raise


def refuse_unreadable(connection: SqlConnection, settings: Settings, tables: Iterable[PublishedTable]) -> None:
    """Refuse the first of them.

    Raises:
        OperatorError: naming table and column.
    """
    for fault in binary_faults(connection, settings, tables):
        raise fault

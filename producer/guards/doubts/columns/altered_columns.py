"""Tables that may not equal their source because of their columns: older rows may hold values that were never sent.

In: tables as progress remembers them and as they are. Out: by table why it may not equal its source any more; and
tables whose next version has to record the value of older rows first (``added_values.py``).
"""

from collections.abc import Callable, Mapping

from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.errors.tables import column_added_with_values, expression_dropped, labels_changed
from walbridge.producer.guards.doubts.columns import altered_types
from walbridge.producer.guards.doubts.columns.added_values import AddedValues
from walbridge.producer.guards.doubts.columns.dropped_expressions import tables_with_dropped
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableStorage
from walbridge.producer.postgres.storage.used_types import used_types
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings_sections import Postgres


class AlteredColumns:
    """Compares the columns of one session's tables.

    Args:
        name: returns the name of a table.
    """

    def __init__(
        self, settings: Postgres, connection: SqlConnection, tables: Tables, name: Callable[[int], str]
    ) -> None:
        self._publications, self._slot = settings.publication_names, settings.slot
        self._connection, self._name = connection, name
        self._added = AddedValues(self._publications, connection, tables)
        self.seen: Snapshot | None = None
        """The snapshot of the last look at all tables."""

    def compare(
        self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage]
    ) -> tuple[dict[int, OperatorError], set[int]]:
        """Doubts by table; and tables with a new column of which no recorded version has the value of older rows yet.

        Raises:
            RetryableError, OperatorError: the server is away or refuses.
        """
        filled, untold = self._added.compare(known, found)
        altered = self._with_altered_types(known, found)
        reasons: dict[int, OperatorError] = {each: labels_changed(self._name(each)) for each in altered}
        reasons |= {each: column_added_with_values(self._name(each)) for each in filled}
        dropped = tables_with_dropped(self._connection, known, found, self._publications)
        return reasons | {each: expression_dropped(self._name(each)) for each in dropped}, untold

    def _with_altered_types(self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage]) -> set[int]:
        """Those that got a column of a type that was altered since, before anybody looked at it."""
        new = {each: types for each, now in found.items() if (types := altered_types.new_types(known[each], now))}
        if not new:
            return set()
        return altered_types.altered_tables(new, used_types(self._connection, new, self._slot), self.seen)

"""What the copies' reader is asked for next: the publication, what a table is now, or a chunk of its rows.

In: the tables that are copied and those that are to be. Out: one question at a time, and beside it one for all rows
of a table that no key orders. A table whose copy has begun comes before those that wait for theirs; a copy of which
nothing is left to be read ends.
"""

from collections.abc import Callable

from walbridge.producer.postgres.copy_beside.copy_protocol import TablesWanted, TableWanted
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.reading import PUBLICATION, CopyReading
from walbridge.schemas.settings_sections import Producer


class CopyQuestions:
    """Asks for the copies of one session.

    Args:
        end: told a table whose copy is whole.
    """

    def __init__(self, reading: CopyReading, limits: Producer, end: Callable[[CopiedTable], None]) -> None:
        self._reading, self._limits, self._end = reading, limits, end

    def read_on(self) -> None:
        """Ask for the next range of a table while rows of it wait to enter."""
        for copied in self._reading.copied.values():
            if copied.chunks and copied.is_due and not self._reading.throttled_s and copied.may_read_on:
                self._ask_for_chunk(copied)
                return

    def ask_whole(self) -> None:
        """Ask for all rows of the table that is copied in one piece, if that is due."""
        whole, received = self._reading.whole, self._reading.received
        if whole is not None and whole.is_due and received is not None:
            self._reading.whole_reader.ask(whole.open(received.before()))

    def ask(self) -> None:
        """Ask for what is to be read next, if anything is; a copy that is whole ends instead."""
        if self._reading.to_copy.take_list_due():
            self._reading.ask(PUBLICATION, TablesWanted())
            return
        whole, waits = self._reading.whole, self._reading.after_whole
        for copied in list(self._reading.copied.values()):
            if copied.is_due and copied.state.relation_id not in waits and self._ask_of(copied):
                return
        begun = self._reading.copied.keys() | waits | ({whole.relation_id} if whole is not None else set())
        for relation_id, table in self._reading.to_copy.published.items():
            if relation_id not in begun:
                self._ask_what(table)
                return
        if not self._reading.copied and whole is None:
            self._reading.received = None

    def _ask_of(self, copied: CopiedTable) -> bool:
        """The next question about a table whose copy has begun; False where another table's may come before it."""
        relation_id = copied.state.relation_id
        if copied.state.copy is not None and copied.state.copy.is_whole and not copied.is_altered and copied.writer:
            self._end(copied)
            return False
        table = self._reading.to_copy.published.get(relation_id)
        if copied.chunks:
            if copied.may_read_on and not self._reading.throttled_s:
                self._ask_for_chunk(copied)
            return True  # they enter first
        if copied.found is None or copied.is_altered or (table is not None and copied.is_renamed(table)):
            if table is not None:
                self._ask_what(table)
            return table is not None
        if self._reading.throttled_s:
            return True
        self._ask_for_chunk(copied)
        return True

    def _ask_for_chunk(self, copied: CopiedTable) -> None:
        assert self._reading.received is not None
        wanted = copied.open_chunk(self._reading.received.before(), self._limits)
        self._reading.ask(copied.state.relation_id, wanted)

    def _ask_what(self, table: PublishedTable) -> None:
        self._reading.ask(table.relation_id, TableWanted(table))

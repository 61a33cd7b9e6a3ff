"""What the copies of one session share: the tables that are copied, those that are to be, and the one question whose
answer is due. A table that is read in one piece has a reader of its own: that may take hours, and holds up no other.

In: what is asked, what has come of the answer. Out: the same, to whoever asks next, takes an answer or publishes.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from walbridge.producer.copying.table_record import state_of
from walbridge.producer.copying.visibility import ReceivedTransactions, Snapshot
from walbridge.producer.postgres.copy_beside.copy_protocol import TableFound, Wanted
from walbridge.producer.postgres.copy_beside.copy_reader import CopyReader
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.requested_tables import RequestedTables
from walbridge.producer.session.copies.state.tables_to_copy import TablesToCopy
from walbridge.producer.session.copies.state.waits import CopyWaits
from walbridge.producer.session.copies.state.whole_copy import WholeCopy
from walbridge.schemas.control.table_progress import COPYING, STALE, TableProgress, restarts_each_session

PUBLICATION = 0
"""In place of a relation id: the list of the publication is asked for."""


@dataclass(slots=True)
class CopyReading:
    """``copied``: tables whose copy by chunks has begun, by relation id. ``whole``: that which is copied in one piece.
    ``requested``: what operators ask for. ``asked``: whose answer is due of ``reader``, and ``found`` what it told;
    None where nothing is asked. ``received``: what no snapshot has shown yet, while a table is copied.
    """

    reader: CopyReader
    whole_reader: CopyReader
    copied: dict[int, CopiedTable]
    to_copy: TablesToCopy
    requested: RequestedTables
    received: ReceivedTransactions | None = None
    asked: int | None = None
    found: TableFound | None = None
    bytes_per_s: int = 0
    """The most that is read of all tables together; 0: no limit."""
    asked_s: float = 0.0
    """When the question was asked whose answer is due, on the monotonic clock."""
    throttled_until_s: float = 0.0
    """No chunk is asked for before this moment of the monotonic clock."""
    whole: WholeCopy | None = None
    after_whole: set[int] = field(default_factory=set)
    """Tables that are to be copied in one piece too, once that one is."""
    waits: CopyWaits = field(default_factory=CopyWaits)

    @classmethod
    def of(
        cls,
        known: Collection[TableProgress],
        readers: tuple[CopyReader, CopyReader],
        requested: RequestedTables,
        bytes_per_s: int,
    ) -> "CopyReading":
        """That of a session which begins with these tables."""
        begins_anew = {table.relation_id for table in known if restarts_each_session(table)}
        states = (state_of(table) for table in known if table.relation_id not in begins_anew)
        # Single rows of a table that is to be copied as a whole need not be read again.
        copied = {
            s.relation_id: CopiedTable(s)
            for s in states
            if s.state == COPYING or (s.corrects and s.relation_id not in requested.to_copy)
        }
        left_out = {table.relation_id for table in known if table.state == STALE and table.name is not None}
        to_copy = TablesToCopy(left_out | begins_anew | copied.keys() | requested.to_copy)
        return cls(*readers, copied, to_copy, requested, bytes_per_s=bytes_per_s)

    @property
    def table(self) -> CopiedTable | None:
        """That whose answer is due, if its copy has begun."""
        return self.copied.get(self.asked or PUBLICATION)

    @property
    def begun(self) -> dict[int, CopiedTable | WholeCopy]:
        """All tables whose copy has begun."""
        copied = {each: table for each, table in self.copied.items() if not table.state.corrects}
        return {**copied, **({self.whole.relation_id: self.whole} if self.whole is not None else {})}

    def ask(self, relation_id: int, wanted: Wanted) -> None:
        """Its answer is due from here on."""
        self.asked, self.asked_s = relation_id, time.monotonic()
        self.reader.ask(wanted)

    def look(self, snapshot: Snapshot) -> None:
        """Rows are read with this snapshot."""
        if self.received is not None:
            self.received.look(snapshot)

    @property
    def throttled_s(self) -> float:
        """For how long no chunk is to be asked for, so that ``bytes_per_s`` is kept."""
        return max(0.0, self.throttled_until_s - time.monotonic())

    def throttle(self, size_bytes: int, since_s: float) -> None:
        """So many bytes were read since then: the time that reading took counts as well."""
        if self.bytes_per_s:
            self.throttled_until_s = max(self.throttled_until_s, since_s) + size_bytes / self.bytes_per_s

    def end(self) -> None:
        """No answer is due any more: it has been used, or it is void."""
        if self.table is not None:
            self.table.close_unread()
        self.asked = self.found = None
        self.reader.cancel()

    def end_whole(self) -> None:
        """The copy in one piece is over, or void."""
        if self.whole is not None:
            self.whole_reader.cancel()
            self.whole.close()
        self.whole = None
        self.after_whole.clear()

    def forget_listed_rows(self, relation_id: int) -> None:
        """The table is to be copied as a whole: single rows of it need not be read again."""
        copied = self.copied.get(relation_id)
        if copied is None or not copied.state.corrects:
            return
        if self.asked == relation_id:
            self.end()
        copied.close_chunks()
        del self.copied[relation_id]

    def forget(self, relation_id: int) -> None:
        """The table is followed no more: nobody needs a copy that was asked for."""
        self.requested.end(relation_id)
        self.end_copy(relation_id)

    def end_copy(self, relation_id: int) -> None:
        """The table is copied, or rows of it are. A copy that was asked for meanwhile comes next."""
        if (copied := self.copied.pop(relation_id, None)) is not None:
            copied.close_chunks()
        if self.whole is not None and self.whole.relation_id == relation_id:
            self.end_whole()
        self.to_copy.forget(relation_id)
        self.after_whole.discard(relation_id)
        if self.asked == relation_id:
            self.end()
        if relation_id in self.requested.to_copy:
            self.to_copy.retry_now(relation_id)

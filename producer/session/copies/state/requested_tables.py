"""What operators and the lake ask of tables, in one session: copies of some of them, others to be forgotten.

In: requests as they are read. Out: which tables are to be copied, or are in doubt; what progress says of all this, so
that it outlives the session. A request is taken, and what is read is said, in one record of progress: none is lost or
taken twice.

The lake asks for a copy each time that it cannot write a table on. What no copy mends would be copied for ever, so its
requests count among the table's troubles, which outlive this process and the lake's.
"""

import time
from dataclasses import replace

import structlog

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.table_record import state_of, with_state
from walbridge.producer.copying.troubles import is_copied_too_often, with_trouble
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.kafka.table_requests import RequestsRead, TableRequests
from walbridge.schemas.control.progress_record import why_lost
from walbridge.schemas.control.table_progress import COPYING, CURRENT, DROPPED, QUARANTINED, TableProgress
from walbridge.schemas.control.table_request import (
    ALL_TABLES,
    DOUBT,
    FORGET,
    KEYS_BYTES_MAX,
    READ_OPTION,
    TableRequest,
    read_until,
    to_copy,
    to_copy_option,
)
from walbridge.schemas.errors import StreamLost

log = structlog.get_logger()
EPOCH_ASKED = "a new epoch was asked for"


class RequestedTables:
    """``requests``: None where nobody can ask."""

    def __init__(self, tracker: ProgressTracker, watch: SourceWatch, requests: TableRequests | None) -> None:
        self._tracker, self._watch, self._requests = tracker, watch, requests
        self.to_copy = set(to_copy(tracker.progress))
        """Those whose copy was asked for, and has not begun."""
        self._to_correct: set[int] = set()
        self._in_vain: set[int] = set()
        """Those that the lake asks for too often."""

    def take(self) -> set[int]:
        """What to copy of what was asked since the last time.

        Raises:
            StreamLost: all tables, and the session before this one ended for good at a change that is still to come, or
                a new epoch was asked for.
        """
        read = None if self._requests is None else self._requests.take()
        if read is None:
            return set()
        what = why_lost(self._tracker.progress)
        if what is not None and any(each.relation_id == ALL_TABLES for each in read.requests):
            raise StreamLost(what)
        if any((each.kind, each.relation_id) == (DOUBT, ALL_TABLES) for each in read.requests):
            raise StreamLost(EPOCH_ASKED)
        is_first = read_until(self._tracker.progress) is None
        new = {each for request in read.requests for each in self._copies_of(request)}
        self._set(self.to_copy | new)
        self._remember_read(read, {each.relation_id for each in read.requests if each.kind == DOUBT} - new)
        if read.requests or is_first:
            self._watch.now.next_xid()  # WAL: else no cut would tell, where nobody writes
        return new

    def _copies_of(self, request: TableRequest) -> set[int]:
        relation_id, tables = request.relation_id, self._tracker.progress.tables
        known = tables.get(relation_id)
        if request.keys:
            self._list(request, known)
            return set()
        asker = "the lake" if request.by_lake else "an operator"
        log.info(f"request of {asker}", kind=request.kind, relation_id=relation_id)
        if request.kind == FORGET:
            if known is not None and known.state not in (CURRENT, COPYING):
                self._tracker.forget_table(relation_id)
            return set()
        if request.kind == DOUBT:
            return set()
        if relation_id == ALL_TABLES:
            return {each for each, table in tables.items() if table.state not in (COPYING, DROPPED)}
        if request.by_lake and known is not None and not self._may_copy_for_lake(known):
            return set()
        if known is not None and known.state == COPYING:
            # The lake may have lost what was sent of that copy: it asks once, and its end mends nothing then.
            log.info("table is being copied, and is copied again behind that", relation_id=relation_id)
        return {relation_id}

    def _may_copy_for_lake(self, known: TableProgress) -> bool:
        relation_id = known.relation_id
        if known.state == QUARANTINED:
            log.info("table is quarantined: only an operator's request is followed", relation_id=relation_id)
            return False
        counted = with_trouble(known, time.time())
        self._tracker.remember_tables({relation_id: counted})
        if known.state not in (CURRENT, COPYING) or not is_copied_too_often(counted.troubles):
            return True
        self._in_vain.add(relation_id)
        return False

    def _remember_read(self, read: RequestsRead, doubted: set[int]) -> None:
        """A doubt is told by the next cut that ends no transaction in its midst: until then none says that it is read.

        A table whose copy was asked for as well, or goes on, is mended by that. What is read a second time, after a
        kill, changes nothing.
        """
        tables, doubts = self._tracker.progress.tables, self._watch.doubts
        followed = {each for each in doubted if each in tables and tables[each].state == CURRENT}
        in_vain, self._in_vain = self._in_vain - self.to_copy, set()
        option = {READ_OPTION: str(read.next_offset)}
        if followed or in_vain or doubts.remembers_later(READ_OPTION):
            doubts.add_unequal(followed, option)
            doubts.add_copied_in_vain(in_vain, option)
        else:
            self._tracker.remember_options(option)

    def take_to_correct(self) -> set[int]:
        """Tables whose progress lists keys that it did not list before."""
        taken, self._to_correct = self._to_correct, set()
        return taken

    def _list(self, request: TableRequest, known: TableProgress | None) -> None:
        """A table that is copied as a whole needs no single rows."""
        relation_id, count = request.relation_id, len(request.keys)
        log.info("request of an operator", kind="copy of keys", relation_id=relation_id, keys=count)
        if known is None or known.state != CURRENT or relation_id in self.to_copy:
            log.info("keys are not read again: the table is not current, or is to be copied", relation_id=relation_id)
            return
        state = state_of(known).list_keys(self._tracker.end_lsn, request.keys)
        assert state.copy is not None
        if sum(map(len, state.copy.listed)) > KEYS_BYTES_MAX:
            self.refuse(relation_id, "more keys were listed than progress can hold")
            return
        self._tracker.remember_tables({relation_id: with_state(known, state)})
        self._to_correct.add(relation_id)

    def end(self, relation_id: int) -> None:
        """The copy begins with the next records of progress, or nobody needs it any more."""
        self._set(self.to_copy - {relation_id})

    def give_up(self, relation_id: int) -> None:
        """No copy comes of a request, if there is one; its table's record says why. No cut would tell of either where
        nobody writes."""
        if relation_id in self.to_copy:
            self.end(relation_id)
            self._watch.now.next_xid()

    def refuse(self, relation_id: int, why: str) -> None:
        """The table stays as it is: its record says why it was not copied."""
        self.give_up(relation_id)
        known = self._tracker.progress.tables[relation_id]
        self._tracker.remember_tables({relation_id: replace(known, why=f"not copied again: {why}")})

    def _set(self, relation_ids: set[int]) -> None:
        if relation_ids != self.to_copy:
            self.to_copy = relation_ids
            self._tracker.remember_options(to_copy_option(relation_ids))

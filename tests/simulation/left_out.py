"""Runs in which the stream sends changes of a table that was not copied, and what must be true of progress then."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.simulation.broker import Entry
from tests.simulation.history import TABLES, Transaction
from tests.simulation.run import Case, Run
from tests.simulation.world import Violation
from walbridge.schemas.control.progress_record import Progress, read_back
from walbridge.schemas.topics import progress_topic


def without_copy(case: Case, relation_id: int) -> Case:
    """The same where this table came after the copy: no event of it is published, and none takes an ordinal (I4)."""
    assert case.history is not None
    history = [_left_out(transaction, relation_id) for transaction in case.history]
    first = next(t for t in case.history if any(event.relation_id == relation_id for event in t.events))
    copied = tuple(each for each in TABLES if each != relation_id)
    return replace(case, history=history, relation_ids=copied, prepare=_checking(relation_id, first.commit_lsn))


def _left_out(transaction: Transaction, relation_id: int) -> Transaction:
    rest = [event for event in transaction.events if event.relation_id != relation_id]
    return replace(transaction, events=[replace(event, ordinal=n) for n, event in enumerate(rest)])


def _checking(relation_id: int, since: int) -> Callable[[Run], None]:
    def prepare(run: Run) -> None:
        topic, on_commit = progress_topic(run.settings.name), run.broker.on_commit

        def checked(done: dict[tuple[str, int], list[Entry]]) -> None:
            on_commit(done)
            _check(run.broker.log(topic, 0).committed(), run.settings.postgres.slot, relation_id, since)

        run.broker.on_commit = checked

    return prepare


def _check(entries: Sequence[Entry], slot: str, relation_id: int, since: int) -> None:
    """I7: what passes the table's first change says so, in the same Kafka transaction or before."""
    progress: Progress | None = read_back(slot, ((entry.key, entry.value) for entry in reversed(entries)))
    assert progress is not None
    table = progress.tables.get(relation_id)
    if progress.done <= since and (table is None or table.since == since):
        return
    if table is None or (table.state, table.since) != ("stale", since):
        raise Violation(f"I7: {progress.done} is published, and {relation_id} is {table}")

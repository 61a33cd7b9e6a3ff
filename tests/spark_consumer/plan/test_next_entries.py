"""What the next row of ``_cuts`` says of one table, after whatever happened to it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_consumer.events import column, relation
from tests.spark_consumer.plan.cuts import HEAD
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.table_progress import ARCHIVE, CURRENT, QUARANTINED, STALE
from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.next_entries import (
    applied_entry,
    copying_entry,
    entry_in_trouble,
    former_and_others,
    planned_entry,
    without_copy,
)
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy
from walbridge.spark_consumer.plan.plan import SUPERSEDED, Segment, TablePlan
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

KEYED = relation([column("id", "int4", is_key=True)], name="a", relation_id=1)
WIDER = relation([column("id", "int4", is_key=True), column("n", "int4")], name="renamed", relation_id=1)
# A row's schema does not tell its key: here each has an id of its own.
KEYLESS = replace(relation([column("id", "int4")], name="a", relation_id=1), schema_id="keyless")
INSERTS = replace(KEYED, table=replace(KEYED.table, operations=("insert",)), schema_id="archive")
RELATIONS = {each.schema_id: each for each in (KEYED, WIDER, KEYLESS, INSERTS)}
TOPIC, BEGUN, END = KEYED.topic, 500, 900
STATES = [CURRENT, ARCHIVE, "copying", STALE, QUARANTINED, SUPERSEDED]
WHOLE = TableEntry(1, "public", "a", TOPIC, "public/a", 5, KEYED.schema_id, CURRENT, since=200)


def copy_of(of: RelationRecord = KEYED, topic: str = TOPIC) -> PendingCopy:
    return PendingCopy(topic, (CopyShape(BEGUN, -1, of.schema_id),))


def test_a_table_that_is_about_to_be_written_is_named_as_it_is_before_that() -> None:
    """I5: a restart goes back to this version, under this schema."""
    base = replace(HEAD, topic=TOPIC, schema_id=KEYED.schema_id)
    segments = (Segment(0, WIDER.schema_id, None, None),)

    old = planned_entry(TablePlan(1, TOPIC, base, segments, STALE), RELATIONS)
    new = planned_entry(TablePlan(1, TOPIC, None, segments, "copying"), RELATIONS)

    assert (old.version, old.schema_id, old.path, old.name) == (5, KEYED.schema_id, "public/a", "a")
    assert (new.version, new.schema_id, new.path, new.name) == (None, WIDER.schema_id, "", "renamed")
    assert (old.state, new.state) == (STALE, "copying")


def test_a_table_whose_old_schema_is_forgotten_is_named_by_the_one_that_it_gets() -> None:
    base = replace(HEAD, topic=TOPIC, schema_id="forgotten")
    entry = planned_entry(TablePlan(1, TOPIC, base, (Segment(0, WIDER.schema_id, None, None),), CURRENT), RELATIONS)

    assert (entry.name, entry.schema_id) == ("renamed", "forgotten")


@pytest.mark.parametrize("before", [None, *STATES])
@pytest.mark.parametrize(("state", "of"), [(CURRENT, KEYED), (CURRENT, INSERTS), (STALE, INSERTS), ("copying", KEYED)])
def test_a_state_counts_from_the_plan_that_brought_it_on(before: str | None, state: str, of: RelationRecord) -> None:
    """A current table of which not all changes come is an archive; in any other state it is called that."""
    head = replace(HEAD, state=state, schema_id=of.schema_id, topic=TOPIC)
    known = None if before is None else replace(WHOLE, state=before)

    entry = applied_entry(head, known, END, RELATIONS)

    expected = ARCHIVE if (state, of) == (CURRENT, INSERTS) else state
    assert (entry.state, entry.since) == (expected, 200 if before == expected else END)
    assert (entry.version, entry.path, entry.copy_from) == (5, "public/a", None)


COPIED_STATES = {
    CURRENT: (CURRENT, 200),
    ARCHIVE: (ARCHIVE, 200),
    "copying": ("copying", 200),
    STALE: (STALE, 200),
    QUARANTINED: (QUARANTINED, 200),
    SUPERSEDED: (STALE, 200),
}
"""State before its copy → state and LSN while the copy goes on."""


@pytest.mark.parametrize("state", STATES)
def test_a_table_keeps_its_rows_and_its_state_while_it_is_copied_again(state: str) -> None:
    """I8: readers see it as ever; one of an older epoch is not the state of its source, so it is stale."""
    entry = copying_entry(1, copy_of(WIDER), replace(WHOLE, state=state), RELATIONS)

    assert (entry.state, entry.since) == COPIED_STATES[state]
    assert (entry.version, entry.path, entry.copy_from) == (5, "public/a", copy_of(WIDER))
    assert (entry.name, entry.schema_id) == ("renamed", KEYED.schema_id), "its rows have their schema until then"


def test_a_table_that_is_copied_into_another_topic_keeps_its_rows() -> None:
    entry = copying_entry(1, copy_of(topic="p.public.a_2"), WHOLE, RELATIONS)

    assert (entry.topic, entry.state, entry.version) == ("p.public.a_2", CURRENT, 5)


@pytest.mark.parametrize("state", [CURRENT, ARCHIVE])
def test_a_table_without_a_key_is_current_no_more_while_it_is_copied_again(state: str) -> None:
    """I8: its changes wait until its rows are read."""
    entry = copying_entry(1, copy_of(KEYLESS), replace(WHOLE, state=state), RELATIONS)

    assert (entry.state, entry.since, entry.version) == ("copying", BEGUN, 5)


@pytest.mark.parametrize("state", [STALE, QUARANTINED])
def test_a_table_without_a_key_that_was_left_before_its_copy_stays_so(state: str) -> None:
    """It has not been right since the LSN that is told of it, whatever was begun later."""
    entry = copying_entry(1, copy_of(KEYLESS), replace(WHOLE, state=state), RELATIONS)

    assert (entry.state, entry.since) == (state, 200)


@pytest.mark.parametrize(
    "before",
    [None, replace(WHOLE, version=None), replace(WHOLE, state=SUPERSEDED, topic="p.public.other")],
    ids=["nothing", "half a copy", "a table of another epoch that had its number"],
)
def test_a_table_of_which_the_lake_has_no_rows_is_copied_for_the_first_time(before: TableEntry | None) -> None:
    entry = copying_entry(1, copy_of(), before, RELATIONS)

    assert (entry.state, entry.since, entry.version, entry.path) == ("copying", BEGUN, None, "")
    assert (entry.topic, entry.copy_from) == (TOPIC, copy_of())


@pytest.mark.parametrize(("state", "since"), [(CURRENT, BEGUN), (STALE, 200), (QUARANTINED, 200), (SUPERSEDED, 200)])
def test_a_table_that_takes_over_the_topic_of_another_one_has_its_rows_and_is_stale(state: str, since: int) -> None:
    """I8: it was made again under its name. The rows are of the table before, which is called as it was."""
    entry = copying_entry(9, copy_of(WIDER), replace(WHOLE, state=state), RELATIONS)

    assert (entry.relation_id, entry.state, entry.since) == (9, STALE, since)
    assert (entry.name, entry.version) == ("a", 5)


@given(st.dictionaries(st.integers(1, 6), st.sampled_from("uvw")), st.integers(1, 6), st.sampled_from("uvw"))
def test_what_stood_for_a_table_has_its_number_or_else_its_topic(
    topics: dict[int, str], relation_id: int, topic: str
) -> None:
    entries = {each: replace(WHOLE, relation_id=each, topic=of) for each, of in topics.items()}

    before, others = former_and_others(entries, relation_id, topic)

    with_topic = [each for each, of in topics.items() if of == topic]
    assert (before is None) == (relation_id not in topics and not with_topic)
    if before is not None:
        assert before.relation_id == (relation_id if relation_id in topics else with_topic[0])
    assert others.keys() == topics.keys() - {relation_id, *with_topic}


TROUBLE = TableTrouble(1, TOPIC, KEYED.schema_id, TableError("it is damaged"))


@pytest.mark.parametrize("state", STATES)
def test_a_table_in_trouble_is_left_from_where_it_was_right(state: str) -> None:
    """I8: one that was left before has been wrong for longer."""
    entry = entry_in_trouble(TROUBLE, replace(WHOLE, state=state), 700, RELATIONS)

    assert (entry.state, entry.why) == (STALE, "it is damaged")
    assert entry.since == (200 if state in (STALE, QUARANTINED, SUPERSEDED) else 700)
    assert (entry.version, entry.path) == (5, "public/a")


@pytest.mark.parametrize(("schema_id", "name"), [(KEYED.schema_id, "a"), ("unknown", TOPIC)])
def test_a_table_in_trouble_that_the_lake_does_not_know_is_called_by_its_schema_or_its_topic(
    schema_id: str, name: str
) -> None:
    entry = entry_in_trouble(replace(TROUBLE, schema_id=schema_id), None, 700, RELATIONS)

    assert (entry.name, entry.version, entry.since, entry.state) == (name, None, 700, STALE)


@pytest.mark.parametrize("state", STATES)
def test_a_copy_that_is_over_without_its_end_leaves_a_table_that_is_not_current(state: str) -> None:
    """I8: whether it was left inside of the copy, or the copy was given up."""
    copied = replace(WHOLE, state=state, copy_from=copy_of())

    entry = without_copy(copied, END)

    assert entry is not None
    assert entry.copy_from is None
    assert (entry.state, entry.since) == ((STALE, END) if state == "copying" else (state, 200))
    assert without_copy(replace(copied, version=None), END) is None
    assert without_copy(replace(WHOLE, state=state), END) == replace(WHOLE, state=state)

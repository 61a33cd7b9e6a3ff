"""What the job says of one table, done to the letter: the command that readers are told makes it current again.

The job runs over topics in memory and over real Delta tables. What ``walbridge copy`` makes the producer send is
written here; that it does is followed by the tests of real pipelines.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.contract_events import Event, copied, copy_begin, copy_end
from tests.spark_consumer.apply.segment_changes import Rows, changes, segment, table_of
from tests.spark_consumer.apply.test_bags import netted
from tests.spark_consumer.apply.test_reshape import KEYS
from tests.spark_consumer.events import column, relation
from tests.spark_consumer.memory_pipeline import MemoryPipeline, job_over
from tests.spark_consumer.two_tables import ACCOUNTS, Run, begun, cut_rows, history, transfer
from tests.spark_consumer.two_tables import copy_again as accounts_copied
from walbridge.schemas.control.cut import Barrier, Cut, PartitionRange, TableChanges
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, TableError
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.apply.reshape import reshape
from walbridge.spark_consumer.delta.columns import arrow_schema
from walbridge.spark_consumer.delta.commit import SHAPE, Commit
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.fold.shape import TableShape, shape_steps
from walbridge.spark_consumer.kafka.decided_log import RecordsLost, TopicGone
from walbridge.spark_consumer.kafka.plan_reader import other_counts
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.plan.plan import make_plan
from walbridge.spark_consumer.plan.readable_tables import readable_tables

NAME = "harmed"
KEY = column("id", "int4", is_key=True)
KEYED = relation([KEY, column("n", "int4")], name=NAME, relation_id=3)
TEXT = relation([KEY, column("n")], name=NAME, relation_id=3, revision=1)
KEYLESS = relation([column("id", "int4"), column("n", "int4")], name=NAME, relation_id=3)
BAG = relation([column("n", "int4")], name=NAME, identity="f", relation_id=3)
ROW = {"id": 1, "n": 0}
CHANGE = Event(KEYED, "u", 0x2000, 0, after={"id": 1, "n": 1})


@pytest.fixture
def pipeline() -> MemoryPipeline:
    return begun()


@pytest.fixture
def run(pipeline: MemoryPipeline, lake: Path) -> Iterator[Run]:
    with job_over(pipeline, lake) as run:
        yield run


def entry(lake: Path) -> TableEntry:
    (found,) = (each for each in cut_rows(lake)[-1].tables if each.name == NAME or NAME in each.topic)
    return found


def copy_again(pipeline: MemoryPipeline, of: RelationRecord) -> None:
    marker, begin = copy_begin(of, 0x6000)
    pipeline.send(marker, *copied(of, 0x6000, ROW | {"n": None}), barriers=[begin])
    marker, end = copy_end(of, 0x6000)
    pipeline.send(marker, barriers=[end])


def reshaped(pipeline: MemoryPipeline, to: RelationRecord, *, is_told: bool = True) -> None:
    if is_told:
        pipeline.announce(to)
    shape = Barrier("shape", Position(Lsn(0x2000), 0), to.schema_id)
    pipeline.send(Event(to, "c", 0x2000, 1, after={"id": 2}), barriers=[(to, shape)])


def lost(error: TableError) -> Callable[[MemoryPipeline], object]:
    """The records of the plan that has the next change cannot be had."""

    def lose(pipeline: MemoryPipeline) -> None:
        pipeline.lost[KEYED.topic] = error
        pipeline.send(CHANGE)

    return lose


def counted(records: int) -> TableError:
    place = KEYED.topic, 0
    return other_counts({place: PartitionRange(*place, 5, 8, 2)}, {place: (records, 5, 7)})[KEYED.topic]


def unnumbered(of: RelationRecord) -> RelationRecord:
    columns = tuple(replace(each, attnum=None) for each in of.table.columns)
    return replace(of, table=replace(of.table, columns=columns))


def untold_number() -> TableError:
    """Of a column that came while the catalogue knew one of the two no more."""
    old, new = (TableShape(unnumbered(relation([KEY, column(name, "int4")], name=NAME))).fields for name in "ab")
    with pytest.raises(TableError) as refused:
        shape_steps(old, new, f"public.{NAME}")
    return refused.value


def lacking_rows() -> TableError:
    shape = TableShape(BAG)
    gone = Rows(net=[netted(shape, [({"n": 1}, -1)])])
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(Path(folder) / "lake", shape, [])
        with pytest.raises(TableError) as refused:
            changes(table, gone, shape, segment()).apply_row_deltas()
    return refused.value


def key_of_infinities() -> TableError:
    old, new, struct = KEYS["left"]
    before, after = TableShape(relation(old, name=NAME)), TableShape(relation(new, name=NAME, revision=1))
    with tempfile.TemporaryDirectory() as folder:
        table = LakeTable.create(f"{folder}/t", before.fields, Commit("p"), {})
        row = {"id": 1, "_walbridge": {"op": "c", **struct}}
        table.append(pa.Table.from_pylist([row], arrow_schema(table.fields)).to_reader(), Commit("p"))
        with pytest.raises(TableError) as refused:
            reshape(table, after, before, Commit("p", step=SHAPE))
    return refused.value


def of_two_relations() -> TableError:
    both = tuple(TableChanges(number, KEYED.topic, (KEYED.schema_id,), 1, ()) for number in (3, 4))
    cut = Cut(begun().last.epoch, 1, 0x1010, 0x1000, None, None, 1, True, 0, (), both)
    (trouble, *_) = make_plan([(0, cut)], {}, {}).troubles
    return trouble.error


HARM: dict[str, tuple[RelationRecord, Callable[[MemoryPipeline], object], str]] = {
    "a row that it lacks": (
        KEYED,
        lambda of: of.send(Event(KEYED, "u", 0x2000, 0, after={"id": 9, "n": 9})),
        "did not hold what the source changed",
    ),
    "a value that nobody has": (
        TEXT,
        lambda of: of.send(Event(TEXT, "u", 0x2000, 0, after={"id": 9}, unchanged=["n"])),
        "leave out columns of rows that the lake does not hold",
    ),
    "a type that was altered": (KEYED, lambda of: reshaped(of, TEXT), "was int4 and is text now"),
    "a key of other columns": (KEYED, lost(key_of_infinities()), "changed while keys hold values such as infinity"),
    "rows that go too often": (KEYED, lost(lacking_rows()), "loses 1 different rows that the lake does not hold"),
    "a change that names no row": (
        KEYLESS,
        lambda of: of.send(Event(KEYLESS, "u", 0x2000, 0, after=ROW)),
        "whose identity tells no rows apart",
    ),
    "no copy": (KEYED, lambda of: of.send(Event(KEYED, "c", 0x2000, 0, after=ROW)), "holds no copy of"),
    "records that somebody wrote": (KEYED, lost(counted(3)), "its cuts say 2: the topic was changed from outside"),
    "records that are gone": (KEYED, lost(RecordsLost("records are gone")), "records are gone"),
    "a topic that is gone": (KEYED, lost(TopicGone("it is gone")), "it is gone"),
    "a schema that is gone from the metadata": (
        KEYED,
        lambda of: reshaped(of, TEXT, is_told=False),
        "start walbridge produce again, which writes the record again",
    ),
    "a table that takes no more rows": (
        KEYED,
        lambda of: of.send(CHANGE),
        "another program set delta.appendOnly on it",
    ),
    "a column without its number": (KEYED, lost(untold_number()), "may be what a was"),
    "two tables in one topic": (KEYED, lost(of_two_relations()), "records of two relations"),
    "a cut that counts wrongly": (
        KEYED,
        lambda of: of.send(CHANGE, tables=(TableChanges(3, KEYED.topic, (KEYED.schema_id,), 2, ()),)),
        "differently",
    ),
}


@pytest.mark.parametrize("harm", HARM)
def test_table_that_readers_are_refused_is_current_again_once_it_is_copied_as_they_are_told(
    pipeline: MemoryPipeline, run: Run, lake: Path, harm: str
) -> None:
    """I8: and all others go on."""
    of, bring, why = HARM[harm]
    pipeline.announce(of)
    if harm != "no copy":
        pipeline.copy(of, id=1, n=None if of is TEXT else 0)
    run()
    bring(pipeline)
    transfer(pipeline, 1)
    if "no more rows" in harm:
        DeltaTable(f"{lake}/public/{NAME}").alter.set_table_properties({"delta.appendOnly": "true"})
    run()
    with pytest.raises(OperatorError) as refused:
        readable_tables(cut_rows(lake)[-1])
    assert why in refused.value.what
    (command,) = re.findall(r"^copy it again: walbridge copy (\S+);", refused.value.remedy)
    assert command == f"public.{NAME}"
    assert history(lake) == [0, 1]

    pipeline.lost.clear()
    if "metadata" in harm:
        pipeline.announce(TEXT)
    copy_again(pipeline, TEXT if "altered" in harm or "metadata" in harm else of)
    run()

    assert [*readable_tables(cut_rows(lake)[-1])] == ["public.accounts", f"public.{NAME}", "public.history"]
    rows = DeltaTable(f"{lake}/{entry(lake).path}", version=entry(lake).version).to_pyarrow_table()
    assert rows.select(["id", "n"]).to_pylist() == [{"id": 1, "n": None}]


def test_job_that_stops_for_a_table_goes_on_once_it_was_undone_or_the_setting_was_set(
    pipeline: MemoryPipeline, lake: Path
) -> None:
    """I8: both of the ways that the remedy names."""
    folder = lake / "public" / "accounts"
    for undo in (True, False):
        with job_over(pipeline, lake, on_table_error="stop") as run:
            run()
            transfer(pipeline, 1 if undo else 2)
            folder.rename(lake / "elsewhere")
            with pytest.raises(OperatorError, match="is gone") as stopped:
                run()
        (setting, value) = re.findall(r'set \[lake\] (\w+) = "(\w+)"', stopped.value.remedy)[0]
        if undo:
            assert stopped.value.remedy.endswith("; or undo what happened, if that can be, and start again")
            (lake / "elsewhere").rename(folder)
        with job_over(pipeline, lake, **{setting: "stop" if undo else value}) as run:
            run()
    assert stopped.value.remedy.startswith('set [lake] on_table_error = "quarantine" and start again')
    assert f"walbridge copy has copied the table of topic {ACCOUNTS.topic};" in stopped.value.remedy
    with pytest.raises(OperatorError, match=r"public\.accounts is stale"):
        readable_tables(cut_rows(lake)[-1])
    accounts_copied(pipeline, 2)
    with job_over(pipeline, lake, on_table_error="quarantine") as run:
        run()
    assert len(readable_tables(cut_rows(lake)[-1])) == 2

"""What the lake has not applied yet, beside what Kafka still keeps: cuts that fit together, records that are there.

In: the lake's newest rows, the cuts behind them, where logs begin. Out: findings, in the words of the job, which meets
each of these only once it has come so far. Records are the first to go, before the cuts that name them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from walbridge.check.finding import LAKE, Finding, refused, warning
from walbridge.check.lake import is_of_another_copy, newest_two
from walbridge.producer.kafka.client_config import REQUEST_TIMEOUT_S, admin_client
from walbridge.schemas.control.cut import Cut, PartitionId
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import OperatorError, TableError, copy_command
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.errors import cuts_unfit, lake_may_lack_storage, records_gone
from walbridge.spark_consumer.plan.cut_faults import cut_fault
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.table_head import AWAITING_COPY
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

CUTS_MAX = 2_048
"""More are looked at by the job alone; what goes first is named by the oldest."""


def unread_findings(
    settings: Settings,
    progress: Progress | None,
    relations: Iterable[RelationRecord],
    cuts: Callable[[int], Iterable[Cut]],
    starts: Callable[[Collection[PartitionId]], Mapping[PartitionId, int]],
) -> Iterator[Finding]:
    """Of the cuts that come next.

    Args:
        relations: those of the metadata topic, oldest first.
        cuts: those from an offset on.
        starts: where logs begin; of those that tell.
    """
    rows = newest_two(settings)
    if rows and (rows[0].pipeline != settings.name or is_of_another_copy(rows[0], progress)):
        return
    state = LakeState.after(settings.name, next((row for row in rows if row.kind != "plan"), None))
    left = {entry.topic for entry in state.entries.values() if entry.state in AWAITING_COPY}
    wanted = dict(_of_copies(state))
    unfit = None
    for cut in _fitting(state, islice(cuts(state.next_offset), CUTS_MAX)):
        if isinstance(cut, OperatorError):
            unfit = cut
            break
        ids = {table.topic: table.relation_id for table in cut.tables if table.relation_id != MESSAGES_RELATION_ID}
        for part in cut.partitions:
            if part.topic in ids and part.topic not in left:
                wanted.setdefault((part.topic, part.partition), (part.start_offset, ids[part.topic]))
    if wanted:
        yield from _gone(settings, wanted, starts(wanted.keys()), relations, lake_is_empty=not rows)
    if unfit is not None:
        yield refused(LAKE, unfit if rows else lake_may_lack_storage(settings.lake.path, unfit))


def _of_copies(state: LakeState) -> Iterator[tuple[PartitionId, tuple[int, int]]]:
    """Copies that are not in the lake yet are read from their beginning, whatever cuts were passed since."""
    for entry in state.entries.values():
        for part in entry.copy_from.ranges() if entry.copy_from is not None else ():
            yield (part.topic, part.partition), (part.start_offset, entry.relation_id)


def log_starts(settings: Settings, places: Collection[PartitionId]) -> dict[PartitionId, int]:
    """Where each log begins. One whose broker does not say is left out: another check tells why."""
    admin = admin_client(settings)  # held: its answers are lost with it
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    asked = admin.list_offsets(
        {TopicPartition(*place): earliest for place in places}, request_timeout=REQUEST_TIMEOUT_S
    )
    found = {}
    for place, future in asked.items():
        try:
            found[place.topic, place.partition] = int(future.result().offset)
        except KafkaException:
            continue
    return found


def _fitting(state: LakeState, cuts: Iterable[Cut]) -> Iterator[Cut | OperatorError]:
    """The cuts, up to the first that does not follow the one before it, and why."""
    previous, is_first = state.last_cut, True
    for cut in cuts:
        fault = cut_fault(state.in_epoch_of(cut).last_cut if is_first else previous, cut)
        if fault is not None:
            yield cuts_unfit(previous, cut, fault)
            return
        yield cut
        previous, is_first = cut, False


def _gone(
    settings: Settings,
    wanted: Mapping[PartitionId, tuple[int, int]],
    starts: Mapping[PartitionId, int],
    relations: Iterable[RelationRecord],
    *,
    lake_is_empty: bool,
) -> Iterator[Finding]:
    """Once for each topic.

    Args:
        wanted: the first offset that a partition is read from, and the table's relation id.
    """
    names = {record.topic: record.table.qualified_name for record in relations}
    told = set[str]()
    for (topic, partition), (offset, relation_id) in wanted.items():
        start = starts.get((topic, partition), offset)
        if start <= offset or topic in told:
            continue
        told.add(topic)
        lost = TableError(records_gone(topic, partition, offset, start))
        if lake_is_empty:
            yield refused(LAKE, lake_may_lack_storage(settings.lake.path, lost))
        elif settings.lake.on_table_error == "stop":
            trouble = TableTrouble(relation_id, topic, "", lost)
            yield refused(LAKE, OperatorError(lost.what, remedy=trouble.remedy_of_a_stop))
        else:
            name = names.get(topic, topic)
            what = f"table {name} takes no more changes until it is copied again: {lost.what}"
            yield warning(LAKE, what, copy_command(name))

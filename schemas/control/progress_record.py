"""Progress: where one slot stands, the records that a restart believes.

A small record of the slot, written with each cut, and one for each table (``table_progress.py``),
written when it changes; all in the compacted ``<p>.progress``, in the same Kafka transaction as the
events they speak of, the slot's last. They are read back after ``init_transactions``, when no older
instance can write any more. The slot's record says how many tables' there are, so a reader knows
when it has all, and notices one that is gone.

Format 1 had one record for all. It is read as what it says of each table, and format 2 follows it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from walbridge.schemas.avro.codec import decode_control, encode_control
from walbridge.schemas.avro.framing import is_control_record
from walbridge.schemas.control.cut import Epoch
from walbridge.schemas.control.table_progress import (
    COPYING,
    CURRENT,
    DROPPED,
    FORMAT_VERSION,
    STALE,
    TableProgress,
    decode_table,
)
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

OWN_OPTIONS = "walbridge."
"""Prefix of what ``options`` holds besides those of START_REPLICATION: facts to compare at a restart."""
TIMELINE_OPTION = OWN_OPTIONS + "timeline"
"""Where the server stood when last looked at; ``Progress.timeline`` is the epoch's, where the slot was made."""
MESSAGE_PREFIXES_OPTION = OWN_OPTIONS + "message_prefixes"
"""Which logical messages are published: that may not change inside a transaction of which a part is."""
LOST_OPTION = OWN_OPTIONS + "lost"
"""An LSN and a reason: no session can decode some change before that LSN (``lost_option``)."""
_CRASHES_OPTION = OWN_OPTIONS + "lost_in_crashes"
"""Whether the server crashes at that change."""
_YES, _NO = "yes", "no"
METADATA_OPTION = OWN_OPTIONS + "metadata_from"
"""An offset of the metadata topic. Records below it have relation ids of another cluster, which was followed before."""
DDL_OPTION = OWN_OPTIONS + "ddl_publication"
"""The oid of the publication of DDL rows, if the session asked for it."""
PARTITIONS_OPTION = OWN_OPTIONS + "partitions"
"""``[topics] partitions``, as topics of tables with a key were last made or compared."""
COMPACTED_OPTION = OWN_OPTIONS + "compacted"
"""Topics that Kafka compacts, parted by blanks."""
_LAST_COMMIT_OPTION = OWN_OPTIONS + "last_commit"
"""LSN and time of the newest commit record whose transaction is published whole (``last_commit``)."""
_TABLES_OPTION = OWN_OPTIONS + "tables"
"""The number of table records that go with this record. Only in the written form: ``Progress.tables`` has the
tables."""
_EVENTS_OPTION = OWN_OPTIONS + "split_events"
"""``Split.events``, after the split that they were counted for: older code would keep them for another split. Only in
the written form."""
_BEGUN_OPTION = OWN_OPTIONS + "split_begun"
"""``Split.is_begun`` and ``Split.waiting``, after the split that they are of, likewise only in the written form."""
_MEMBERS_1, _LEFT_1 = OWN_OPTIONS + "members", OWN_OPTIONS + "unfollowed"
"""Options of format 1: memberships by relation id, and the ids of tables that were left for a value that is nowhere."""
_LEFT_WHY_1 = "a value of a row was nowhere"
_OF_OPTIONS = frozenset(("events", "is_begun", "waiting"))
"""Fields of ``Split`` that ``options`` holds: the record's schema is frozen."""
_BEGINNING = Lsn(0)


@dataclass(frozen=True, slots=True)
class Split:
    """How much of one Postgres transaction, larger than a Kafka transaction may be, is in Kafka.

    ``hash`` is over the bodies of the first ``messages_done`` changes: Postgres sends the
    transaction again from its beginning, and what is skipped must be what was sent.
    """

    commit_lsn: Lsn
    xid: int
    messages_done: int
    next_ordinal: int
    hash: str
    events: Mapping[int, int] | None = field(default=None, hash=False)
    """By relation id, how many are in Kafka; None where they were not counted."""
    is_begun: bool = False
    """Whether its BEGIN record is in Kafka."""
    waiting: Mapping[int, int] = field(default_factory=dict, hash=False)
    """By relation id, the number of ``events`` that were set aside for the copy of their table."""


@dataclass(frozen=True, slots=True)
class Progress:
    """state: creating → copying → streaming. The LSNs are explained in ARCHITECTURE.md, Words."""

    state: str
    system_id: str
    timeline: int
    slot: str
    database: str
    consistent_point: Lsn | None = None
    cut_id: int = 0
    end_lsn: Lsn = _BEGINNING
    done: Lsn = _BEGINNING
    floor: Lsn = _BEGINNING
    split: Split | None = None
    tables: Mapping[int, TableProgress] = field(default_factory=dict)
    """By relation id."""
    options: dict[str, str] = field(default_factory=dict)
    last_message_lsn: int | None = None
    written_at_us: int = 0
    format_version: int = FORMAT_VERSION

    @property
    def relation_ids(self) -> tuple[int, ...]:
        """The tables whose changes are published: also those that are copied beside the stream."""
        return tuple(each for each, table in self.tables.items() if table.state in (CURRENT, COPYING))

    @property
    def key(self) -> bytes:
        """The Kafka key: the slot's identity."""
        return progress_key(self.slot)

    @property
    def epoch(self) -> Epoch:
        """The epoch of the cuts that go with this record."""
        return Epoch(self.system_id, self.timeline, self.slot, self.consistent_point or 0)


def progress_key(slot: str) -> bytes:
    """The slot name: another server's record under it is found, compared and refused, not overlooked."""
    return slot.encode()


def encode_progress(progress: Progress) -> bytes:
    """The Kafka value of the slot's record."""
    record = {each.name: getattr(progress, each.name) for each in fields(progress) if each.name != "tables"}
    split = progress.split
    record["split"] = split and {
        each.name: getattr(split, each.name) for each in fields(Split) if each.name not in _OF_OPTIONS
    }
    record["options"] = progress.options | {_TABLES_OPTION: str(len(progress.tables))} | _events_option(split)
    return encode_control("Progress", record | {"relation_ids": ()})


def _events_option(split: Split | None) -> dict[str, str]:
    if split is None:
        return {}
    options = {}
    if split.is_begun or split.waiting:
        options[_BEGUN_OPTION] = _counted(split, int(split.is_begun), split.waiting)
    if split.events is not None:
        options[_EVENTS_OPTION] = _counted(split, split.next_ordinal, split.events)
    return options


def _counted(split: Split, number: int, counts: Mapping[int, int]) -> str:
    return " ".join((f"{_place_of(split)}:{number}", *(f"{each}:{count}" for each, count in counts.items())))


def _place_of(split: Split) -> str:
    return f"{split.commit_lsn}/{split.messages_done}"


def _with_events(split: Split, events: str, begun: str) -> Split:
    """The split with its counted events, if these options are of this very split."""
    number, counts = _counts(split, events)
    if number == split.next_ordinal:
        split = replace(split, events=counts)
    number, counts = _counts(split, begun)
    return split if number is None else replace(split, is_begun=bool(number), waiting=counts)


def _counts(split: Split, text: str) -> tuple[int | None, dict[int, int]]:
    """The number that follows the split, and the counts by relation id; None where the text is of another split."""
    counted = {name: int(count) for name, count in pairs(text).items()}
    number = counted.pop(_place_of(split), None)
    return number, {} if number is None else {int(name): count for name, count in counted.items()}


def decode_progress(value: bytes) -> Progress:
    """Decode the value of a slot's record; of format 2 without its tables, which have records of their own.

    Raises:
        ProtocolError: not a progress record, or one of newer code.
    """
    return _decoded(value)[0]


def _decoded(value: bytes) -> tuple[Progress, int]:
    """A record of format 1 with its tables and 0; one of format 2 without tables, but with the number of their
    records."""
    _, record = decode_control(value, ("Progress",))
    if record["format_version"] > FORMAT_VERSION:
        raise ProtocolError(f"progress format {record['format_version']} is newer than {FORMAT_VERSION}")
    relation_ids, options = record.pop("relation_ids"), record["options"]
    split = Split(**record["split"]) if record["split"] else None
    count, events = options.pop(_TABLES_OPTION, ""), options.pop(_EVENTS_OPTION, "")
    begun = options.pop(_BEGUN_OPTION, "")
    try:
        split = split and _with_events(split, events, begun)
        if record["format_version"] < FORMAT_VERSION:
            tables = _tables_of_format_1(record["state"], relation_ids, options)
            return Progress(**(record | {"split": split, "tables": tables})), 0
        return Progress(**(record | {"split": split})), int(count)
    except ValueError as error:
        raise ProtocolError("a progress record whose facts of tables are malformed") from error


def _tables_of_format_1(state: str, relation_ids: list[int], options: dict[str, str]) -> dict[int, TableProgress]:
    """What a record of format 1 says of tables; taken out of its options."""
    members = {int(an_id): token for an_id, token in pairs(options.pop(_MEMBERS_1, "")).items()}
    left = [int(each) for each in options.pop(_LEFT_1, "").split()]
    tables = {each: TableProgress(each, CURRENT, membership=members.get(each)) for each in relation_ids}
    for each in left:
        tables[each] = TableProgress(each, STALE, membership=members.get(each), why=_LEFT_WHY_1)
    # Other members: a copy names what it holds only at its end, and what left the publication is a member no more.
    for each in members.keys() - tables.keys():
        tables[each] = TableProgress(each, DROPPED if state == "streaming" else COPYING, membership=members[each])
    return dict(sorted(tables.items()))


def pairs(text: str) -> dict[str, str]:
    """What an option says as ``name:value``, parted by blanks."""
    return dict(pair.split(":", 1) for pair in text.split())


class TableRecordsMissing(ProtocolError):
    """Records of tables are missing: the topic was cut, which compaction never does. ``progress``: what is there."""

    def __init__(self, what: str, progress: Progress) -> None:
        super().__init__(what)
        self.progress = progress


def read_back(slot: str, newest_first: Iterable[tuple[bytes | None, bytes | None]]) -> Progress | None:
    """The progress of a slot; None where none was ever written.

    Args:
        newest_first: keys and values as the topic has them, from its end. No more are taken than are needed.

    Raises:
        TableRecordsMissing: fewer records of tables are there than must be.
        ProtocolError: a record that this code cannot read.
    """
    progress, wanted = None, 0
    tables: dict[int, TableProgress] = {}
    seen: set[bytes] = set()
    for key, value in newest_first:
        name, _, relation_id = (key or b"").partition(b"/")
        if name != progress_key(slot) or key is None or key in seen or b"/" in relation_id:
            continue  # after a second slash stands what is asked of a table (``table_request.py``)
        if not (is_control_record(value) or (relation_id and value is None)):
            continue  # another program wrote it; what compaction then takes away is missed below
        seen.add(key)
        if not relation_id:
            progress, wanted = _decoded(value or b"")
        elif value is not None:
            tables[int(relation_id)] = decode_table(value)
        if progress is not None and len(tables) >= wanted:
            break
    if progress is None or progress.format_version < FORMAT_VERSION:
        return progress
    progress = replace(progress, tables=dict(sorted(tables.items())))
    if len(tables) < wanted:
        raise TableRecordsMissing(f"{wanted - len(tables)} of the {wanted} records of tables are gone", progress)
    return progress


def lost_option(wal_end: Lsn, what: str, *, is_crash: bool = False) -> dict[str, str]:
    """What progress carries of a stream that ended for good at a change before ``wal_end``."""
    return {LOST_OPTION: f"{wal_end} {what}", _CRASHES_OPTION: _YES if is_crash else _NO}


def last_commit_option(lsn: Lsn, time_us: int) -> dict[str, str]:
    """What progress carries of the newest transaction that is published whole."""
    return {_LAST_COMMIT_OPTION: f"{lsn} {time_us}"}


def last_commit(progress: Progress) -> tuple[Lsn, int] | None:
    """LSN and time of that transaction's commit record; None where nothing was published yet, or by earlier code."""
    lsn, _, time_us = progress.options.get(_LAST_COMMIT_OPTION, "").partition(" ")
    return (Lsn(int(lsn)), int(time_us)) if lsn else None


def why_lost(progress: Progress) -> str | None:
    """Why the last session ended for good; None where none did, or one has come further since."""
    wal_end, _, what = progress.options.get(LOST_OPTION, "0").partition(" ")
    return what if progress.end_lsn < int(wal_end) else None


def crashes_server(progress: Progress) -> bool:
    """Whether it ended for good since the server crashed each time."""
    return why_lost(progress) is not None and progress.options.get(_CRASHES_OPTION) == _YES

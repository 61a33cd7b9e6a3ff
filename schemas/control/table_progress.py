"""Where one table of a slot stands: a record of its own beside the slot's progress.

Keyed by slot and relation id in ``<p>.progress``. It is written when it changes, in the Kafka
transaction of the cut that it goes with, so a pipeline of thousands of tables writes no more with
each cut than one of a few. What is read back is whole: the slot's record counts those of its tables.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from walbridge.schemas.avro.codec import decode_control, encode_control
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

FORMAT_VERSION = 2
COPYING, CURRENT, STALE = "copying", "current", "stale"
QUARANTINED, DROPPED = "quarantined", "dropped"
"""States. ``current``: every change is published. ``stale``: its changes are left out, and why is known.
``quarantined``: likewise, and it is not copied before an operator says so. ``dropped``: it left the
publication, or was dropped."""
ARCHIVE = "archive"
"""Shown to people and readers for a table that is current here, and of which not all operations are published."""

GIVEN_UP = ""
"""In place of a topic's id: nothing is written to that topic any more, the table's next copy goes into another one."""

FIRST_COPY_WAITS = "its first copy has not begun"
"""Why a table is ``stale`` that waits for its turn since the pipeline's first start: nobody has to do anything."""

IN_ONE_PIECE: tuple[str, ...] = ()
"""``TableCopy.bound`` of a table that no key orders."""

ListedKeys = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class TableCopy:
    """How far the copy of a table is. ``bound``: the last key that was copied, as text by key column, without any
    column where the rows are read in one piece; ``listed``: by key, the key tuples of rows that have to be read again
    (I10: both are in topics only).

    ``shape``: of the table and its key when the copy began; with another one it begins again.
    """

    begun_lsn: Lsn
    bound: tuple[str, ...] | None = None
    rows: int = 0
    bytes: int = 0
    chunks: int = 0
    has_all_ranges: bool = False
    shape: str = ""
    listed: ListedKeys = field(default_factory=dict, hash=False)

    @property
    def is_in_one_piece(self) -> bool:
        """Whether the table is read in one piece. Such a copy does not outlive a session: the next one begins it
        anew."""
        return self.bound == IN_ONE_PIECE

    @property
    def is_whole(self) -> bool:
        """Whether the topic holds every row, so that the copy may end."""
        return self.has_all_ranges and not self.listed


@dataclass(frozen=True, slots=True)
class TableProgress:
    """``topic`` and ``membership`` are None where earlier code did not write them down, or nothing was published.
    ``name`` is that of a table that came after the copy, or is to be copied again. ``storage``: its files and columns
    when last looked at (``guards/doubts/rewrites.py``). ``troubles``: when it ceased to be current, in seconds since
    1970."""

    relation_id: int
    state: str
    topic: str | None = None
    topic_id: str | None = None
    membership: str | None = None
    since: Lsn | None = None
    why: str | None = None
    copy: TableCopy | None = None
    name: str | None = None
    storage: str | None = None
    troubles: tuple[int, ...] = ()
    format_version: int = FORMAT_VERSION


def restarts_each_session(table: TableProgress) -> bool:
    """Whether the table's copy begins again with each session, as one in one piece does."""
    return table.state == COPYING and table.copy is not None and table.copy.is_in_one_piece


def table_key(slot: str, relation_id: int) -> bytes:
    """The Kafka key. A slot's name has no slash."""
    return f"{slot}/{relation_id}".encode()


def encode_table(table: TableProgress) -> bytes:
    """The Kafka value of a table's record."""
    record = asdict(table)
    if table.copy is not None:
        if table.copy.bound is not None:
            record["copy"]["bound"] = list(table.copy.bound)  # fastavro takes a tuple in a union for a branch's name
        record["copy"]["listed"] = [{"key": key, "row": row} for key, row in table.copy.listed.items()]
    record["troubles"] = list(table.troubles)
    return encode_control("TableProgress2", record)


def decode_table(value: bytes) -> TableProgress:
    """Decode the value of a table's record.

    Raises:
        ProtocolError: not one, or one of newer code.
    """
    _, record = decode_control(value, ("TableProgress2", "TableProgress"))
    if record["format_version"] > FORMAT_VERSION:
        raise ProtocolError(f"progress format {record['format_version']} is newer than {FORMAT_VERSION}")
    copy = record["copy"]
    if copy is not None:
        bound, listed = copy["bound"], {each["key"]: each["row"] for each in copy["listed"]}
        record["copy"] = TableCopy(**(copy | {"bound": None if bound is None else tuple(bound), "listed": listed}))
    return TableProgress(**(record | {"troubles": tuple(record.get("troubles", ()))}))

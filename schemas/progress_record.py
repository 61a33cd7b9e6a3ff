"""Progress: where one slot stands, the record that a restart believes.

Keyed by the slot's identity in the compacted ``<p>.progress``, written in the same Kafka
transaction as the events it speaks of; read back after ``init_transactions``, when no older
instance can write any more.
"""

from dataclasses import asdict, dataclass, field

from walbridge.schemas.avro_codec import decode_control, encode_control
from walbridge.schemas.cut import Epoch
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn

FORMAT_VERSION = 1
OWN_OPTIONS = "walbridge."
"""Prefix of what ``options`` holds besides those of START_REPLICATION: facts to compare at a restart."""
TIMELINE_OPTION = OWN_OPTIONS + "timeline"
"""Where the server stood when last looked at; ``Progress.timeline`` is the epoch's, where the slot was made."""
MESSAGE_PREFIXES_OPTION = OWN_OPTIONS + "message_prefixes"
"""Which logical messages are published: that may not change inside a transaction of which a part is."""
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
    relation_ids: tuple[int, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    last_message_lsn: int | None = None
    written_at_us: int = 0
    format_version: int = FORMAT_VERSION

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
    """The Kafka value of a progress record."""
    return encode_control("Progress", asdict(progress))


def decode_progress(value: bytes) -> Progress:
    """Decode a value of the progress topic.

    Raises:
        ProtocolError: not a progress record, or one of newer code.
    """
    _, record = decode_control(value, ("Progress",))
    if record["format_version"] > FORMAT_VERSION:
        raise ProtocolError(f"progress format {record['format_version']} is newer than {FORMAT_VERSION}")
    split = Split(**record["split"]) if record["split"] else None
    return Progress(**(record | {"split": split, "relation_ids": tuple(record["relation_ids"])}))

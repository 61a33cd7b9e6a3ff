"""What a record begins with, and what it says: the one place that knows framings.

In: an encoded key or value. Out: its *frame id*, which names the schema, and where the body begins; and back, the bytes
that a frame id makes. The first byte tells the framing, so bytes are read without knowing a pipeline's settings:

    C3 01  8 bytes   Avro single-object encoding: CRC-64-AVRO fingerprint, little-endian      16 hexadecimal digits
    00     4 bytes   Confluent's wire format: the id that a schema registry gave, big-endian    8 hexadecimal digits
    {"schema_id":"   JSON: the schema id of the relation version, 16 characters                32 hexadecimal digits

An event in JSON is JSON from its first byte on; its keys name no schema. Ids of the three have other lengths, so they
never meet. ``RelationRecord.frame_id`` and ``key_frame_id`` have them as the records of that relation version do: who
reads looks a schema up by its frame id, and nowhere else asks for the format.
Sources: Avro 1.12 specification, "Single-object encoding"; Confluent documentation, "Wire format".
"""

from typing import NamedTuple

from walbridge.schemas.errors import ProtocolError


class Framing(NamedTuple):
    """A marker, an id up to ``body_at``, the body."""

    marker: bytes
    body_at: int

    @property
    def id_digits(self) -> int:
        """Hexadecimal digits of its ids."""
        return 2 * (self.body_at - len(self.marker))


SINGLE_OBJECT = Framing(b"\xc3\x01", 10)
CONFLUENT = Framing(b"\x00", 5)
JSON = Framing(b'{"schema_id":"', 30)
FRAMINGS = (SINGLE_OBJECT, CONFLUENT, JSON)
_MARKERS = tuple(each.marker for each in FRAMINGS)
JSON_KEY = b"{"
"""What a key in JSON begins with, and no other."""
TOMBSTONE = ""
"""Instead of a frame id: of a record without a value, which says what the delete before it said."""


class Frame(NamedTuple):
    """``frame_id`` names the schema; the body begins at the byte ``body_at``."""

    frame_id: str
    body_at: int


def frame_of(value: bytes) -> Frame:
    """The framing of an encoded key or value.

    Raises:
        ProtocolError: of no known framing, or shorter than it.
    """
    for marker, body_at in FRAMINGS:
        if value.startswith(marker) and len(value) >= body_at:
            return Frame(value[len(marker) : body_at].hex(), body_at)
    found = value[:2].hex() or "nothing"
    known = "Avro single-object encoding nor Confluent's wire format nor JSON of ours"
    raise ProtocolError(f"neither {known}: starts with {found}")


def is_control_record(value: bytes | None) -> bool:
    """Whether a value in a topic of all tables may be walbridge's own, of whatever version: it writes nothing there but
    Avro in single-object encoding. Another program's record is no change and no part of the chain, so who reads leaves
    it out: nobody can take it away again."""
    return value is not None and value.startswith(SINGLE_OBJECT.marker)


def is_event(value: bytes) -> bool:
    """Whether a value in the topic of a table may be walbridge's own. It writes nothing there without a framing, so
    another record is left out likewise: a cut counts those that walbridge wrote (I7)."""
    return value.startswith(_MARKERS)


def frame_id_if_known(value: bytes | None) -> str | None:
    """The frame id of a value that has a known framing and a body, ``TOMBSTONE`` for no value, else None."""
    if value is None:
        return TOMBSTONE
    for marker, body_at in FRAMINGS:
        if value.startswith(marker) and len(value) > body_at:
            return value[len(marker) : body_at].hex()
    return None


def prefix_of(frame_id: str) -> bytes:
    """The bytes before a body of that frame id."""
    marker = next(each.marker for each in FRAMINGS if each.id_digits == len(frame_id))
    return marker + bytes.fromhex(frame_id)


def registry_frame_id(registry_id: int) -> str:
    """The frame id of a schema registry's id."""
    return f"{registry_id:0{CONFLUENT.id_digits}x}"


def json_frame_id(schema_id: str) -> str:
    """The frame id of an event in JSON."""
    return schema_id.encode("ascii").hex()

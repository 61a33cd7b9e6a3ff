"""Messages and tuples written out by hand as the manual lays them out, their values beside them."""

from walbridge.producer.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Binary,
    Commit,
    CommitPrepared,
    Delete,
    Field,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RelationColumn,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Unsent,
    Update,
)
from walbridge.schemas.position import Lsn

# 0x0002a0b1c2d3e4f5 microseconds after 2000-01-01.
TIME, TIME_US = "0002a0b1c2d3e4f5", 0x0002A0B1C2D3E4F5 + 946_684_800_000_000
NULL, UNCHANGED = Unsent.NULL, Unsent.UNCHANGED_TOAST
ONE_AND_NULL = bytes.fromhex("0002 74 00000001 31 6e")  # the text 1, then null
TOASTED = bytes.fromhex("0001 75")

WRITTEN_OUT: dict[str, tuple[bytes, Message]] = {
    "Begin": (
        bytes.fromhex(f"42 00000001ffffffff {TIME} ffffffff"),
        Begin(Lsn(0x1FFFFFFFF), TIME_US, 2**32 - 1),
    ),
    "Begin before 2000": (
        bytes.fromhex("42 0000000000000010 ffffffffffffffff 00000001"),
        Begin(Lsn(16), 946_684_799_999_999, 1),
    ),
    "Commit": (
        bytes.fromhex(f"43 00 8000000000000000 8000000000000030 {TIME}"),
        Commit(Lsn(2**63), Lsn(2**63 + 0x30), TIME_US),
    ),
    "Origin": (bytes.fromhex("4f 00000000000000ff") + "Ünit\0".encode(), Origin(Lsn(255), "Ünit")),
    "Relation": (
        b"R" + bytes.fromhex("00004001") + b"public\0orders\0d" + bytes.fromhex("0002")
        + b"\1id\0" + bytes.fromhex("00000017 ffffffff")
        + b'\0a "b"\0' + bytes.fromhex("00000413 00000018"),
        Relation(16385, "public", "orders", "d", (
            RelationColumn(True, "id", 23, -1), RelationColumn(False, 'a "b"', 1043, 24),
        )),
    ),
    "Relation of pg_catalog without columns": (
        b"R" + bytes.fromhex("fffffffe") + b"\0t\0n" + bytes.fromhex("0000"),
        Relation(2**32 - 2, "pg_catalog", "t", "n", ()),
    ),
    "Type": (b"Y" + bytes.fromhex("00004002") + b"public\0mood\0", Type(16386, "public", "mood")),
    "Type of pg_catalog": (b"Y" + bytes.fromhex("00004002") + b"\0int4\0", Type(16386, "pg_catalog", "int4")),
    "Insert": (b"I" + bytes.fromhex("00004001") + b"N" + ONE_AND_NULL, Insert(16385, ONE_AND_NULL)),
    "Update": (b"U" + bytes.fromhex("00004001") + b"N" + TOASTED, Update(16385, None, None, TOASTED)),
    "Update with key": (
        b"U" + bytes.fromhex("00004001") + b"K" + ONE_AND_NULL + b"N" + TOASTED,
        Update(16385, ONE_AND_NULL, None, TOASTED),
    ),
    "Update with old row": (
        b"U" + bytes.fromhex("00004001") + b"O" + ONE_AND_NULL + b"N" + TOASTED,
        Update(16385, None, ONE_AND_NULL, TOASTED),
    ),
    "Delete with key": (b"D" + bytes.fromhex("00004001") + b"K" + ONE_AND_NULL, Delete(16385, ONE_AND_NULL, None)),
    "Delete with old row": (
        b"D" + bytes.fromhex("00004001") + b"O" + ONE_AND_NULL,
        Delete(16385, None, ONE_AND_NULL),
    ),
    "Truncate": (bytes.fromhex("54 00000002 00 00004001 ffffffff"), Truncate(False, False, (16385, 2**32 - 1))),
    "Truncate cascade": (bytes.fromhex("54 00000001 01 00004001"), Truncate(True, False, (16385,))),
    "Truncate restart identity": (bytes.fromhex("54 00000001 02 00004001"), Truncate(False, True, (16385,))),
    "Message": (
        bytes.fromhex("4d 01 0000000100000010") + "prefix é\0".encode() + bytes.fromhex("00000003 00ff6e"),
        LogicalMessage(True, Lsn(0x100000010), "prefix é", b"\0\xffn"),
    ),
    "Message that is not transactional, of nothing": (
        bytes.fromhex("4d 00 0000000000000001 00 00000000"), LogicalMessage(False, Lsn(1), "", b""),
    ),
    "Stream Start, first": (bytes.fromhex("53 00000300 01"), StreamStart(0x300, True)),
    "Stream Start, later": (bytes.fromhex("53 ffffffff 00"), StreamStart(2**32 - 1, False)),
    "Stream Stop": (b"E", StreamStop()),
    "Stream Commit": (
        bytes.fromhex(f"63 00000300 00 8000000000000000 8000000000000030 {TIME}"),
        StreamCommit(0x300, Lsn(2**63), Lsn(2**63 + 0x30), TIME_US),
    ),
    "Stream Abort": (bytes.fromhex("41 00000300 00000301"), StreamAbort(0x300, 0x301)),
    "Stream Abort of streaming = parallel": (
        bytes.fromhex(f"41 00000300 00000301 0000000100000010 {TIME}"),
        StreamAbort(0x300, 0x301, Lsn(0x100000010), TIME_US),
    ),
    "Stream Abort after a crash of the server": (
        bytes.fromhex(f"41 00000300 00000300 0000000000000000 {TIME}"),
        StreamAbort(0x300, 0x300, Lsn(0), TIME_US),
    ),
    "Begin Prepare": (
        bytes.fromhex(f"62 0000000000000010 0000000000000020 {TIME} 00000300") + "gid é\0".encode(),
        BeginPrepare(Lsn(0x10), Lsn(0x20), TIME_US, 0x300, "gid é"),
    ),
    "Prepare": (
        bytes.fromhex(f"50 00 0000000000000010 0000000000000020 {TIME} 00000300") + b"\0",
        Prepare(Lsn(0x10), Lsn(0x20), TIME_US, 0x300, ""),
    ),
    "Commit Prepared": (
        bytes.fromhex(f"4b 00 0000000000000030 0000000000000040 {TIME} 00000300") + b"gid\0",
        CommitPrepared(Lsn(0x30), Lsn(0x40), TIME_US, 0x300, "gid"),
    ),
    "Rollback Prepared": (
        bytes.fromhex(f"72 00 0000000000000020 0000000000000050 ffffffffffffffff {TIME} 00000300") + b"gid\0",
        RollbackPrepared(Lsn(0x20), Lsn(0x50), 946_684_799_999_999, TIME_US, 0x300, "gid"),
    ),
    "Stream Prepare": (
        bytes.fromhex(f"70 00 0000000000000010 0000000000000020 {TIME} ffffffff") + b"gid\0",
        StreamPrepare(Lsn(0x10), Lsn(0x20), TIME_US, 2**32 - 1, "gid"),
    ),
}  # fmt: skip
TUPLES_WRITTEN_OUT: dict[str, tuple[str, tuple[Field, ...]]] = {
    "no columns": ("0000", ()),
    "null is no empty text": ("0002 6e 74 00000000", (NULL, b"")),
    "unchanged is no null": ("0002 75 6e", (UNCHANGED, NULL)),
    "text of tag bytes": ("0001 74 00000003 6e7574", (b"nut",)),
    "binary is no text": ("0002 62 00000001 31 74 00000001 31", (Binary(b"1"), b"1")),
    "binary of nothing": ("0001 62 00000000", (Binary(b""),)),
}

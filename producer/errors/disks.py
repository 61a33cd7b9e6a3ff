"""Folders that are full or fail, with the remedy of each."""

from walbridge.schemas.errors import OperatorError

_NOTHING_CONFIRMED = "nothing of them was confirmed: "
_KEEP_ON_SERVER = 'or set [postgres] streaming = "off", so that the server keeps them'


def spool_full(count: int, used_bytes: int, folder: str, limit_bytes: int) -> OperatorError:
    """Stopping loses nothing (I7)."""
    return OperatorError(
        f"{count} transactions that are not committed yet take {used_bytes:,} bytes in {folder}: "
        f"[producer] spool_bytes_max is {limit_bytes:,}",
        remedy=f"{_NOTHING_CONFIRMED}raise [producer] spool_bytes_max, or name a larger disk in [producer] spool_dir; "
        + _KEEP_ON_SERVER,
    )


def spool_unwritable(folder: str, reason: str | None) -> OperatorError:
    """A disk that fails us."""
    return OperatorError(
        f"transactions that are not committed yet cannot be kept in {folder}: {reason}",
        remedy=f"{_NOTHING_CONFIRMED}make room there, or name another folder in [producer] spool_dir; "
        + _KEEP_ON_SERVER,
    )


def set_aside_full(table: str, folder: str, limit_bytes: int) -> OperatorError:
    """Its copy begins again later: nothing of the table is published meanwhile (I7)."""
    return OperatorError(
        f"the changes of {table} while it was read in one piece do not fit into {folder}: "
        f"[producer] spool_bytes_max is {limit_bytes:,}",
        remedy=f"raise [producer] spool_bytes_max, or give {table} a primary key, by which it is read in parts",
    )


def set_aside_unwritable(table: str, folder: str, reason: str | None) -> OperatorError:
    """Its copy begins again later, as with ``set_aside_full``."""
    return OperatorError(
        f"the changes of {table} while it was read in one piece cannot be kept in {folder}: {reason}",
        remedy="make room there, or name another folder in [producer] spool_dir",
    )

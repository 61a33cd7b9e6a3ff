"""Features that another program set on a table, and that delta-rs cannot write.

In: a table's protocol, properties and schema. Out: the table's error, which names what was set. In Delta most features
cannot be removed at once, and some never, so the remedy is a copy in another folder. A table with constraints is
written as long as all rows meet them.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.delta.table_faults import ConcurrentCommit

_WRITABLE = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
    }
)
"""Features with which delta-rs writes, as long as appendOnly, checkConstraints and columnMapping are not in use."""
_IDENTITY_VERSION = 6
"""The writer version that stands for identity columns; it is from before features had names."""
_CONSTRAINT = "delta.constraints."
_OFF = {"delta.appendOnly": "false", "delta.columnMapping.mode": "none"}
_UNKNOWN = re.compile(r"Unsupported: Feature '(\w+)'|(Max catalog version)")
_UNSUPPORTED = re.compile(r"Unsupported table features required: \[(.+)\]|(table is append-only)")
"""In a failed commit of delta-rs: another attempt would fail as well."""
_UNMET = re.compile(r"failed validation check|Error during planning|Schema error")


def unwritable(uri: str, what: str) -> TableError:
    """The error of a table on which ``what`` was set."""
    return TableError(f"the lake's table {uri} cannot be written any more: {_set_by_others(what)}")


def _set_by_others(what: str) -> str:
    return f"another program set {what} on it"


def refuse_unwritable(uri: str, table: DeltaTable, but: str = "") -> None:
    """Refuse a table with a feature, ``but`` for one, that delta-rs does not write.

    Raises:
        TableError: it names all of them.
    """
    protocol, properties = table.protocol(), table.metadata().configuration
    found = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _WRITABLE
    if protocol.min_writer_version == _IDENTITY_VERSION:
        found.add("identityColumns")
    found |= {name for name, off in _OFF.items() if properties.get(name, off) != off}
    if found := found - {but}:
        raise unwritable(uri, ", ".join(sorted(found)))


def has_vectors(delta: DeltaTable) -> bool:
    """Whether rows of a table may be marked as deleted beside their file, by whomever."""
    return "deletionVectors" in (delta.protocol().reader_features or ())


def unknown_feature(error: DeltaError) -> str | None:
    """Why delta-rs cannot open a table, if a feature is the reason."""
    found = _UNKNOWN.search(str(error))
    return None if found is None else _set_by_others(found[1] or "catalogManaged")


def constraints(table: DeltaTable) -> list[str]:
    """Names of conditions that rows must meet."""
    return sorted(
        name.removeprefix(_CONSTRAINT) for name in table.metadata().configuration if name.startswith(_CONSTRAINT)
    )


@contextmanager
def commit_errors(uri: str, table: DeltaTable | None = None) -> Iterator[None]:
    """A block that commits to a table with delta-rs. ``table``: None if the block creates it.

    Raises:
        ConcurrentCommit: another program has made this version.
        TableError: a feature, or a constraint, is in the way.
    """
    try:
        yield
    except CommitFailedError as error:
        if found := _UNSUPPORTED.search(str(error)):
            raise unwritable(uri, found[1] or "delta.appendOnly") from None
        raise ConcurrentCommit(f"another program committed to {uri} at the same time") from None
    except DeltaError as error:
        names = constraints(table) if table is not None and _UNMET.search(str(error)) else []
        if not names:
            raise
        # Without the cause: it quotes the rows (I10).
        raise unmet(uri, names) from None


def unmet(uri: str, names: Iterable[str]) -> TableError:
    """The error of a row that does not meet a constraint, or of a constraint that delta-rs does not understand."""
    return unwritable(uri, ", ".join(f"CHECK {name}" for name in names))

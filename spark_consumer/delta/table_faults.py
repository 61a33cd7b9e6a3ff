"""What went wrong with a table: another writer, a lost file, a log that cannot be followed.

In: errors of delta-rs and of Spark, which differ in their texts alone. Out: errors of our own.
"""

import re

from deltalake.exceptions import DeltaError

from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.errors import classified_error

OF_THE_SYSTEM = re.compile(r"os error (?!(?:2|20|21|40)\b)")
"""Any error of the system, for instance too many open files, but those that tell of a lost file: ENOENT, and ENOTDIR,
EISDIR and ELOOP, where something else was put in its place."""
_LOST_FILE = re.compile(r"Object at location \S+ not found|Parquet error|FAILED_READ_FILE|DELTA_DELETION_VECTOR")
SCRATCH = "walbridge-scratch-"
"""Folders of temporary tables: a file that is lost there is no fault of the lake."""


DAMAGED_LOG = "its log is damaged"


def is_damaged_log(error: DeltaError) -> bool:
    """Whether a table could not be opened because its log cannot be followed."""
    text = str(error)
    return "Kernel error" in text and not OF_THE_SYSTEM.search(text) and classified_error(error) is error


def is_lost_file(error: Exception) -> bool:
    """Whether a file that a table's log names could not be read."""
    text = str(error)
    is_of_the_table = bool(_LOST_FILE.search(text)) and SCRATCH not in text and not OF_THE_SYSTEM.search(text)
    return is_of_the_table and classified_error(error) is error


class ConcurrentCommit(RetryableError):
    """Another program committed to the table since its head was read."""


class NotShared(Exception):
    """An executor wrote, or looked for, files on another disk than the driver's. ``uri``: the table's."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri


class DamagedTable(Exception):
    """A table's log lacks commits, or holds files that are no commits. ``how``: in words."""

    def __init__(self, how: str = DAMAGED_LOG) -> None:
        super().__init__(how)
        self.how = how


class VersionGone(Exception):
    """An old version of a table cannot be read any more."""

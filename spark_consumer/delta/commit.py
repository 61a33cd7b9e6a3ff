"""What a commit to a lake table says of itself, whichever engine makes it.

In: the plan and segment that it belongs to, the expected counts of a merge. Out: commit properties for delta-rs, user
metadata for Spark; and the same read back from a table's history. So a restarted job tells its own commits from others
(I5).
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaProtocolError

WITHOUT_DATA_CHANGE = frozenset({"OPTIMIZE", "REORG", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES"})
PLAN, SEGMENT, STEP = "walbridge_plan", "walbridge_segment", "walbridge_step"
HELD, LACKED = "walbridge_held", "walbridge_lacked"
REWRITE = "walbridge_rewrite"
APP, TRANSACTION = "walbridge_app", "walbridge_transaction"
DATA, CREATE, SHAPE, RESTORE = "data", "create", "shape", "restore"

Json = Any


@dataclass(frozen=True, slots=True)
class Matches:
    """Counts of a merge: ``held``, the rows that matched one of the table; ``lacked``, the rows that were inserted."""

    held: int
    lacked: int

    @classmethod
    def of(cls, metrics: Mapping[str, int]) -> "Matches":
        """From the metrics of delta-rs."""
        held = metrics["num_target_rows_updated"] + metrics["num_target_rows_deleted"]
        return cls(held, metrics["num_target_rows_inserted"])

    @classmethod
    def of_spark(cls, metrics: Mapping[str, str]) -> "Matches":
        """From the metrics of Spark."""
        held = int(metrics["numTargetRowsUpdated"]) + int(metrics["numTargetRowsDeleted"])
        return cls(held, int(metrics["numTargetRowsInserted"]))


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit says of itself.

    ``step`` is DATA on the one commit that completes ``segment``, which also carries the
    transaction; other steps (create, shape, restore) prepare for it. ``overwrites``: the table holds
    nothing that was there before. ``expected``, ``found``: the counts that a merge should have, and those that it
    had. Both are in the log, so that they can be compared after a crash. ``rewrite``: how many bytes delta-rs has to
    rewrite at the most for this merge, by which its engine was chosen. ``operation``: as Delta calls it. ``is_lost``:
    the commit was made ``by_spark``, and the driver lacks a file of it.
    """

    plan: str | None
    segment: int = 0
    step: str | None = DATA
    app_id: str = ""
    txn_version: int = 0
    version: int = -1
    changes_data: bool = True
    overwrites: bool = False
    expected: Matches | None = None
    found: Matches | None = None
    rewrite: int | None = None
    operation: str | None = None
    by_spark: bool = False
    is_lost: bool = False

    def properties(self) -> CommitProperties:
        """The commit's properties for delta-rs."""
        done = [Transaction(self.app_id, self.txn_version)] if self.step == DATA else []
        return CommitProperties(custom_metadata=self._metadata(), app_transactions=done, max_commit_retries=0)

    def user_metadata(self) -> str:
        """The commit's user metadata for Spark. A transaction of Delta's own would outlive a restore, and Spark would
        then silently skip the same commit when it is made again."""
        done = {APP: self.app_id, TRANSACTION: self.txn_version} if self.step == DATA else {}
        return json.dumps(self._metadata() | done)

    def _metadata(self) -> dict[str, Json]:
        said = {PLAN: self.plan, SEGMENT: self.segment, STEP: self.step, REWRITE: self.rewrite}
        if self.expected is not None:
            said |= {HELD: self.expected.held, LACKED: self.expected.lacked}
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def of(cls, entry: Mapping[str, Json]) -> "Commit":
        """A commit read from an entry of a table's history, whichever engine made it. One that has our keys with values
        that we never write is a stranger's."""
        try:
            found = cls._of(entry)
        except (TypeError, ValueError, KeyError, AttributeError):
            return cls(plan=None, step=None, version=entry["version"])
        return found if found._has_our_types else cls(plan=None, step=None, version=found.version)

    @property
    def _has_our_types(self) -> bool:
        counts = [
            count for each in (self.expected, self.found) if each is not None for count in (each.held, each.lacked)
        ]
        numbers = [self.segment, self.txn_version, self.rewrite or 0, *counts]
        texts = [self.plan or "", self.step or "", self.app_id]
        return all(type(each) is int for each in numbers) and all(isinstance(each, str) for each in texts)

    @classmethod
    def _of(cls, entry: Mapping[str, Json]) -> "Commit":
        of_spark = _user_metadata(entry)
        said, metrics = of_spark or entry, entry.get("operationMetrics", {})
        found = Matches.of_spark if of_spark else Matches.of
        return cls(
            plan=said.get(PLAN),
            segment=said.get(SEGMENT, 0),
            step=said.get(STEP),
            app_id=said.get(APP, ""),
            txn_version=said.get(TRANSACTION, 0),
            version=entry["version"],
            changes_data=entry.get("operation") not in WITHOUT_DATA_CHANGE,
            overwrites=(entry.get("operationParameters") or {}).get("mode") == "Overwrite",
            expected=Matches(said[HELD], said[LACKED]) if HELD in said else None,
            found=found(metrics) if HELD in said else None,
            rewrite=said.get(REWRITE),
            operation=entry.get("operation"),
            by_spark="Apache-Spark" in (entry.get("engineInfo") or ""),
        )


def _user_metadata(entry: Mapping[str, Json]) -> Mapping[str, Json]:
    """The user metadata of a commit that we made by Spark; empty for any other commit."""
    with suppress(ValueError):
        said = json.loads(entry.get("userMetadata") or "{}")
        if isinstance(said, dict) and PLAN in said:
            return said
    return {}


def newest_commits(table: DeltaTable, newest: int) -> list[Commit]:
    """Oldest first. One that says nothing, as Delta lets it, is not in the history, and what delta-rs cannot read of
    one spoils all of it: then a stranger comes last."""
    if newest <= 0:
        return []
    found: list[Commit] = []
    with suppress(DeltaProtocolError):
        found = [Commit.of(entry) for entry in reversed(table.history(newest))]
    return [*found, Commit(plan=None)] if len(found) < newest <= table.version() else found

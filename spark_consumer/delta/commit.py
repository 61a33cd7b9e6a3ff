"""What a commit to a lake table says of itself, whichever engine makes it.

In: the plan and segment that it belongs to, what a merge should find. Out: properties for delta-rs, user metadata for
Spark; and the same again from a table's history. So a restarted job knows its own work from anybody else's (I5).
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deltalake import CommitProperties, Transaction

WITHOUT_DATA_CHANGE = frozenset({"OPTIMIZE", "REORG", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES"})
PLAN, SEGMENT, STEP = "walbridge_plan", "walbridge_segment", "walbridge_step"
HELD, LACKED = "walbridge_held", "walbridge_lacked"
APP, TRANSACTION = "walbridge_app", "walbridge_transaction"
DATA, CREATE, SHAPE, RESTORE = "data", "create", "shape", "restore"

Json = Any


@dataclass(frozen=True, slots=True)
class Matches:
    """How many rows of a merge the table held, and how many it lacked and was given."""

    held: int
    lacked: int

    @classmethod
    def of(cls, metrics: Mapping[str, int]) -> "Matches":
        """As delta-rs counted them."""
        held = metrics["num_target_rows_updated"] + metrics["num_target_rows_deleted"]
        return cls(held, metrics["num_target_rows_inserted"])

    @classmethod
    def of_spark(cls, metrics: Mapping[str, str]) -> "Matches":
        """As Spark counted them."""
        held = int(metrics["numTargetRowsUpdated"]) + int(metrics["numTargetRowsDeleted"])
        return cls(held, int(metrics["numTargetRowsInserted"]))


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit says of itself.

    ``step`` is DATA on the one commit that completes ``segment``, which also carries the
    transaction; other steps (create, shape, restore) prepare for it. ``overwrites``: the table holds
    nothing that was there before. ``expected``: what a merge should find; ``found``: what it found.
    Both stand in the log, so that whoever goes on after a crash can compare them. ``is_lost``: it was made
    ``by_spark``, and the driver lacks a file of it.
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
    by_spark: bool = False
    is_lost: bool = False

    def properties(self) -> CommitProperties:
        """For delta-rs."""
        done = [Transaction(self.app_id, self.txn_version)] if self.step == DATA else []
        return CommitProperties(custom_metadata=self._said(), app_transactions=done, max_commit_retries=0)

    def user_metadata(self) -> str:
        """For Spark. A transaction of Delta's own would outlive a restore, and Spark would then skip the same commit
        when it comes again, without a word."""
        done = {APP: self.app_id, TRANSACTION: self.txn_version} if self.step == DATA else {}
        return json.dumps(self._said() | done)

    def _said(self) -> dict[str, Json]:
        said = {PLAN: self.plan, SEGMENT: self.segment, STEP: self.step}
        if self.expected is not None:
            said |= {HELD: self.expected.held, LACKED: self.expected.lacked}
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def of(cls, entry: Mapping[str, Json]) -> "Commit":
        """As a table's history tells it, whichever engine made it."""
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
            by_spark="Apache-Spark" in (entry.get("engineInfo") or ""),
        )


def _user_metadata(entry: Mapping[str, Json]) -> Mapping[str, Json]:
    """What our own commits by Spark say there; empty for any other."""
    with suppress(ValueError):
        said = json.loads(entry.get("userMetadata") or "{}")
        if isinstance(said, dict) and PLAN in said:
            return said
    return {}

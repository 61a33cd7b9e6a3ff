"""What delta-rs does with a table that has deletion vectors: rows marked as deleted beside their file."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.spark_consumer.delta.marked_rows import mark
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.columns import LakeField
from walbridge.spark_consumer.delta.commit import RESTORE, SHAPE, Commit, Matches
from walbridge.spark_consumer.delta.maintenance import maintenance
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.delta.table import LakeTable, Merge
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

PATH = "public/a"
SHAPED = Commit("p", step=SHAPE)
ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "n": pa.array([0] * 6, pa.int64())})


@pytest.fixture
def table(lake: Path) -> LakeTable:
    """Rows 1 and 3 of 6 are marked, in version 2."""
    write_deltalake(str(lake / PATH), ROWS)
    mark(lake / PATH, [1, 3])
    return opened(lake)


def opened(lake: Path) -> LakeTable:
    found = LakeTable.open(str(lake / PATH), {})
    assert found is not None
    return found


def ids(table: LakeTable) -> list[int]:
    found: list[int] = table.query("SELECT id FROM target ORDER BY 1").read_all().column(0).to_pylist()
    return found


def appended(table: LakeTable) -> None:
    table.append(ROWS.slice(1, 1).to_reader(), Commit("p"))


def merged(table: LakeTable) -> None:
    merge = Merge(
        condition="source.id = target.id AND (target.id BETWEEN 1 AND 2)",
        update_when="true",
        updates={"n": "7"},
        insert_when="true",
        inserts={"id": "source.id", "n": "source.n"},
    )
    assert table.merge(merge, ROWS.slice(1, 2).to_reader(), Commit("p")) == Matches(1, 1)


def overwritten(table: LakeTable) -> None:
    table.overwrite(ROWS.to_reader(), Commit("p"))


def restored(table: LakeTable) -> None:
    merged(table)
    table.restore(2, Commit("p", step=RESTORE))


def compacted(table: LakeTable) -> None:
    appended(table)
    DeltaTable(table.uri).optimize.compact()


def checkpointed(table: LakeTable) -> None:
    DeltaTable(table.uri).create_checkpoint()


def widened(table: LakeTable) -> None:
    table.add_columns([LakeField("more", "string", {})], SHAPED)


def described(table: LakeTable) -> None:
    table.describe_column(LakeField("n", "long", {"pg.name": "N"}), SHAPED)


def given_a_property(table: LakeTable) -> None:
    table.mark_spark_writes(SHAPED)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (appended, [0, 1, 2, 4, 5]),
        (merged, [0, 1, 2, 4, 5]),
        (overwritten, [0, 1, 2, 3, 4, 5]),
        (restored, [0, 2, 4, 5]),
        (compacted, [0, 1, 2, 4, 5]),
        (checkpointed, [0, 2, 4, 5]),
        (widened, [0, 2, 4, 5]),
        (described, [0, 2, 4, 5]),
        (given_a_property, [0, 2, 4, 5]),
    ],
)
def test_marked_rows_stay_away_whatever_delta_rs_does(
    table: LakeTable, lake: Path, change: Callable[[LakeTable], None], found: list[int]
) -> None:
    assert ids(table) == [0, 2, 4, 5]

    change(table)

    assert ids(opened(lake)) == found


def test_commit_by_spark_is_known_by_what_it_says(lake: Path) -> None:
    """I5: it has no transaction of Delta's own, and yet the table tells that it holds the plan."""
    write_deltalake(str(lake / PATH), ROWS)
    commit = Commit("plan", 2, app_id="app", txn_version=7, expected=Matches(2, 1))
    mark(lake / PATH, [0], user_metadata=commit.user_metadata())
    last = lake / PATH / "_delta_log" / f"{2:020}.json"
    metrics = {"numTargetRowsUpdated": "1", "numTargetRowsDeleted": "1", "numTargetRowsInserted": "1"}
    info, *actions = map(json.loads, last.read_text().splitlines())
    info["commitInfo"]["operationMetrics"] = metrics
    last.write_text("\n".join(map(json.dumps, [info, *actions])))

    table = opened(lake)

    (found,) = table.commits(1)
    assert (found.plan, found.segment, found.step, found.expected, found.found) == (
        "plan",
        2,
        "data",
        Matches(2, 1),
        Matches(2, 1),
    )
    assert (table.transaction_version("app"), table.transaction_version("other")) == (7, None)
    assert (table.transaction_version_at(1, "app"), table.transaction_version_at(2, "app")) == (None, 7)


def test_file_is_kept_that_was_marked_long_ago_and_replaced_just_now(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: delta-rs would take the age of its first mark for that of its end."""
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", 1)
    write_deltalake(str(lake / PATH), ROWS)
    mark(lake / PATH, [1, 3], hours_ago=9 * 24)
    manifest = Manifest(str(lake), "p", {})
    publish(manifest, 1, 2, datetime.now(UTC) - timedelta(hours=30))
    table = opened(lake)
    merged(table)
    publish(manifest, 2, table.version)
    settings = Settings(name="p", lake={"path": str(lake), "cut_retention_hours": 24})  # type: ignore[arg-type]

    Maintenance(str(lake), manifest, settings).after_plan([PATH])

    old = DeltaTable(str(lake / PATH), version=2)
    assert ids(LakeTable(old.table_uri, old, {})) == [0, 2, 4, 5]


def publish(manifest: Manifest, sequence: int, version: int, written_at: datetime | None = None) -> None:
    entry = TableEntry(1, "public", "a", "p.public.a", PATH, version, "0" * 16, "current")
    cuts, lsn = (sequence, sequence), 100 + sequence
    written_at = written_at or datetime.now(UTC)
    manifest.append(
        CutRow(sequence, "published", "p", "7-1-s-0/10", *cuts, 2 * sequence, lsn, None, written_at, (entry,))
    )

"""Tables with marked rows take turns, whatever becomes of one of them."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.spark_consumer.delta.marked_rows import mark
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.maintenance import maintenance
from walbridge.spark_consumer.delta.maintenance.maintenance import Maintenance
from walbridge.spark_consumer.delta.maintenance.purge import Purge
from walbridge.spark_consumer.delta.manifest.writer import Manifest

PATHS = ["public/a", "public/b", "public/c"]


class Recorded(Purge):
    """Of which no table has enough: as where each purge comes too late, or plans mark rows all the time."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def is_due(self) -> bool:
        return True

    def purge(self, table: DeltaTable, storage_options: dict[str, str]) -> bool:
        self.taken.append(table.table_uri.rstrip("/")[-len(PATHS[0]) :])
        return True


@pytest.fixture
def purge() -> Recorded:
    return Recorded()


@pytest.fixture
def tidying(lake: Path, purge: Recorded, monkeypatch: pytest.MonkeyPatch) -> Maintenance:
    """It has visited all tables, each of which has marked rows."""
    monkeypatch.setattr(maintenance, "COMMITS_BETWEEN_VISITS", 1)
    settings = Settings(name="p", lake={"path": str(lake)})  # type: ignore[arg-type]
    made = Maintenance(str(lake), Manifest(str(lake), "p", {}), settings, purge=purge)
    for path in reversed(PATHS):
        write_deltalake(str(lake / path), pa.table({"n": [*range(8)]}))
        mark(lake / path, [1, 3])
        made.after_plan([path])
    return made


def test_each_table_has_its_turn_before_one_has_its_next(tidying: Maintenance, purge: Recorded) -> None:
    """The longest marked one first; being marked again gives no table an earlier turn."""
    for at in range(6):
        tidying.after_plan([])
        if at == 3:
            tidying.after_plan(["public/c"])

    assert purge.taken == ["public/c", "public/b", "public/a"] * 2


def test_table_that_is_not_there_leaves_the_turn_to_the_others(
    tidying: Maintenance, purge: Recorded, lake: Path
) -> None:
    """The plan that writes to it next tells what it is."""
    shutil.rmtree(lake / "public/c")

    for _ in range(5):
        tidying.after_plan([])

    assert purge.taken == ["public/b", "public/a"] * 2

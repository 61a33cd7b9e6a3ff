"""A table is taken for missing only where the storage has said so (I8)."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError, TableNotFoundError

from tests.spark_consumer.events import column, relation
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta import opening
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.manifest.manifest_reader import CUTS_TABLE, open_table
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import DamagedTable
from walbridge.spark_consumer.fold.shape import TableShape

DENIED = (
    'Local path "/lake/t" does not exist or you don\'t have access!\n'
    'Error: Os { code: 13, kind: PermissionDenied, message: "Permission denied" }'
)
UNPLUGGED = (
    'Local path "/lake/t" does not exist or you don\'t have access!\n'
    'Error: Os { code: 107, kind: NotConnected, message: "Transport endpoint is not connected" }'
)


def test_table_whose_folder_is_missing_or_holds_no_commit_is_none(lake: Path) -> None:
    (lake / "empty").mkdir(parents=True)
    (lake / "interrupted" / "_delta_log").mkdir(parents=True)

    assert [LakeTable.open(f"{lake}/{name}", {}) for name in ("missing", "empty", "interrupted")] == [None] * 3
    assert open_table(str(lake)) is None


@pytest.mark.parametrize(("code", "is_none"), [(2, True), (13, False)])
def test_table_whose_folder_goes_while_it_is_opened_is_none(
    lake: Path, monkeypatch: pytest.MonkeyPatch, code: int, is_none: bool
) -> None:
    """Delta-rs looks twice, and has other words when the second look finds nothing."""

    def opened(uri: str, **_: object) -> None:
        raise DeltaError(f'Generic error: Failed to canonicalize path "{uri}": of the system (os error {code})')

    monkeypatch.setattr(opening, "DeltaTable", opened)
    if is_none:
        assert opening.table_if_any(f"{lake}/t") is None
        return
    with pytest.raises(DeltaError):
        opening.table_if_any(f"{lake}/t")


def test_table_that_is_there_is_opened(lake: Path) -> None:
    fields = TableShape(relation([column("id", "int8", is_key=True)])).fields
    LakeTable.create(f"{lake}/t", fields, Commit("p", step="create"), {})

    found = opening.table_if_any(f"{lake}/t")

    assert found is not None
    assert found.version() == 0


def test_path_that_leads_through_a_file_is_refused_and_not_taken_for_an_empty_lake(lake: Path) -> None:
    lake.parent.mkdir(parents=True, exist_ok=True)
    lake.write_text("")

    with pytest.raises(OperatorError, match="nothing is lost"):
        open_table(str(lake))
    with pytest.raises(OperatorError, match="nothing is lost"):
        LakeTable.open(f"{lake}/t", {})


def as_file(log: Path) -> None:
    log.write_text("")


def as_loop(log: Path) -> None:
    log.symlink_to(log)


@pytest.mark.parametrize("put", [as_file, as_loop])
def test_log_in_whose_place_something_else_was_put_is_damaged(lake: Path, put: Callable[[Path], None]) -> None:
    """A copy makes the table anew, in another folder; nobody makes the manifest anew unasked."""
    for name in ("t", CUTS_TABLE):
        (lake / name).mkdir(parents=True)
        put(lake / name / "_delta_log")

    with pytest.raises(DamagedTable, match="its log is no folder"):
        LakeTable.open(f"{lake}/t", {})
    with pytest.raises(OperatorError, match="/_cuts cannot be read: its log is no folder") as refused:
        open_table(str(lake))
    assert "from a backup" in refused.value.remedy


@pytest.mark.parametrize("said", [DENIED, UNPLUGGED])
def test_storage_that_lets_nobody_look_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Delta-rs names it like a missing table; a new state beside the old one would come of that (I8)."""

    def fail(*_: object, **__: object) -> None:
        raise TableNotFoundError(said)

    monkeypatch.setattr(opening, "DeltaTable", fail)
    with pytest.raises(OperatorError, match="nothing is lost"):
        open_table("/lake")
    with pytest.raises(OperatorError, match="nothing is lost"):
        LakeTable.open(f"/lake/{CUTS_TABLE}", {})

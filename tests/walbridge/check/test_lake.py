"""The lake: whether it can be written, whose it is, and whether Kafka still has what it stands on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from walbridge.check.finding import Finding, advice, error, ok, warning
from walbridge.check.lake import lake_findings, newest_row, standing_findings
from walbridge.schemas.errors import COPY_AGAIN, RetryableError
from walbridge.schemas.position import Lsn
from walbridge.schemas.progress_record import Progress
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.manifest import Manifest
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry

PROGRESS = Progress("streaming", "7", 1, "walbridge", "shop", consistent_point=Lsn(0x100))
ROW = CutRow(
    sequence=1,
    kind="published",
    pipeline="shop",
    epoch=str(PROGRESS.epoch),
    from_cut=1,
    to_cut=4,
    next_offset=40,
    end_lsn=0x200,
    commit_time=None,
    written_at=datetime.now(UTC),
    tables=(),
)


def settings(path: Path | str, name: str = "shop") -> Settings:
    return Settings.model_validate({"name": name, "lake": {"path": str(path)}})


def published(lake: Path) -> Path:
    """A lake whose newest row is ``ROW``."""
    lake.mkdir()
    Manifest(str(lake), "shop", {}).append(ROW)
    return lake


def test_new_lake_is_tried_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lake"

    findings = list(lake_findings(settings(path)))

    assert findings == [ok("lake", f"{path} can be written"), ok("lake", "empty: the first copy will fill it")]
    assert list(tmp_path.iterdir()) == []


def test_lake_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    lake = published(tmp_path / "lake")
    before = sorted(lake.rglob("*"))

    findings = list(lake_findings(settings(lake)))

    assert findings == [ok("lake", f"{lake} can be written"), ok("lake", "of this pipeline, at cut 4, 0/200")]
    assert sorted(lake.rglob("*")) == before


def test_lake_that_cannot_be_written_is_an_error_and_nothing_is_said_of_a_first_copy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "lake"

    assert list(lake_findings(settings(path))) == [
        error(
            "lake",
            f"the lake {path} cannot be written: Not a directory",
            "give this user the right to write there, or name another folder in [lake] path",
        )
    ]


def test_lake_of_another_pipeline_is_an_error(tmp_path: Path) -> None:
    lake = published(tmp_path / "lake")
    findings = list(lake_findings(settings(lake, name="other")))

    assert findings[1:] == [
        error(
            "lake",
            f"the lake at {lake} belongs to pipeline shop, this one is other",
            "give this pipeline its own [lake] path, or set name to the lake's",
        )
    ]
    assert list(standing_findings(settings(tmp_path / "lake", name="other"), PROGRESS, lambda: 100)) == []


def test_lake_of_which_the_manifest_is_broken_is_told(tmp_path: Path) -> None:
    lake = published(tmp_path / "lake")
    for entry in (lake / "_cuts" / "_delta_log").glob("*.json"):
        entry.write_text("{")

    with pytest.raises(RetryableError, match="_cuts cannot be read"):
        list(lake_findings(settings(lake)))


def test_lake_in_an_object_store_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walbridge.check.lake.newest_row", lambda settings: None)

    assert next(lake_findings(settings("s3://bucket/lake"))) == advice(
        "lake",
        "s3://bucket/lake is no folder: whether it can be written was not tried",
        "run walbridge materialize --once, which writes there",
    )


MADE_ANEW = error(
    "lake",
    "the cuts topic ends before what this lake has applied: it was made anew",
    COPY_AGAIN,
)
EARLIER_COPY = warning(
    "lake",
    "it holds the tables of an earlier copy",
    "walbridge materialize replaces them; walbridge status shows when it has",
)
STANDINGS: dict[str, tuple[Progress | None, int | None, list[Finding]]] = {
    "beside its cuts": (PROGRESS, 40, []),
    "cuts that end before it": (PROGRESS, 39, [MADE_ANEW]),
    "no cuts at all": (PROGRESS, None, [MADE_ANEW]),
    "another copy": (replace(PROGRESS, consistent_point=Lsn(0x300)), 40, [EARLIER_COPY]),
    "copy that has no slot yet": (replace(PROGRESS, state="creating", consistent_point=None), 40, []),
    "no progress": (None, 40, []),
}


@pytest.mark.parametrize(("progress", "cuts_end", "wanted"), STANDINGS.values(), ids=STANDINGS)
def test_lake_is_compared_with_what_kafka_holds(
    tmp_path: Path, progress: Progress | None, cuts_end: int | None, wanted: list[Finding]
) -> None:
    lake = published(tmp_path / "lake")

    assert list(standing_findings(settings(lake), progress, lambda: cuts_end)) == wanted


def test_empty_lake_stands_beside_anything(tmp_path: Path) -> None:
    assert list(standing_findings(settings(tmp_path / "lake"), PROGRESS, lambda: 40)) == []


def test_cuts_are_looked_at_after_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that runs would else be ahead of what was seen of Kafka."""
    lake = published(tmp_path / "lake")
    asked: list[str] = []

    def newest(of: Settings) -> object:
        asked.append("lake")
        return newest_row(of)

    def end() -> int:
        asked.append("cuts")
        return 40

    monkeypatch.setattr("walbridge.check.lake.newest_row", newest)
    assert list(standing_findings(settings(lake), PROGRESS, end)) == []
    assert asked == ["lake", "cuts"]


@pytest.mark.parametrize("plan_is_open", [False, True])
def test_table_in_trouble_is_told_with_its_remedy_and_one_that_left_is_not(tmp_path: Path, plan_is_open: bool) -> None:
    left = TableEntry(
        1, "public", "t", "shop.public.t", "public/t", 3, "0" * 16, "quarantined", 0x100, why="is too big"
    )
    dropped = replace(left, relation_id=2, name="u", state="stale", why=None)
    lake = tmp_path / "lake"
    lake.mkdir()
    manifest = Manifest(str(lake), "shop", {})
    manifest.append(replace(ROW, tables=(left, dropped)))
    if plan_is_open:
        manifest.append(replace(ROW, sequence=2, kind="plan", tables=(replace(dropped, name="v"),)))

    told = [
        finding for finding in lake_findings(settings(lake)) if finding not in (ok("lake", f"{lake} can be written"),)
    ]
    assert told[1:] == [
        warning("lake", "table public.t is quarantined since 0/100: is too big", "walbridge copy public.t")
    ]

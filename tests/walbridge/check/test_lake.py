"""The lake: whether it can be written, whose it is, and whether Kafka still has what it stands on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from walbridge.check.finding import Finding, advice, error, ok, warning
from walbridge.check.lake import COPY_GOES_ON, lake_findings, standing_findings
from walbridge.control_records import CutsKept
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import COPY_ALL_ANEW, OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_rows
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.errors import cuts_made_anew
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy

COMMIT = '{"commitInfo":{}}'
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


def kept(end: int, first: Cut | None = None) -> Callable[[int], CutsKept]:
    """The cuts topic, from its beginning to there."""
    return lambda offset: CutsKept(0, end, first)


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
            "give this pipeline its own [lake] path, or set name to the lake's; if that was its name before, set "
            "formerly to it",
        )
    ]
    assert list(standing_findings(settings(tmp_path / "lake", name="other"), PROGRESS, kept(100))) == []


def test_lake_of_which_the_manifest_is_broken_is_told(tmp_path: Path) -> None:
    lake = published(tmp_path / "lake")
    for entry in (lake / "_cuts" / "_delta_log").glob("*.json"):
        entry.write_text("{")

    with pytest.raises(OperatorError, match="_cuts cannot be read: its log is damaged"):
        list(lake_findings(settings(lake)))


def test_lake_that_would_be_written_elsewhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "100%25").mkdir()
    monkeypatch.chdir(tmp_path / "100%25")

    with pytest.raises(OperatorError, match="holds '%25', which delta-rs and Spark do not read alike"):
        list(lake_findings(settings("lake")))


def test_lake_in_an_object_store_is_not_tried() -> None:
    assert next(lake_findings(settings("s3://bucket/lake"))) == advice(
        "lake",
        "s3://bucket/lake is no folder: whether it can be written was not tried",
        "run walbridge materialize --once, which writes there",
    )


def test_store_that_does_not_give_the_manifest_is_told_in_the_words_of_the_job() -> None:
    nobody = {"aws_endpoint": "http://127.0.0.1:1", "aws_allow_http": "true", "max_retries": "0", "aws_region": "x"}
    options = nobody | {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    lake = {"path": "s3://bucket/lake", "storage_options": options}

    with pytest.raises(OperatorError, match="object store does not answer") as refusal:
        list(lake_findings(Settings.model_validate({"name": "shop", "lake": lake})))
    assert refusal.value.remedy.startswith("check that it is up, [lake] path and [lake] storage_options")


MADE_ANEW = error(
    "lake",
    "the cuts topic ends before what this lake has applied: it was made anew",
    cuts_made_anew().remedy,
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
    "another copy in a topic that was made anew": (replace(PROGRESS, consistent_point=Lsn(0x300)), 9, [EARLIER_COPY]),
    "copy that has no slot yet": (replace(PROGRESS, state="creating", consistent_point=None), 40, []),
    "no progress": (None, 40, []),
}


@pytest.mark.parametrize(("progress", "cuts_end", "wanted"), STANDINGS.values(), ids=STANDINGS)
def test_lake_is_compared_with_what_kafka_holds(
    tmp_path: Path, progress: Progress | None, cuts_end: int | None, wanted: list[Finding]
) -> None:
    lake = published(tmp_path / "lake")

    assert list(standing_findings(settings(lake), progress, kept(cuts_end or 0))) == wanted


def test_empty_lake_stands_beside_anything(tmp_path: Path) -> None:
    assert list(standing_findings(settings(tmp_path / "lake"), PROGRESS, kept(40))) == []


def test_cuts_are_looked_at_after_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that runs would else be ahead of what was seen of Kafka."""
    lake = published(tmp_path / "lake")
    asked: list[str] = []

    def newest(table: DeltaTable, count: int) -> object:
        asked.append("lake")
        return newest_rows(table, count)

    def cuts(offset: int) -> CutsKept:
        asked.append("cuts")
        return CutsKept(0, 40, None)

    monkeypatch.setattr("walbridge.check.lake.newest_rows", newest)
    assert list(standing_findings(settings(lake), PROGRESS, cuts)) == []
    assert asked == ["lake", "cuts"]


PENDING = PendingCopy("shop.public.t", (CopyShape(0x100, -1, "0" * 16),))


def test_table_in_trouble_whose_copy_goes_on_needs_nothing(tmp_path: Path) -> None:
    copied = TableEntry(
        1, "public", "t", "shop.public.t", "public/t~1-7", 3, "0" * 16, "stale", 0x100, PENDING, "it is gone"
    )
    lake = tmp_path / "lake"
    lake.mkdir()
    Manifest(str(lake), "shop", {}).append(replace(ROW, tables=(copied,)))

    (told,) = (each for each in lake_findings(settings(lake)) if "is stale" in each.text)
    assert told == warning("lake", "table public.t is stale since 0/100: it is gone", COPY_GOES_ON)


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


def cut(cut_id: int, previous_end_lsn: int) -> Cut:
    """Of the epoch of ``ROW``, without tables."""
    return Cut(PROGRESS.epoch, cut_id, Lsn(previous_end_lsn), Lsn(0x300), None, None, 0, True, 0)


def test_cuts_that_follow_what_was_applied_are_nothing_to_tell(tmp_path: Path) -> None:
    lake = published(tmp_path / "lake")

    assert list(standing_findings(settings(lake), PROGRESS, kept(41, cut(5, 0x200)))) == []


def test_cuts_that_expired_before_they_were_applied_are_told_in_the_words_of_the_job(tmp_path: Path) -> None:
    """I7: it would stop at its next start."""
    lake = published(tmp_path / "lake")

    assert list(standing_findings(settings(lake), PROGRESS, kept(99, cut(80, 0x280)))) == [
        error("lake", "the cuts do not fit together: cut 80 follows cut 4", COPY_ALL_ANEW)
    ]


def test_empty_lake_beside_cuts_that_are_not_kept_from_the_beginning_may_lack_its_storage(tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    (found,) = standing_findings(settings(lake), PROGRESS, kept(99, cut(80, 0x280)))

    assert found.text.startswith(f"the lake {lake} was empty at the start, and the cuts do not fit together: epoch ")
    assert str(found.remedy).startswith("if it held tables before, mount its storage or correct [lake] path; else ")


@pytest.mark.parametrize(
    ("newest", "commit", "how"),
    [
        (None, COMMIT, "is gone"),
        (2, COMMIT, "is at version 2, before version 3 that was published"),
        (3, COMMIT, None),
        (7, COMMIT, None),
        (3, "", "cannot be read: commit 3 is empty, so what changed there is lost"),
        (7, "", None),
    ],
)
def test_folder_of_a_table_that_is_gone_or_went_back_is_an_error_with_a_copy_as_its_remedy(
    tmp_path: Path, newest: int | None, commit: str, how: str | None
) -> None:
    lake = tmp_path / "lake"
    log = lake / "public" / "t" / "_delta_log"
    log.mkdir(parents=True)
    entry = TableEntry(1, "public", "t", "shop.public.t", "public/t", 3, "0" * 16, "current")
    Manifest(str(lake), "shop", {}).append(replace(ROW, tables=(entry,)))
    if newest is None:
        log.rmdir()
    else:
        (log / f"{newest:020}.json").write_text(commit)

    found = [each for each in lake_findings(settings(lake)) if "the lake's table" in each.text]

    wanted = error("lake", f"the lake's table public/t {how}: readers of public.t fail", "walbridge copy public.t")
    assert found == ([wanted] if how else [])

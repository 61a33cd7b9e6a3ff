"""The end of a program is left where a folder takes it, and found wherever that was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from walbridge.runtime.reports import local_end
from walbridge.runtime.reports.local_end import LocalEnd
from walbridge.runtime.whole_file import replace_file
from walbridge.schemas.control.run_record import JOB, PRODUCER, End, How, Run
from walbridge.schemas.settings import Settings

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENDED = Run(JOB, "p", "1", "0.1.0", "h", 7, "", AT, AT, "running").ended(End(AT, How.STOPPED, 0))


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.setenv("TMPDIR", str(first))
    monkeypatch.setattr(local_end, "_FOLDERS", (str(second),))
    return first, second


def test_end_is_left_in_the_first_folder_that_takes_it(folders: tuple[Path, Path]) -> None:
    words = LocalEnd(Settings(name="p"), JOB)
    words.write(ENDED)
    assert words.read() == ENDED
    assert [len(list(each.rglob("*.json"))) for each in folders] == [1, 0]
    words.remove()
    assert words.read() is None


def test_folder_that_takes_no_file_is_passed_over(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk may be full, which may be what ended the program."""

    def full(path: Path, data: bytes) -> None:
        if path.is_relative_to(folders[0]):
            raise OSError(28, "No space left on device")
        replace_file(path, data)

    monkeypatch.setattr(local_end, "replace_file", full)
    words = LocalEnd(Settings(name="p"), JOB)
    words.write(ENDED)
    assert words.read() == ENDED


@pytest.mark.parametrize("other", [{"kafka": {"bootstrap_servers": "staging:9092"}}, {"lake": {"path": "elsewhere"}}])
@pytest.mark.parametrize("program", [JOB, PRODUCER])
def test_pipeline_of_the_same_name_on_another_cluster_is_not_told_of_it(
    folders: tuple[Path, Path], other: dict[str, object], program: str
) -> None:
    LocalEnd(Settings(name="p"), program).write(ENDED)

    assert LocalEnd(Settings.model_validate({"name": "p", **other}), program).read() is None


def test_newest_of_several_is_read(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    words = LocalEnd(Settings(name="p"), JOB)
    words.write(ENDED)
    later = ENDED.ended(End(AT + timedelta(seconds=1), How.BUG, 1))
    monkeypatch.delenv("TMPDIR")
    LocalEnd(Settings(name="p"), JOB).write(later)
    assert words.read() == later


def test_file_that_another_user_left_in_a_folder_for_all_is_not_read(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = LocalEnd(Settings(name="p"), JOB)
    words.write(ENDED)
    monkeypatch.setattr(local_end, "_is_ours", lambda folder: False)
    assert words.read() is None


def test_programs_and_slots_have_files_of_their_own() -> None:
    names = [LocalEnd(Settings(name="p"), program).paths[0].name for program in (JOB, PRODUCER)]
    place = names[0].removeprefix("p-").removesuffix("-job.json")
    assert names == [f"p-{place}-job.json", f"p-walbridge-{place}-producer.json"]

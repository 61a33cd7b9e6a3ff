"""The job's records beside the manifest: on file systems and through delta-rs, as on object stores."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError

from walbridge.schemas.control.run_record import END, JOB, RUN, End, How, Run
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Lake
from walbridge.spark_consumer.delta.manifest.status_files import LakeStatus
from walbridge.spark_consumer.delta.manifest.writer import Manifest

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OURS = Run(JOB, "p", "1", "0.1.0", "host", 7, "boot/ns/7/99", AT, AT, "running")
STOPPED = OURS.ended(End(AT, How.STOPPED, 0))


@pytest.fixture(params=["folder", "file URI", "object store"])
def status(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], LakeStatus]:
    Manifest(str(tmp_path), "p", {})
    if request.param == "object store":  # the way of one, to a folder
        monkeypatch.setattr(LakeStatus, "_folder", lambda _: None)

    def of(pipeline: str) -> LakeStatus:
        path = str(tmp_path) if request.param == "folder" else tmp_path.as_uri()
        return LakeStatus(Settings(name=pipeline, lake=Lake(path=path)))

    return of


def test_records_are_read_as_they_were_written(status: Callable[[str], LakeStatus]) -> None:
    assert status("p").read() == (None, None)
    status("p").write({RUN: OURS})
    assert status("p").read() == (OURS, None)
    status("p").write({END: STOPPED, RUN: STOPPED})
    assert status("p").read() == (STOPPED, STOPPED)


def test_another_pipeline_whose_settings_name_this_lake_leaves_its_records_alone(
    status: Callable[[str], LakeStatus],
) -> None:
    status("p").write({RUN: OURS})
    status("q").write({END: STOPPED})
    assert status("p").read() == (OURS, None)


def test_nothing_is_left_but_the_records(tmp_path: Path, status: Callable[[str], LakeStatus]) -> None:
    status("p").write({RUN: OURS, END: STOPPED})
    assert sorted(each.name for each in (tmp_path / "_status").iterdir()) == ["p-job-end.json", "p-job-run.json"]


def test_folder_without_a_manifest_stays_as_it_is(tmp_path: Path) -> None:
    """It may be a mount point whose storage is missing."""
    with pytest.raises(RetryableError, match="no lake"):
        LakeStatus(Settings(name="p", lake=Lake(path=str(tmp_path)))).write({RUN: OURS})
    assert not list(tmp_path.iterdir())


def test_object_store_that_does_not_answer_holds_the_job_up_for_seconds() -> None:
    """Its calls keep Python's lock: with delta-rs' own patience the job would hear no signal for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {
            "aws_endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": "x",
            "aws_secret_access_key": "x",
        }
        lake = Lake.model_validate({"path": "s3://bucket/lake", "storage_options": options})
        status = LakeStatus(Settings(name="p", lake=lake))
        began_s = time.monotonic()
        with pytest.raises(RetryableError):
            status.read()
        assert time.monotonic() - began_s < 20
        with pytest.raises((OSError, DeltaError)):
            status.write({RUN: OURS})
        assert time.monotonic() - began_s < 20

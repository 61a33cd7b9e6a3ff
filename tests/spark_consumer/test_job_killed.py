"""A job whose checkpoint is not of its lake: every event is applied once all the same.

The job, killed: ``test_job_in_memory.py`` at every step, ``test_program.py`` as a process.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.contract_writer import ContractWriter, Event
from tests.spark_consumer.accounts import Run, newest, rows
from walbridge.schemas.control.metadata_record import RelationRecord


@pytest.mark.soak
def test_a_rewound_checkpoint_changes_nothing(
    writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, tmp_path: Path
) -> None:
    """I5."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    shutil.copytree(lake / "_checkpoint", tmp_path / "early")
    writer.send([Event(history, "c", 0x2000, 0, after={"id": 2, "delta": 2})])
    run()
    before = newest(lake)
    shutil.rmtree(lake / "_checkpoint")
    shutil.copytree(tmp_path / "early", lake / "_checkpoint")
    run()

    assert newest(lake) == before
    assert rows(lake, "history") == [(1, 1), (2, 2)]


def test_a_checkpoint_ahead_of_the_lake_hides_no_cut(
    writer: ContractWriter, history: RelationRecord, run: Run, lake: Path, tmp_path: Path
) -> None:
    """I7: what has been applied is told by the lake alone."""
    writer.copy([(history, [{"id": 1, "delta": 1}])])
    run()
    shutil.copytree(lake / "_checkpoint", tmp_path / "ahead")
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "ahead", lake / "_checkpoint")
    run()

    assert rows(lake, "history") == [(1, 1)]

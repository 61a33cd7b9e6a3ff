"""SIGTERM in the middle of a plan: the job ends without it, and its next start makes it again."""

from __future__ import annotations

import signal
import time

import pytest

from tests.contract_writer import ContractWriter, Event
from tests.spark_consumer.program import START_S, Program
from tests.wait import wait_until
from walbridge.schemas.control.cut import Barrier
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.run_record import How
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_rows, open_table
from walbridge.spark_consumer.delta.manifest.status_files import LakeStatus

pytestmark = [pytest.mark.servers, pytest.mark.fault]

SEGMENTS = 150
"""Each is a commit of its own, one after the other: no machine makes them all within a stop's two seconds."""
FIRST = 0x2000


def test_plan_in_work_is_left_unfinished_and_is_whole_after_the_next_start(
    program: Program, writer: ContractWriter, history: RelationRecord
) -> None:
    """I5, I8."""
    copied = writer.copy([(history, [{"id": 0, "delta": 0}])])
    places = [FIRST + 16 * n for n in range(1, SEGMENTS + 1)]
    last = writer.send(
        [Event(history, "c", lsn, 0, after={"id": n, "delta": -n}) for n, lsn in enumerate(places, 1)],
        barriers=[(history, Barrier("shape", Position(Lsn(lsn), 0), history.schema_id)) for lsn in places],
    )

    with program.running() as (process, said):
        wait_until(lambda: committed(program) > 10, "the middle of the plan", START_S)
        began_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0, said.read_text()
        took_s = time.monotonic() - began_s
        last_line = said.read_text().splitlines()[-1]
    print(f"stopped after {took_s:.1f} s, {committed(program)} commits")
    assert "event=stopped" in last_line, said.read_text()
    assert 'plan="left unfinished: the next start makes it again"' in last_line
    cuts = open_table(str(program.lake))
    assert cuts is not None
    assert newest_rows(cuts, 1)[0].kind == "plan", "it waited for the plan"
    assert program.end_lsn() in (0, copied.end_lsn)
    settings = Settings.model_validate({"name": writer.pipeline, "lake": {"path": str(program.lake)}})
    end = LakeStatus(settings).read()[1]
    assert end is not None
    assert end.end is not None
    assert (end.end.how, end.end.exit_code) == (How.STOPPED, 0)

    again = program.run("--once")

    assert again.returncode == 0, again.stderr
    assert program.end_lsn() == last.end_lsn
    assert program.rows("history") == sorted((n, -n) for n in range(SEGMENTS + 1))


def committed(program: Program) -> int:
    """Commits of the table until now."""
    return len(list(program.lake.glob("*/history*/_delta_log/*.json")))

"""Nine days of a table that gets up to four commits a second: files stay few, ``status`` takes no longer by days (I8).

The clock of a program is moved (``nine_days/moved_clock.c``), that of delta-rs in it as well, so that nine days take
half an hour. It is not nine days of such load: plans come four a second for less than three hours, and one a minute or
every ten minutes otherwise; rows of ``_cuts`` are written by twelve, and no plan merges anything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.results import record
from tests.fix_producer import ROOT
from tests.soak.nine_days.moved_clock import COMPILER, environ_with_clock

pytestmark = [pytest.mark.soak, pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is missing")]

LOG_BEYOND_MAX, DATA_BEYOND_MAX, CUTS_FILES_MAX = 20_000, 500, 20
STATUS_RATIO_MAX = 4
"""``status`` opens ``_cuts``, and Delta lists the whole log for that, a microsecond or two an entry. The log holds 75
minutes however old the lake is: 36,000 entries where plans come four a second, which is the most, and dozens on days
with one a minute. Within a day of one kind the calls take as long as on any other."""


def test_files_of_nine_days_are_those_of_kept_cuts_and_few_others(lake: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "tests.soak.nine_days.program", str(lake), str(figures)]
    try:
        subprocess.run(command, cwd=ROOT, env=os.environ | environ_with_clock(tmp_path), check=True)
    finally:
        if figures.exists():
            print(figures.read_text())
    found = json.loads(figures.read_text())
    record("nine_days", found)

    most, status = found["most"], found["status_cpu_ms"]
    assert most["log beyond, steady"] <= LOG_BEYOND_MAX
    assert most["data beyond, steady"] <= DATA_BEYOND_MAX
    assert most["_cuts files"] <= CUTS_FILES_MAX
    assert max(status.values()) <= STATUS_RATIO_MAX * min(status.values())

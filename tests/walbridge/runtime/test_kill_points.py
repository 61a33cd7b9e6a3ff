"""A kill point ends the process as kill -9 would, at the time asked for and only then."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
from walbridge.runtime.kill_points import kill_point
try:
    for turn in range(5):
        kill_point("here")
        print(turn, flush=True)
        kill_point("there")
finally:
    print("cleaned up", flush=True)
"""


@pytest.mark.parametrize(
    ("wanted", "turns", "code"),
    [
        ("here", 0, 137),
        ("here:1", 0, 137),
        ("here:3", 2, 137),
        ("there:2", 2, 137),
        ("there:6", 5, 0),
        (None, 5, 0),
    ],
)
def test_process_ends_without_clean_up_when_the_point_is_reached(wanted: str | None, turns: int, code: int) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "WALBRIDGE_KILL_POINT"}
    environment |= {"WALBRIDGE_KILL_POINT": wanted} if wanted else {}

    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == code, done.stderr
    assert done.stdout.split("\n")[:-1] == [*map(str, range(turns)), *(["cleaned up"] if code == 0 else [])]

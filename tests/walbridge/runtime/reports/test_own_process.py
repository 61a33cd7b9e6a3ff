"""A process knows another one of its machine, and never takes a later one with its id for it."""

from __future__ import annotations

import os
import subprocess
import sys

from walbridge.runtime.reports.own_process import is_alive, own_process


def test_process_lives_until_it_ends() -> None:
    code = "from walbridge.runtime.reports.own_process import own_process; print(own_process(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        said = child.stdout.readline().strip()
        assert is_alive(said) is True
        child.kill()
    assert is_alive(said) is False


def test_later_process_with_the_same_id_is_another_one() -> None:
    machine, _, began = own_process().rpartition("/")
    assert machine.endswith(f"/{os.getpid()}")
    assert is_alive(f"{machine}/{int(began) + 1}") is False


def test_process_of_another_machine_is_not_known() -> None:
    assert is_alive(f"another/pid:[1]/{os.getpid()}/1") is None
    assert is_alive("") is None

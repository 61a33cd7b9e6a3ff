"""SIGTERM, Ctrl-C and a terminal that is closed are heard whatever the main thread does."""

import signal
import subprocess
import sys

import pytest

END_S = 60

_PROGRAM = """
import ctypes, os, threading
from walbridge.runtime.stop_signals import set_on_stop_signals

stop = threading.Event()
set_on_stop_signals(stop)
threading.Thread(target=lambda: (stop.wait(), os._exit(7))).start()
print("ready", flush=True)
{main}
"""
_IN_A_LIBRARY = """
mutex = ctypes.create_string_buffer(256)
while True:
    ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stop_is_heard_while_a_library_holds_the_main_thread(number: signal.Signals) -> None:
    assert _code_after(number, _IN_A_LIBRARY) == 7


def test_terminal_that_is_closed_is_outlived_by_what_was_started_to_outlive_it() -> None:
    """By nohup, which has SIGHUP ignored."""
    closed = "import time\nos.kill(os.getpid(), 1)\ntime.sleep(0.5)\nos._exit(3)\n"

    assert _code_after(None, closed, "SIG_IGN") == 3
    assert _code_after(None, closed) == 7


def test_stop_that_comes_while_the_main_thread_holds_the_lock_of_the_event_does_not_wait_for_itself() -> None:
    """What waits for an event holds that lock for a moment; here it lets go of it after a while."""
    for_a_while = "import time\nwith stop._cond:\n    os.kill(os.getpid(), 15)\n    time.sleep(0.1)\nstop.wait()\n"

    assert _code_after(None, for_a_while) == 7


def _code_after(number: signal.Signals | None, main: str, hang_up: str = "SIG_DFL") -> int:
    """``hang_up``: what SIGHUP is to the program, whatever it is to who runs the tests."""
    begin = f"import signal\nsignal.signal(signal.SIGHUP, signal.{hang_up})"
    program = [sys.executable, "-c", begin + _PROGRAM.format(main=main)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if number is not None:
                process.send_signal(number)
            return process.wait(END_S)
        finally:
            process.kill()

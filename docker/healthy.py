"""``python healthy.py ROLE``: whether a container's program does what it is there for.

Exit 0 and one line when it does, 1 and one line when not. It asks the program itself: producer and
job by ``/healthz``, Spark's master and workers by what they tell about themselves. A worker counts
as healthy when the master lists it as alive: one that runs but lost its master does no work.
Only the standard library: a check every few seconds should cost little.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

TIMEOUT_S = 4
PAGE = "http://127.0.0.1:9480/healthz"
MASTER_UI = "http://{host}:8080/json/"
WORKER_UI = "http://127.0.0.1:8081/json/"


def main(role: str) -> int:
    """Look once, say what was found; the exit code."""
    try:
        problem = ROLES[role]()
    except (OSError, ValueError, KeyError) as error:
        problem = f"{type(error).__name__}: {error}"
    print(problem or "healthy")
    return int(bool(problem))


def program(port_variable: str, port: int) -> str:
    """Of a program of ours: why it is not healthy, or nothing."""
    asked = os.environ.get(f"WALBRIDGE_METRICS__{port_variable}", port)
    try:
        _answer(f"http://127.0.0.1:{asked}/healthz")
    except urllib.error.HTTPError as refusal:  # 503: the body says why
        return refusal.read().decode(errors="replace").strip()
    return ""


def page() -> str:
    """Of the status page."""
    _answer(PAGE)
    return ""


def master() -> str:
    """Of Spark's master."""
    status = json.loads(_answer(MASTER_UI.format(host="127.0.0.1")))["status"]
    return "" if status == "ALIVE" else f"the master is {status}"


def worker() -> str:
    """Of one of Spark's workers."""
    me: dict[str, Any] = json.loads(_answer(WORKER_UI))
    host = me["masterurl"].removeprefix("spark://").partition(":")[0]
    known: dict[str, Any] = json.loads(_answer(MASTER_UI.format(host=host)))
    states = [each["state"] for each in known["workers"] if each["id"] == me["id"]]
    return "" if states == ["ALIVE"] else f"to the master this worker is {', '.join(states) or 'unknown'}"


def _answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        text: str = answer.read().decode()
    return text


ROLES: dict[str, Callable[[], str]] = {
    "producer": lambda: program("PRODUCER_PORT", 9470),
    "job": lambda: program("JOB_PORT", 9471),
    "verify": lambda: program("VERIFY_PORT", 9472),
    "ui": page,
    "master": master,
    "worker": worker,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""The tutorial, run literally: its settings, its commands in their order, and what it says that they print.

In: the indented blocks of the page. Only addresses and the pipeline's name are put in place of the examples.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents import PAGES, blocks
from tests.end_to_end.newcomer import COPIED_S, STEP_S, Newcomer, with_this_checkout
from tests.end_to_end.test_readme import own, with_own
from tests.fix_postgres import Database
from tests.wait import wait_until

__all__ = ["own"]
pytestmark = pytest.mark.soak
_OF_ONE_RUN = re.compile(r" at [0-9A-F]+/[0-9A-F]+")


def test_tutorial_is_what_happens(own: dict[str, str], database: Database, tmp_path: Path) -> None:
    """I8. Logs and status are of one run; what ``init``, ``verify`` and ``drop`` print is compared."""
    newcomer = with_this_checkout(tmp_path)
    newcomer.environ["PATH"] = f"{database.server.bin('psql').parent}:{newcomer.environ['PATH']}"
    page = iter(blocks(with_own(PAGES["docs/tutorial.md"], own)))
    _install, tables = next(page), next(page)
    newcomer.run(f'psql -v ON_ERROR_STOP=1 -q "{database.dsn}" -c "{tables}"')
    newcomer.write("walbridge.toml", next(page))
    init, made, again, sql, _printed, check, _findings = (next(page) for _ in range(7))
    assert sorted(newcomer.run(init).splitlines()) == sorted(made.splitlines())
    assert newcomer.run(init).splitlines()[: len(again.splitlines())] == again.splitlines()
    newcomer.run(sql)
    assert "errors: 0," in newcomer.run(check)
    produce, _log, materialize, _log = (next(page) for _ in range(4))
    status, _shown = command_and_output(next(page))
    with newcomer.running(f"{produce}\n{materialize}") as programs:
        wait_until(lambda: "event=published" in newcomer.log(1), "the first copy in the lake", COPIED_S)
        running = newcomer.run(status)
        assert running.count("current since") == 2
        change, _events = next(page), next(page)
        newcomer.environ |= variables(change)
        newcomer.run(change)
        as_is_shown(newcomer, next(page))
        *kill, insert, status = next(page).splitlines()
        newcomer.run(with_process("\n".join(kill), running))
        assert programs.pop(0).wait(STEP_S) == -signal.SIGKILL
        newcomer.run(insert)
        wait_until(lambda: "streaming, but not running now" in newcomer.run(status), "the end of it", STEP_S)
        _status, _log = next(page), next(page)
        with newcomer.running(produce, "again"):
            wait_until(lambda: "event=streaming" in newcomer.log(0, "again"), "the producer to go on", COPIED_S)
            as_is_shown(newcomer, next(page))
    clean_up(newcomer, page)


def variables(block: str) -> dict[str, str]:
    """What its terminal knows from now on."""
    return dict(re.findall(r'(?m)^([A-Z]+)="(.*)"$', block))


def with_process(command: str, status: str) -> str:
    """With the number that the status shows of the producer in place of the tutorial's."""
    producer = re.search(r"(?s)producer .*? process (\d+) ", status)
    assert producer
    return re.sub(r"\d{3,}", producer[1], command)


def as_is_shown(newcomer: Newcomer, block: str) -> None:
    """A command prints what stands below it."""
    command, shown = command_and_output(block)
    assert without_positions(newcomer.run(command)) == without_positions(shown)


def command_and_output(block: str) -> tuple[str, str]:
    """A block in which an empty line stands between them."""
    command, _, output = block.partition("\n\n")
    return command, output


def clean_up(newcomer: Newcomer, page: Iterator[str]) -> None:
    """The last step."""
    drop, removed, remove = next(page), next(page), next(page)
    shown = newcomer.run(drop, answer="y")
    assert [line for line in removed.splitlines() if line not in shown and "slot " not in line] == []
    newcomer.run(remove)


def without_positions(text: str) -> list[str]:
    """Lines without LSNs, which differ from run to run."""
    return _OF_ONE_RUN.sub("", text).split()

"""``walbridge status`` and ``walbridge tables`` in 80 columns, with names as long as they may be."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.fix_producer import ROOT, ProducerUnderTest
from tests.walbridge.tables.test_copy_words import CURRENT, ITEMS, STALE, known, pipeline_tables
from walbridge.tables.table_status import LakeEntry, lines, table_statuses

COLUMNS = 80
LONG = "accounting_reports.customer_subscription_invoice_line_items_of_2026"
LONGEST = f"{'s' * 63}.{'t' * 63}"
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def shown(names: Sequence[str], width: int | None) -> list[str]:
    why = "a row of 17.3 MB is larger than [producer] row_bytes_max = 16,777,216"
    left = replace(STALE, relation_id=ITEMS, why=why)
    tables = [known(name, ITEMS, left if name is names[-1] else replace(CURRENT, relation_id=ITEMS)) for name in names]
    lake = {ITEMS: LakeEntry(ITEMS, "current", names[-1].replace(".", "/"), 7)}
    return lines(table_statuses(pipeline_tables(*tables), lake), lake_is_known=True, width=width)


def test_tables_of_long_names_are_shown_below_one_another_where_lines_would_be_too_long() -> None:
    assert shown(["public.t", LONG], COLUMNS) == [
        "public.t  current",
        "  topic p.public.t",
        f"  lake {LONG.replace('.', '/')}",
        "    version 7",
        f"{LONG}  stale since",
        "    0/200: a row of 17.3 MB is larger than [producer] row_bytes_max = 16,777,216",
        f"  topic p.{LONG}",
        f"  lake {LONG.replace('.', '/')}",
        "    version 7",
    ]


@pytest.mark.parametrize("width", [40, COLUMNS, 120])
def test_no_line_is_longer_than_the_terminal_and_no_word_is_lost(width: int) -> None:
    names = ["public.t", LONG, LONGEST]
    folded = shown(names, width)

    assert max(map(len, folded)) <= width
    assert "".join("".join(folded).split()) == "".join("".join(shown(names, None)).split())


def test_name_that_would_end_its_line_is_escaped_as_in_the_logs() -> None:
    assert shown(["public.two\nlines\x1b[31m"], None) == [
        "public.two\\nlines\\x1b[31m  stale since 0/200: a row of 17.3 MB is larger than [producer] row_bytes_max = "
        "16,777,216    topic p.public.two\\nlines\\x1b[31m  lake public/two\\nlines\\x1b[31m version 7"
    ]


def test_lines_that_fit_and_those_of_a_pipe_stay_one_for_each_table() -> None:
    assert len(shown(["public.t", "public.u"], 200)) == 2
    assert len(shown(["public.t", LONGEST], None)) == 2


def in_terminal(*verb: str) -> list[str]:
    """What a verb shows there."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 25, COLUMNS, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "walbridge", *verb]
    with subprocess.Popen(command, cwd=ROOT, stdout=side, stderr=subprocess.DEVNULL, env=environ | {"TERM": "xterm"}):
        os.close(side)
        text = b""
        try:
            while more := os.read(main, 4096):
                text += more
        except OSError:  # so Linux says that the other side is closed
            pass
        finally:
            os.close(main)
    return [_STYLES.sub("", line).rstrip() for line in text.decode().splitlines()]


@pytest.mark.variant(of="test_tables_are_copied_again_shown_and_forgotten_while_the_producer_runs")
def test_both_verbs_keep_to_a_terminal_of_80_columns(producer: ProducerUnderTest) -> None:
    schema, _, table = LONG.partition(".")
    producer.database.execute(
        f"CREATE SCHEMA {schema}; CREATE TABLE {LONG} (id int PRIMARY KEY);"
        f"CREATE TABLE {schema}.short (id int PRIMARY KEY)"
    )
    producer.publish(LONG, f"{schema}.short")
    producer.settings["lake"] = {"path": str(producer.folder / "lake")}
    producer.start_streaming().stop()
    producer.slot_at_rest()
    config = str(producer.write_settings())

    for verb in ("tables", "status"):
        found = in_terminal(verb, "--config", config)
        assert found, verb
        assert [line for line in found if len(line) > COLUMNS] == []
        assert any("slot" in line if verb == "status" else table in line for line in found), found

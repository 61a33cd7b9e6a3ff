"""The page of JSON output names exactly the fields that the commands print."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import typer

from tests.documents import PAGES, table
from tests.walbridge.status.test_pipeline_status import NOW
from tests.walbridge.status.test_pipeline_status import status as some_status
from tests.walbridge.status.test_show import SLOT
from tests.walbridge.status.test_words import LOST
from walbridge.check import report as check_report
from walbridge.check.finding import ok
from walbridge.cli import app
from walbridge.drop.removal import Removal, Stay
from walbridge.init import Initialised
from walbridge.producer.postgres.slots.slot_row import Prepared, Source
from walbridge.schemas.control.run_record import LastWords
from walbridge.schemas.control.table_progress import TableCopy
from walbridge.schemas.position import Lsn
from walbridge.status import json_object
from walbridge.status.pipeline_status import Copying, Lake, LeftOut, Published, TableState
from walbridge.tables import copy, forget, table_status
from walbridge.tables.known import KnownTable
from walbridge.verify import report as verify_report


def documented(command: str) -> set[str]:
    """Dotted paths, as its table has them."""
    return {path for fields, *_ in table("docs/json.md", command) for path in re.findall(r"`\.([^`]+)`", fields)}


def paths(value: Any, at: str = "") -> set[str]:
    """Of everything in a JSON value that is no object and no list."""
    if isinstance(value, dict):
        return {path for name, each in value.items() for path in paths(each, f"{at}.{name}" if at else name)}
    if isinstance(value, list):
        return {path for each in value for path in paths(each, f"{at}[]")}
    return {at}


def test_each_verb_with_json_has_its_section_and_no_other() -> None:
    """A row of ``sql`` has the columns that were asked for, and ``tail`` is told apart, too: in the words before."""
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
    printing = {name for name, verb in verbs.items() if any("--json" in each.opts for each in verb.params)}
    before, *sections = re.split(r"(?m)^## ", PAGES["docs/json.md"])
    named = {re.match(r"walbridge (\w+) --json\n", section)[1] for section in sections}  # type: ignore[index]

    assert named == printing - {"sql"}
    assert all(f"`walbridge {each}`" in before for each in ("config", "tail", "sql --json"))


def test_fields_of_check() -> None:
    assert paths(json.loads(check_report.as_json([ok("server", "is there")]))) == documented("check")


def test_fields_of_verify() -> None:
    result = verify_report.TableResult("public.t", "current", Lsn(1), notes=["a note"])
    for kind in verify_report.KINDS:
        result.add(kind, "id=1", 1)

    assert paths(json.loads(verify_report.as_json([result]))) == documented("verify")


TABLE = KnownTable(7, "public.t", "p.public.t", None, None)


def test_fields_of_init() -> None:
    made = Initialised(
        {"walbridge": True}, {"p.cuts": 1}, "slot", slot_is_new=True, role="r", role_sql="CREATE ROLE r;"
    )
    found = json.loads(made.as_json("p"))

    assert paths(found) == documented("init")
    assert found["role"] == {"name": "r", "exists": False, "sql": "CREATE ROLE r;"}


def test_fields_of_copy() -> None:
    waits = [copy.CopyWait(TABLE, 3), copy.CopyWait(TABLE, 4, outcome=""), copy.CopyWait(TABLE, -1, outcome="it left")]
    found = json.loads(copy.as_json("p", waits, producer_runs=True))

    assert paths(found) == documented("copy")
    assert found["new_epoch"] is False
    assert [(each["asked"], each["copied"], each["why"]) for each in found["tables"]] == [
        (True, None, None),
        (True, True, None),
        (False, False, "it left"),
    ]


def test_fields_of_forget() -> None:
    found = [forget.Remains(TABLE, "p.public.t", None, is_out=False)]

    assert paths(json.loads(forget.as_json("p", found, producer_runs=True, lake_is_known=True))) == documented("forget")


def test_fields_of_drop() -> None:
    removal = Removal(
        "p", "slot", 7, ("walbridge",), ("p.cuts",), (Stay("lake", "lake"), Stay("topics", "p.*", "kept"))
    )

    assert paths(json.loads(removal.as_json(removed=True))) == documented("drop")


def test_fields_of_tables() -> None:
    copied = TableCopy(Lsn(1))
    writer = table_status.LastWriter("spark", "MERGE", 2**30, has_vectors=True)
    entry = table_status.LakeEntry(7, "current", "public/t", 3, writer=writer)
    shown = table_status.TableStatus(7, "public.t", "current", "p.t", None, None, copied, 0.5, False, entry)

    assert paths({"pipeline": "p", "tables": [table_status.as_json(shown)]}) == documented("tables")


def test_fields_of_status() -> None:
    """What a peer that does not answer has besides is in the text: ``reason``. Each program has the same fields."""
    words = LastWords(LOST, LOST)
    there = replace(
        some_status(),
        source=Source("18.1", 1_000, NOW, replace(SLOT, prepared=Prepared(2, "it's", 200))),
        producer=words,
        job=words,
        verifier=words,
    )
    assert isinstance(there.published, Published)
    assert isinstance(there.lake, Lake)
    left, copying = LeftOut("public.u", 7, "why"), Copying("public.v", 1, 2, 0.5)
    there = replace(
        there,
        published=replace(there.published, left_out=(left,), copying=(copying,)),
        lake=replace(there.lake, tables=(TableState("public.t", "current", None),)),
    )
    printed = {_of_the_job(path) for path in paths(json_object.as_json(there))}

    assert printed == documented("status")


def _of_the_job(path: str) -> str:
    """The page has what a program's run has in it for one of them, and once."""
    path = re.sub(r"^programs\.\w+\.run\.", "programs.job.run.", path)
    return re.sub(r"^programs\.\w+\.last_end\..*", "programs.job.last_end", path)

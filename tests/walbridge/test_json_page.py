"""The page of JSON output names exactly the fields that the commands print."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.documents import table
from walbridge.check import report as check_report
from walbridge.check.finding import ok
from walbridge.drop import Removal, Stay
from walbridge.init import Initialised
from walbridge.schemas.position import Lsn
from walbridge.status import show, words
from walbridge.tables import copy, forget, standing
from walbridge.tables.known import KnownTable
from walbridge.verify import report as verify_report


def documented(command: str) -> set[str]:
    """Dotted paths, as its table has them."""
    return {path for fields, *_ in table("docs/json.md", command) for path in re.findall(r"`\.([^`]+)`", fields)}


def names(command: str) -> set[str]:
    return {part.removesuffix("[]") for path in documented(command) for part in path.split(".")}


def keys_of(module: ModuleType, wanted: Callable[[str], bool]) -> set[str]:
    """Those of the objects that these functions of a module make."""
    made = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.FunctionDef)]
    objects = [each for node in made if wanted(node.name) for each in ast.walk(node) if isinstance(each, ast.Dict)]
    return {str(key.value) for each in objects for key in each.keys if isinstance(key, ast.Constant)}


def paths(value: Any, at: str = "") -> set[str]:
    """Of everything in a JSON value that is no object and no list."""
    if isinstance(value, dict):
        return {path for name, each in value.items() for path in paths(each, f"{at}.{name}" if at else name)}
    if isinstance(value, list):
        return {path for each in value for path in paths(each, f"{at}[]")}
    return {at}


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
    assert keys_of(standing, lambda name: name == "as_json") | {"pipeline", "tables"} == names("tables")


def test_fields_of_status() -> None:
    shown = keys_of(show, lambda name: name == "as_json" or name.endswith(("_json", "_answered")))

    assert shown | keys_of(words, lambda name: name.endswith("_json")) == names("status") | {"reason"}

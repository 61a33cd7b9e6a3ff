"""The control records' schemas are frozen: what has been written stays readable.

A change of a field, default, symbol or property needs a new version namespace (walbridge.v2)
beside the old one; only a ``doc`` may change.
"""

import hashlib
import json
from importlib.resources import files
from typing import Any

import pytest

from walbridge.schemas.avro.codec import CONTROL_RECORDS

# name → (namespace, sha256 of the canonical JSON). A new line for a new version; none ever changes.
FROZEN = {
    "Relation": ("walbridge.v1", "43a0386525994f77ca5ea02825ef79bde2f3a51e050db0189077f47cf7c49156"),
    "Type": ("walbridge.v1", "77889a77d1dddb0b9f3fbf55eca8dd943e83e4b73c74301eef29ff2a5bb044c6"),
    "Cut": ("walbridge.v1", "1554e1e1c9c4bf9027d86220677bfe17450fda2b7ffcd43e15def9f854074d23"),
    "Progress": ("walbridge.v1", "e3dcff265c63ecfa96de88dd50bf2c6f71f98d6842a4b42cd9c32b08efb60144"),
    "TableProgress": ("walbridge.v1", "985913c4fcc958a95282c7cb412ccd981e5208a1c05c7c5b30d31e3c583bfc4b"),
    "TableProgress2": ("walbridge.v2", "4166f1fe7d654d3a8939d417084d387fba4a688cf6627f25714bd478683bebb6"),
    "TableRequest": ("walbridge.v1", "0b642ee101baf2b627b59a2b2b23cd174e312be83c782357e0ff55c4c728bc53"),
    "Relation2": ("walbridge.v2", "af67c7847bc9845e0d80c333536f20c3737ac446d5dfaaf91ae00e68909ee2ea"),
    "Relation3": ("walbridge.v3", "1b2b3a64a0408a97a9e8e2bce5d46f5cb3dc40a76b93b3ef2a861fdb2f75fa8f"),
    "Relation4": ("walbridge.v4", "d437b9429739d3c982ca9d86ce682030bb07303442443101280512b5ae6ae2ae"),
    "TableRequest2": ("walbridge.v2", "2038a278f6e707975a6680278508b26f9878b7c05f9e1d006184273cb7363c78"),
    "TableRequest3": ("walbridge.v3", "8cbfc6e8e38f1fbb4a7da870e92924f33bef2eae2eea2bf1c22677daaa2fcc06"),
}


def without_docs(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: without_docs(value) for key, value in schema.items() if key != "doc"}
    return [without_docs(entry) for entry in schema] if isinstance(schema, list) else schema


def canonical(schema: Any) -> str:
    """Sorted keys, no blanks, no docs; defaults and properties stay, which Avro's own form drops."""
    return json.dumps(without_docs(schema), sort_keys=True, separators=(",", ":"))


def read(name: str) -> Any:
    return json.loads(files("walbridge.schemas.control").joinpath(f"{name}.avsc").read_text())


@pytest.mark.parametrize("name", CONTROL_RECORDS)
def test_control_schema_does_not_change_within_its_version(name: str) -> None:
    schema = read(name)
    namespace, digest = FROZEN[name]

    assert (schema["namespace"], hashlib.sha256(canonical(schema).encode()).hexdigest()) == (namespace, digest)


def test_every_schema_file_is_frozen() -> None:
    found = {
        entry.name.removesuffix(".avsc")
        for entry in files("walbridge.schemas.control").iterdir()
        if entry.name.endswith(".avsc")
    }

    assert found == set(FROZEN) == set(CONTROL_RECORDS)


@pytest.mark.parametrize(
    ("changed", "same"),
    [({"doc": "other"}, True), ({"default": 1}, False), ({"pg.name": "x"}, False), ({"type": "int"}, False)],
)
def test_canonical_form_keeps_all_but_docs(changed: dict[str, Any], same: bool) -> None:
    field = {"name": "cut_id", "type": "long", "doc": "this"}

    assert (canonical([field]) == canonical([field | changed])) is same

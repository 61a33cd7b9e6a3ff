"""Every finding of ``walbridge check`` that names what mends it, beside the errors of others that it only repeats.

In: the modules of ``walbridge/check``. Out: places, each as ``module:function: text``, with a sign for what is put into
the text. Read from the syntax alone, as ``sites.py`` does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.documents import ROOT

FOLDER = ROOT / "walbridge" / "check"
MAKERS = {"advice", "warning", "error", "found"}
"""``found`` is one of the others, chosen by how bad it is."""
TEXT_MAX = 60
PUT_IN = "…"


def findings() -> set[str]:
    """Of all of them. Findings of one function that begin alike have one place."""
    return {
        f"{path.stem}:{place}"
        for path in sorted(FOLDER.rglob("*.py"))
        if path.stem != "finding"
        for place in _made(ast.parse(path.read_text()), None)
    }


def _made(node: ast.AST, function: ast.FunctionDef | None) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inside = child if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in MAKERS:
            assert inside is not None
            yield f"{inside.name}: {_text(child.args[1], inside)}"
        yield from _made(child, inside)


def _text(node: ast.expr, function: ast.FunctionDef) -> str:
    if isinstance(node, ast.Name):
        assigned = (each for each in ast.walk(function) if isinstance(each, ast.Assign))
        named = (each.value for each in assigned if ast.unparse(each.targets[0]) == node.id)
        node = next(named, node)
    if isinstance(node, ast.Constant):
        return str(node.value)[:TEXT_MAX]
    if not isinstance(node, ast.JoinedStr):
        return PUT_IN
    parts = (part.value if isinstance(part, ast.Constant) else PUT_IN for part in node.values)
    return "".join(map(str, parts))[:TEXT_MAX]

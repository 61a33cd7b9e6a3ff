"""Every place in the code that tells an operator what mends something: where an ``OperatorError`` is made.

In: the modules of the project. Out: places, each as ``path:function``. Read from the syntax alone, so that a place
that no test ever reaches is found too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.documents import ROOT

PACKAGES = ("schemas", "producer", "spark_consumer", "walbridge")
NOT_AN_OPERATORS = ("walbridge/embedded/", "walbridge/demo/")
"""What only demo and tests start: its errors are those of set-up."""


def sites() -> set[str]:
    """Of all of them. A function has one for all the errors that it makes."""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text() for package in PACKAGES for path in _modules(ROOT / package)
    }
    trees = {path: ast.parse(text) for path, text in texts.items()}
    names = _error_classes(trees.values())
    # Trees are long to walk, and most hold no call of these.
    called = re.compile(rf"(?<!class )\b(?:{'|'.join(names)})\s*\(")
    return {
        f"{path}:{function}"
        for path, tree in trees.items()
        if called.search(texts[path]) and not path.startswith(NOT_AN_OPERATORS)
        for function in _makers(tree, names, "")
    }


def _modules(folder: Path) -> Iterator[Path]:
    """Not through links: under ``walbridge`` the other packages are there a second time."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _modules(path)
        elif path.suffix == ".py":
            yield path


def _error_classes(trees: Iterable[ast.Module]) -> set[str]:
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    names = {"OperatorError"}
    while more := {name for name, over in bases.items() if over & names} - names:
        names |= more
    return names


def _makers(node: ast.AST, names: set[str], function: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in names:
            yield inside
        yield from _makers(child, names, inside)

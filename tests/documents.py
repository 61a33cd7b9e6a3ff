"""What is written for people, taken apart for the tests that hold it against the code.

In: the Markdown files of the project. Out: their tables, links, headings and code. Code is what stands
between backticks, or in a block that is indented by four columns.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
}
"""Path → text."""

_BLOCK = re.compile(r"(?m)^(?:\n|^)((?: {4,}.*(?:\n|$)|\n(?= {4}))+)")
_LINK = re.compile(r"(?<!!)\[[^\]]+]\(([^)\s]+)\)")


def table(page: str, column: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading, without its two header lines."""
    lines = PAGES[page].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {column} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def blocks(text: str) -> list[str]:
    """The indented blocks, without their indentation."""
    return [re.sub(r"(?m)^ {4}", "", found).strip("\n") for found in _BLOCK.findall(text)]


def code(page: str) -> list[str]:
    """Every span and every line of code, continued lines as one."""
    text = PAGES[page]
    spans = re.findall(r"`([^`\n]+)`", _BLOCK.sub("\n", text))
    lines = [line.strip() for block in blocks(text) for line in block.replace("\\\n", " ").splitlines()]
    return [*spans, *filter(None, lines)]


def links(page: str) -> list[str]:
    """Where the page points to in the project: a path from the root, with its anchor."""
    found = [target for target in _LINK.findall(_without_code(PAGES[page])) if "://" not in target]
    return [_from_root(page, target) for target in found]


def anchors(page: str) -> set[str]:
    """What a link may name behind the ``#``, as GitHub makes it of headings."""
    titles = re.findall(r"(?m)^#+ (.+)$", PAGES[page])
    return set(map(anchor_of, titles))


def anchor_of(title: str) -> str:
    """Of one heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]+`", "code", _BLOCK.sub("\n", text))


def _from_root(page: str, target: str) -> str:
    path, hash_mark, anchor = target.partition("#")
    to = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
    return f"{to.relative_to(ROOT).as_posix()}{hash_mark}{anchor}"

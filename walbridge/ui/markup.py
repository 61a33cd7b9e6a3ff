"""HTML from parts, escaped unless it is HTML already. Pure.

In: names of elements, attributes, texts. Out: ``Html``. A plain text is escaped wherever it is put, so that no name
of a table, and no text of an error, becomes markup.
"""

from html import escape
from typing import Final

_VOID: Final = frozenset({"meta", "link", "br"})


class Html(str):
    """A text that is HTML, and is not escaped again."""

    __slots__ = ()


Child = str | None
NOTHING: Final = Html("")


def tag(element: str, *children: Child, **attributes: str | bool | None) -> Html:
    """An element. ``class_`` stands for ``class``, ``aria_label`` for ``aria-label``; None and False leave one out."""
    shown = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if element in _VOID:
        return Html(f"<{element}{shown}>")
    return Html(f"<{element}{shown}>{join(*children)}</{element}>")


def join(*children: Child) -> Html:
    """The children one after the other; plain texts are escaped."""
    return Html("".join(each if isinstance(each, Html) else escape(each) for each in children if each is not None))


def _attribute(key: str, value: str | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'

"""Text of a user's own on one line of a terminal: names and values may hold anything."""


def one_line(text: str) -> str:
    """The text, its control characters escaped: they could end its line, or overwrite other text of a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

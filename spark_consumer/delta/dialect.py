"""What delta-rs and Spark write differently in SQL."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's SQL."""

    quote: str
    """The quote around identifiers; it is doubled inside them."""
    text: str
    """The name of the text type."""
    contains: str
    """The function that tells whether an array contains a value."""
    has_escapes: bool
    """Whether a backslash in a literal is an escape."""
    looks_up_lists: bool
    """Whether a long IN list in a join's condition saves work: the engine makes a hash set of it, and filters before
    the join."""

    def quoted(self, name: str) -> str:
        """The name as an identifier."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, text: str) -> str:
        """The text as a literal."""
        if self.has_escapes:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


DELTA_RS = Dialect('"', "VARCHAR", "array_has", has_escapes=False, looks_up_lists=False)
SPARK = Dialect("`", "STRING", "array_contains", has_escapes=True, looks_up_lists=True)

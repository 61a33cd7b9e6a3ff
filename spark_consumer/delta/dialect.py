"""What delta-rs and Spark write differently in SQL."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's SQL."""

    quote: str
    """Around identifiers; doubled inside."""
    text: str
    """The type of texts."""
    contains: str
    """The function that looks a value up in an array."""
    has_escapes: bool
    """Whether a backslash means something inside of a text."""
    looks_up_lists: bool
    """Whether a long list of values in the condition of a join saves work: it is a hash set, asked before the join."""

    def quoted(self, name: str) -> str:
        """An identifier."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, text: str) -> str:
        """A text."""
        if self.has_escapes:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


DELTA_RS = Dialect('"', "VARCHAR", "array_has", has_escapes=False, looks_up_lists=False)
SPARK = Dialect("`", "STRING", "array_contains", has_escapes=True, looks_up_lists=True)

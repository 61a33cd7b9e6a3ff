"""Remedies that several errors share."""

from walbridge.schemas.errors import copy_command

ON_UNKNOWN_VALUE = (
    'set [producer] on_unknown_value = "stale": the lake\'s table is then marked stale when that happens, and the '
    "others go on"
)
BINARY_OFF = "set [postgres] binary = false, which changes no event"


def copied_again(table: str) -> str:
    """The remedy of what a copy mends."""
    return f'{copy_command(table)}; where [producer] on_table_error is "stop", set it to "copy" instead'

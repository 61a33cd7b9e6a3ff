"""Why one table could not be compared, where that says nothing of the others.

Everything else that a comparison raises is of a server, of the lake or of the publication, and so of all tables.
"""

from walbridge.schemas.errors import OperatorError


class TableNotCompared(OperatorError):
    """Its rows cannot be read on one side."""


class NotInLake(TableNotCompared):
    """It has no place in the newest published cut, so far."""


class NotPublished(TableNotCompared):
    """It is in no publication of the pipeline, or not any more."""

"""Whether the producer follows the publications of the settings, which decide what rows and columns are compared.

In: settings, and progress as Kafka holds it. Out: those that it follows instead, until it begins with the others. Reads
only.
"""

from collections.abc import Sequence

from walbridge.control_records import newest_progress, topics_there
from walbridge.producer.guards.baseline import followed_names
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings


def others_followed(settings: Settings) -> Sequence[str]:
    """Publications that the lake's tables come from by now; none where they are those of the settings, or where nobody
    can tell."""
    named = settings.postgres.publication_names
    try:
        progress = newest_progress(settings, topics_there(settings), all_tables=False)
    except (OperatorError, RetryableError):
        return ()
    followed = named if progress is None else followed_names(progress, named)
    return () if {*followed} == {*named} else followed

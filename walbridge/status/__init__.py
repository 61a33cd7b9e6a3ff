"""``walbridge status``: where slot, producer, topics and lake stand, and how far behind each is."""

from walbridge.status.verb import status

__all__ = ["status"]

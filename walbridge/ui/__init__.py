"""``walbridge ui``: a status page of one or several pipelines, read only."""

from walbridge.ui.verb import serve

__all__ = ["serve"]

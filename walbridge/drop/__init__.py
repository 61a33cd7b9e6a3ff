"""``walbridge drop``: what a pipeline left behind goes away, the slot first. The lake always stays."""

from walbridge.drop.verb import drop

__all__ = ["drop"]

"""``walbridge verify``: is every table of the lake equal to its source? Once, or again and again (``service.py``)."""

from walbridge.verify.rounds import compare, verify

__all__ = ["compare", "verify"]

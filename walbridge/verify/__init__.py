"""``walbridge verify``: is every table of the lake equal to its source?"""

from walbridge.verify.verify import compare, verify

__all__ = ["compare", "verify"]

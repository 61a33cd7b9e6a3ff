"""``walbridge check``: will this pipeline run, and if not, what mends it?"""

from walbridge.check.verb import check

__all__ = ["check"]

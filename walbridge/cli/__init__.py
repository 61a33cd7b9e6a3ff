"""The verbs of ``walbridge``: what each takes, and which module does it, in the order in which ``--help`` shows them.

Whatever is slow to import (Spark, Delta, both clients) is imported by the verb that needs it, so
that ``walbridge --help`` answers at once.
"""

# Imported in the order of their verbs.
# isort: off
from walbridge.cli.options import app
from walbridge.cli import run as run, operate as operate, read as read
# isort: on

__all__ = ["app"]

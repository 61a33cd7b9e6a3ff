"""The verbs of ``walbridge``: their options, and the module that each calls, in the order of ``--help``.

Modules that are slow to import (Spark, Delta, both clients) are imported by the verb that needs them, so
that ``walbridge --help`` answers at once.
"""

# Imported in the order of their verbs.
# isort: off
from walbridge.cli.options import app
from walbridge.cli import run as run, operate as operate, read as read
# isort: on

__all__ = ["app"]

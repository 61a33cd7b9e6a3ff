"""``walbridge demo``: the whole pipeline on this machine, under pgbench's load, then verified."""

from walbridge.demo.demo import run

__all__ = ["run"]

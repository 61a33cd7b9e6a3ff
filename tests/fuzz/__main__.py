"""``make fuzz``: two million inputs over all targets; exit code 1 when one of them broke a promise."""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.campaign import campaign
from tests.fuzz.targets import TARGETS

INPUTS = 2_000_000


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for: all targets where none is named."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", type=_target, help=", ".join(TARGETS))
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    asked = parser.parse_args(arguments)
    asked.targets = asked.targets or [*TARGETS]
    return asked


def _target(name: str) -> str:
    if name not in TARGETS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(TARGETS)}")
    return name


def main(arguments: Sequence[str]) -> int:
    """Fuzz and say what came of it."""
    asked = options(arguments)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: it has wheels for Linux on x86_64, Python 3.11 to 3.13")
        return 2
    total, broken = 0, 0
    for result in campaign(asked.inputs, asked.folder, os.cpu_count() or 1, asked.targets):
        print(result, flush=True)
        total, broken = total + result.inputs, broken + (result.finding is not None)
    print(f"{total:,} inputs, {broken} of {len(asked.targets)} targets broken")
    return 1 if broken or total < asked.inputs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

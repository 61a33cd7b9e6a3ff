"""``make fuzz``: two million inputs over all targets; exit code 1 when one of them broke a promise."""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

from tests.fuzz.campaign import campaign
from tests.fuzz.targets import TARGETS

INPUTS = 2_000_000


def main() -> int:
    """Fuzz and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], default=[*TARGETS])
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: it has wheels for Linux on x86_64, Python 3.11 to 3.13")
        return 2
    total, broken = 0, 0
    for result in campaign(options.inputs, options.folder, os.cpu_count() or 1, options.targets or [*TARGETS]):
        print(result, flush=True)
        total, broken = total + result.inputs, broken + (result.finding is not None)
    print(f"{total:,} inputs, {broken} of {len(options.targets)} targets broken")
    return 1 if broken or total < options.inputs else 0


if __name__ == "__main__":
    sys.exit(main())

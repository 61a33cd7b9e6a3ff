"""``python -m tests.fuzz.run_target NAME [libFuzzer's arguments]``: one target under atheris.

Only what is imported inside of the block counts as covered, so nothing of ours is imported before.
A file as argument is run once: how a finding is repeated.
libFuzzer judges memory by ``ru_maxrss``, which exec(2) keeps: a program begins with the peak of the
process that started it, and that one may be a test run of a gigabyte. A forked child begins anew.
"""

import os
import sys

import atheris


def main() -> None:
    """Fuzz in a child until libFuzzer ends it; its exit code is ours."""
    if child := os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    with atheris.instrument_imports(include=["walbridge.producer", "walbridge.schemas"]):
        from tests.fuzz.targets import target_of
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target_of(sys.argv[1]))
    atheris.Fuzz()


if __name__ == "__main__":
    main()

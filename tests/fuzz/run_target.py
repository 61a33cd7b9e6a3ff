"""``python -m tests.fuzz.run_target NAME [libFuzzer's arguments]``: one target under atheris.

Only what is imported inside of the block counts as covered, so nothing of ours is imported before.
A file as argument is run once: how a finding is repeated.
"""

import sys

import atheris


def main() -> None:
    """Fuzz until libFuzzer ends the process."""
    with atheris.instrument_imports(include=["walbridge.producer", "walbridge.schemas"]):
        from tests.fuzz.targets import target_of
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target_of(sys.argv[1]))
    atheris.Fuzz()


if __name__ == "__main__":
    main()

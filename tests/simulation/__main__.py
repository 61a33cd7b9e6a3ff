"""One seed again, with everything that happened: ``python -m tests.simulation SEED``."""

import sys

from tests.simulation.run import run_seed


def main(seed: int) -> int:
    """Print the trace; 1 when the producer did wrong."""
    outcome = run_seed(seed, traced=True)
    print("\n".join(outcome.trace))
    print(
        f"seed {seed}: {outcome.boots} starts, {outcome.records} records, faults: {', '.join(outcome.faults) or 'none'}"
    )
    print(f"violation: {outcome.violation}" if outcome.violation else "as it must be")
    return 1 if outcome.violation else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))

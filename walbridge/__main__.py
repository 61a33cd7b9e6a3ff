"""``walbridge`` and ``python -m walbridge``: the operator's command.

Exit 0: done. 1: unequal (verify) or a bug. 2: the operator must act; what and how is on stderr.
"""

import sys
from collections.abc import Sequence

from schemas.errors import OperatorError, report
from walbridge.cli import app
from walbridge_runtime.crash_report import report_bug


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; its exit code."""
    try:
        app(args=None if argv is None else list(argv), prog_name="walbridge")
    except OperatorError as error:
        return report(error)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        return report_bug(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())

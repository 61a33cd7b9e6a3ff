"""``walbridge`` and ``python -m walbridge``: the operator's command.

Exit 0: done. 1: unequal (verify) or a bug. 2: the operator must act; what and how is on stderr. 130: ended by Ctrl-C.
141: nobody reads on what is printed.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress

from walbridge.extras import MissingPackage, missing_package
from walbridge.runtime.reports.crash_report import report_bug
from walbridge.runtime.stop_signals import EXIT_CTRL_C
from walbridge.runtime.streams import EXIT_UNREAD, flush_output, hold_streams, nobody_reads, refused_print
from walbridge.schemas.errors import OperatorError, RetryableError, back_again, report


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb, and write all that it printed; its exit code."""
    hold_streams()
    code = _run(argv)
    try:
        flush_output()
    except BrokenPipeError:
        return EXIT_UNREAD
    except OSError as error:
        return _unprinted(error)
    return code


def _run(argv: Sequence[str] | None) -> int:
    try:
        from walbridge.cli import app  # what takes longest until a verb begins: Ctrl-C is told nothing there either

        app(args=None if argv is None else list(argv), prog_name="walbridge")
    except OperatorError as error:
        return report(error)
    except RetryableError as error:  # a program would try again; a command is run again
        mend = back_again(error, "see that this server runs and has room")
        return report(OperatorError(str(error), f"{mend}; then run the command again: what it did already stays done"))
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        return report_bug(error) if missing is None else report(_not_installed(missing))
    except KeyboardInterrupt:
        return EXIT_CTRL_C
    except SystemExit as end:
        if nobody_reads(end):
            return EXIT_UNREAD
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (OSError, UnicodeEncodeError) as error:
        return _unprinted(error)
    except Exception as error:
        return report_bug(error)
    return 0


def _unprinted(error: OSError | UnicodeEncodeError) -> int:
    refused = refused_print(error)
    if refused is None:
        return report_bug(error)
    with suppress(OSError):  # the same, where this was about stdout
        flush_output()
    return report(refused)


def _not_installed(missing: MissingPackage) -> OperatorError:
    return OperatorError(
        f"this verb needs the package {missing.name}, which is not installed here",
        remedy=f"{missing.install}; '.[all]' is what all verbs but demo need, '.[demo]' what demo needs",
    )


if __name__ == "__main__":
    sys.exit(main())

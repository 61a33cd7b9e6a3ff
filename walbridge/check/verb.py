"""Runs every check, whatever the others found; a check that needs a peer that is away says so.

In: settings. Out: findings in a fixed order, on stdout; exit code 0, or 2 when one is an error.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import psycopg
from confluent_kafka import KafkaException
from rich.console import Console

from walbridge.check import report
from walbridge.check.finding import Finding, Severity, advice, error, exit_code, not_checked, refused
from walbridge.check.reached import Reached, reach_kafka, reach_postgres
from walbridge.check.source.server import AREA as SERVER
from walbridge.check.steps import checks_of
from walbridge.check.topics import BROKER
from walbridge.extras import missing_package
from walbridge.producer.postgres.server_errors import classified
from walbridge.runtime.logs import configure_logs
from walbridge.schemas.errors import NO_CONNECTION_LEFT, NoConnectionLeft, OperatorError, RetryableError, WalbridgeError
from walbridge.schemas.settings import Settings


def check(settings: Settings, *, as_json: bool) -> int:
    """Run every check and print what was found; the exit code."""
    configure_logs("warning")  # what the producer's own parts say goes to stderr
    findings = list(all_findings(settings))
    console = Console()
    if as_json:
        print(report.as_json(findings))
    elif console.is_terminal:
        for line in report.for_terminal(findings, console.width):
            console.print(line, soft_wrap=True)
        console.print(f"\n{report.verdict(findings)}", highlight=False)
    else:
        print(f"{report.as_text(findings)}\n{report.verdict(findings)}")
    return exit_code(findings)


def all_findings(settings: Settings) -> Iterator[Finding]:
    """The findings, in the order in which a newcomer mends them."""
    reached = Reached(settings)
    try:
        reaching = {
            "Postgres": list(_tried(SERVER, partial(reach_postgres, reached))),
            "Kafka": list(_tried(BROKER, partial(reach_kafka, reached))),
        }
        areas_not_checked, told = set[str](), set[str]()
        for area, needs, findings in checks_of(settings):
            for peer in needs:
                yield from reaching.pop(peer, ())
            absent = [peer for peer in needs if not reached.answers(peer)]
            if not absent:
                for finding in _tried(area, partial(findings, reached)):
                    # One fault may stop several steps of a start; the first that meets it says it.
                    if finding.severity is Severity.OK or finding.text not in told:
                        told.add(finding.text)
                        yield finding
            elif area not in areas_not_checked | {SERVER, BROKER}:
                areas_not_checked.add(area)
                yield not_checked(area, absent[0])
    finally:
        if reached.connection is not None:
            reached.connection.close()


def _tried(area: str, findings: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of one check. If the check itself fails, that is a finding, and the other checks go on."""
    try:
        yield from findings()
    except psycopg.Error as failure:
        yield _failed(area, classified(failure))
    except KafkaException as failure:
        yield _failed(area, RetryableError(failure.args[0].str()))
    except WalbridgeError as failure:
        yield _failed(area, failure)
    except ModuleNotFoundError as failure:
        missing = missing_package(failure)
        if missing is None:
            raise
        text = f"not checked: {missing.name} is not installed here, so walbridge materialize cannot run here either"
        yield advice(area, text, f"if it is to run here: {missing.install}")


def _failed(area: str, failure: WalbridgeError) -> Finding:
    if isinstance(failure, OperatorError):
        return refused(area, failure)
    mend = NO_CONNECTION_LEFT if isinstance(failure, NoConnectionLeft) else "see that it is there and answers"
    return error(area, str(failure), f"{mend}, then walbridge check again")

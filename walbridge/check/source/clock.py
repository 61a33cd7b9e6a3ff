"""Do the server's clock and this machine's agree?

In: a connection. Out: a finding where they do not. What is published does not depend on clocks, but delays, lags, ages
and the validity of certificates do; and Kafka takes no control record whose time is more than an hour ahead of its own.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from walbridge.check.finding import Finding, warning
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.quantities import seconds_text

SKEW_S = 5.0


def skew_s(asked: datetime, said: datetime, answered: datetime) -> float:
    """How far the other clock is ahead, at least: the answer was made at some time between the two."""
    if asked <= said <= answered:
        return 0.0
    return (said - answered if said > answered else said - asked).total_seconds()


def clock_findings(connection: SqlConnection, area: str) -> Iterator[Finding]:
    """One, or none."""
    asked = datetime.now(UTC)
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    yield from skew_findings(skew_s(asked, row[0], datetime.now(UTC)), area)


def skew_findings(skew: float, area: str) -> Iterator[Finding]:
    """Whether it is worth a word."""
    if abs(skew) > SKEW_S:
        yield warning(
            area,
            f"the server's clock is {seconds_text(abs(skew))} {'ahead of' if skew > 0 else 'behind'} this machine's: "
            "delays, lags and ages are shown wrong by that",
            "set the clocks of both by NTP, then walbridge check again",
        )

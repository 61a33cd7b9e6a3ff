"""A source that is written to while it is compared: only what survives the next cut counts.

Each cut and commit between two rounds is made when the comparison asks for the lake's newest
cut, so the order of events is exact: cut k, snapshot k, then the step, cut k+1, snapshot k+1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.fix_postgres import Database
from tests.walbridge.verify.accounts import verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.schemas.position import parse_lsn
from walbridge.verify import rounds
from walbridge.verify.comparison.fingerprint import Fingerprint
from walbridge.verify.lake import Lake, PublishedCut
from walbridge.verify.report import TableResult
from walbridge.verify.source import Source, SourceTable
from walbridge.verify.sweep import sweep

TYPES = {"id": pa.int32(), "value": pa.string()}


class Live:
    """A table ``t`` and a lake that a test moves forward round by round."""

    def __init__(self, database: Database, lake: HandmadeLake) -> None:
        self.database = database
        self.lake = lake
        database.execute("CREATE TABLE t (id int PRIMARY KEY, value text); CREATE PUBLICATION pub FOR ALL TABLES")

    def publish(self, *rows: tuple[int, str, int]) -> None:
        """A cut at the source's LSN of now. Rows: id, value, commit LSN."""
        content = [{"id": key, "value": value} for key, value, _ in rows]
        self.lake.write("public.t", TYPES, content, positions=[(lsn, 0) for _, _, lsn in rows])
        self.lake.publish(parse_lsn(self.database.value("SELECT pg_current_wal_insert_lsn()::text")))


@pytest.fixture(autouse=True, params=["one snapshot", "a sweep"])
def view(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to read the source say the same."""
    if request.param == "a sweep":
        monkeypatch.setattr("walbridge.verify.rounds.snapshot", partial(sweep, beat=lambda: None))


@pytest.fixture
def live(database: Database, lake: Path) -> Live:
    return Live(database, HandmadeLake(lake))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Runs one step before each look at the manifest; all must have run in the end."""
    waiting: list[Callable[[], None]] = []
    look = Lake.newest_cut

    def look_after_a_step(lake: Lake) -> PublishedCut | None:
        if waiting:
            waiting.pop(0)()
        return look(lake)

    monkeypatch.setattr(Lake, "newest_cut", look_after_a_step)
    yield lambda *given: waiting.extend(given)
    assert waiting == []


def write(live: Live, statement: str, *cut: tuple[int, str, int]) -> Callable[[], None]:
    """A step: publish what the lake has, then commit, so that this snapshot is ahead of its cut."""

    def step() -> None:
        live.publish(*cut)
        live.database.execute(statement)

    return step


def test_a_lake_that_is_only_behind_is_equal(live: Live, steps: Callable[..., None]) -> None:
    live.database.execute("INSERT INTO t VALUES (1, 'a')")
    steps(
        write(live, "INSERT INTO t VALUES (2, 'b')", (1, "a", 1)),
        write(live, "INSERT INTO t VALUES (3, 'c')", (1, "a", 1), (2, "b", 2)),
    )
    code, tables = verdict(live.database, live.lake)
    assert (code, tables["public.t"]["in_flux"]) == (0, 0)


def test_a_lost_row_is_found_beside_rows_that_are_only_late(live: Live, steps: Callable[..., None]) -> None:
    live.database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'lost')")
    steps(
        write(live, "INSERT INTO t VALUES (3, 'c')", (1, "a", 1)),
        write(live, "INSERT INTO t VALUES (4, 'd')", (1, "a", 1), (3, "c", 2)),
    )
    code, tables = verdict(live.database, live.lake)
    assert (code, tables["public.t"]["keys"]["missing"]) == (1, ["id=2"])


def test_a_resurrected_row_is_found(live: Live, steps: Callable[..., None]) -> None:  # I5
    live.database.execute("INSERT INTO t VALUES (1, 'a')")
    steps(
        write(live, "UPDATE t SET value = 'b'", (1, "a", 1), (2, "ghost", 1)),
        write(live, "SELECT 1", (1, "b", 2), (2, "ghost", 1)),
    )
    code, tables = verdict(live.database, live.lake)
    assert (code, tables["public.t"]["keys"]["extra"]) == (1, ["id=2"])


def test_a_row_stuck_in_the_lake_is_found_though_the_source_never_rests(live: Live, steps: Callable[..., None]) -> None:
    live.database.execute("INSERT INTO t VALUES (1, '0')")
    steps(
        write(live, "UPDATE t SET value = '1'", (1, "stuck", 1)),
        write(live, "UPDATE t SET value = '2'", (1, "stuck", 1)),
    )
    code, tables = verdict(live.database, live.lake)
    assert (code, tables["public.t"]["keys"]["different"]) == (1, ["id=1"])


def test_a_row_that_changes_before_every_look_is_in_flux_and_no_difference(
    live: Live, steps: Callable[..., None]
) -> None:
    live.database.execute("INSERT INTO t VALUES (1, '0')")
    steps(*(write(live, f"UPDATE t SET value = '{n + 1}'", (1, str(n), n)) for n in range(5)))
    code, tables = verdict(live.database, live.lake)
    assert (code, tables["public.t"]["in_flux"], tables["public.t"]["different"]) == (0, 1, 0)


@pytest.mark.variant(of="test_a_row_that_changes_before_every_look_is_in_flux_and_no_difference")
def test_a_row_that_toggles_is_no_difference(live: Live, steps: Callable[..., None]) -> None:
    """The same two digests in every round; only row version and position tell."""
    live.database.execute("INSERT INTO t VALUES (1, 'off')")
    toggle = "UPDATE t SET value = 'on'", "UPDATE t SET value = 'off'"

    def round_number(n: int) -> Callable[[], None]:
        def step() -> None:
            if n:
                live.database.execute(toggle[1])
            write(live, toggle[0], (1, "off", n))()

        return step

    steps(*(round_number(n) for n in range(5)))
    code, tables = verdict(live.database, live.lake)
    assert (code, tables["public.t"]["in_flux"]) == (0, 1)


def test_table_that_takes_longer_to_compare_than_a_cut_is_waited_for_is_judged_all_the_same(
    live: Live, steps: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind such a comparison the lake is always some seconds behind."""
    now_s = [0.0]

    def wait(seconds: float) -> None:
        now_s[0] += seconds

    monkeypatch.setattr(rounds, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=wait))
    fingerprint = Source.fingerprint

    def take_an_hour(source: Source, table: SourceTable, digits: int) -> Fingerprint:
        now_s[0] += 3600
        return fingerprint(source, table, digits)

    monkeypatch.setattr(Source, "fingerprint", take_an_hour)
    live.database.execute("INSERT INTO t VALUES (1, 'a')")
    steps(
        write(live, "INSERT INTO t VALUES (2, 'b')", (1, "a", 1)),
        lambda: None,
        lambda: live.publish((1, "a", 1), (2, "b", 2)),
    )

    assert verdict(live.database, live.lake)[0] == 0


@pytest.mark.variant(of="test_a_row_that_changes_before_every_look_is_in_flux_and_no_difference")
@pytest.mark.parametrize(
    ("then", "state"),
    [("stale", "stale since"), ("unpublished", "no longer published")],
)
def test_a_table_that_leaves_before_its_differences_are_judged_is_not_called_equal(
    live: Live, steps: Callable[..., None], then: str, state: str
) -> None:  # I8
    live.database.execute("INSERT INTO t VALUES (1, 'a'); CREATE TABLE other (id int PRIMARY KEY, value text)")
    live.lake.write("public.other", TYPES, [])

    def leave() -> None:
        if then == "unpublished":
            live.database.execute("DROP PUBLICATION pub; CREATE PUBLICATION pub FOR TABLE other")
            live.publish()
        else:
            live.lake.publish(2**60, state=then)

    steps(live.publish, leave)
    code, tables = verdict(live.database, live.lake)
    assert (code, tables["public.t"]["equal"]) == (1, False)
    assert tables["public.t"]["state"].startswith(state)


def test_a_lost_row_is_found_behind_more_late_rows_than_are_looked_at(
    live: Live, steps: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:  # I8, I9
    monkeypatch.setattr("walbridge.verify.rounds.ROWS_FETCHED_MAX", 10)
    live.database.execute("INSERT INTO t VALUES (0, 'gone')")
    late = [(number, "late", 1) for number in range(1, 101)]
    steps(
        write(live, "INSERT INTO t SELECT n, 'late' FROM generate_series(1, 100) n"),
        lambda: live.publish(*late),
        lambda: live.publish(*late),
    )
    code, tables = verdict(live.database, live.lake)
    assert (code, tables["public.t"]["keys"]["missing"]) == (1, ["id=0"])


def test_a_table_of_which_only_a_part_was_looked_at_is_not_called_equal() -> None:
    assert not TableResult("public.t", "current", 1, whole=False).equal

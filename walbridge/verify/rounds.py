"""Is the lake equal to its source? Rounds of published cut, snapshot, comparison.

In: settings. Out: one result per table, exit code 0 (equal) or 1. An equal table needs one
round. One that differs is compared again at the next cut that holds all that the snapshot saw,
and only differences that both rounds prove count (``comparison/verdict.py`` has the proofs).
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import format_lsn
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.verify.comparison.differences import Differences, differences
from walbridge.verify.comparison.fingerprint import bucket_digits
from walbridge.verify.comparison.verdict import Verdict
from walbridge.verify.errors import NotInLake, NotPublished
from walbridge.verify.lake import Lake, PublishedCut, TableAtCut
from walbridge.verify.report import ARCHIVE, NOT_VISIBLE, TableResult, as_text, readable_key
from walbridge.verify.report import as_json as as_json_text
from walbridge.verify.source import Source, SourceTable, current_lsn, snapshot
from walbridge.verify.source_connection import Connection, blaming_table, connected
from walbridge.verify.visibility import WAIT_S, is_visible

ROUNDS_MAX = 5
"""A row that changes between each two rounds is ``in flux`` after this many rounds."""
ROWS_FETCHED_MAX = 250_000
"""Per table and side; some 400 bytes of memory each (I9)."""
_POLL_INTERVAL_S = 0.2
View: TypeAlias = Callable[[Connection], AbstractContextManager[Source]]


def verify(
    settings: Settings,
    *,
    tables: Sequence[str] | None = None,
    timeout_s: float = 60.0,
    as_json: bool = False,
    out: Callable[[str], object] = print,
) -> int:
    """Compare the lake with its source and tell the result: 0 when every table is equal, else 1.

    Args:
        settings: postgres.dsn, its publications and lake are used.
        tables: ``schema.table`` names, by default all that the publications publish.
        timeout_s: how long to wait for published cuts; comparing itself is not limited.
        as_json: one JSON object instead of lines.
        out: takes the text.

    Raises:
        OperatorError: no connection, no such table, no published cut in time.
    """
    results = compare(settings, tables, timeout_s)
    out(as_json_text(results) if as_json else as_text(results))
    return 0 if all(result.passes for result in results) else 1


@dataclass(slots=True)
class _TableComparison:
    """The comparison of one table over the rounds."""

    result: TableResult
    verdict: Verdict = field(default_factory=Verdict)
    key_types: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether another round can say more: not for a table that is no longer current."""
        return self.result.state == "current" and not self.verdict.is_settled


def compare(settings: Settings, tables: Sequence[str] | None = None, timeout_s: float = 60.0) -> list[TableResult]:
    """The result of every table, in order of name. Raises as ``verify``."""
    with connected(dsn_of(settings), settings.postgres.start_timeout_s) as connection:
        return compare_on(connection, settings, tables, timeout_s, snapshot)


def compare_on(
    connection: Connection,
    settings: Settings,
    tables: Sequence[str] | None,
    timeout_s: float,
    view: View,
    beat: Callable[[], None] = lambda: None,
) -> list[TableResult]:
    """The result of every table, over a connection that is open. Raises as ``verify``.

    Args:
        view: how the source is read in each round.
        timeout_s: how long each round waits for its published cut: the round before may have taken hours.
        beat: called again and again while a published cut is waited for, or the lake is read; it may raise.

    Raises:
        TableNotCompared: one table cannot be read, although the server answers.
    """
    lake = Lake(settings.lake.path, settings.name, flatten(settings.lake.storage_options), beat)
    comparisons: dict[str, _TableComparison] = {}
    at_least_lsn = current_lsn(connection)
    for round_number in range(1, ROUNDS_MAX + 1):
        cut = _cut_at(lake, at_least_lsn, timeout_s, beat)
        if cut is None and round_number > 2:
            break
        if cut is None:
            raise _no_cut(lake, at_least_lsn, timeout_s, round_number)
        # The first round does not wait: an equal table needs no proof.
        shows_all = is_visible(connection, beat, WAIT_S if round_number > 1 else 0.0)
        with blaming_table(connection), view(connection) as now:
            published = chosen_tables(now, tables, settings)
            if round_number == 1:
                comparisons = {table.qualified_name: _new_comparison(table, cut) for table in published}
            _one_round(now, lake, cut, published, comparisons, shows_all)
            at_least_lsn = now.lsn
        if not any(comparison.is_open for comparison in comparisons.values()):
            break
    return [_result_of(comparison) for comparison in comparisons.values()]


def _one_round(
    now: Source,
    lake: Lake,
    cut: PublishedCut,
    published: list[SourceTable],
    comparisons: dict[str, _TableComparison],
    shows_all: bool,
) -> None:
    by_name = {table.qualified_name: table for table in published}
    for name, comparison in comparisons.items():
        if not comparison.is_open:
            continue
        table = by_name.get(name)
        if table is None:
            comparison.result.state = "no longer published"
            continue
        head = cut.table(table.oid, table.namespace, table.name)
        comparison.result.state = _state(head)
        comparison.result.lsn = cut.end_lsn
        if head is not None and comparison.is_open:
            comparison.verdict.add_round(*_found(now, lake, table, head, comparison), is_visible=shows_all)


def _state(head: TableAtCut | None) -> str:
    if head is None:
        return "no longer in the lake"
    is_told = head.since is not None and head.state not in ("current", ARCHIVE)
    return f"{head.state} since {format_lsn(head.since or 0)}" if is_told else head.state


def _found(
    now: Source, lake: Lake, table: SourceTable, head: TableAtCut, comparison: _TableComparison
) -> tuple[Differences, bool]:
    """Differences between one snapshot and one version, by buckets first, and whether that is all."""
    reader = lake.table(head)
    digits = bucket_digits(table.rows_estimated)
    source = now.fingerprint(table, digits)
    buckets, whole = source.differing(reader.fingerprint(table.column_names, digits), ROWS_FETCHED_MAX)
    comparison.result.rows = source.rows
    comparison.result.notes = _name_notes(table, head) + _column_notes(table, reader.columns)
    types = {column.name: column.type_name for column in table.columns}
    comparison.key_types = [(key, types[key]) for key in table.keys]
    if not buckets:
        return {}, whole
    lake_rows = reader.rows(table.column_names, table.keys, digits, buckets)
    return differences(now.rows(table, digits, buckets), lake_rows), whole


def _name_notes(table: SourceTable, head: TableAtCut) -> list[str]:
    """A note where the lake has another name: it may be up to ten seconds older than the cut."""
    return [] if head.qualified_name == table.qualified_name else [f"called {head.qualified_name} in the lake"]


def _column_notes(table: SourceTable, lake_columns: list[str]) -> list[str]:
    """A column that only the source has is compared as null: it may have been added a moment ago."""
    absent = [name for name in table.column_names if name not in lake_columns]
    surplus = [name for name in lake_columns if name not in table.column_names]
    notes = [f"not in the lake, taken as null there: {', '.join(absent)}"] if absent else []
    return notes + ([f"only in the lake, not compared: {', '.join(surplus)}"] if surplus else [])


def _new_comparison(table: SourceTable, cut: PublishedCut) -> _TableComparison:
    head = cut.table(table.oid, table.namespace, table.name)
    if head is None:
        raise NotInLake(
            f"the lake's published cut at {format_lsn(cut.end_lsn)} does not hold table {table.qualified_name}",
            remedy="name the tables to verify; one that came lately is in the lake once it is copied, which walbridge "
            "tables shows",
        )
    return _TableComparison(TableResult(table.qualified_name, _state(head), cut.end_lsn, relation_id=table.oid))


def _result_of(comparison: _TableComparison) -> TableResult:
    result = comparison.result
    result.whole = comparison.verdict.is_conclusive
    for kind, key, rows in comparison.verdict.confirmed_keys():
        result.add(kind, readable_key(key, comparison.key_types), rows)
    if comparison.verdict.undecided and comparison.verdict.rounds > 1 and not comparison.verdict.had_proving_rounds:
        result.why_undecided = NOT_VISIBLE
        return result
    result.in_flux = sum(found.count for found in comparison.verdict.undecided.values())
    return result


def chosen_tables(now: Source, names: Sequence[str] | None, settings: Settings) -> list[SourceTable]:
    """The tables of these names, or all where no names are given, as they are described now."""
    publications = settings.postgres.publication_names
    return now.tables(publications, chosen_names(now.names(publications), names, settings))


def chosen_names(published: Sequence[str], names: Sequence[str] | None, settings: Settings) -> list[str]:
    """The full names of these tables, or of all where no names are given.

    Raises:
        OperatorError: one of them is not published, or the publications have no table.
    """
    publications = " or ".join(settings.postgres.publication_names)
    if not published:
        raise OperatorError(
            f"publication {publications} does not exist or publishes no table",
            remedy="set [postgres] publication, or run walbridge init",
        )
    chosen = {}
    for name in names or ():
        # As in walbridge tail, a table in public may be named without its schema.
        table = next((each for each in (name, f"public.{name}") if each in published), None)
        if table is None:
            raise NotPublished(
                f"publication {publications} does not publish a table {name}",
                remedy="name tables as schema.table; published: " + ", ".join(published),
            )
        chosen[table] = True
    return list(chosen) if names else list(published)


def _cut_at(lake: Lake, at_least_lsn: int, timeout_s: float, beat: Callable[[], None]) -> PublishedCut | None:
    """The newest published cut at or after an LSN; None when there is none in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        cut = lake.newest_cut()
        if cut is not None and cut.end_lsn >= at_least_lsn:
            return cut
        if time.monotonic() >= deadline:
            return None
        beat()
        time.sleep(_POLL_INTERVAL_S)


def _no_cut(lake: Lake, at_least_lsn: int, timeout_s: float, round_number: int) -> OperatorError:
    newest = lake.newest_cut()
    where = f"its newest is at {format_lsn(newest.end_lsn)}" if newest else "it has none"
    why = "" if round_number == 1 else "; rows that differ are judged at the next cut only"
    return OperatorError(
        f"the lake published no cut at or after {format_lsn(at_least_lsn)} within {timeout_s:g} s: {where}{why}",
        remedy="run walbridge produce and walbridge materialize, see that [lake] path is theirs, or raise --timeout "
        "above [lake] publish_interval_ms",
    )

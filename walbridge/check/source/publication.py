"""The publication: what it publishes, and what it leaves out.

In: a connection. Out: findings. What was read is a value, so that it is judged without a server.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from walbridge.check.finding import Finding, advice, ok, refused, warning
from walbridge.producer.errors.publications import not_published, operations_missing, publication_missing
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_names import qualified
from walbridge.schemas.table_schema import quoted

AREA = "publication"

_KINDS = ("insert", "update", "delete", "truncate")
_PUBLICATION = """
SELECT pubinsert, pubupdate, pubdelete, pubtruncate, puballtables, {via_root},
       EXISTS (SELECT 1 FROM {schemas} n WHERE n.pnpubid = p.oid),
       EXISTS (SELECT 1 FROM pg_class c WHERE c.relkind = 'p' AND (puballtables
               OR EXISTS (SELECT 1 FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
               OR EXISTS (SELECT 1 FROM {schemas} n WHERE n.pnpubid = p.oid AND n.pnnspid = c.relnamespace)))
FROM pg_publication p WHERE pubname = %s
"""
_NO_SCHEMAS = "(SELECT 0::oid AS pnpubid, 0::oid AS pnnspid WHERE false)"
"""Whole schemas are published from Postgres 15 on."""


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """``kinds``: those of insert, update, delete, truncate that it publishes.

    ``has_partitioned``: of whose partitions pg_publication_tables names the root, or each, by ``via_root``.
    """

    kinds: tuple[str, ...]
    all_tables: bool
    via_root: bool
    by_schema: bool
    has_partitioned: bool

    @property
    def changes_rows(self) -> bool:
        """Whether updates or deletes are published."""
        return not {"update", "delete"}.isdisjoint(self.kinds)


def publication_facts(connection: SqlConnection, name: str) -> PublicationFacts | None:
    """None where there is no such publication."""
    version = connection.info.server_version
    query = _PUBLICATION.format(
        via_root="pubviaroot" if version >= 130000 else "false",
        schemas="pg_publication_namespace" if version >= 150000 else _NO_SCHEMAS,
    )
    row = connection.execute(query.encode(), (name,)).fetchone()
    if row is None:
        return None
    *published, all_tables, via_root, by_schema, has_partitioned = row
    kinds = tuple(kind for kind, is_published in zip(_KINDS, published, strict=True) if is_published)
    return PublicationFacts(kinds, all_tables, via_root, by_schema, has_partitioned)


def combined(facts: Sequence[PublicationFacts | None]) -> PublicationFacts | None:
    """What is to be said of the tables of several; None where none is there."""
    there = [each for each in facts if each is not None]
    if not there:
        return None
    return PublicationFacts(
        kinds=tuple(kind for kind in _KINDS if any(kind in each.kinds for each in there)),
        all_tables=any(each.all_tables for each in there),
        via_root=any(each.via_root for each in there),
        by_schema=any(each.by_schema for each in there),
        has_partitioned=any(each.has_partitioned for each in there),
    )


def publication_findings(
    name: str,
    facts: PublicationFacts | None,
    settings: Settings,
    all_tables: Sequence[PublishedTable],
    *,
    is_followed: bool = False,
) -> Iterator[Finding]:
    """What it publishes, and what it leaves out.

    Args:
        all_tables: of all publications that are followed.
        is_followed: a session streams from it already, and its guards say what its end means.
    """
    is_single = len(settings.postgres.publication_names) == 1
    tables = [table for table in all_tables if is_single or name in {each.publication for each in table.memberships}]
    if facts is None:
        if is_followed:
            return
        if settings.postgres.publication_tables:
            yield advice(AREA, f"publication {name} does not exist yet", "walbridge init")
        else:
            yield refused(AREA, publication_missing(name))
        return
    if not tables and not is_followed:
        yield refused(AREA, not_published([name]))
    else:
        yield ok(AREA, f"{name} publishes {', '.join(facts.kinds) or 'nothing'} of {count_of_tables(len(tables))}")
    if is_single and not is_followed and (missing := [kind for kind in _KINDS if kind not in facts.kinds]):
        if not settings.postgres.archives:
            yield refused(AREA, operations_missing([name], missing))
        elif "insert" in facts.kinds:
            yield ok(AREA, f"{name} leaves out {', '.join(missing)}: its tables are archives")
    if facts.all_tables or facts.by_schema:
        yield ok(AREA, f"{name} takes in every table that is created later: it is copied when it comes")
    if facts.has_partitioned and not facts.via_root:
        yield advice(
            AREA,
            f"{name} has publish_via_partition_root = false: each partition is a table of its own",
            f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true); before walbridge init",
        )
    yield from _unlike_settings(name, settings, tables)


def _unlike_settings(name: str, settings: Settings, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    wanted = set(map(qualified, settings.postgres.publication_tables))
    missing = sorted(wanted - {table.qualified_name for table in tables})
    if wanted and missing:
        yield warning(
            AREA,
            f"{name} does not publish {', '.join(missing)}, which publication_tables names",
            "mend [postgres] publication_tables; or add those tables to the publication: the producer copies them",
        )


def count_of_tables(count: int) -> str:
    """``1 table``, ``14 tables``."""
    return "1 table" if count == 1 else f"{count} tables"

"""The role: may it replicate, and read what is published?

In: a connection. Out: findings.
"""

from collections.abc import Iterator, Sequence

from walbridge.check.finding import Finding, error, ok, refused
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.role import RDS_MEMBERSHIP
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.table_schema import quoted

AREA = "role"

_RIGHTS = """
SELECT c.oid, current_user, has_schema_privilege(c.relnamespace, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),
       row_security_active(c.oid)
FROM pg_class c WHERE c.oid = ANY (%s)
"""
_ATTRIBUTE = """
SELECT rolname, rolreplication OR rolsuper, EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %s)
FROM pg_roles WHERE rolname = session_user"""


def role_findings(connection: SqlConnection, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    """May it read the published tables? (Whether it may replicate is found by trying.)"""
    lacking = _lacking(connection, tables)
    for faults in lacking.values():
        yield from faults
    readable = sum(not faults for faults in lacking.values())
    if readable:
        yield ok(AREA, f"may read {readable} of {len(tables)} published tables")


def missing_grants(connection: SqlConnection, tables: Sequence[PublishedTable]) -> dict[int, str]:
    """By relation id of a table that cannot be read as it is: the SQL that lets the role read it."""
    found = _lacking(connection, tables)
    return {each: " ".join(fault.remedy or "" for fault in faults) for each, faults in found.items() if faults}


def _lacking(connection: SqlConnection, tables: Sequence[PublishedTable]) -> dict[int, list[Finding]]:
    """By relation id: what keeps the role from the table's rows."""
    by_id = {table.relation_id: table for table in tables}
    found: dict[int, list[Finding]] = {}
    for relation_id, role, usage, select, hidden in connection.execute(_RIGHTS, (list(by_id),)):
        table, of_role = by_id[relation_id], quoted(role)
        faults = found.setdefault(relation_id, [])
        if not usage:
            grant = f"GRANT USAGE ON SCHEMA {quoted(table.namespace)} TO {of_role};"
            faults.append(error(AREA, f"{role} may not use schema {table.namespace}", grant))
        if not select:
            grant = f"GRANT SELECT ON TABLE {table.quoted_name} TO {of_role};"
            faults.append(error(AREA, f"{role} may not read {table.qualified_name}", grant))
        if hidden:
            text = f"row security hides rows of {table.qualified_name} from {role}"
            faults.append(error(AREA, text, f"ALTER ROLE {of_role} BYPASSRLS;"))
    return found


def replication_finding(connection: SqlConnection, refusal: OperatorError) -> Finding:
    """Why a session for replication was refused: the attribute, or else what the server says."""
    ((role, may_replicate, is_rds),) = connection.execute(_ATTRIBUTE, (RDS_MEMBERSHIP,))
    if may_replicate:
        return refused(AREA, refusal)
    named = quoted(role)
    remedy = f"GRANT {RDS_MEMBERSHIP} TO {named};" if is_rds else f"ALTER ROLE {named} REPLICATION;"
    return error(AREA, f"{role} may not replicate", remedy)

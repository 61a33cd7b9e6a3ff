"""What stops the producer, with what mends it: one place for the words an operator reads."""

from schemas.errors import OperatorError


def publication_missing(publication: str) -> OperatorError:
    """Never made unasked: FOR ALL TABLES needs a superuser and takes tables nobody meant."""
    return OperatorError(
        f"publication {publication} does not exist",
        remedy=f'CREATE PUBLICATION "{publication}" FOR TABLE ...; or name its tables in [postgres] '
        "publication_tables and run walbridge init",
    )


def publication_gone(publication: str) -> OperatorError:
    """Changes under no publication are not sent, and no server says so from Postgres 18 on."""
    return OperatorError(
        f"publication {publication}, which this pipeline follows, was dropped: changes since then did not come",
        remedy="start over with a new copy: give the pipeline a new name and slot, then walbridge init and produce",
    )


def not_published(publication: str) -> OperatorError:
    """An empty publication would copy nothing and say that all is well."""
    return OperatorError(
        f"publication {publication} holds no tables",
        remedy=f'ALTER PUBLICATION "{publication}" ADD TABLE ...',
    )


def wal_level_too_low(level: str) -> OperatorError:
    """Logical decoding needs more in the WAL."""
    return OperatorError(
        f"the server has wal_level = {level}",
        remedy="ALTER SYSTEM SET wal_level = logical; and restart the server",
    )


def not_utf8(encoding: str) -> OperatorError:
    """SQL_ASCII is not converted: its bytes may be no UTF-8, which Avro strings must be."""
    return OperatorError(
        f"the database's encoding is {encoding}, which Postgres does not convert to UTF-8",
        remedy="dump it and load it into a database created with ENCODING 'UTF8'",
    )


def no_dsn() -> OperatorError:
    """There is no default database to follow."""
    return OperatorError(
        "no database is named",
        remedy='write [postgres] dsn = "host=... dbname=..." into walbridge.toml, or set WALBRIDGE_POSTGRES__DSN',
    )

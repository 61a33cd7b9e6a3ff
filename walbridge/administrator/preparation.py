"""What an administrator makes for a pipeline, in one transaction: publications, role, rights, event triggers.

In: settings, an administrator's connection string. Out: all that was missing, or nothing; lines that say what was.
"""

from collections.abc import Callable

from walbridge import ddl_trigger
from walbridge.administrator.connection import administrators_dsn, changing
from walbridge.administrator.granted_rights import ensure_rights
from walbridge.administrator.made_role import ensure_role, role_of
from walbridge.init import ensure_publications
from walbridge.producer.postgres.connection import parsed_dsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of

Say = Callable[[str], None]


def prepare(
    settings: Settings,
    admin_dsn: str,
    say: Say,
    ask: Callable[[], str] | None = None,
    *,
    tells_ddl: bool = False,
    force: bool = False,
) -> dict[str, bool]:
    """Make the role, its rights and the publications, as far as they are missing. Returns for each publication whether
    it is new.

    Args:
        settings: with secrets that are not read yet: the file of the password may be missing.
        ask: asks a person for the administrator's password, where the server wants one and libpq finds none.
        tells_ddl: also make the event triggers that tell DDL in the stream.
        force: make them even if others replicate all tables.

    Raises:
        OperatorError: the administrator's role may not do it, or is of another database; then nothing was changed.
    """
    ours = parsed_dsn(dsn_of(settings))
    role, theirs = role_of(ours), administrators_dsn(admin_dsn, ours)
    with changing(settings, theirs, ours, say, ask) as (connection, tell):
        publications = ensure_publications(connection, settings, tell)
        ensure_role(connection, settings, role, tell)
        ensure_rights(connection, settings, role, tell)
        if tells_ddl:
            if not force:
                ddl_trigger.refuse_other_subscribers(connection, settings.postgres.slot)
            ddl_trigger.make(connection, tell)
    return publications


def remove_ddl_trigger(settings: Settings, admin_dsn: str, say: Say, ask: Callable[[], str] | None = None) -> None:
    """Remove the event triggers that tell DDL in the stream. Raises as ``prepare``."""
    ours = parsed_dsn(dsn_of(settings))
    with changing(settings, administrators_dsn(admin_dsn, ours), ours, say, ask) as (connection, tell):
        ddl_trigger.remove(connection, tell)

"""What happens to the pipeline's rights in the source: passwords, certificates, limits, what its role may do."""

from __future__ import annotations

from tests.faults.year.year_servers import ROLE
from tests.faults.year.year_stage import YearStage
from tests.secured_servers import Authority


def password_changed(stage: YearStage) -> None:
    """By whoever changes all of them in spring."""
    password = f"it's {stage.dice.randrange(10**9)} \\ 100%"
    quoted = password.replace("'", "''")
    stage.database.execute(f"ALTER ROLE {ROLE} PASSWORD '{quoted}'")
    stage.attendant.knows("password", lambda: stage.access.write_password(password))
    _end_sessions(stage)


def authority_replaced(stage: YearStage) -> None:
    """The server shows another certificate, of an authority that nobody trusts yet."""
    folder = stage.config.with_name(f"authority-{stage.dice.randrange(10**6)}")
    folder.mkdir()
    authority = Authority(folder)
    stage.access.show_certificate(authority)
    stage.attendant.knows("sslrootcert", lambda: stage.access.trust(authority))
    _end_sessions(stage)


def connections_limited(stage: YearStage) -> None:
    """Others have them all, for a while."""
    stage.database.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT 0")
    _end_sessions(stage)
    stage.pause(5)
    stage.database.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")


def role_set_otherwise(stage: YearStage) -> None:
    """By an administrator who wants no role to be in the way, or to write."""
    for setting in (
        "statement_timeout = '300ms'",
        "lock_timeout = '300ms'",
        "idle_in_transaction_session_timeout = '300ms'",
        "default_transaction_read_only = on",
        "default_transaction_isolation = 'serializable'",
        "datestyle = 'German'",
        "bytea_output = 'escape'",
        "search_path = 'archive'",
    ):
        stage.database.execute(f"ALTER ROLE {ROLE} SET {setting}")
    _end_sessions(stage)
    stage.run("copy", "public.pgbench_tellers")


def right_revoked(stage: YearStage) -> None:
    """And given again, while a table waits for its copy."""
    stage.database.execute(f"REVOKE pg_read_all_data FROM {ROLE}")
    stage.run("copy", "public.pgbench_tellers")
    stage.pause(6)
    stage.database.execute(f"GRANT pg_read_all_data TO {ROLE}")


def spool_too_small(stage: YearStage) -> None:
    """For a transaction that is larger than any before."""
    database = stage.database
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    stage.producer.stop()
    stage.attendant.set("producer", "spool_bytes_max", str(2**20))
    larger = str(2**30)
    stage.attendant.knows(
        "raise [producer] spool_bytes_max", lambda: stage.attendant.set("producer", "spool_bytes_max", larger)
    )
    stage.producer.keep_running()
    database.execute(
        "CREATE TABLE IF NOT EXISTS large (id bigserial PRIMARY KEY, v text);"
        "INSERT INTO large (v) SELECT repeat('y', 600) FROM generate_series(1, 5000) i"
    )


def _end_sessions(stage: YearStage) -> None:
    """So that they are opened anew."""
    stage.database.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'")

"""What verify cannot compare is the operator's: one sentence of what is missing, and no verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from tests.fix_postgres import Database
from tests.walbridge.verify.accounts import ACCOUNT_TYPES, ACCOUNTS, FAR_AHEAD, accounts, settings_of, verdict
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Lake, Postgres
from walbridge.verify import source_connection, verify
from walbridge.verify.errors import NotPublished, TableNotCompared
from walbridge.verify.lake import Lake as PublishedLake
from walbridge.verify.rounds import compare_on
from walbridge.verify.source import Source, snapshot
from walbridge.verify.source_connection import Connection, blaming_table, connected


def test_a_lake_without_a_published_cut_is_the_operators(database: Database, handmade: HandmadeLake) -> None:
    database.execute("CREATE TABLE t (id int); CREATE PUBLICATION pub FOR ALL TABLES")
    with pytest.raises(OperatorError, match=r"published no cut .* it has none"):
        verdict(database, handmade, timeout_s=0.1)


def test_a_lake_that_lags_is_not_compared(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    handmade.publish(5)
    with pytest.raises(OperatorError, match="its newest is at 0/5") as told:
        verdict(database, handmade, timeout_s=0.1)
    assert told.value.remedy.startswith("run walbridge produce and walbridge materialize")
    handmade.publish(FAR_AHEAD)
    assert verdict(database, handmade)[0] == 0


def test_a_table_that_the_lake_lacks_is_the_operators(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    database.execute("CREATE TABLE later (id int)")
    with pytest.raises(OperatorError, match=r"does not hold table public\.later"):
        verdict(database, handmade)
    assert verdict(database, handmade, tables=["public.accounts"])[0] == 0


def test_a_table_in_public_is_found_by_its_name_alone(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    assert list(verdict(database, handmade, tables=["accounts", "public.accounts"])[1]) == ["public.accounts"]


def test_an_unpublished_table_is_the_operators(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    with pytest.raises(OperatorError, match=r"does not publish a table public\.typo") as told:
        verdict(database, handmade, tables=["public.typo"])
    (published,) = re.findall("^name tables as schema.table; published: (.+)$", told.value.remedy)
    assert verdict(database, handmade, tables=published.split(", "))[0] == 0


@pytest.mark.parametrize(
    "dsn",
    [
        "host=127.0.0.1 port=1 password=hush",
        "password:hush",
        "postgresql://a:hush@[x/y",
        "postgresql://a:p@hush@127.0.0.1:1/d",
        "host=127.0.0.1 port=1 password=two hush",
    ],
)
def test_a_wrong_dsn_is_the_operators_and_keeps_its_password(handmade: HandmadeLake, dsn: str) -> None:  # I10
    settings = Settings(postgres=Postgres(dsn=SecretStr(dsn)), lake=Lake(path=str(handmade.path)))
    with pytest.raises(OperatorError) as caught:
        verify(settings, timeout_s=0.1)
    assert "hush" not in str(caught.value)


def test_a_server_that_is_not_the_sources_is_named_in_the_dsn(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    right = settings_of(database, handmade)
    wrong = right.postgres.model_copy(update={"dsn": SecretStr("host=127.0.0.1 port=1 dbname=d")})
    with pytest.raises(OperatorError, match="no connection to Postgres") as told:
        verify(right.model_copy(update={"postgres": wrong}), timeout_s=1)
    assert told.value.remedy == "see that [postgres] dsn names the source's primary and a role that may connect"
    assert verify(right, timeout_s=5) == 0


def test_a_server_that_went_while_it_was_read_is_asked_again(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)

    def read() -> None:
        with connected(database.dsn, 30) as connection:
            database.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
            connection.execute("SELECT 1")

    with pytest.raises(OperatorError, match="Postgres could not be read") as told:
        read()
    assert told.value.remedy.endswith("or the server went away, run walbridge verify again")
    assert verdict(database, handmade)[0] == 0


def test_without_a_database_none_is_taken_from_the_environment(
    handmade: HandmadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGHOST": "127.0.0.1", "PGPORT": "1", "PGUSER": "postgres"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OperatorError, match="no database is named"):
        verify(Settings(lake=Lake(path=str(handmade.path))), timeout_s=0.1)


def test_a_role_that_may_not_read_is_the_operators(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    database.execute(f"CREATE ROLE reader_{database.name} LOGIN")
    try:
        settings = settings_of(database, handmade)
        dsn = f"{database.dsn} user=reader_{database.name}"
        limited = settings.model_copy(update={"postgres": settings.postgres.model_copy(update={"dsn": SecretStr(dsn)})})
        with pytest.raises(OperatorError, match="permission denied for table accounts"):
            verify(limited, timeout_s=5)
        database.execute(f"GRANT SELECT ON accounts TO reader_{database.name}")
        assert verify(limited, timeout_s=5) == 0
    finally:
        database.execute(f"DROP OWNED BY reader_{database.name}; DROP ROLE reader_{database.name}")


def test_a_lake_table_whose_files_are_gone_is_the_operators(database: Database, handmade: HandmadeLake) -> None:
    accounts(database, handmade, ACCOUNTS)
    files = [*(handmade.path / "public" / "accounts").glob("*.parquet")]
    for file in files:
        file.rename(file.with_suffix(".away"))
    with pytest.raises(OperatorError, match="public/accounts cannot be read") as told:
        verdict(database, handmade)
    assert told.value.remedy.startswith("see that [lake] path names this lake, that this user may read it, and that ")
    for file in files:
        file.with_suffix(".away").rename(file)
    assert verdict(database, handmade)[0] == 0


def test_what_is_wrong_with_one_table_is_told_apart_from_a_server_that_is_away(
    database: Database, handmade: HandmadeLake
) -> None:
    """``verify --every`` goes on with the next table then."""
    accounts(database, handmade, ACCOUNTS)
    settings, none = settings_of(database, handmade), "SELECT 1 FROM public.accounts WHERE owner::int = 1"
    with connected(database.dsn, 30) as connection:
        with pytest.raises(TableNotCompared, match="InvalidTextRepresentation") as caught, blaming_table(connection):
            connection.execute(none.encode())
        assert "owner 1" not in str(caught.value)  # I10
        with pytest.raises(NotPublished):
            compare_on(connection, settings, ["public.gone"], 5.0, snapshot)
        for file in (handmade.path / "public" / "accounts").glob("*.parquet"):
            file.unlink()
        with pytest.raises(TableNotCompared, match="public/accounts cannot be read"):
            compare_on(connection, settings, ["accounts"], 5.0, snapshot)

    def hang_up(connection: Connection) -> AbstractContextManager[Source]:
        database.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        return snapshot(connection)

    with pytest.raises(OperatorError) as away, connected(database.dsn, 30) as connection:
        compare_on(connection, settings, ["accounts"], 5.0, hang_up)
    assert not isinstance(away.value, TableNotCompared)


def test_a_table_that_is_being_altered_is_not_waited_for_without_end(
    database: Database, handmade: HandmadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ALTER may take hours."""
    monkeypatch.setitem(source_connection._SESSION, "lock_timeout", "50ms")
    accounts(database, handmade, ACCOUNTS)
    with psycopg.connect(database.dsn) as holder:
        holder.execute("LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TableNotCompared, match="a published table is locked by another session") as told:
            verdict(database, handmade)
        find = re.search("SELECT .*'AccessExclusiveLock'", told.value.remedy)
        assert find is not None
        assert (holder.info.backend_pid, "accounts") in database.rows(find.group())
    assert verdict(database, handmade)[0] == 0


def test_a_session_waits_as_long_as_it_likes_whatever_the_database_allows(database: Database) -> None:
    """The lake may take minutes to publish, and to be read."""
    database.execute(
        f"ALTER DATABASE {database.name} SET idle_session_timeout = '250ms'; "
        f"ALTER DATABASE {database.name} SET default_transaction_isolation = 'serializable'"
    )
    names = "idle_session_timeout", "transaction_isolation"
    with connected(database.dsn, 30) as connection:
        rows = [connection.execute(f"SELECT current_setting('{name}') AS found").fetchall() for name in names]
    assert rows == [[{"found": "0"}], [{"found": "read committed"}]]


def test_each_batch_of_the_lake_is_a_sign_of_life(handmade: HandmadeLake) -> None:
    handmade.write("public.t", ACCOUNT_TYPES, ACCOUNTS)
    handmade.publish(1)
    beats: list[int] = []
    lake = PublishedLake(str(handmade.path), handmade.pipeline, {}, lambda: beats.append(1))
    cut = lake.newest_cut()
    assert cut is not None
    reader = lake.table(cut.tables[0])

    reader.fingerprint(list(ACCOUNT_TYPES), 3)
    assert len(beats) == 1
    assert len(list(reader.rows(list(ACCOUNT_TYPES), ["id"], 3, range(16**3)))) == len(ACCOUNTS)
    assert len(beats) == 2


def damage_log(cuts: Path) -> None:
    (cuts / "_delta_log" / "00000000000000000000.json").write_text("{")


def lose_files(cuts: Path) -> None:
    for file in cuts.glob("*.parquet"):
        file.unlink()


@pytest.mark.parametrize("harm", [damage_log, lose_files])
def test_published_cuts_that_cannot_be_read_are_the_operators(
    database: Database, handmade: HandmadeLake, harm: Callable[[Path], None]
) -> None:
    accounts(database, handmade, ACCOUNTS)
    harm(handmade.path / "_cuts")
    with pytest.raises(OperatorError, match=r"lake table _cuts cannot be read") as caught:
        verdict(database, handmade)
    assert "[lake] path" in caught.value.remedy


def test_the_lake_of_another_pipeline_is_not_compared(database: Database, handmade: HandmadeLake) -> None:
    """Its tables may have the same names; what they hold says nothing of this source."""
    handmade.pipeline = "other"
    accounts(database, handmade, ACCOUNTS)
    with pytest.raises(OperatorError, match=r"belongs to pipeline other, this one is walbridge"):
        verdict(database, handmade)

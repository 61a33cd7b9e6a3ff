"""What a server says, sorted by who must act; what may quote a row is told by its name alone (I10)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from psycopg import pq

from walbridge.producer.postgres.connection import connect_sql, walsender_query
from walbridge.producer.postgres.publications.new_publication import create_publication
from walbridge.producer.postgres.server_errors import by_sqlstate, by_text, classified, raise_for_result
from walbridge.schemas.errors import COPY_ALL, OperatorError, RetryableError, StreamLost, back_again

SAID = 'invalid input syntax for type integer: "canary"'


@pytest.mark.parametrize(
    ("sqlstate", "kind", "told"),
    [
        ("28P01", OperatorError, SAID),
        ("42501", OperatorError, SAID),
        ("57P01", RetryableError, SAID),
        ("", RetryableError, f"no SQLSTATE): {SAID}"),
        ("22P02", OperatorError, "(22P02): InvalidTextRepresentation"),
        ("22999", OperatorError, "(22999): its words may quote a row"),
        ("23514", RetryableError, "(23514): CheckViolation"),
        ("54000", OperatorError, SAID),
        ("53200", RetryableError, SAID),
        ("XX000", RetryableError, SAID),
    ],
)
def test_server_error_is_sorted_and_told_without_a_row(sqlstate: str, kind: type[Exception], told: str) -> None:
    error = by_sqlstate(sqlstate, SAID)

    assert isinstance(error, kind)
    assert told in str(error)
    assert ("canary" in str(error)) == (SAID in told)


@pytest.mark.parametrize(
    ("sqlstate", "remedy"),
    [
        ("42501", "grant the role"),
        ("42704", "start again: the start says what is missing"),
        ("42P01", "start again: the start says what is missing"),
        ("42703", "start again: the start says what is missing"),
        ("53400", "drop one that nobody needs"),
        ("22012", "mend the filter or the row"),
        ("54000", "take that row out"),
        ("XX001", "pg_amcheck says where"),
        ("XX002", "REINDEX mends an index"),
    ],
)
def test_remedy_is_that_of_the_very_error_and_not_of_its_class(sqlstate: str, remedy: str) -> None:
    """No retry makes room among the slots, and no grant brings a dropped publication back."""
    error = by_sqlstate(sqlstate, SAID)

    assert isinstance(error, OperatorError)
    assert remedy in error.remedy


@pytest.mark.parametrize(
    "words",
    [
        'cannot use different column lists for table "public.t" in different publications',
        "verschiedene Spaltenlisten für »public.t« in verschiedenen Publikationen",
    ],
)
def test_publications_that_differ_in_the_wal_are_no_server_that_is_too_old(words: str) -> None:
    """Postgres looks publications up as of the change, so it needs another slot than the one that holds the change. It
    says so in the language of its lc_messages."""
    error = by_sqlstate("0A000", words, is_stream=True)

    assert isinstance(error, OperatorError)
    assert "publish the same columns" in error.remedy
    assert isinstance(too_old := by_sqlstate("0A000", SAID), OperatorError)
    assert "not older than" in too_old.remedy


@pytest.mark.parametrize(
    ("sqlstate", "message"),
    [
        ("22012", SAID),
        ("54000", "out of memory"),
        ("XX000", "invalid memory alloc request size 1200000003"),
    ],
)
def test_error_that_every_session_would_end_in_asks_for_a_copy_of_all_tables(sqlstate: str, message: str) -> None:
    """I7. The same words mean less where no slot holds what they are about."""

    def ended(**how: bool) -> OperatorError:
        fields = {pq.DiagnosticField.SQLSTATE: sqlstate, pq.DiagnosticField.MESSAGE_PRIMARY: message}
        result = SimpleNamespace(status=pq.ExecStatus.FATAL_ERROR, error_field=lambda field: fields[field].encode())
        with pytest.raises(OperatorError) as error:
            raise_for_result(cast(Any, Lost()), cast(Any, result), **how)
        return error.value

    assert isinstance(ended(is_stream=True), StreamLost)
    assert ended(is_stream=True).remedy == f"{ended().remedy}; then {COPY_ALL}"
    assert not isinstance(ended(), StreamLost)


def failed(sqlstate: str, message: str) -> Any:
    """The server's answer."""
    fields = {pq.DiagnosticField.SQLSTATE: sqlstate, pq.DiagnosticField.MESSAGE_PRIMARY: message}
    return SimpleNamespace(status=pq.ExecStatus.FATAL_ERROR, error_field=lambda field: fields[field].encode())


def lost_by(result: Any) -> StreamLost:
    """What a stream raises that ends so."""
    with pytest.raises(StreamLost) as lost:
        raise_for_result(cast(Any, Lost()), result, is_stream=True)
    return lost.value


def test_stream_that_ends_where_publications_differ_asks_for_a_copy_of_all_tables_in_whatever_language() -> None:
    """I7"""
    lost = lost_by(failed("0A000", "»public.t« in verschiedenen Publikationen"))
    assert lost.remedy.startswith("have those publications publish the same columns of the table")
    assert lost.remedy.endswith(f"; then {COPY_ALL}")


@pytest.mark.parametrize(
    "message",
    [
        'could not map filenumber "base/5/16401" to relation OID',
        'could not map filenode "base/5/16401" to relation OID',
        "unexpected duplicate for tablespace 0, relfilenumber 16401",
        "unexpected duplicate for tablespace 0, relfilenode 16401",
    ],
)
def test_file_that_postgres_can_name_no_table_of_or_two_ends_every_session_of_its_slot(message: str) -> None:
    """I7: faults of Postgres in decoding say so. The words are internal, and in one language."""
    lost = lost_by(failed("XX000", message))
    assert message in lost.what
    assert lost.remedy == COPY_ALL
    with pytest.raises(RetryableError):
        raise_for_result(cast(Any, Lost()), failed("XX000", message))


@pytest.mark.parametrize(
    ("sqlstate", "message"),
    [
        ("58P01", "das angeforderte WAL-Segment 00000001000000000000000A wurde schon entfernt"),
        ("XX001", "could not read from WAL segment 00000001000000000000000A, offset 8192: read 0 of 8192"),
        ("XX000", "could not find record while sending logically-decoded data: invalid record length at 0/A000028"),
    ],
)
def test_wal_that_is_not_there_or_damaged_ends_every_session_of_its_slot(sqlstate: str, message: str) -> None:
    """I7: the slot does not tell. A segment is named in any language, and the words of internal errors are in one."""
    lost = lost_by(failed(sqlstate, message))
    assert message in lost.what
    assert lost.remedy.endswith(f"; or {COPY_ALL}")


def test_file_that_is_no_wal_is_asked_for_again() -> None:
    result = failed("58P01", 'could not open file "pg_replslot/s/xid-1-lsn-0-1.spill"')
    with pytest.raises(RetryableError):
        raise_for_result(cast(Any, Lost()), result, is_stream=True)


def test_publication_that_was_not_there_when_the_change_was_made_ends_every_session_of_its_slot() -> None:
    """I7: until 17 the name is looked up as of the change. At a start the same code is about a slot or a table."""
    result = failed("42704", 'publication "w" does not exist')
    lost = lost_by(result)
    assert 'publication "w" does not exist' in lost.what
    assert lost.remedy.startswith("see that each publication is there under its name")
    assert lost.remedy.endswith(f"; then {COPY_ALL}")
    with pytest.raises(OperatorError, match="start again") as refused:
        raise_for_result(cast(Any, Lost()), result)
    assert not isinstance(refused.value, StreamLost)


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("host=127.0.0.1 port=abc", 'invalid integer value "abc" for connection option "port"'),
        ("host=127.0.0.1 port=99999", 'invalid port number: "99999"'),
        ("host=127.0.0.1 port=1 sslmode=verify", 'invalid sslmode value: "verify"'),
        ("host=127.0.0.1 port=1 require_auth=no", "invalid require_auth value"),
        ("host=127.0.0.1 port=1 connect_timeout=soon", "bad value for connect_timeout: 'soon'"),
        ("service=nowhere", 'definition of service "nowhere" not found'),
        ("host=a,b port=1,2,3", "could not match 3 port numbers to 2 hosts"),
    ],
)
def test_connection_string_that_no_server_is_asked_with_is_corrected_and_not_tried_again(dsn: str, words: str) -> None:
    with pytest.raises(OperatorError) as refused:
        connect_sql(dsn)
    assert words in refused.value.what
    assert "correct that in [postgres] dsn" in refused.value.remedy


@pytest.mark.parametrize("dsn", ["host=127.0.0.1 port=1", "host=/nowhere", "host=127.0.0.1,::1 port=1,1"])
def test_server_that_does_not_run_is_asked_again(dsn: str) -> None:
    with pytest.raises(RetryableError, match="cannot be reached"):
        connect_sql(dsn)


@pytest.mark.parametrize("parameter", ["replication", "in options: datestyle"])
def test_pooler_is_told_from_a_server_that_is_away(parameter: str) -> None:
    words = f'connection to server at "127.0.0.1", port 6432 failed: FATAL:  unsupported startup parameter: {parameter}'
    error = by_text(words)
    assert isinstance(error, OperatorError)
    assert "name the server itself in [postgres] dsn" in error.remedy


@pytest.mark.parametrize(
    "words",
    [
        "FATAL:  sorry, too many clients already",
        'FATAL:  too many connections for role "walbridge"',
        "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
        'FATAL:  number of requested standby connections exceeds "max_wal_senders" (currently 2)',
    ],
)
def test_server_without_a_connection_left_is_told_from_one_that_is_away(words: str) -> None:
    error = by_text(f"connection failed: {words}")
    assert isinstance(error, RetryableError), "others may let go of theirs"
    assert "takes no more connections" in str(error)
    assert "raise the limit that Postgres names" in back_again(error, "start the server")
    again = by_sqlstate("53300", words)
    assert isinstance(again, RetryableError)
    assert back_again(again, "start the server") == back_again(error, "start the server")


def test_role_that_may_not_log_in_is_let_in_by_the_sql_of_the_remedy() -> None:
    error = by_text('connection failed: FATAL:  role "Walbridge" is not permitted to log in')
    assert isinstance(error, OperatorError)
    assert error.remedy == 'ALTER ROLE "Walbridge" LOGIN; as an administrator'


class Lost:
    """Stands for a connection that ends under its next command."""

    socket = 0

    class info:  # noqa: N801 - psycopg's name
        server_version = 180000

    def send_query(self, command: bytes) -> None:
        raise psycopg.OperationalError("executing query failed: no connection to the server")

    def execute(self, statement: object) -> None:
        raise psycopg.OperationalError("the connection is lost")


def test_command_whose_connection_is_lost_is_tried_again() -> None:
    with pytest.raises(RetryableError):
        walsender_query(cast(Any, Lost()), "IDENTIFY_SYSTEM")
    with pytest.raises(RetryableError):
        create_publication(cast(Any, Lost()), "walbridge", ["public.t"])


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (
            psycopg.errors.ReadOnlySqlTransaction,
            "create it as somebody who may write there: walbridge init --admin-dsn",
        ),
        (psycopg.errors.UndefinedTable, "mend [postgres] publication_tables"),
    ],
)
def test_publication_that_cannot_be_made_says_who_can_make_it(refusal: type[psycopg.Error], remedy: str) -> None:
    class Refuses:
        info = SimpleNamespace(server_version=180000)

        def execute(self, _statement: object) -> None:
            raise refusal

    with pytest.raises(OperatorError) as refused:
        create_publication(cast(Any, Refuses()), "walbridge", ["public.t"])
    assert remedy in refused.value.remedy


_REFUSED = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    "said",
    [
        "SSL error: certificate verify failed",
        "SSL error: tlsv1 alert unknown ca",
        "SSL error: tlsv13 alert certificate required",
        "SSL error: sslv3 alert certificate expired",
        "server does not support SSL, but SSL was required",
        'root certificate file "/ca" does not exist\nEither provide the file, or change sslmode',
        'could not read root certificate file "/ca": no certificate or crl found',
        'server certificate for "other" does not match host name "db"',
        'certificate present, but not private key file "/key"',
        'private key file "/key" has group or world access; file must have permissions u=rw (0600) or less',
        "FATAL:  connection requires a valid client certificate",
    ],
)
def test_certificate_that_does_not_fit_is_the_operators_and_names_its_settings(said: str) -> None:
    """Seen of libpq 18. No retry makes another certificate."""
    error = classified(psycopg.OperationalError(f"{_REFUSED}{said}"))

    assert isinstance(error, OperatorError)
    assert said.splitlines()[0] in error.what
    assert "sslrootcert" in error.remedy


@pytest.mark.parametrize("method", ["Ident", "Peer", "password", "certificate"])
def test_user_whom_the_server_does_not_let_in_is_the_operators(method: str) -> None:
    error = classified(psycopg.OperationalError(f'{_REFUSED}FATAL:  {method} authentication failed for user "u"'))

    assert isinstance(error, OperatorError)
    assert "pg_hba.conf" in error.remedy


@pytest.mark.parametrize("said", ["SSL error: unexpected eof while reading", "SSL SYSCALL error: EOF detected"])
def test_connection_that_breaks_off_inside_tls_is_tried_again(said: str) -> None:
    assert isinstance(classified(psycopg.OperationalError(f"{_REFUSED}{said}")), RetryableError)


def test_certificate_of_one_host_of_several_ends_nobody_who_waits_for_another() -> None:
    """A standby's may be wrong for long: the primary that is away comes back."""
    said = [f"{_REFUSED}SSL error: certificate verify failed", f"{_REFUSED}Connection refused"]
    attempts = "".join(f"\n- host: 'h', port: '5432', hostaddr: '10.0.0.1': {each}" for each in said)
    several = f"{said[1]}\nMultiple connection attempts failed. All failures were:{attempts}"

    assert isinstance(classified(psycopg.OperationalError(several)), RetryableError)
    assert isinstance(classified(psycopg.OperationalError(several.replace(said[1], said[0]))), OperatorError)


@pytest.mark.parametrize(
    "said",
    ['publication "walbridge_ddl" does not exist', "Publikation »walbridge_ddl« existiert nicht"],
    ids=["english", "german"],
)
def test_publication_of_ddl_that_was_taken_away_ends_the_session_alone_in_any_language(said: str) -> None:
    """The next session does not ask for it; messages are in the server's language (lc_messages)."""
    assert isinstance(by_sqlstate("42704", said), RetryableError)

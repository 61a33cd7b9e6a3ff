"""No secret of a connection string is ever shown, whatever its form (I10)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from walbridge.schemas.dsn import MASK, mask_dsn

# Characters that no other part of the strings below holds, so that finding one is finding the password.
_OPEN = st.text("ZQX", min_size=3, max_size=8)
_ODD = st.lists(
    _OPEN | st.sampled_from([" ", "'", "\\", "=", "@", ":", "/", "?", "#", "&", "%", "password="]), max_size=6
)
PASSWORDS = st.tuples(_OPEN, _ODD.map("".join), _OPEN).map("".join)


def shows(secret: str, shown: str) -> bool:
    return bool(set(secret) & set("ZQX") & set(shown))


def quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def escaped(value: str) -> str:
    return "".join("\\" + char if char in " '\\" else char for char in value)


@given(
    password=PASSWORDS,
    name=st.sampled_from(["password", "sslpassword"]),
    write=st.sampled_from([quoted, escaped]),
)
def test_keyword_password_is_masked_and_the_rest_shown(password: str, name: str, write: object) -> None:
    assert callable(write)

    shown = mask_dsn(f"host=h {name} = {write(password)} options='-c a=b' dbname=d")

    assert shown == f"host=h {name}={MASK} options='-c a=b' dbname=d"


@given(password=PASSWORDS)
@example(password="Z Q")
@example(password="Z'Q")
def test_keyword_password_written_without_quoting_is_never_shown(password: str) -> None:
    assert not shows(password, mask_dsn(f"host=h password={password}"))


@given(password=PASSWORDS, before=st.sampled_from(["", "user='", "user=x\\", "options='-c a=\\'"]))
def test_keyword_password_beside_an_open_quote_is_never_shown(password: str, before: str) -> None:
    assert not shows(password, mask_dsn(f"{before} password={quoted(password)}"))


@given(password=PASSWORDS)
@example(password="Z@Q?Q")
@example(password="Z@Q?options=Q")
@example(password="Z#Q")
@example(password="Z?Q")
@example(password="Z/Q")
@example(password="Z@Q")
@example(password="Z:Q")
def test_uri_password_is_never_shown_raw_or_not(password: str) -> None:
    assert not shows(password, mask_dsn(f"postgresql://u:{password}@h:5432/d"))


@given(
    password=PASSWORDS.map(lambda text: "".join(f"%{ord(char):02x}" if not char.isalpha() else char for char in text))
)
def test_uri_with_an_encoded_password_shows_all_else(password: str) -> None:
    shown = mask_dsn(f"postgresql://u:{password}@h1:5432,[::1]:5433/d?sslmode=require")

    assert shown == f"postgresql://u:{MASK}@h1:5432,[::1]:5433/d?sslmode=require"


@given(
    password=PASSWORDS.filter(lambda text: not {"&", "@"} & set(text)),
    name=st.sampled_from(["password", "sslpassword", "pass%77ord"]),
)
def test_uri_parameter_that_is_a_password_is_masked(password: str, name: str) -> None:
    shown = mask_dsn(f"postgres:///d?user=u&{name}={password}&sslmode=require")

    assert not shows(password, shown)
    assert shown.startswith("postgres:///d?user=u&")
    assert shown.endswith("&sslmode=require")


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "host=h dbname=d",
        "host=/tmp port=5432 user=postgres",
        "postgresql://h/d",
        "postgresql://u@h:5432/d",
        "postgresql:///d?host=/tmp",
        "options='-c search_path=a,b'",
    ],
)
def test_string_without_a_secret_is_shown_as_it_is(dsn: str) -> None:
    assert mask_dsn(dsn) == dsn


@pytest.mark.parametrize(
    "dsn",
    [
        "secret",
        "mysql://u:secret@h/d",
        "host=h secret",
        "PASSWORD=secret",
        "password='secret",
        "postgresql://u:secret",
        "postgresql:///d?password=sec@ret",
    ],
)
def test_string_that_libpq_would_refuse_is_masked_whole(dsn: str) -> None:
    assert mask_dsn(dsn) == MASK

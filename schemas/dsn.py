"""A Postgres connection string as it may be shown: all but its secrets.

In: a conninfo string or a URI, as libpq reads them. Out: text for people. What does not parse
as libpq would parse it is masked whole: a stray ``@`` or an open quote must never make half a
password look like a host name (I10). Source: PostgreSQL manual, "Connection Strings".
"""

import re
from urllib.parse import quote

from walbridge.schemas.errors import OperatorError

MASK = "***"
_SHOWN = """
host hostaddr port dbname user passfile service servicefile require_auth channel_binding connect_timeout
client_encoding options application_name fallback_application_name keepalives keepalives_idle
keepalives_interval keepalives_count tcp_user_timeout replication gssencmode sslmode sslnegotiation
sslcompression sslcert sslkey sslcertmode sslrootcert sslcrl sslcrldir sslsni requirepeer
ssl_min_protocol_version ssl_max_protocol_version krbsrvname gsslib gssdelegation target_session_attrs
load_balance_hosts min_protocol_version max_protocol_version
"""
SHOWN = frozenset(_SHOWN.split())
"""What libpq takes and anybody may see; a name that is neither here nor in SECRETS is a mistake."""
SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})

_KEYWORD = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\']|\\.)(?:[^\s\\]|\\.)*|(?=\s|$))", re.DOTALL)
_HOST = r"(?:\[[^\]@]*\]|[^:\[\],@/?]*)(?::\d*)?"
_URI = re.compile(
    rf"""(?P<scheme>postgres(?:ql)?://)
    (?:(?P<user>[^:@/?]*)(?P<password>:[^@/?]*)?@)?
    (?P<hosts>{_HOST}(?:,{_HOST})*)
    (?P<path>/[^@?]*)?
    (?:\?(?P<query>[^@]*))?""",
    re.VERBOSE | re.DOTALL,
)


def mask_dsn(dsn: str) -> str:
    """A conninfo string or URI without its secrets; ``***`` for one that libpq would refuse."""
    return _mask_uri(dsn) if _is_uri(dsn) else _mask_keywords(dsn)


def refuse_unclear_dsn(dsn: str, named: str = "[postgres] dsn") -> None:
    """Refuse what libpq would, or of which it would take a part of the password for a host and print it (I10).

    Raises:
        OperatorError: in our own words, which quote nothing.
    """
    if mask_dsn(dsn) == MASK:
        raise unreadable_dsn(named)


def unreadable_dsn(named: str = "[postgres] dsn") -> OperatorError:
    """The error for it. ``named``: the setting or option that holds it."""
    return OperatorError(
        f"{named} is not a connection string that can be read without doubt",
        remedy='write it as "host=... dbname=... user=..." or "postgresql://user@host/dbname"; in quotes what has '
        "blanks, in a URI percent-encoded what has @, : or /",
    )


def with_password(dsn: str, password: str) -> str:
    """The same connection with a password that was kept elsewhere; of two, libpq takes the last."""
    if _is_uri(dsn):
        return f"{dsn}{'&' if '?' in dsn else '?'}password={quote(password, safe='')}"
    escaped = password.replace("\\", "\\\\").replace("'", "\\'")
    return f"{dsn} password='{escaped}'".lstrip()


def _is_uri(dsn: str) -> bool:
    return "://" in dsn.partition("=")[0]


def _mask_keywords(dsn: str) -> str:
    shown = []
    at = 0
    while dsn[at:].strip():
        setting = _KEYWORD.match(dsn, at)
        if setting is None:
            return MASK
        name, value = setting.groups()
        if name not in SHOWN | SECRETS:  # most likely the second word of a password without quotes
            return MASK
        shown.append(f"{name}={value if _may_show(name, value) else MASK}")
        at = setting.end()
    return " ".join(shown)


def _mask_uri(uri: str) -> str:
    parts = _URI.fullmatch(uri)
    if parts is None:
        return MASK
    scheme, user, password, hosts, path, query = parts.groups()
    user_info = "" if user is None else f"{user}{f':{MASK}' if password else ''}@"
    parameters = "" if query is None else "?" + "&".join(map(_mask_parameter, query.split("&")))
    return f"{scheme}{user_info}{hosts}{path or ''}{parameters}"


def _mask_parameter(parameter: str) -> str:
    # A name may be percent-encoded too: only one that reads as it stands shows its value.
    name, _, value = parameter.partition("=")
    return parameter if _may_show(name, value) else f"{name if name in SECRETS else ''}={MASK}"


def _may_show(name: str, value: str) -> bool:
    # A backslash or quote too few makes the next setting, a password, part of this one's value.
    return name in SHOWN and "password" not in value.lower()

"""Settings from a file, variables and files of secrets, or one clear error.

In: a path, arguments, the environment. Out: ``Settings``. Order of precedence: ``WALBRIDGE_*``
variables (``WALBRIDGE_KAFKA__BOOTSTRAP_SERVERS``), arguments, the file, the defaults. Unknown
variables are refused, as unknown keys are.
"""

import json
import os
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, get_origin

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from walbridge.schemas.dsn import with_password
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import ENV_PREFIX, Settings

ENV_NOT_SETTINGS = {"CONFIG", "HOME", "JAVA", "KILL_POINT", "TEST_SERVERS", "UI_TOKEN"}
"""Variables read elsewhere: the settings file, embedded servers, Java, tests, ``walbridge ui``."""
_KINDS = {
    "string": "it is a text, which stands in quotes",
    "tuple": 'it is a list: ["one", "two"]',
    "dict": 'it is a table: { "name" = "value" }',
    "bool": "it is true or false",
    "int": "it is a whole number",
}
"""Words for a value of another type than the setting's, by pydantic's name of the error."""
_OF_THE_PRODUCER = ("postgres", "client", "registry")
"""Whose files of secrets the producer needs, and most verbs."""
_SAVE_AS_UTF_8 = "save it as UTF-8, which every editor can"


def load_settings(
    path: str | os.PathLike[str] | None = None,
    *,
    secrets: Collection[str] = _OF_THE_PRODUCER,
    **overrides: Any,
) -> Settings:
    """Read the settings file (``WALBRIDGE_CONFIG`` or ``walbridge.toml`` when not given).

    Args:
        secrets: whose files are read too, of postgres, client, spark, registry: a machine has only those it needs.

    Raises:
        OperatorError: no such file, not TOML, an unknown key or variable, a value out of range.
    """
    chosen = Path(path or os.environ.get(f"{ENV_PREFIX}CONFIG") or "walbridge.toml")
    given = path is not None or f"{ENV_PREFIX}CONFIG" in os.environ
    values = _values(chosen) if given or _is_there(chosen) else {}
    refuse_unknown_variables(os.environ)
    try:
        return with_secrets(Settings(**(values | overrides)), secrets)
    except ValidationError as error:
        raise _operator_error(error, chosen) from None
    except SettingsError:  # the variable of a list or table is not JSON
        raise OperatorError(
            f"{_no_json(os.environ)} cannot be read: it is no JSON",
            remedy="write its list or table as JSON, or unset it",
        ) from None


def _is_there(path: Path) -> bool:
    """Also where it is a link to nothing, or cannot be looked at: defaults are meant where nobody made a file."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _values(path: Path) -> dict[str, Any]:
    """What the file holds: UTF-8 in any locale, as TOML is, with the mark that some editors set before it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if not text and path.is_fifo():
            raise OperatorError(
                f"nothing came from the pipe {path} that settings were to come from",
                remedy="see why the command that writes to it has failed",
            )
        return tomllib.loads(text)
    except OSError as error:
        raise OperatorError(
            f"settings file {path} cannot be read: {error.strerror}", remedy="name one with --config"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise OperatorError(f"{path} is not TOML: it is not UTF-8 (at line {line})", _SAVE_AS_UTF_8) from None
    except tomllib.TOMLDecodeError as error:
        raise OperatorError(f"{path} is not TOML: {error}", remedy="mend that line") from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise OperatorError(f"{path} cannot be read: {error}", remedy="mend the file") from None
    except RecursionError:
        raise OperatorError(f"{path} nests lists or tables too deep", remedy="mend the file") from None


def dsn_of(settings: Settings) -> str:
    """The connection string; there is no default database to follow.

    Raises:
        OperatorError: none is set.
    """
    dsn = settings.postgres.dsn.get_secret_value()
    if not dsn:
        raise OperatorError(
            "no database is named",
            remedy='write [postgres] dsn = "host=... dbname=..." into the settings file, which is walbridge.toml in '
            "this folder unless --config names another one; or set WALBRIDGE_POSTGRES__DSN",
        )
    return dsn


def with_secrets(settings: Settings, of: Collection[str] = _OF_THE_PRODUCER) -> Settings:
    """The settings with what these files of secrets hold; as ``load_settings``.

    Raises:
        OperatorError: one cannot be read.
    """
    postgres, kafka = settings.postgres, settings.kafka
    dsn = postgres.dsn.get_secret_value()
    if "postgres" in of and postgres.password_file and dsn:
        dsn = with_password(dsn, secret_in(postgres.password_file, "[postgres] password_file", _MADE_BY_INIT))
        postgres = postgres.model_copy(update={"dsn": SecretStr(dsn)})
    for client, files in (("client", kafka.client_files), ("spark", kafka.spark_files)):
        if client in of and files:
            read = {name: SecretStr(secret_in(path, f"[kafka] {client}_files")) for name, path in files.items()}
            kafka = kafka.model_copy(update={client: getattr(kafka, client) | read})
    topics = settings.topics
    if "registry" in of and topics.registry_password_file:
        password = SecretStr(secret_in(topics.registry_password_file, "[topics] registry_password_file"))
        topics = topics.model_copy(update={"registry_password": password})
    return settings.model_copy(update={"postgres": postgres, "kafka": kafka, "topics": topics})


_MADE_BY_INIT = "; or, if there is no such role yet: walbridge init --admin-dsn makes it, and that file"


def secret_in(path: str, setting: str, or_else: str = "") -> str:
    """What a file holds, without the line end that editors add.

    Args:
        or_else: another remedy where it cannot be read.

    Raises:
        OperatorError: it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig").rstrip("\r\n")
    except (OSError, ValueError) as error:
        is_text = not isinstance(error, UnicodeDecodeError)
        reason = getattr(error, "strerror", None) or ("it is no path" if is_text else "it is not UTF-8")
        raise OperatorError(
            f"{setting}: {path} cannot be read: {reason}",
            remedy=f"write the secret into that file, and let this user read it{or_else}",
        ) from None


def refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    """Refuse unknown WALBRIDGE_ variables, which pydantic-settings ignores even with ``extra="forbid"``.

    Raises:
        OperatorError: naming the variable and those that exist.
    """
    for variable in sorted(environment):
        if not variable.upper().startswith(ENV_PREFIX):  # pydantic-settings reads either case
            continue
        head, _, rest = variable[len(ENV_PREFIX) :].lower().partition("__")
        if head.upper() in ENV_NOT_SETTINGS:
            continue
        section = Settings.model_fields.get(head)
        fields = getattr(section.annotation, "model_fields", None) if section else None
        known = section is not None and (not rest if fields is None else rest.partition("__")[0] in fields)
        if not known:
            prefix = f"{ENV_PREFIX}{head.upper()}__" if fields else ENV_PREFIX
            choices = ", ".join(
                f"{prefix}{name.upper()}{_below(name, fields)}" for name in fields or Settings.model_fields
            )
            raise OperatorError(f"unknown environment variable {variable}", remedy=f"unset it; known: {choices}")


def _below(name: str, fields: Mapping[str, object] | None) -> str:
    """What follows the name of a section: each of its settings has a variable, the section itself has none."""
    section = None if fields else Settings.model_fields[name].annotation
    return "__..." if hasattr(section, "model_fields") else ""


def _no_json(environment: Mapping[str, str]) -> str:
    """The variables that should be JSON and are not, by name; their values are nobody's to show (I10)."""
    found = []
    for variable, value in environment.items():
        head, _, name = variable.upper().removeprefix(ENV_PREFIX).lower().partition("__")
        section = Settings.model_fields.get(head)
        field = (getattr(section.annotation, "model_fields", None) or {}).get(name) if section else None
        if field is None or not variable.upper().startswith(ENV_PREFIX):
            continue
        try:
            json.loads(value)
        except ValueError:
            # Of one value text is as good; pydantic-settings reads JSON where the field holds several.
            found += [variable] if get_origin(field.annotation) in (dict, tuple) else []
    return " and ".join(sorted(found)) or f"a {ENV_PREFIX} variable"


def _operator_error(error: ValidationError, path: Path) -> OperatorError:
    problems = []
    for detail in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in detail["loc"])
        variable = ENV_PREFIX + "__".join(str(part) for part in detail["loc"][:2]).upper()
        place = f"{variable} ({where})" if variable in {name.upper() for name in os.environ} else where
        problems.append(f"{place}: {_in_words(detail)}")
    return OperatorError(
        f"{path}: " + "; ".join(problems), remedy="mend the file or the variable; see docs/settings.md"
    )


def _in_words(detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return "unknown setting"
    if detail["type"] == "model_type":
        return f"it is a section, which begins with a line [{detail['loc'][0]}]"
    kind = detail["type"].removesuffix("_type").removesuffix("_parsing")
    return _KINDS.get(kind) or detail["msg"].removeprefix("Value error, ")

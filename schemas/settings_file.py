"""Settings from a file, variables and files of secrets, or one clear error.

In: a path, arguments, the environment. Out: ``Settings``. Order of precedence: ``WALBRIDGE_*``
variables (``WALBRIDGE_KAFKA__BOOTSTRAP_SERVERS``), arguments, the file, the defaults. Unknown
variables are refused, as unknown keys are.
"""

import os
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_settings import SettingsError

from walbridge.schemas.dsn import with_password
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import ENV_PREFIX, Settings

ENV_NOT_SETTINGS = {"CONFIG", "HOME", "JAVA", "KILL_POINT", "TEST_SERVERS", "UI_TOKEN"}
"""Variables read elsewhere: the settings file, embedded servers, Java, tests, ``walbridge ui``."""


def load_settings(
    path: str | os.PathLike[str] | None = None,
    *,
    secrets: Collection[str] = ("postgres", "client", "registry"),
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
    try:
        values = tomllib.loads(chosen.read_text()) if given or chosen.exists() else {}
    except OSError as error:
        raise OperatorError(
            f"settings file {chosen} cannot be read: {error.strerror}", remedy="name one with --config"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OperatorError(f"{chosen} is not TOML: {error}", remedy="mend that line") from None
    refuse_unknown_variables(os.environ)
    try:
        return with_secrets(Settings(**(values | overrides)), secrets)
    except ValidationError as error:
        raise _operator_error(error, chosen) from None
    except SettingsError as error:  # the variable of a list or table is not JSON
        raise OperatorError(
            f"a {ENV_PREFIX} variable cannot be read: {error}",
            remedy="write its list or table as JSON, or unset it",
        ) from None


def dsn_of(settings: Settings) -> str:
    """The connection string; there is no default database to follow.

    Raises:
        OperatorError: none is set.
    """
    dsn = settings.postgres.dsn.get_secret_value()
    if not dsn:
        raise OperatorError(
            "no database is named",
            remedy='write [postgres] dsn = "host=... dbname=..." into walbridge.toml, or set WALBRIDGE_POSTGRES__DSN',
        )
    return dsn


def with_secrets(settings: Settings, of: Collection[str]) -> Settings:
    """The settings with what these files of secrets hold; as ``load_settings``.

    Raises:
        OperatorError: one cannot be read.
    """
    postgres, kafka = settings.postgres, settings.kafka
    dsn = postgres.dsn.get_secret_value()
    if "postgres" in of and postgres.password_file and dsn:
        dsn = with_password(dsn, secret_in(postgres.password_file, "[postgres] password_file"))
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


def secret_in(path: str, setting: str) -> str:
    """What a file holds, without the line end that editors add.

    Raises:
        OperatorError: it cannot be read.
    """
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise OperatorError(
            f"{setting}: {path} cannot be read: {reason}",
            remedy="write the secret into that file, and let this user read it",
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
            choices = ", ".join(f"{prefix}{name.upper()}" for name in (fields or Settings.model_fields))
            raise OperatorError(f"unknown environment variable {variable}", remedy=f"unset it; known: {choices}")


def _operator_error(error: ValidationError, path: Path) -> OperatorError:
    problems = []
    for detail in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in detail["loc"])
        unknown = detail["type"] == "extra_forbidden"
        problems.append(f"{where}: {'unknown setting' if unknown else detail['msg']}")
    return OperatorError(
        f"{path}: " + "; ".join(problems), remedy="mend the file or the variable; see docs/settings.md"
    )

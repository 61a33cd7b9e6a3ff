"""The verbs that set a pipeline up, and run it."""

import os
import sys
from getpass import getpass
from typing import Annotated

import typer

from walbridge.cli.options import Config, LogFormat, app, say


def _config_argument(config: str | None) -> list[str]:
    return [] if config is None else ["--config", config]


@app.command()
def demo(
    seconds: Annotated[int, typer.Option(min=1, help="How long pgbench writes.")] = 30,
    scale: Annotated[
        int, typer.Option(min=1, max=1000, help="Scale of pgbench's tables: 100,000 accounts for each unit.")
    ] = 1,
    rate: Annotated[int, typer.Option(min=1, help="How many transactions a second pgbench begins at most.")] = 500,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the servers' data, the settings, the logs and the lake.")
    ] = False,
) -> None:
    """Start Postgres, Kafka, the producer and the Spark job, run pgbench, show it live, and verify."""
    from walbridge.demo import run

    raise typer.Exit(run(seconds=seconds, scale=scale, rate=rate, keep=keep))


@app.command()
def init(
    config: Config = None,
    role: Annotated[
        str | None,
        typer.Option(help="Name of the role; else the dsn's user, or walbridge if that is an administrator."),
    ] = None,
    only_sql: Annotated[
        bool, typer.Option("--sql", help="Only print the SQL of role and publication; connect to nothing.")
    ] = False,
    acls: Annotated[
        bool, typer.Option("--acls", help="Only print the commands that grant both programs' rights in Kafka.")
    ] = False,
    admin_dsn: Annotated[
        str | None,
        typer.Option(
            metavar="DSN",
            help="An administrator's connection, which first makes role, rights and publication; what it does not say "
            "is as in the dsn of the settings.",
        ),
    ] = None,
    ddl_trigger: Annotated[
        bool | None,
        typer.Option(
            "--ddl-trigger/--no-ddl-trigger",
            help="Make the event triggers that tell DDL in the stream, or take them away and do no more: with "
            "--admin-dsn; else print the SQL.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --ddl-trigger: also where others replicate all tables.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="What is there now as one JSON object.")] = False,
) -> None:
    """Make publication (if the settings name its tables), topics and slot; print the SQL of a least-privileged role."""
    from walbridge.administrator import prepare, remove_ddl_trigger
    from walbridge.ddl_trigger import make_sql
    from walbridge.init import initialise
    from walbridge.runtime.logs import configure_logs
    from walbridge.schemas.settings_file import load_settings, with_secrets

    configure_logs("warning")  # what was made is told below, and stdout is SQL alone
    by_admin = admin_dsn is not None
    _refuse_together(by_admin=by_admin, role=role, prints=(only_sql, acls, as_json), ddl_trigger=ddl_trigger)
    if admin_dsn is None and (only_sql or acls or ddl_trigger is False):
        print(_printed_by_init(config, role, acls=acls, ddl_trigger=ddl_trigger))
        return
    prepared = None
    settings = load_settings(config, secrets=())  # once: what is read from a pipe is there once
    if admin_dsn is not None:
        ask = (lambda: getpass("Password of the administrator: ")) if sys.stdin.isatty() else None
        if ddl_trigger is False:
            remove_ddl_trigger(settings, admin_dsn, say, ask)
            return
        prepared = prepare(settings, admin_dsn, say, ask, tells_ddl=bool(ddl_trigger), force=force)
    made = initialise(with_secrets(settings), role, say, prepared=prepared)
    if printed := made.as_json(settings.name) if as_json else made.role_sql:
        print(printed)
    if ddl_trigger and admin_dsn is None:
        print(make_sql())


def _refuse_together(
    *, by_admin: bool, role: str | None, prints: tuple[bool, bool, bool], ddl_trigger: bool | None
) -> None:
    """Refuse options of ``init`` that contradict each other. ``prints``: --sql, --acls and --json."""
    only_sql, acls, as_json = prints
    if by_admin and (only_sql or acls or role):
        raise typer.BadParameter(
            "--admin-dsn makes the user of [postgres] dsn, and goes without --sql, --acls and --role"
        )
    if sum(prints) > 1:
        raise typer.BadParameter("say one of --sql, --acls and --json")
    if as_json and ddl_trigger is not None and not (by_admin and ddl_trigger):
        raise typer.BadParameter("--json goes with --ddl-trigger alone, where --admin-dsn makes the triggers")


def _printed_by_init(config: str | None, role: str | None, *, acls: bool, ddl_trigger: bool | None) -> str:
    """What ``init`` prints where it needs no connection."""
    from walbridge.ddl_trigger import make_sql, remove_sql
    from walbridge.kafka_rights import acl_script
    from walbridge.role import administrator_sql
    from walbridge.schemas.settings_file import load_settings

    if ddl_trigger is False:
        return remove_sql()
    settings = load_settings(config, secrets=())
    if acls:
        return acl_script(settings)
    return administrator_sql(settings, role) + (f"\n{make_sql()}" if ddl_trigger else "")


@app.command()
def check(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Look at server, broker, lake and this machine; say what is wrong and what mends it."""
    from walbridge.check import check as check_all
    from walbridge.schemas.settings_file import load_settings

    raise typer.Exit(check_all(load_settings(config), as_json=as_json))


@app.command()
def produce(
    config: Config = None,
    log_level: Annotated[str, typer.Option(help="The least severe lines to log: debug, info or warning.")] = "info",
    log_format: LogFormat = "auto",
    try_again: Annotated[
        bool, typer.Option("--try-again", help="Stream though Postgres crashed each time: its log blames others.")
    ] = False,
) -> None:
    """Run the producer: Postgres to Kafka, until SIGTERM or Ctrl-C."""
    from walbridge.producer.__main__ import main as producer_main

    again = ["--try-again"] if try_again else []
    options = [*_config_argument(config), "--log-level", log_level, "--log-format", log_format, *again]
    raise typer.Exit(producer_main(options))


@app.command()
def materialize(
    config: Config = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when all that is in Kafka now is in the lake.")] = False,
    log_format: LogFormat = "auto",
) -> None:
    """Run the Spark job: Kafka to Delta tables, until SIGTERM or Ctrl-C."""
    from walbridge.embedded.jars import fetch
    from walbridge.embedded.java import find_java
    from walbridge.schemas.settings_file import load_settings, with_secrets

    settings = load_settings(config, secrets=())  # once: what is read from a pipe is there once
    os.environ["JAVA_HOME"] = str(find_java().java_home)
    if settings.spark.jars_dir is None:
        jars = settings.spark.model_copy(update={"jars_dir": str(fetch(["spark"], say)["spark"])})
        settings = settings.model_copy(update={"spark": jars})
    from walbridge.spark_consumer.__main__ import run as run_job

    raise typer.Exit(run_job(lambda: with_secrets(settings, ("spark",)), once=once, log_format=log_format))

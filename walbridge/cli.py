"""The verbs of ``walbridge``: what each takes, and which module does it.

Whatever is slow to import (Spark, Delta, both clients) is imported by the verb that needs it, so
that ``walbridge --help`` answers at once.
"""

import json
import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they show local variables, which may hold rows and secrets (I10)
    help="Postgres WAL to Kafka to Delta tables, exactly once, consistent at one LSN.",
)
Config = Annotated[str | None, typer.Option("--config", metavar="FILE", help="Settings file, else walbridge.toml.")]
LogFormat = Annotated[str, typer.Option(help="Form of the log's lines: auto, logfmt or json.")]


def _say(line: str) -> None:
    """Progress, apart from what a verb prints for other programs to read."""
    print(line, file=sys.stderr, flush=True)


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
    import structlog

    from walbridge.administrator import prepare, take_ddl_trigger_away
    from walbridge.ddl_trigger import make_sql
    from walbridge.init import initialise
    from walbridge.schemas.settings_file import load_settings

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is SQL alone
    if admin_dsn is not None and (only_sql or acls or role):
        raise typer.BadParameter(
            "--admin-dsn makes the user of [postgres] dsn, and goes without --sql, --acls and --role"
        )
    if only_sql + acls + as_json > 1:
        raise typer.BadParameter("say one of --sql, --acls and --json")
    if as_json and ddl_trigger is not None and (admin_dsn is None or not ddl_trigger):
        raise typer.BadParameter("--json goes with --ddl-trigger alone, where --admin-dsn makes the triggers")
    if admin_dsn is None and (only_sql or acls or ddl_trigger is False):
        print(_printed_by_init(config, role, acls=acls, ddl_trigger=ddl_trigger))
        return
    prepared = None
    if admin_dsn is not None:
        ask = (lambda: getpass("Password of the administrator: ")) if sys.stdin.isatty() else None
        settings = load_settings(config, secrets=())
        if ddl_trigger is False:
            take_ddl_trigger_away(settings, admin_dsn, _say, ask)
            return
        prepared = prepare(settings, admin_dsn, _say, ask, tells_ddl=bool(ddl_trigger), force=force)
    settings = load_settings(config)
    made = initialise(settings, role, _say, prepared=prepared)
    if printed := made.as_json(settings.name) if as_json else made.role_sql:
        print(printed)
    if ddl_trigger and admin_dsn is None:
        print(make_sql())


def _printed_by_init(config: str | None, role: str | None, *, acls: bool, ddl_trigger: bool | None) -> str:
    """What it prints without a connection."""
    from walbridge.ddl_trigger import make_sql, take_away_sql
    from walbridge.kafka_rights import acl_script
    from walbridge.role import administrator_sql
    from walbridge.schemas.settings_file import load_settings

    if ddl_trigger is False:
        return take_away_sql()
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
) -> None:
    """Run the producer: Postgres to Kafka, until SIGTERM or Ctrl-C."""
    from walbridge.producer.__main__ import main as producer_main

    raise typer.Exit(producer_main([*_config_argument(config), "--log-level", log_level, "--log-format", log_format]))


@app.command()
def materialize(
    config: Config = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when all that is in Kafka now is in the lake.")] = False,
    log_format: LogFormat = "auto",
) -> None:
    """Run the Spark job: Kafka to Delta tables, until SIGTERM or Ctrl-C."""
    from walbridge.embedded.jars import fetch
    from walbridge.embedded.java import find_java
    from walbridge.schemas.settings_file import load_settings

    settings = load_settings(config, secrets=())
    os.environ["JAVA_HOME"] = str(find_java().java_home)
    if settings.spark.jars_dir is None:
        os.environ["WALBRIDGE_SPARK__JARS_DIR"] = str(fetch(["spark"], _say)["spark"])
    from walbridge.spark_consumer.__main__ import main as job_main

    raise typer.Exit(job_main([*_config_argument(config), *(["--once"] if once else []), "--log-format", log_format]))


@app.command()
def status(
    config: Config = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each look, instead of lines.")] = False,
) -> None:
    """Show slot, producer, cuts, lake and tables, and how far behind the server each is."""
    from walbridge.schemas.settings_file import load_settings
    from walbridge.status import status as show_status

    settings = load_settings(config)
    raise typer.Exit(show_status(settings, watch=watch, interval_s=interval, as_json_lines=as_json))


@app.command()
def ui(
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="FILE", help="Settings file; once for each pipeline.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = 9480,
    interval: Annotated[float, typer.Option(min=1, help="Seconds between two looks at a pipeline.")] = 10.0,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the token that readers must know.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="Folder that keeps the last day for the next start.")
    ] = None,
) -> None:
    """Serve a status page of one or several pipelines, read only, until SIGTERM or Ctrl-C."""
    from walbridge.schemas.settings_file import load_settings
    from walbridge.ui import serve

    pipelines = [load_settings(each) for each in config] if config else [load_settings()]
    code = serve(pipelines, host=host, port=port, interval_s=interval, token_file=token_file, keep=keep, say=_say)
    raise typer.Exit(code)


@app.command()
def tables(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Show each table: its state, how much of it is copied, its topic, its folder in the lake."""
    from walbridge.schemas.settings_file import load_settings
    from walbridge.tables.show import show

    raise typer.Exit(show(load_settings(config), as_json_text=as_json, say=_say))


@app.command()
def copy(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="schema.table, or a name that only one has.")
    ] = None,
    config: Config = None,
    all_tables: Annotated[
        bool, typer.Option("--all", help="All tables; with a new slot where the stream cannot go on.")
    ] = False,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="Only the rows of these keys: one on each line, or CSV.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the copies until all of them are current.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="What was asked for as one JSON object.")] = False,
) -> None:
    """Ask the producer to copy tables again, beside the stream; all others flow meanwhile."""
    from walbridge.schemas.settings_file import load_settings
    from walbridge.tables.copy import copy as ask_for_copies
    from walbridge.tables.copy_all import copy_all
    from walbridge.tables.keys import copy_keys

    if bool(tables) == all_tables:
        raise typer.BadParameter("name tables, or say --all")
    if keys is not None and len(tables or ()) != 1:
        raise typer.BadParameter("--keys goes with one table")
    settings = load_settings(config)
    out = print if as_json else None
    if keys is not None and tables:
        code = copy_keys(settings, tables[0], keys, wait=wait, say=_say, out=out)
    elif tables:
        code = ask_for_copies(settings, tables, wait=wait, say=_say, out=out)
    else:
        code = copy_all(settings, wait=wait, say=_say, out=out)
    raise typer.Exit(code)


@app.command()
def forget(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE", help="schema.table of one that left.")],
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="What remains of them as one JSON object.")] = False,
) -> None:
    """Forget tables that left the publication; say what remains of them."""
    from walbridge.schemas.settings_file import load_settings
    from walbridge.tables.forget import forget as forget_tables

    raise typer.Exit(forget_tables(load_settings(config), tables, say=_say, out=print if as_json else None))


@app.command()
def tail(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="schema.table")] = None,
    config: Config = None,
    messages: Annotated[bool, typer.Option("--messages", help="Logical messages instead of a table.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="LSN[/ORDINAL]", help="Begin at this position, as tail prints it.")
    ] = None,
    last: Annotated[int, typer.Option(min=0, help="How many of the newest events to begin with.")] = 10,
) -> None:
    """Print the events of a table's topic, or the logical messages, as JSON lines, decoded."""
    from walbridge.schemas.settings_file import load_settings
    from walbridge.tail import MESSAGES, Beginning, parse_position
    from walbridge.tail import tail as print_events

    if (table is None) != messages:
        raise typer.BadParameter("name a table, or say --messages")
    beginning = Beginning(None if start is None else parse_position(start), last)
    raise typer.Exit(print_events(load_settings(config), table or MESSAGES, beginning, follow=follow, say=_say))


@app.command()
def verify(
    tables: Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="schema.table; all by default.")] = None,
    config: Config = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Seconds to wait at each look until the lake publishes what the source holds: 60, with --every 600.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="Again and again, as 30m or 1h, until SIGTERM.")
    ] = None,
    log_format: LogFormat = "auto",
) -> None:
    """Compare lake and source row by row at one LSN; where they differ, print the keys and exit with 1."""
    from walbridge.quantities import duration_s
    from walbridge.schemas.settings_file import load_settings
    from walbridge.verify import verify as compare_all

    if every is not None:
        from walbridge.runtime.logs import configure_logs
        from walbridge.verify.service import verify_every

        if as_json:
            raise typer.BadParameter("--json goes without --every: what is found is in the log and in /metrics")
        try:
            every_s = duration_s(every)
        except ValueError as error:
            raise typer.BadParameter(f"--every: {error}") from None
        configure_logs(log_format=log_format)
        raise typer.Exit(verify_every(load_settings(config), every_s, tables or None, timeout))
    raise typer.Exit(
        compare_all(load_settings(config), tables=tables or None, timeout_s=timeout or 60.0, as_json=as_json)
    )


@app.command()
def sql(
    query: Annotated[str, typer.Argument(metavar="SQL", help="What DuckDB takes; tables as in the source.")],
    config: Config = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="LSN|TIME", help="The newest published cut that ends by then.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, an object a row, instead of a table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV instead of a table.")] = False,
    any_state: Annotated[
        bool, typer.Option("--any-state", help="Also tables that are not current: they do not equal the source.")
    ] = False,
) -> None:
    """Query all tables of the lake at one LSN, with DuckDB."""
    from walbridge.schemas.settings_file import load_settings
    from walbridge.sql import sql as run_sql

    if as_json and as_csv:
        raise typer.BadParameter("say --json or --csv")
    form = "json" if as_json else "csv" if as_csv else "table"
    raise typer.Exit(run_sql(load_settings(config, secrets=()), query, at, form=form, any_state=any_state, say=_say))


@app.command()
def drop(
    config: Config = None,
    slot_only: Annotated[
        bool, typer.Option("--slot-only", help="Remove only the slot: for when Kafka is gone for good.")
    ] = False,
    keep_publication: Annotated[
        bool, typer.Option("--keep-publication", help="Do not remove the publication.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking first.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="What was removed and what stays as one JSON object.")
    ] = False,
) -> None:
    """Remove slot, publication (if walbridge made it) and topics; asks first. The lake stays."""
    from walbridge.drop import drop as remove
    from walbridge.schemas.settings_file import load_settings

    code = remove(
        load_settings(config),
        slot_only=slot_only,
        keep_publication=keep_publication,
        yes=yes,
        ask=lambda question: typer.confirm(question, err=as_json),
        say=_say if as_json else print,
        out=print if as_json else None,
    )
    raise typer.Exit(code)


@app.command()
def config(config: Config = None) -> None:
    """Print the settings in force as JSON, secrets masked."""
    from walbridge.schemas.settings import effective
    from walbridge.schemas.settings_file import load_settings

    print(json.dumps(effective(load_settings(config, secrets=())), indent=2, ensure_ascii=False))


@app.command()
def jars(
    as_list: Annotated[bool, typer.Option("--print", help="Print the jars as spark-submit --jars takes them.")] = False,
) -> None:
    """Fetch Spark's jars, check them against jars.lock, print their folder."""
    from walbridge.embedded.jars import fetch

    folder = fetch(["spark"], _say)["spark"]
    print(",".join(map(str, sorted(folder.glob("*.jar")))) if as_list else folder)

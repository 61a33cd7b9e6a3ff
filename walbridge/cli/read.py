"""The verbs that read topics and lake, and those that end a pipeline or show what it is made of."""

import json
from typing import Annotated

import typer

from walbridge.cli.options import Config, LogFormat, app, say


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
    raise typer.Exit(print_events(load_settings(config), table or MESSAGES, beginning, follow=follow, say=say))


@app.command()
def verify(
    tables: Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="schema.table; all by default.")] = None,
    config: Config = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=86_400,
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
    raise typer.Exit(run_sql(load_settings(config, secrets=()), query, at, form=form, any_state=any_state, say=say))


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
        say=say if as_json else print,
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

    folder = fetch(["spark"], say)["spark"]
    print(",".join(map(str, sorted(folder.glob("*.jar")))) if as_list else folder)

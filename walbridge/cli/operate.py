"""The verbs that show a pipeline, and mend its tables."""

from pathlib import Path
from typing import Annotated

import typer

from walbridge.cli.options import Config, app, say


@app.command()
def status(
    config: Config = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds between two looks.")] = 2.0,
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
    interval: Annotated[float, typer.Option(min=1, max=86_400, help="Seconds between two looks at a pipeline.")] = 10.0,
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
    code = serve(pipelines, host=host, port=port, interval_s=interval, token_file=token_file, keep=keep, say=say)
    raise typer.Exit(code)


@app.command()
def tables(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
    long: Annotated[
        bool, typer.Option("--long", help="Also what last wrote each table in the lake, from its log.")
    ] = False,
) -> None:
    """Show each table: its state, how much of it is copied, its topic, its folder in the lake."""
    from walbridge.schemas.settings_file import load_settings
    from walbridge.tables.show import show

    raise typer.Exit(show(load_settings(config), as_json_text=as_json, with_writers=long, say=say))


@app.command()
def copy(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="schema.table, or a name that only one has.")
    ] = None,
    config: Config = None,
    all_tables: Annotated[
        bool, typer.Option("--all", help="All tables; with a new slot where the stream cannot go on.")
    ] = False,
    new_epoch: Annotated[
        bool, typer.Option("--new-epoch", help="With --all: also where the stream can go on, but the lake cannot.")
    ] = False,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="Only the rows of these keys: CSV, one on each line.")
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
    if new_epoch and not all_tables:
        raise typer.BadParameter("--new-epoch goes with --all")
    if keys is not None and len(tables or ()) != 1:
        raise typer.BadParameter("--keys goes with one table")
    settings = load_settings(config)
    out = print if as_json else None
    if keys is not None and tables:
        code = copy_keys(settings, tables[0], keys, wait=wait, say=say, out=out)
    elif tables:
        code = ask_for_copies(settings, tables, wait=wait, say=say, out=out)
    else:
        code = copy_all(settings, wait=wait, say=say, out=out, new_epoch=new_epoch)
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

    raise typer.Exit(forget_tables(load_settings(config), tables, say=say, out=print if as_json else None))

"""The command ``walbridge``, and the options that several verbs share.

In: nothing. Out: the typer application, to which each module of this package adds its verbs.
"""

import sys
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


def say(line: str) -> None:
    """Print a line for people on stderr; stdout is for what other programs read."""
    print(line, file=sys.stderr, flush=True)

"""One look, or one every few seconds until Ctrl-C."""

import json
import time
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.live import Live

from walbridge.schemas.errors import EXIT_OPERATOR
from walbridge.schemas.settings import Settings
from walbridge.status.json_object import as_json
from walbridge.status.pipeline_status import PipelineStatus
from walbridge.status.read_status import read_status
from walbridge.status.show import as_table, as_text


def status(settings: Settings, *, watch: bool, interval_s: float, as_json_lines: bool) -> int:
    """Show where the pipeline stands; 2 when nobody answers.

    Args:
        watch: again every ``interval_s`` until Ctrl-C.
        as_json_lines: one JSON object a look, for programs.
    """
    console = Console()
    live = Live(console=console, auto_refresh=False) if watch and console.is_terminal and not as_json_lines else None
    frame: AbstractContextManager[object] = live or nullcontext()
    try:
        with frame:
            while True:
                status = read_status(settings)
                _show(status, console, live, as_json_lines)
                if not watch:
                    break
                time.sleep(interval_s)
    except KeyboardInterrupt:
        return 0
    return 0 if status.anybody_answers else EXIT_OPERATOR


def _show(status: PipelineStatus, console: Console, live: Live | None, as_json_lines: bool) -> None:
    if as_json_lines:
        print(json.dumps(as_json(status), ensure_ascii=False), flush=True)
    elif live is not None:
        live.update(as_table(status), refresh=True)
    elif console.is_terminal:
        console.print(as_table(status))
    else:
        print(as_text(status), flush=True)

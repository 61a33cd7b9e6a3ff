"""``walbridge ui``: serves the page until SIGTERM or Ctrl-C.

In: settings of one or several pipelines, an address, and the place of a token. Out: the exit code.
"""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from walbridge.runtime.stop_signals import set_on_stop_signals
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import ENV_PREFIX, Settings
from walbridge.ui.kept_points import KeptPoints
from walbridge.ui.server import Pages, UiServer, is_loopback
from walbridge.ui.watcher import Watcher

TOKEN_VARIABLE = f"{ENV_PREFIX}UI_TOKEN"
TOKEN_CHARACTERS_MIN = 16
_MAKE_ONE = (
    "make one of 16 characters or more: (umask 077; openssl rand -hex 24 > ui_token), and give --token-file ui_token"
)


def serve(
    pipelines: Sequence[Settings],
    *,
    host: str,
    port: int,
    interval_s: float,
    token_file: Path | None,
    keep: Path | None = None,
    say: Callable[[str], None],
) -> int:
    """Serve until a signal; returns the exit code.

    Raises:
        OperatorError: two pipelines of one name, another address than loopback without a token, no such port, no
            folder to keep the last day in.
    """
    _refuse_same_names(pipelines)
    token = read_token(token_file, os.environ)
    if token is None and not is_loopback(host):
        raise OperatorError(
            f"{host} can be reached from other machines, and there is no token that readers must know",
            remedy=f"{_MAKE_ONE}; or leave --host out, so that only this machine can read",
        )
    stop = threading.Event()
    set_on_stop_signals(stop)
    kept = [None if keep is None else KeptPoints(keep, each.name) for each in pipelines]
    watchers = [Watcher(each, interval_s, stop, day) for each, day in zip(pipelines, kept, strict=True)]
    with UiServer(host, port, Pages(lambda: [each.view for each in watchers]), token) as server:
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{server.port}/ until Ctrl-C" + ("" if token is None else "; the token is the password"))
        for each in watchers:
            each.start()
        stop.wait()
    sys.stderr.flush()
    os._exit(0)  # a thread may still wait for a peer that is away; it has nothing to write


def read_token(path: Path | None, environment: "os._Environ[str] | dict[str, str]") -> str | None:
    """From a file, else from the environment; None where neither is given.

    Raises:
        OperatorError: the file cannot be read, or the token is short.
    """
    given = environment.get(TOKEN_VARIABLE)
    if path is not None:
        try:
            given = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise OperatorError(f"the token's file {path} cannot be read: {why}", remedy=_MAKE_ONE) from None
    if given is None:
        return None
    token = given.strip()
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise OperatorError(f"the token has less than {TOKEN_CHARACTERS_MIN} characters", remedy=_MAKE_ONE)
    return token


def _refuse_same_names(pipelines: Sequence[Settings]) -> None:
    names = [each.name for each in pipelines]
    for name in names:
        if names.count(name) > 1:
            raise OperatorError(
                f"two settings files are of a pipeline named {name}",
                remedy="name each file once with --config; pipelines of one name on two clusters take a page each",
            )

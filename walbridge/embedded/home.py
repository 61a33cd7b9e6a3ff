"""The one folder that holds everything we build or start: environment, jars, servers, data.

In: WALBRIDGE_HOME, the place of this file, who runs it. Out: an existing folder. Everything
walbridge writes besides the checkout is under it, so `make clean` is one removal.

WALBRIDGE_HOME wins; a checkout uses its own ``build``; an installed package the user's cache.
Postgres refuses to run as root, so root starts it as another user, and that user must be able
to enter the folder. Where some parent forbids it (a home of mode 0700), or has a name that make
cannot take (a space), the folder moves to /var/tmp; nobody else's permissions are ever changed.

Only the standard library: the Makefile runs this file before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

MARKER = ".walbridge-home"
MODE = 0o711  # another user may pass through, not look around
_PLAIN_PATH = re.compile(r"[\w./+@,-]+", re.ASCII)
"""What make takes in a target, a shell without quotes, and a JVM in a locale of ASCII."""


class UnsafeHomeError(Exception):
    """The folder named is not one we may fill or remove. Arguments: what, remedy."""


def wanted(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder by choice or default, before asking whether another user can enter it."""
    chosen = environ.get("WALBRIDGE_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "Makefile").is_file() and (checkout / "pyproject.toml").is_file():
        return checkout / "build"
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "walbridge"


def enterable_by_others(folder: Path) -> bool:
    """Whether a user who owns nothing here can enter every existing part of the path.

    What does not exist yet is made by us, with a mode that lets them.
    """
    parts = [folder, *folder.parents]
    return all(part.stat().st_mode & stat.S_IXOTH for part in parts if part.is_dir())


def located(environ: Mapping[str, str] = os.environ, uid: int | None = None) -> Path:
    """Where the folder is or will be; makes nothing."""
    uid = os.getuid() if uid is None else uid
    folder = wanted(environ).resolve()
    if _PLAIN_PATH.fullmatch(str(folder)) and (uid != 0 or enterable_by_others(folder)):
        return folder
    # The path's digest keeps two checkouts apart.
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:10]
    return Path("/var/tmp") / f"walbridge-{uid}-{digest}"


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder, made if it is missing.

    Raises:
        UnsafeHomeError: it exists, has contents, and was not made by us; or somebody else owns it.
    """
    folder = located(environ)
    if not folder.exists():
        folder.mkdir(parents=True, mode=MODE)
        folder.chmod(MODE)  # whatever the umask
    _refuse_foreign(folder, environ)
    marker = folder / MARKER
    if not marker.exists():
        marker.write_text("Made by walbridge; `make clean` removes this folder.\n")
    return folder


def remove(environ: Mapping[str, str] = os.environ) -> Path:
    """Remove the folder and all in it; refuse one that we did not make."""
    folder = located(environ)
    if folder.exists():
        _refuse_foreign(folder, environ)
        shutil.rmtree(folder)
    return folder


def _refuse_foreign(folder: Path, environ: Mapping[str, str]) -> None:
    if folder.stat().st_uid != os.getuid():
        # /var/tmp is open to all: a folder somebody else laid there is a trap.
        raise UnsafeHomeError(f"{folder} belongs to another user", "set WALBRIDGE_HOME to a folder of your own")
    chosen = environ.get("WALBRIDGE_HOME")
    if chosen and not (folder / MARKER).exists() and any(folder.iterdir()):
        raise UnsafeHomeError(
            f"WALBRIDGE_HOME={chosen} has contents that walbridge did not make, and `make clean` removes all",
            "name a new or an empty folder",
        )


if __name__ == "__main__":
    try:
        print(remove() if "--remove" in sys.argv[1:] else home())
    except UnsafeHomeError as error:
        sys.exit("walbridge: " + "; ".join(error.args))
    except OSError as error:
        sys.exit(f"walbridge: {error}; set WALBRIDGE_HOME to a folder that can be written")

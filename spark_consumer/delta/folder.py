"""Deleting a table's folder with all that is in it.

In: a path below the lake. Out: nothing is there; also where a call before this one was killed half way.
"""

import shutil
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from deltalake.fs import DeltaStorageHandler


def delete_folder(lake: str, path: str, storage_options: dict[str, str]) -> None:
    """Delete it.

    Raises:
        DeltaError, OSError: some of it is still there, or whether it is cannot be seen.
    """
    uri = f"{lake}/{path}"
    if "://" in lake and not lake.startswith("file://"):
        DeltaStorageHandler(uri, storage_options or None).delete_dir("")
        return
    folder = Path(url2pathname(urlsplit(uri).path)) if "://" in lake else Path(uri)
    if folder.exists():
        shutil.rmtree(folder)

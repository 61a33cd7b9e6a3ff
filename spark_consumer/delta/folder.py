"""Folders and small files of a lake, on a file system or an object store.

In: the lake's path, and a path below it. Out: where it is on this machine; a file that is written as a whole; nothing
where a folder was, also where a call before this one was killed half way.
"""

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from deltalake.fs import DeltaStorageHandler


def local_folder(uri: str) -> Path | None:
    """The folder that a path or a ``file://`` address names; None on an object store."""
    if "://" not in uri:
        return Path(uri)
    return Path(url2pathname(urlsplit(uri).path)) if uri.startswith("file://") else None


def put_object(lake: str, path: str, content: bytes, storage_options: dict[str, str]) -> None:
    """Write one object of a store.

    Raises:
        DeltaError, OSError: the store does not take it.
    """
    # Past the wrapper of the handler, whose stream hands on a buffer where this one wants bytes.
    handler: Any = DeltaStorageHandler(lake, storage_options or None)._handler
    stream = handler.open_output_stream(path, None)
    stream.write(content)
    stream.close()


def move_file(lake: str, path: str, target: str, storage_options: dict[str, str]) -> None:
    """Move a file of the lake to another path in it. On a file system it is never in both places, nor in none.

    Raises:
        FileNotFoundError: it is not there.
        DeltaError, OSError: it cannot be moved.
    """
    folder = local_folder(lake)
    if folder is None:
        DeltaStorageHandler(lake, storage_options or None).move(path, target)
    else:
        (folder / path).rename(folder / target)


def delete_folder(lake: str, path: str, storage_options: dict[str, str]) -> None:
    """Delete a folder of the lake, which may be gone already.

    Raises:
        DeltaError, OSError: some of it may still be there.
    """
    uri = f"{lake}/{path}"
    folder = local_folder(uri)
    if folder is None:
        DeltaStorageHandler(uri, storage_options or None).delete_dir("")
    elif folder.exists():
        shutil.rmtree(folder)

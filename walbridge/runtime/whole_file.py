"""A small file that is replaced as a whole.

In: a path in a folder that is there, and bytes. Out: the file holds them, durable; a reader, and a start after a kill,
finds the old ones or the new ones.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write it.

    Raises:
        OSError: it is as it was.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            made = Path(file.name)
            made.chmod(mode)
            made.replace(path)
        except OSError:
            with suppress(OSError):
                Path(file.name).unlink()
            raise

"""What the Spark job says of itself, in ``<lake>/_status`` beside the manifest.

In: records of runs. Out: a small file of each kind, replaced as a whole; a reader sees the old one or the new one. On a
file system nothing is written where no manifest is: a mount point whose storage is missing stays empty.
"""

from collections.abc import Mapping
from pathlib import Path

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from walbridge.runtime.reports.run_report import WRITE_S
from walbridge.runtime.whole_file import replace_file
from walbridge.schemas.control.run_record import END, JOB, RUN, Run, decode_run, encode_run
from walbridge.schemas.errors import ProtocolError, RetryableError
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.folder import local_folder, put_object
from walbridge.spark_consumer.delta.manifest.manifest_reader import CUTS_TABLE

STATUS_FOLDER = "_status"
_IMPATIENT = {"timeout": f"{WRITE_S:g}s", "connect_timeout": f"{WRITE_S:g}s", "max_retries": "0"}
"""Timeouts for an object store. Its calls hold the GIL: while one waits, no other thread runs and no signal is seen."""


class LakeStatus:
    """The run records of one pipeline's job. Each pipeline has its own files, also in a lake that is another's."""

    def __init__(self, settings: Settings) -> None:
        self._lake, self._pipeline = settings.lake.path.rstrip("/"), settings.name
        self._options = flatten(settings.lake.storage_options) | _IMPATIENT

    def read(self) -> tuple[Run | None, Run | None]:
        """The newest record of a running job, and the newest of an end.

        Raises:
            RetryableError: the lake cannot be read.
        """
        return self._read(RUN), self._read(END)

    def write(self, records: Mapping[str, Run]) -> None:
        """Write records by kind; they are durable when this returns.

        Raises:
            RetryableError: there is no lake yet.
            DeltaError, OSError: its storage does not take it.
        """
        for kind, run in records.items():
            self._put(self._path(kind), encode_run(run))

    def _path(self, kind: str) -> str:
        return f"{STATUS_FOLDER}/{self._pipeline}-{JOB}-{kind}.json"

    def _read(self, kind: str) -> Run | None:
        try:
            if (folder := self._folder()) is not None:
                text = (folder / self._path(kind)).read_bytes()
            else:
                text = DeltaStorageHandler(self._lake, self._options).open_input_file(self._path(kind)).read()
            return decode_run(bytes(text))
        except (FileNotFoundError, NotADirectoryError, ProtocolError):  # a record of newer code tells less
            return None
        except (DeltaError, OSError) as error:
            raise RetryableError(f"the lake at {self._lake} cannot be read: {type(error).__name__}") from None

    def _put(self, path: str, text: bytes) -> None:
        folder = self._folder()
        if folder is None:
            put_object(self._lake, path, text, self._options)
            return
        if not (folder / CUTS_TABLE / "_delta_log").is_dir():
            raise RetryableError(f"there is no lake at {self._lake} yet")
        (folder / STATUS_FOLDER).mkdir(exist_ok=True)
        replace_file(folder / path, text, mode=0o644)  # whoever reads the lake may see why its job stopped

    def _folder(self) -> Path | None:
        """The lake's folder; None on an object store."""
        return local_folder(self._lake)

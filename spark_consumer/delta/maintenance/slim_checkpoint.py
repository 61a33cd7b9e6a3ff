"""Adds checkpoints without useless tombstones to a table's log.

In: a version, and which of its tombstones go. Out: its checkpoint, in the log as a whole or not at all.

Delta-rs makes the checkpoint in a temporary folder, with the part of the log that the version needs: in the table it
would name the checkpoint in ``_last_checkpoint``, from which readers begin. A tombstone (``remove``) keeps a file from
VACUUM. For a file that is deleted it is of no use, and yet it stays in every checkpoint for nine days.
"""

import tempfile
from collections.abc import Callable, Iterable
from io import BytesIO
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from walbridge.spark_consumer.delta.folder import put_object
from walbridge.spark_consumer.delta.maintenance.log_files import (
    LOG,
    LogFiles,
    checkpoint_name,
    commit_name,
    read_file,
    vector_of,
)


def add_checkpoint(
    uri: str,
    storage_options: dict[str, str],
    log: LogFiles,
    version: int,
    is_gone: Callable[[str, str | None], bool],
) -> None:
    """Add a version's checkpoint to the log.

    Args:
        is_gone: whether a tombstone goes, by its data file and its file of vectors.

    Raises:
        DeltaError, OSError: the checkpoint was not added; nothing is lost.
    """
    files = DeltaStorageHandler(uri, storage_options or None)
    with tempfile.TemporaryDirectory(prefix="walbridge-checkpoint-") as folder:
        copy = Path(folder) / LOG
        copy.mkdir()
        base = log.base(version)
        run = [commit_name(each) for each in log.run(version)]
        for name in run if base is None else [checkpoint_name(base), *run]:
            (copy / name).write_bytes(read_file(files, name))
        DeltaTable(folder).create_checkpoint()
        slim = without_tombstones(copy / checkpoint_name(version), is_gone)
    put_object(uri, f"{LOG}/{checkpoint_name(version)}", slim, storage_options)


def without_tombstones(checkpoint: Path, is_gone: Callable[[str, str | None], bool]) -> bytes:
    """The checkpoint's content without the tombstones that go."""
    source, slim = pq.ParquetFile(checkpoint), BytesIO()
    with pq.ParquetWriter(slim, source.schema_arrow, store_schema=False) as writer:
        for batch in source.iter_batches():
            # Only these columns become values of Python: a checkpoint may have many thousand tombstones.
            remove = batch.column("remove")
            paths, vectors = pc.struct_field(remove, "path").to_pylist(), _vectors(remove)
            stays = [path is None or not is_gone(path, vector_of(of)) for path, of in zip(paths, vectors, strict=True)]
            writer.write_batch(batch.filter(pa.array(stays, pa.bool_())))
    return slim.getvalue()


def _vectors(remove: pa.StructArray) -> Iterable[Any]:
    has_any = remove.type.get_field_index("deletionVector") >= 0
    return pc.struct_field(remove, "deletionVector").to_pylist() if has_any else repeat(None, len(remove))

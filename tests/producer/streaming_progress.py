"""Progress of a pipeline that follows its stream, whole and inside a split transaction."""

from walbridge.schemas.control.progress_record import Progress, Split, encode_progress
from walbridge.schemas.control.table_progress import CURRENT, TableProgress, encode_table, table_key
from walbridge.schemas.position import Lsn


def current(*relation_ids: int) -> dict[int, TableProgress]:
    """Tables whose changes are published."""
    return {relation_id: TableProgress(relation_id, CURRENT) for relation_id in relation_ids}


def whole(progress: Progress) -> list[tuple[bytes | None, bytes | None]]:
    """Every record of it, in the order in which they are written."""
    tables = [(table_key(progress.slot, each), encode_table(table)) for each, table in progress.tables.items()]
    return [*tables, (progress.key, encode_progress(progress))]


OPTIONS = {"proto_version": "1", "publication_names": "walbridge"}
STREAMING = Progress(
    "streaming", "7000000000000000001", 1, "walbridge", "shop", consistent_point=Lsn(100), cut_id=4,
    end_lsn=Lsn(200), done=Lsn(200), floor=Lsn(200), tables=current(16_384), options=OPTIONS,
)  # fmt: skip
SPLIT = Split(Lsn(500), 77, 3, 4, "00")

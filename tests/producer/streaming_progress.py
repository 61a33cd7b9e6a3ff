"""Progress of a pipeline that follows its stream, whole and inside a split transaction."""

from walbridge.schemas.position import Lsn
from walbridge.schemas.progress_record import Progress, Split

OPTIONS = {"proto_version": "1", "publication_names": "walbridge"}
STREAMING = Progress(
    "streaming", "7000000000000000001", 1, "walbridge", "shop", consistent_point=Lsn(100), cut_id=4,
    end_lsn=Lsn(200), done=Lsn(200), floor=Lsn(200), relation_ids=(16_384,), options=OPTIONS,
)  # fmt: skip
SPLIT = Split(Lsn(500), 77, 3, 4, "00")

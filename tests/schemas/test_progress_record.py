"""What a restart believes is what was written, and newer code's record is refused."""

from dataclasses import replace

import pytest
from hypothesis import given

from tests.schemas.strategies import PROGRESS
from walbridge.schemas.cut import Epoch
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.position import Lsn
from walbridge.schemas.progress_record import FORMAT_VERSION, Progress, decode_progress, encode_progress

STREAMING = Progress("streaming", "7000000000000000000", 2, "walbridge", "shop", consistent_point=Lsn(0x1000))


@given(PROGRESS)
def test_decoded_progress_is_the_encoded_one(progress: Progress) -> None:
    assert decode_progress(encode_progress(progress)) == progress


def test_progress_of_newer_code_is_refused() -> None:
    with pytest.raises(ProtocolError, match=f"progress format {FORMAT_VERSION + 1} is newer"):
        decode_progress(encode_progress(replace(STREAMING, format_version=FORMAT_VERSION + 1)))


def test_progress_is_keyed_by_its_slot_so_that_another_servers_record_is_found() -> None:
    assert STREAMING.key == replace(STREAMING, system_id="1", timeline=9).key == b"walbridge"


def test_epoch_of_progress_is_that_of_its_cuts() -> None:
    assert STREAMING.epoch == Epoch("7000000000000000000", 2, "walbridge", 0x1000)

"""What tests of copies expect in a topic, and what they have the stream say."""

from __future__ import annotations

from dataclasses import replace

from tests.producer.copied_session import LATE, announcement
from walbridge.producer.pgoutput.messages import Truncate

BEGIN, END = ("m", None, None), ("m", None, None)
TRUNCATE = Truncate(False, False, (LATE,))
KEYLESS = replace(
    announcement(), columns=tuple(replace(each, in_replica_identity=False) for each in announcement().columns)
)
